#include "filter/read/receive.h"

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

}  // namespace

Receipt receive_snapshot(const wire::Message& message, const std::optional<Enforced>& current, uint64_t limit_bytes,
                         const std::string& limit) {
  const std::optional<wire::PublishBody> request = wire::body_as<wire::PublishBody>(message);
  if (!request) return refuse(Step::receive, "the message has the wrong length");
  Received received = {{request->generation, {}}, {}};
  std::copy_n(request->digest, received.what.digest.size(), received.what.digest.begin());
  const wire::Generation wanted = request->generation;
  if (wanted.epoch == 0 || wanted.number == 0 || wanted.number > kLargestNumber) {
    return refuse(Step::check, "no generation is called " + generation_text(wanted));
  }
  if (current && current->generation.epoch == wanted.epoch && wanted.number < current->generation.number &&
      request->allow_older == 0) {
    return refuse(Step::check, "generation " + generation_text(wanted) + " is older than " +
                                   std::to_string(current->generation.number) +
                                   ", which is enforced (controld --allow-older takes it back)");
  }
  if (current && current->generation == request->generation) {
    if (current->digest == received.what.digest) return {};
    return refuse(Step::check, "generation " + generation_text(request->generation) +
                                   " is enforced already, with other bytes: a generation is used once");
  }
  if (message.lost_fd) {
    return refuse(Step::receive,
                  "the snapshot's descriptor could not be taken: this program has as many open as it may");
  }
  if (!message.fd) return refuse(Step::receive, "the message came without a descriptor");
  const Result<size_t> size = check_sealed(message.fd.get(), limit_bytes, limit);
  if (!size) return refuse(Step::check, size.error());
  Result<Mapping> source = map_read_only(message.fd.get(), *size);
  if (!source) return refuse(Step::map, source.error());
  received.source = std::move(*source);
  Receipt receipt;
  receipt.received = std::move(received);
  return receipt;
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
