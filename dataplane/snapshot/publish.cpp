#include "dataplane/snapshot/publish.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "dataplane/start/say.h"

namespace weir::dataplane {

namespace {

using filter::Refusal;
using wire::Step;
using Clock = std::chrono::steady_clock;

uint32_t micros_since(Clock::time_point start) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

void copy_to_all(std::span<const std::byte> bytes, std::vector<Snapshot::Copy>& copies) {
  for (Snapshot::Copy& copy : copies) memcpy(copy.memory.mapping.bytes().data(), bytes.data(), bytes.size());
}

}  // namespace

Result<std::unique_ptr<Snapshot>> Publisher::open(std::vector<Snapshot::Copy> copies, size_t size_bytes,
                                                  const Digest& digest) const {
  for (const Snapshot::Copy& copy : copies) {
    const Result<void> same = filter::check_digest(copy.memory.mapping.bytes().first(size_bytes), digest);
    if (!same) return Error{same.error()};
  }
  return Snapshot::open(std::move(copies), size_bytes, digest, workers_);
}

void Publisher::publish(wire::Message message, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() < kMaxWaiting && !stopping_) {
      jobs_.push_back({std::move(message), std::move(done)});
      changed_.notify_all();
      return;
    }
  }
  wire::PublishedBody answer;
  answer.generation = enforced().generation;
  answer.failed_step = Step::receive;
  wire::set_text(answer.reason, "others wait to be published already");
  done(answer);
}

void Publisher::run() {
  const auto is_called = [this] { return stopping_ || !jobs_.empty(); };
  std::unique_lock lock(mutex_);
  running_ = true;
  while (!stopping_) {
    const bool has_more_to_do = former_ != nullptr || !durable_;  // this thread alone changes them
    if (!has_more_to_do) {
      changed_.wait(lock, is_called);
    } else if (!changed_.wait_for(lock, times_.try_again, is_called)) {
      lock.unlock();
      (void)let_former_go();
      if (!durable_) save_again();
      lock.lock();
    }
    if (stopping_ || jobs_.empty()) continue;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.done(answer(job.message));
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
    enforced = {snapshot->generation(), snapshot->bytes().size(), snapshot->huge(), snapshot->digest(), true, ""};
  }
  enforced.durable = durable_;
  enforced.disk_error = disk_error_;
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
  answer.generation = now.generation;
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
  if (current != nullptr) enforced = {current->generation(), current->digest()};
  filter::Receipt receipt = filter::receive_snapshot(
      message, enforced, limit_bytes_,
      "snapshot_memory allows " + std::to_string(limit_bytes_) + " (half of it: a swap holds two)");
  if (!receipt.received) return receipt.refusal;
  const filter::Enforced what = receipt.received->what;
  Mapping& source = receipt.received->source;

  Result<std::vector<Snapshot::Copy>> copies = Snapshot::allocate(source.size(), workers_);
  if (!copies) return Refusal{Step::copy, copies.error()};
  copy_to_all(source.bytes(), *copies);
  const size_t size_bytes = source.size();
  source.reset();
  Result<std::unique_ptr<Snapshot>> next = open(std::move(*copies), size_bytes, what.digest);
  if (!next) return Refusal{Step::validate, next.error()};
  const Result<void> named = filter::check_generation((*next)->header(), what.generation);
  if (!named) return Refusal{Step::validate, named.error()};
  if (is_stopping()) return Refusal{Step::persist, "the data plane stops"};

  const Result<void> saved = state_.save_snapshot((*next)->bytes(), what.digest);
  const Clock::time_point exchanged = Clock::now();
  const bool is_over = exchange(std::move(*next), saved);
  answer.grace_us = micros_since(exchanged);
  if (!is_over) wire::set_text(answer.reason, "enforced; but a worker has not let go of the former snapshot yet");
  return std::nullopt;
}

bool Publisher::exchange(std::unique_ptr<Snapshot> next, const Result<void>& saved) {
  {
    const std::lock_guard swap(swap_);
    former_ = slot_.exchange(std::move(next));
  }
  set_durable(saved);
  const Clock::time_point begin = Clock::now();
  bool was_said = false;
  const auto give_up = [&] {
    const auto waited = Clock::now() - begin;
    if (waited > times_.long_grace && !std::exchange(was_said, true)) {
      say("a worker has not been done with its burst for {} ms: the former snapshot stays in memory until it is",
          std::chrono::duration_cast<std::chrono::milliseconds>(waited).count());
    }
    return waited > times_.most_grace || is_stopping();
  };
  if (!slot_.wait_for_readers(give_up)) return former_ == nullptr;
  return let_former_go();
}

// Counted and freed, when no worker reads it any more.
bool Publisher::let_former_go() {
  if (former_ == nullptr) return true;
  if (!slot_.are_readers_gone()) return false;
  std::unique_ptr<Snapshot> former;
  const std::lock_guard swap(swap_);
  former = std::move(former_);
  ledger_.retire(former->list_stats());
  return true;
}

void Publisher::set_durable(const Result<void>& saved) {
  if (!saved) {
    say("what is enforced would not outlive a restart: {}; it is tried again until it does", saved.error());
  } else if (!durable_) {
    say("what is enforced is on disk now");
  }
  const std::lock_guard swap(swap_);
  durable_ = static_cast<bool>(saved);
  disk_error_ = saved ? "" : saved.error();
}

void Publisher::save_again() {
  const Snapshot* current = slot_.current();  // nobody but this thread exchanges it
  const Result<void> saved = state_.save_snapshot(current->bytes(), current->digest());
  if (saved || saved.error() != disk_error_) set_durable(saved);
}

Result<bool> Publisher::restore() {
  const Result<std::optional<size_t>> size = state_.saved_snapshot_size();
  if (!size) return Error{size.error()};
  if (!size->has_value()) return false;
  const size_t size_bytes = **size;
  if (size_bytes > limit_bytes_) {
    return Error{state_.snapshot_path() + " has " + std::to_string(size_bytes) + " bytes; snapshot_memory allows " +
                 std::to_string(limit_bytes_)};
  }
  Result<std::vector<Snapshot::Copy>> copies = Snapshot::allocate(size_bytes, workers_);
  if (!copies) return Error{copies.error()};
  const Result<Digest> digest = state_.load_snapshot(copies->front().memory.mapping.bytes().first(size_bytes));
  if (!digest) return Error{digest.error()};
  for (size_t i = 1; i < copies->size(); i++) {
    memcpy((*copies)[i].memory.mapping.bytes().data(), copies->front().memory.mapping.bytes().data(), size_bytes);
  }
  Result<std::unique_ptr<Snapshot>> snapshot = open(std::move(*copies), size_bytes, *digest);
  if (!snapshot) return Error{state_.snapshot_path() + ": " + snapshot.error()};
  slot_.exchange(std::move(*snapshot));
  return true;
}

}  // namespace weir::dataplane
