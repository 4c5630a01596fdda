#include "dataplane/snapshot/publish.h"

#include <chrono>
#include <cstring>

#include "common/files.h"

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

wire::PublishedBody Publisher::publish(const wire::Message& message) {
  const Clock::time_point start = Clock::now();
  wire::PublishedBody answer;
  if (const std::optional<Refusal> refusal = try_publish(message, answer)) {
    answer.failed_step = refusal->step;
    wire::set_text(answer.reason, refusal->reason);
  } else {
    answer.ok = 1;
  }
  if (slot_.current() != nullptr) answer.generation = slot_.current()->generation();
  answer.total_us = micros_since(start);
  return answer;
}

std::optional<Refusal> Publisher::try_publish(const wire::Message& message, wire::PublishedBody& answer) {
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

  const Result<void> saved = state_.save_snapshot((*next)->bytes(), what.digest);
  if (!saved) return Refusal{Step::persist, saved.error()};
  const std::lock_guard swap(swap_);
  const Clock::time_point exchanged = Clock::now();
  const std::unique_ptr<Snapshot> former = slot_.exchange(std::move(*next));
  slot_.wait_for_readers();
  answer.grace_us = micros_since(exchanged);
  if (former) ledger_.retire(former->list_stats());
  return std::nullopt;  // `former` is freed here, before the answer
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
