#include "dataplane/snapshot/publish.h"

#include <chrono>
#include <cstring>

#include "common/files.h"
#include "filter/read/sealed.h"

namespace weir::dataplane {

namespace {

using wire::Step;
using Clock = std::chrono::steady_clock;

uint32_t micros_since(Clock::time_point start) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

std::string generation_text(wire::Generation generation) {
  char text[48];
  snprintf(text, sizeof text, "%016llx/%llu", static_cast<unsigned long long>(generation.epoch),
           static_cast<unsigned long long>(generation.number));
  return text;
}

void copy_to_all(std::span<const std::byte> bytes, std::vector<Snapshot::Copy>& copies) {
  for (Snapshot::Copy& copy : copies) memcpy(copy.memory.mapping.bytes().data(), bytes.data(), bytes.size());
}

}  // namespace

Result<std::unique_ptr<Snapshot>> Publisher::open(std::vector<Snapshot::Copy> copies, size_t size_bytes,
                                                  const Digest& digest) const {
  for (const Snapshot::Copy& copy : copies) {
    if (digest_of(copy.memory.mapping.bytes().first(size_bytes)) != digest) {
      return Error{"the digest does not fit the snapshot's bytes: they were damaged on the way"};
    }
  }
  return Snapshot::open(std::move(copies), size_bytes, digest.word, kernels_, workers_);
}

wire::PublishedBody Publisher::publish(const wire::Message& message) {
  const Clock::time_point start = Clock::now();
  wire::PublishedBody answer;
  if (const std::optional<Failure> failure = try_publish(message, answer)) {
    answer.failed_step = failure->step;
    wire::set_text(answer.reason, failure->reason);
  } else {
    answer.ok = 1;
  }
  if (slot_.current() != nullptr) answer.generation = slot_.current()->generation();
  answer.total_us = micros_since(start);
  return answer;
}

std::optional<Publisher::Failure> Publisher::try_publish(const wire::Message& message, wire::PublishedBody& answer) {
  const std::optional<wire::PublishBody> request = wire::body_as<wire::PublishBody>(message);
  if (!request) return Failure{Step::receive, "the message has the wrong length"};
  const Snapshot* current = slot_.current();
  if (current != nullptr && current->generation() == request->generation) {
    if (current->has_digest(request->digest)) return std::nullopt;
    return Failure{Step::check, "generation " + generation_text(request->generation) +
                                    " is enforced already, with other bytes: a generation is used once"};
  }
  if (!message.fd) return Failure{Step::receive, "the message came without a descriptor"};

  const Result<size_t> size = filter::check_sealed(
      message.fd.get(), limit_bytes_,
      "snapshot_memory allows " + std::to_string(limit_bytes_) + " (half of it: a swap holds two)");
  if (!size) return Failure{Step::check, size.error()};
  Result<Mapping> source = map_read_only(message.fd.get(), *size);
  if (!source) return Failure{Step::map, source.error()};

  Result<std::vector<Snapshot::Copy>> copies = Snapshot::allocate(*size, workers_);
  if (!copies) return Failure{Step::copy, copies.error()};
  copy_to_all(source->bytes(), *copies);
  source->reset();
  Digest digest;
  memcpy(digest.word, request->digest, sizeof digest.word);
  Result<std::unique_ptr<Snapshot>> next = open(std::move(*copies), *size, digest);
  if (!next) return Failure{Step::validate, next.error()};
  if ((*next)->generation() != request->generation) {
    return Failure{Step::validate, "the message says generation " + generation_text(request->generation) +
                                       ", the snapshot " + generation_text((*next)->generation())};
  }

  const Result<void> saved = state_.save_snapshot((*next)->bytes(), digest);
  if (!saved) return Failure{Step::persist, saved.error()};
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
