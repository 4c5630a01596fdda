#include "bpf/enforce/shadow.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "bpf/enforce/group.h"
#include "bpf/enforce/publish.h"
#include "common/clock.h"
#include "filter/read/overlay.h"

namespace weir::xdp {

namespace {

using filter::Refusal;
using wire::Step;

// Of a shadow that is over; those beyond them are forgotten.
constexpr size_t kMostPastSamples = 256;

}  // namespace

Shadow::Shadow(const Program& program, std::mutex& names_mutex, Attach attach)
    : program_(program), names_mutex_(names_mutex), attach_(std::move(attach)) {}

Result<wire::Shadow> Shadow::answer(const wire::Message& message) {
  const auto request = wire::body_as<wire::ShadowRequest>(message);
  std::optional<Refusal> refusal;
  if (!request) {
    refusal = Refusal{Step::receive, "the message has the wrong length"};
  } else if (request->action == wire::ShadowAction::begin) {
    refusal = begin(message, *request);
  } else {
    end("");
  }
  Result<wire::Shadow> told = tell();
  if (!told || !refusal) return told;
  told->body.ok = 0;
  told->body.failed_step = refusal->step;
  wire::set_text(told->body.reason, refusal->reason);
  return told;
}

std::optional<Refusal> Shadow::begin(const wire::Message& message, const wire::ShadowRequest& request) {
  if (request.one_in == 0 || request.one_in > wire::kMostShadowOneIn) {
    return Refusal{Step::receive, "one in " + std::to_string(request.one_in) + " is no share"};
  }
  end("another one began");
  const ActiveGroups now = active_groups(program_.state());
  if (now.base == nullptr) {
    return Refusal{Step::check, "nothing is enforced yet that a candidate could be compared with"};
  }
  const uint64_t left = snapshot_limit_bytes();
  const uint64_t swap = now.base->snapshot_bytes + (now.overlay != nullptr ? now.overlay->snapshot_bytes : 0);
  const uint64_t room = left - std::min(left, swap);
  const std::string limit = "the kernel has room for " + mib(room) + ": " + mib(left) +
                            " are left for maps beside what enforces now, and its next swap takes " + mib(swap);
  const filter::Receipt receipt =
      filter::receive_snapshot(filter::as_publication(message, request), std::nullopt, room, limit);
  if (!receipt.received) return receipt.refusal;
  const auto& [what, bytes, overlay] = *receipt.received;
  const Result<filter::SnapshotView> view = open_checked(bytes.bytes(), what.base, what.base_digest);
  if (!view) return Refusal{Step::validate, view.error()};
  if (filter::is_overlay(view->header())) return Refusal{Step::validate, "a candidate is a whole snapshot, no overlay"};
  const weir_group group = make_group(*view, what.base_digest.data());
  if (group.snapshot_bytes > room) {
    return Refusal{Step::check, "the candidate takes " + mib(group.snapshot_bytes) + ", and " + limit};
  }
  Result<std::unique_ptr<ShadowRun>> run = ShadowRun::open(program_, *view, bytes.bytes(), group, request.one_in);
  if (!run) return Refusal{Step::copy, run.error()};

  wire::Shadow told;
  told.body.on = 1;
  told.body.one_in = request.one_in;
  told.body.candidate = request.candidate;
  std::copy(std::begin(request.digest), std::end(request.digest), told.body.digest);
  told.body.size_bytes = bytes.size();
  told.body.began_unix_s = static_cast<uint64_t>(unix_now());
  told.body.beside = enforced_by(now)->generation;
  {
    const std::lock_guard lock(mutex_);
    told_ = std::move(told);
    run_ = std::move(*run);
  }
  if (const Result<void> attached = attach_(run_->program_fd()); !attached) {
    end(attached.error());
    return Refusal{Step::exchange, attached.error()};
  }
  return std::nullopt;
}

// Where an interface keeps the program of the shadow, it is given the ordinary one when it is looked after next; until
// then that program finds no candidate, and judges alone.
void Shadow::end(const std::string& why) {
  if (run_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    told_.body.on = 0;
    wire::set_text(told_.body.reason, why);
  }
  (void)attach_(program_.fd());
  (void)program_.wait_for_programs();
  const std::lock_guard lock(mutex_);
  (void)take_from_run(kMostPastSamples, told_);
  run_.reset();
}

void Shadow::enforced() {
  const ActiveGroups now = active_groups(program_.state());
  if (run_ == nullptr || now.base == nullptr) return;
  const std::optional<filter::Enforced> enforced = enforced_by(now);
  const wire::ShadowBody& body = told_.body;  // changed by this thread alone, but for the samples
  if (enforced->base == body.candidate &&
      std::equal(std::begin(body.digest), std::end(body.digest), enforced->base_digest.begin())) {
    end("it is enforced now");
  }
}

Result<wire::Shadow> Shadow::tell() {
  const std::lock_guard lock(mutex_);
  wire::Shadow told = told_;
  told_.samples.clear();
  if (run_ != nullptr) {
    const size_t rows = told.lists.size() + WEIR_CREDITS;  // that it may add to them, at least
    const Result<void> taken = take_from_run(wire::most_shadow_samples(std::min(rows, wire::kMaxShadowLists)), told);
    if (!taken) return Error{taken.error()};
  }
  told_.body.sampled += told.samples.size();
  told.body.sampled = told_.body.sampled;
  return told;
}

// Held: mutex_.
Result<void> Shadow::take_from_run(size_t most_samples, wire::Shadow& told) {
  const std::lock_guard lock(names_mutex_);
  if (Result<void> added = run_->add_to(told, program_.names()); !added) return added;
  run_->drain(most_samples, program_.names(), told.samples);
  return {};
}

wire::Generation Shadow::candidate() const {
  const std::lock_guard lock(mutex_);
  return told_.body.on != 0 ? told_.body.candidate : wire::Generation();
}

uint64_t Shadow::bytes() const {
  const std::lock_guard lock(mutex_);
  return run_ != nullptr ? run_->bytes() : 0;
}

int Shadow::program_fd() const {
  const std::lock_guard lock(mutex_);
  return told_.body.on != 0 ? run_->program_fd() : program_.fd();
}

}  // namespace weir::xdp
