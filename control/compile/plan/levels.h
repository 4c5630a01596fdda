#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "filter/format/key_shape.h"

// Which key shapes one address family gets. A shape of n address bits serves prefixes of length n as they are, and
// shorter ones by writing each out as its 2^(n - length) keys (controlled prefix expansion, Srinivasan & Varghese,
// "Faster IP lookups using controlled prefix expansion", 1998). Few shapes are few probes for every packet; expansion
// costs memory. The dynamic programme below finds the cheapest mixture.
namespace weir::control {

// A packet pays so many ns, measured on one Zen 5 core. A probe is thus worth 4 MiB of expanded keys.
constexpr double kProbeNs = 2.0;        // SipHash 0.7 to 4.7 (vector, scalar) and one filter line 0.5 to 3
constexpr double kBitmapProbeNs = 1.0;  // no hash; one line of 2 MiB
// Against line8's probe, hash included. The filter alone, measured there: page2 and ribbon 1.5 to 1.7 in L2, 1.2 to
// 1.3 beyond L3; page7 7 to 12.
constexpr double kPage2Probes = 1.3, kRibbonProbes = 1.5, kPage7Probes = 5;
double probe_ns(weir_layout layout);
// 0.1 is measured: from 14 to 43 MiB of filter a probe rises from 0.96 to 2.4 .. 5.4. The rest is for what a packet
// does not see: a MiB is 25,000 to 50,000 keys, which every reload expands, builds and proves again (about 20 ms).
constexpr double kNsPerMiB = 0.5;

// IPv4 prefixes up to this length may be served by the bitmap, whatever their lengths: one probe for all of them.
constexpr unsigned kBitmapBits = 24;
constexpr double kBitmapBytes = (2 << 20) + 65536 * 4.0;  // one bit per /24, and one chunk number per /16

struct Level {
  filter::KeyShape shape;
  bool bitmap = false;
  std::vector<unsigned> lengths;  // served; ascending
};

// Unique prefixes of each length. IPv4 uses the first 33.
using LengthCounts = std::array<uint64_t, 129>;

// Filter and exact stage, patch room included, for n_keys of this shape. layout: one that can keep the rate.
double shape_bytes(filter::KeyShape shape, weir_layout layout, double n_keys, double false_positive_rate);

// At most max_levels levels (<= WEIR_MAX_SHAPES_PER_FAMILY); those of any port first, each group ascending.
// memory_weight multiplies the price of memory (1 = kNsPerMiB): a planner that must save memory raises it. Counts of
// expanded keys are upper bounds here: prefixes that overlap count twice. layout: of every shape but the bitmap.
std::vector<Level> choose_levels(uint8_t family, const LengthCounts& any_port, const LengthCounts& one_port,
                                 weir_layout layout, double false_positive_rate, double memory_weight,
                                 unsigned max_levels = WEIR_MAX_SHAPES_PER_FAMILY);

}  // namespace weir::control
