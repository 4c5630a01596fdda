#include "dataplane/snapshot/publish.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "common/log/log.h"
#include "common/wait_for.h"

namespace weir::dataplane {

namespace {

using filter::Refusal;
using wire::Step;

uint32_t micros_since(Clock::time_point start) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

filter::Enforced what_is(const Snapshot& snapshot) {
  const Copies& newest = snapshot.newest();
  const Copies& base = *snapshot.base();
  return {newest.generation(), newest.digest(), base.generation(), base.digest()};
}

uint64_t keys_of(const Copies& overlay) {
  const weir_snapshot_header& header = overlay.header();
  uint64_t keys = 0;
  for (uint32_t i = 0; i < header.n_shapes; i++) keys += header.shapes[i].n_keys;
  return keys;
}

}  // namespace

bool Publisher::enqueue(Job& job) {
  const std::lock_guard lock(mutex_);
  if (jobs_.size() >= kMaxWaiting || stopping_) return false;
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void Publisher::publish(wire::Message message, Done done) {
  Job job = {std::move(message), done, {}};
  if (enqueue(job)) return;
  wire::PublishedBody answer;
  answer.generation = enforced().what.generation;
  answer.failed_step = Step::receive;
  wire::set_text(answer.reason, "others wait to be published already");
  done(answer);
}

void Publisher::run() {
  const auto is_called = [this] { return stopping_ || !jobs_.empty(); };
  std::unique_lock lock(mutex_);
  running_ = true;
  while (!stopping_) {
    // This thread alone changes them.
    const bool has_more_to_do = former_ != nullptr || former_shadow_ != nullptr || !durable_;
    if (!has_more_to_do) {
      changed_.wait(lock, is_called);
    } else if (!wait_for(changed_, lock, times_.try_again, is_called)) {
      lock.unlock();
      (void)let_former_go();
      if (!durable_) save_again();
      lock.lock();
    }
    if (stopping_ || jobs_.empty()) continue;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (job.shadow_done) {
      job.shadow_done(answer_shadow(job.message));
    } else {
      job.done(answer(job.message));
    }
    lock.lock();
  }
  running_ = false;
}

void Publisher::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool Publisher::is_idle() const {
  const std::lock_guard lock(mutex_);
  return !running_;
}

bool Publisher::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

Publisher::Enforced Publisher::enforced() const {
  const std::lock_guard lock(swap_);
  Enforced enforced;
  if (const Snapshot* snapshot = slot_.current()) {
    enforced.what = what_is(*snapshot);
    enforced.snapshot_bytes = snapshot->base()->size_bytes();
    enforced.huge = snapshot->base()->huge();
    if (const Copies* overlay = snapshot->overlay()) {
      enforced.overlay_bytes = overlay->size_bytes();
      enforced.overlay_keys = keys_of(*overlay);
    }
  }
  enforced.durable = durable_;
  enforced.disk_error = disk_error_;
  if (past_shadow_.body.on != 0) enforced.shadow = past_shadow_.body.candidate;
  return enforced;
}

Publisher::Counts Publisher::counts() const {
  const std::lock_guard lock(swap_);
  Counts counts;
  std::vector<wire::ListStats> current;
  if (const Snapshot* snapshot = slot_.current()) {
    counts.generation = snapshot->generation();
    current = snapshot->list_stats();
  }
  if (former_ == nullptr) {
    counts.lists = ledger_.totals(current);
  } else {  // as if it were retired already: counters never go back
    Ledger ledger = ledger_;
    ledger.retire(former_->list_stats());
    counts.lists = ledger.totals(current);
  }
  return counts;
}

wire::Probes Publisher::probes() const {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch());
  const std::lock_guard lock(swap_);
  wire::Probes probes;
  const Snapshot* snapshot = slot_.current();
  if (snapshot == nullptr) return probes;
  const filter::Enforced what = what_is(*snapshot);
  probes.body.generation = what.generation;
  std::copy(what.digest.begin(), what.digest.end(), probes.body.digest);
  std::copy(what.base_digest.begin(), what.base_digest.end(), probes.body.base_digest);
  probes.shapes = snapshot->probes(static_cast<uint64_t>(now.count()));
  return probes;
}

wire::PublishedBody Publisher::answer(const wire::Message& message) {
  const Clock::time_point start = Clock::now();
  wire::PublishedBody answer;
  if (const std::optional<Refusal> refusal = try_publish(message, answer)) {
    answer.failed_step = refusal->step;
    wire::set_text(answer.reason, refusal->reason);
  } else {
    answer.ok = 1;
  }
  const Enforced now = enforced();
  answer.generation = now.what.generation;
  answer.durable = now.durable ? 1 : 0;
  if (answer.ok != 0 && !now.durable) wire::set_text(answer.reason, now.disk_error);
  answer.total_us = micros_since(start);
  return answer;
}

std::optional<Refusal> Publisher::try_publish(const wire::Message& message, wire::PublishedBody& answer) {
  if (!let_former_go()) {
    return Refusal{Step::grace,
                   "a worker has not let go of the snapshot before this one yet, and there is no memory for three"};
  }
  const Snapshot* current = slot_.current();
  std::optional<filter::Enforced> enforced;
  if (current != nullptr) enforced = what_is(*current);
  filter::Receipt receipt = filter::receive_snapshot(
      message, enforced, limit_bytes_,
      "snapshot_memory allows " + std::to_string(limit_bytes_) + " (half of it: a swap holds two)");
  answer.needs_base = receipt.needs_base ? 1 : 0;
  if (!receipt.received) return receipt.refusal;
  make_room(*receipt.received);
  if (!let_former_go()) return Refusal{Step::grace, "a worker has not let go of the shadow yet"};
  std::unique_ptr<Snapshot> next;
  if (std::optional<Refusal> refusal = open(*receipt.received, next)) return refusal;
  if (is_stopping()) return Refusal{Step::persist, "the data plane stops"};

  if (receipt.received->base) saved_.take_base(std::move(receipt.received->base));
  const Result<void> saved = saved_.save(*next);
  const Clock::time_point exchanged = Clock::now();
  const bool is_over = exchange(std::move(next), saved);
  answer.grace_us = micros_since(exchanged);
  if (!is_over) wire::set_text(answer.reason, "enforced; but a worker has not let go of the former snapshot yet");
  return std::nullopt;
}

// Copies and checks what was received; where the base did not come along, it is the one that is enforced.
std::optional<Refusal> Publisher::open(const filter::Received& received, std::unique_ptr<Snapshot>& opened) const {
  const filter::Enforced& what = received.what;
  const size_t base_bytes = received.base ? received.base.size() : slot_.current()->base()->size_bytes();
  if (received.overlay.size() > limit_bytes_ - base_bytes) {
    return Refusal{Step::check, "snapshot and overlay have " + std::to_string(base_bytes) + " and " +
                                    std::to_string(received.overlay.size()) + " bytes; snapshot_memory allows " +
                                    std::to_string(limit_bytes_) + " (half of it: a swap holds two)"};
  }
  std::shared_ptr<const Copies> base, overlay;
  if (!received.base) {
    base = slot_.current()->base();
  } else if ((base = shadow_as_base(what)) != nullptr) {
    // The bytes that were judged are those that are enforced: no copy, and no third one.
  } else if (auto refusal = copy(received.base, what.base, what.base_digest, base)) {
    return refusal;
  }
  if (received.overlay) {
    if (auto refusal = copy(received.overlay, what.generation, what.digest, overlay)) return refusal;
  }
  Result<std::unique_ptr<Snapshot>> snapshot =
      Snapshot::open(std::move(base), std::move(overlay), workers_, slot_.current());
  if (!snapshot) return Refusal{Step::validate, snapshot.error()};
  opened = std::move(*snapshot);
  return std::nullopt;
}

std::optional<Refusal> Publisher::copy(const Mapping& bytes, wire::Generation generation, const Digest& digest,
                                       std::shared_ptr<const Copies>& copied) const {
  Result<std::vector<Copies::Copy>> copies = Copies::allocate(bytes.size(), workers_);
  if (!copies) return Refusal{Step::copy, copies.error()};
  for (Copies::Copy& copy : *copies) {
    const std::span<std::byte> own = copy.memory.mapping.bytes().first(bytes.size());
    memcpy(own.data(), bytes.bytes().data(), bytes.size());
    if (Result<void> same = filter::check_digest(own, digest); !same) return Refusal{Step::validate, same.error()};
  }
  Result<Copies> opened = Copies::open(std::move(*copies), bytes.size(), digest);
  if (!opened) return Refusal{Step::validate, opened.error()};
  const Result<void> named = filter::check_generation(opened->header(), generation);
  if (!named) return Refusal{Step::validate, named.error()};
  copied = std::make_shared<const Copies>(std::move(*opened));
  return std::nullopt;
}

bool Publisher::exchange(std::unique_ptr<Snapshot> next, const Result<void>& saved) {
  {
    const std::lock_guard swap(swap_);
    former_ = slot_.exchange(std::move(next));
    stand_beside(*slot_.current());
  }
  set_durable(saved);
  return wait_for_grace();
}

// Of what was exchanged. False: it is not over.
bool Publisher::wait_for_grace() {
  const Clock::time_point begin = Clock::now();
  bool was_said = false;
  const auto give_up = [&] {
    const auto waited = Clock::now() - begin;
    if (waited > times_.long_grace && !std::exchange(was_said, true)) {
      log::warning("a worker has not been done with its burst: the former snapshot stays in memory until it is",
                   {{"waited_ms", std::chrono::duration_cast<std::chrono::milliseconds>(waited).count()}});
    }
    return waited > times_.most_grace || is_stopping();
  };
  if (!slot_.wait_for_readers(give_up)) return former_ == nullptr && former_shadow_ == nullptr;
  return let_former_go();
}

// Counted and freed, when no worker reads it any more.
bool Publisher::let_former_go() {
  if (former_ == nullptr && former_shadow_ == nullptr) return true;
  if (!slot_.are_readers_gone()) return false;
  std::unique_ptr<Snapshot> former;
  std::unique_ptr<ShadowRun> former_shadow;
  const std::lock_guard swap(swap_);
  former = std::move(former_);
  former_shadow = std::move(former_shadow_);
  if (former != nullptr) ledger_.retire(former->list_stats());
  if (former_shadow != nullptr) take_past(*former_shadow);
  return true;
}

void Publisher::set_durable(const Result<void>& saved) {
  if (!saved) {
    log::error("what is enforced would not outlive a restart; it is tried again until it does",
               {{"error", saved.error()}});
  } else if (!durable_) {
    log::info("what is enforced is on disk now");
  }
  const std::lock_guard swap(swap_);
  durable_ = static_cast<bool>(saved);
  disk_error_ = saved ? "" : saved.error();
}

void Publisher::save_again() {
  const Result<void> saved = saved_.save(*slot_.current());  // nobody but this thread exchanges it
  if (saved || saved.error() != disk_error_) set_durable(saved);
}

Result<bool> Publisher::restore() {
  Result<std::unique_ptr<Snapshot>> snapshot = saved_.restore(workers_, limit_bytes_);
  if (!snapshot) return Error{snapshot.error()};
  if (*snapshot == nullptr) return false;
  slot_.exchange(std::move(*snapshot));
  return true;
}

}  // namespace weir::dataplane
