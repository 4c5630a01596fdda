#include <algorithm>
#include <ctime>

#include "common/clock.h"
#include "common/log/log.h"
#include "dataplane/snapshot/publish.h"

// The shadow: a candidate beside what is enforced, which is begun and ended like a publication, and changes nothing.
namespace weir::dataplane {

namespace {

using filter::Refusal;
using wire::Step;

// Of runs that are over; the newest beyond them are forgotten.
constexpr size_t kMostPastSamples = 256;

}  // namespace

void Publisher::shadow(wire::Message message, ShadowDone done) {
  Job job = {std::move(message), {}, done};
  if (enqueue(job)) return;
  wire::Shadow told = shadow();
  told.body.ok = 0;
  told.body.failed_step = Step::receive;
  wire::set_text(told.body.reason, "others wait to be published already");
  done(std::move(told));
}

wire::Shadow Publisher::shadow() {
  const std::lock_guard lock(swap_);
  wire::Shadow told = past_shadow_;
  past_shadow_.samples.clear();
  for (ShadowRun* run : {former_shadow_.get(), slot_.shadow()}) {
    if (run == nullptr) continue;
    run->add_to(told);
    run->drain(wire::most_shadow_samples(told.lists.size()), told.samples);
  }
  past_shadow_.body.sampled += told.samples.size();
  told.body.sampled = past_shadow_.body.sampled;
  return told;
}

wire::Shadow Publisher::answer_shadow(const wire::Message& message) {
  const auto request = wire::body_as<wire::ShadowRequest>(message);
  std::optional<Refusal> refusal;
  if (!request) {
    refusal = Refusal{Step::receive, "the message has the wrong length"};
  } else if (!let_former_go()) {
    refusal = Refusal{Step::grace, "a worker has not let go of the snapshot before this one yet"};
  } else if (request->action == wire::ShadowAction::begin) {
    refusal = begin_shadow(message, *request);
  } else {
    end_shadow("");
  }
  wire::Shadow told = shadow();
  if (!refusal) return told;
  log::warning("no shadow", {{"step", wire::step_name(refusal->step)}, {"error", refusal->reason}});
  told.body.ok = 0;
  told.body.failed_step = refusal->step;
  wire::set_text(told.body.reason, refusal->reason);
  return told;
}

std::optional<Refusal> Publisher::begin_shadow(const wire::Message& message, const wire::ShadowRequest& request) {
  if (request.one_in == 0 || request.one_in > wire::kMostShadowOneIn) {
    return Refusal{Step::receive, "one in " + std::to_string(request.one_in) + " is no share"};
  }
  if (!end_shadow("another one began")) return Refusal{Step::grace, "a worker has not let go of the shadow before"};
  const Snapshot* current = slot_.current();
  if (current == nullptr)
    return Refusal{Step::check, "nothing is enforced yet that a candidate could be compared with"};
  const uint64_t all_bytes = 2 * limit_bytes_, swap_bytes = 2 * current->size_bytes();
  const uint64_t room_bytes = std::min(limit_bytes_, all_bytes - std::min(all_bytes, swap_bytes));
  filter::Receipt receipt = filter::receive_snapshot(
      filter::as_publication(message, request), std::nullopt, room_bytes,
      "snapshot_memory (" + std::to_string(all_bytes) + ") leaves room for " + std::to_string(room_bytes) +
          " beside what is enforced (" + std::to_string(current->size_bytes()) + ", twice at a swap): raise it");
  if (!receipt.received) return receipt.refusal;
  const filter::Received& received = *receipt.received;
  std::shared_ptr<const Copies> base;
  if (auto refusal = copy(received.base, received.what.base, received.what.base_digest, base)) return refusal;
  Result<std::unique_ptr<Snapshot>> candidate = Snapshot::open(std::move(base), nullptr, workers_);
  if (!candidate) return Refusal{Step::validate, candidate.error()};
  auto run = std::make_unique<ShadowRun>(std::move(*candidate), request.one_in, *current);

  wire::Shadow told;
  told.body.on = 1;
  told.body.one_in = request.one_in;
  told.body.candidate = request.candidate;
  std::copy(std::begin(request.digest), std::end(request.digest), told.body.digest);
  told.body.size_bytes = received.base.size();
  told.body.began_unix_s = static_cast<uint64_t>(unix_now());
  told.body.beside = current->generation();
  log::change("a shadow judges", {{"candidate", request.candidate.number},
                                  {"beside", current->generation().number},
                                  {"bytes", received.base.size()},
                                  {"one_in", request.one_in}});
  const std::lock_guard swap(swap_);
  past_shadow_ = std::move(told);
  slot_.exchange_shadow(std::move(run));
  return std::nullopt;
}

bool Publisher::end_shadow(const std::string& why) {
  if (slot_.shadow() == nullptr) return true;
  {
    const std::lock_guard swap(swap_);
    former_shadow_ = slot_.exchange_shadow(nullptr);
    past_shadow_.body.on = 0;
    wire::set_text(past_shadow_.body.reason, why);
  }
  log::change("the shadow ends",
              {{"candidate", past_shadow_.body.candidate.number}, {"cause", why.empty() ? "asked for" : why}});
  return wait_for_grace();
}

// What is enforced comes first: a publication that fits without the shadow ends it.
void Publisher::make_room(const filter::Received& received) {
  const ShadowRun* run = slot_.shadow();
  if (run == nullptr) return;
  const uint64_t held_bytes = slot_.current()->size_bytes() + run->candidate()->size_bytes();
  const bool is_there = !received.base || shadow_as_base(received.what) != nullptr;
  const uint64_t more_bytes = received.overlay.size() + (is_there ? 0 : received.base.size());
  if (held_bytes + more_bytes <= 2 * limit_bytes_) return;
  end_shadow("snapshot_memory (" + std::to_string(2 * limit_bytes_) +
             ") has no room for it, what was enforced and what is published now");
}

std::shared_ptr<const Copies> Publisher::shadow_as_base(const filter::Enforced& what) const {
  const ShadowRun* run = slot_.shadow();
  if (run == nullptr) return nullptr;
  const std::shared_ptr<const Copies>& base = run->candidate()->base();
  return base->generation() == what.base && base->digest() == what.base_digest ? base : nullptr;
}

// What is enforced now: as long as it is of the same lists, the run goes on. Held: swap_.
void Publisher::stand_beside(const Snapshot& next) {
  ShadowRun* run = slot_.shadow();
  if (run == nullptr || run->is_beside(next)) return;
  const bool is_enforced = run->candidate()->base() == next.base();
  auto renewed = is_enforced ? nullptr : std::make_unique<ShadowRun>(run->candidate(), run->one_in(), next);
  former_shadow_ = slot_.exchange_shadow(std::move(renewed));
  if (!is_enforced) return;
  past_shadow_.body.on = 0;
  wire::set_text(past_shadow_.body.reason, "it is enforced now");
}

// Held: swap_.
void Publisher::take_past(ShadowRun& former) {
  former.add_to(past_shadow_);
  former.drain(kMostPastSamples, past_shadow_.samples);
}

}  // namespace weir::dataplane
