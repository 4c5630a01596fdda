#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/digest.h"
#include "common/fd.h"
#include "common/result.h"
#include "common/shadow.h"
#include "common/wire.h"
#include "filter/format/snapshot.h"

// The first steps of a publication (docs/operate/dataplane.md), alike for everything that enforces: from the message
// with its descriptor to bytes that nobody can change, and the checks of these bytes that their reader does not make.
namespace weir::filter {

// The step that failed, and why.
struct Refusal {
  wire::Step step;
  std::string reason;
};

// base: on which an overlay stands; without an overlay it is the generation itself.
struct Enforced {
  wire::Generation generation;
  Digest digest = {};
  wire::Generation base;
  Digest base_digest = {};
  bool has_overlay() const { return generation != base; }
};

// Sealed bytes, mapped read-only, not checked yet.
struct Received {
  Enforced what;    // as the message says
  Mapping base;     // a snapshot; empty: that which is enforced is the base
  Mapping overlay;  // empty: there is none
};

// Neither: what the message names is enforced already.
struct Receipt {
  std::optional<Received> received;
  std::optional<Refusal> refusal;
  bool needs_base = false;  // refused for want of the overlay's base
};

// A snapshot, or an overlay with its base or without.
// current: what enforces now; nothing older of its epoch is taken, unless the message allows it. limit: what does not
// allow more than limit_bytes of either, in words.
Receipt receive_snapshot(const wire::Message& message, const std::optional<Enforced>& current, uint64_t limit_bytes,
                         const std::string& limit);

// A message that begins a shadow, as if its candidate were published: what is checked of both is the same.
wire::Message as_publication(const wire::Message& message, const wire::ShadowRequest& request);

// Are these the bytes that were sent?
Result<void> check_digest(std::span<const std::byte> bytes, const Digest& digest);
// Of a validated header.
Result<void> check_generation(const weir_snapshot_header& header, wire::Generation generation);

}  // namespace weir::filter
