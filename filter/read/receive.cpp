#include "filter/read/receive.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/files.h"
#include "filter/read/sealed.h"

namespace weir::filter {

namespace {

using wire::Step;

// Numbers rise by one: no controld gets there, and after the last one nothing newer could follow.
constexpr uint64_t kLargestNumber = uint64_t{1} << 62;

std::string generation_text(wire::Generation generation) {
  char text[48];
  snprintf(text, sizeof text, "%016llx/%llu", static_cast<unsigned long long>(generation.epoch),
           static_cast<unsigned long long>(generation.number));
  return text;
}

Receipt refuse(Step step, std::string reason) {
  return {{}, Refusal{step, std::move(reason)}};
}

Digest digest_from(const uint64_t (&words)[2]) {
  Digest digest = {};
  std::copy_n(words, digest.size(), digest.begin());
  return digest;
}

Enforced enforced_of(const wire::PublishBody& request) {
  const Digest digest = digest_from(request.digest);
  if (request.base == wire::Generation()) return {request.generation, digest, request.generation, digest};
  return {request.generation, digest, request.base, digest_from(request.base_digest)};
}

bool is_same(const Enforced& a, const Enforced& b) {
  return a.generation == b.generation && a.digest == b.digest && a.base == b.base && a.base_digest == b.base_digest;
}

bool is_name(wire::Generation generation) {
  return generation.epoch != 0 && generation.number != 0 && generation.number <= kLargestNumber;
}

// Generations that are none, or older than what is enforced.
std::optional<Refusal> refuse_names(const Enforced& what, const wire::PublishBody& request,
                                    const std::optional<Enforced>& current) {
  const wire::Generation wanted = what.generation;
  if (!is_name(wanted)) return Refusal{Step::check, "no generation is called " + generation_text(wanted)};
  if (what.has_overlay() &&
      (!is_name(what.base) || what.base.epoch != wanted.epoch || what.base.number >= wanted.number)) {
    return Refusal{Step::check, "an overlay of generation " + generation_text(wanted) + " cannot stand on " +
                                    generation_text(what.base)};
  }
  if (current && current->generation.epoch == wanted.epoch && wanted.number < current->generation.number &&
      request.allow_older == 0) {
    return Refusal{Step::check, "generation " + generation_text(wanted) + " is older than " +
                                    std::to_string(current->generation.number) +
                                    ", which is enforced (controld --allow-older takes it back)"};
  }
  return std::nullopt;
}

std::optional<Refusal> take_bytes(int fd, uint64_t limit_bytes, const std::string& limit, Mapping& bytes) {
  const Result<size_t> size = check_sealed(fd, limit_bytes, limit);
  if (!size) return Refusal{Step::check, size.error()};
  Result<Mapping> mapped = map_read_only(fd, *size);
  if (!mapped) return Refusal{Step::map, mapped.error()};
  bytes = std::move(*mapped);
  return std::nullopt;
}

}  // namespace

Receipt receive_snapshot(const wire::Message& message, const std::optional<Enforced>& current, uint64_t limit_bytes,
                         const std::string& limit) {
  const std::optional<wire::PublishBody> request = wire::body_as<wire::PublishBody>(message);
  if (!request) return refuse(Step::receive, "the message has the wrong length");
  const Enforced what = enforced_of(*request);
  if (std::optional<Refusal> refusal = refuse_names(what, *request, current)) return {{}, std::move(refusal)};
  if (current && current->generation == what.generation) {
    if (is_same(*current, what)) return {};
    return refuse(Step::check, "generation " + generation_text(what.generation) +
                                   " is enforced already, with other bytes: a generation is used once");
  }
  if (message.lost_fd) {
    return refuse(Step::receive,
                  "the snapshot's descriptor could not be taken: this program has as many open as it may");
  }
  if (!message.fd) return refuse(Step::receive, "the message came without a descriptor");
  Received received = {what, {}, {}};
  if (!what.has_overlay()) {
    if (auto refusal = take_bytes(message.fd.get(), limit_bytes, limit, received.base)) return {{}, std::move(refusal)};
  } else {
    const bool is_there = current && current->base == what.base && current->base_digest == what.base_digest;
    if (!is_there && !message.base_fd) {
      Receipt receipt = refuse(Step::check, "the overlay stands on generation " + generation_text(what.base) +
                                                ", which is not enforced here");
      receipt.needs_base = true;
      return receipt;
    }
    if (auto refusal = take_bytes(message.fd.get(), limit_bytes, limit, received.overlay)) {
      return {{}, std::move(refusal)};
    }
    if (!is_there) {
      if (auto refusal = take_bytes(message.base_fd.get(), limit_bytes, limit, received.base)) {
        return {{}, std::move(refusal)};
      }
    }
  }
  Receipt receipt;
  receipt.received = std::move(received);
  return receipt;
}

wire::Message as_publication(const wire::Message& message, const wire::ShadowRequest& request) {
  wire::PublishBody body;
  body.generation = request.candidate;
  std::copy(std::begin(request.digest), std::end(request.digest), body.digest);
  body.size_bytes = request.size_bytes;
  wire::Message publication;
  const std::span<const std::byte> bytes = wire::bytes_of(body);
  publication.body = {bytes.begin(), bytes.end()};
  publication.fd = Fd(dup(message.fd.get()));
  publication.lost_fd = message.lost_fd;
  return publication;
}

Result<void> check_digest(std::span<const std::byte> bytes, const Digest& digest) {
  if (digest_of(bytes) == digest) return {};
  return Error{"the digest does not fit the snapshot's bytes: they were damaged on the way"};
}

Result<void> check_generation(const weir_snapshot_header& header, wire::Generation generation) {
  const wire::Generation own = {header.epoch, header.number};
  if (own == generation) return {};
  return Error{"the message says generation " + generation_text(generation) + ", the snapshot " + generation_text(own)};
}

}  // namespace weir::filter
