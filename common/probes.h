#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/wire.h"

// What filters were asked, and what they let through although nobody lists it (wire::Type::probes).
// docs/operate/false-positives.md says what the numbers mean.
namespace weir::wire {

// Of one shape whose filter is hashed. Keys that went around the filter are in none of these.
struct ShapeProbes {
  uint32_t shape = 0;       // its number in the header of its snapshot
  uint32_t of_overlay = 0;  // 1: of the overlay; 0: of the base
  // Keys that were looked up since the enforcer has this base, or overlay; a key counts each time that it comes.
  uint64_t asked = 0;
  uint64_t let_through = 0;  // of these, by the filter
  uint64_t found = 0;        // of these, in the exact stage: asked - found are absent, let_through - found refused
  // Different absent keys of late, as sampled, and how many of them the filter lets through.
  uint64_t absent = 0, absent_let_through = 0;
};

constexpr uint32_t kMaxProbed = 64;  // 16 shapes a family, of base and overlay

struct ProbesBody {
  Generation generation;    // {0,0}: nothing is enforced
  uint64_t digest[2] = {};  // of its snapshot, or overlay
  uint64_t base_digest[2] = {};
  uint32_t n_shapes = 0;  // ShapeProbes that follow
  uint32_t reserved = 0;
};

struct Probes {
  ProbesBody body;
  std::vector<ShapeProbes> shapes;
};
std::vector<std::byte> encode_probes(const Probes& probes);
// Empty: not all of it is there, or more, or a number cannot be.
std::optional<Probes> probes_from(const Message& message);

}  // namespace weir::wire
