#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/progress.h"
#include "common/result.h"
#include "control/compile/plan/plan.h"
#include "control/compile/prove/lookup.h"
#include "control/policy/model/policy.h"
#include "filter/format/packet.h"
#include "filter/probe/dispatch.h"
#include "filter/read/view.h"

// Proofs ask the finished bytes about the policy's entries, not about what merge and plan made of them.
namespace weir::control {

constexpr unsigned kStrangers = 65536;  // of each family that has entries

// Of a hashed shape.
struct ProvedRate {
  double measured = 0;  // of random absent keys, those that hit, 0 to 1
  RateBand band;        // of the finished bits
};

struct Proof {
  uint64_t entries = 0;    // every one of the policy
  uint64_t strangers = 0;  // addresses that no entry covers
  // Of random addresses, those that each gate let through, 0 to 1.
  std::array<double, 2 * WEIR_GATES> gate_shares = {};
  // Empty: it has no filter to be wrong (bitmap), or no keys.
  std::vector<std::optional<ProvedRate>> shape_rates;
};

// snapshot: 64-byte aligned. seed: of the random samples. Checks, in this order:
//  - the bytes are a valid snapshot (SnapshotView::open);
//  - every entry's first and last address, and one inside, match its list on each of its sides; pass entries pass; one
//    that expires matches until then, and no longer than what else names its packet;
//  - every flow matches packets made from it, and packets changed in one field match what the flows say;
//  - no canary drops, as source or as destination: its address alone, now and whenever an entry about it ends; nor a
//    packet made from a flow that names the address on that side;
//  - strangers match no list: half of them anywhere, half right beside an entry;
//  - gates let random addresses through as often as their bits say; entries and flows are looked up behind them, so
//    that a bit that is missing keeps one out, canaries and strangers without;
//  - every filter is as full as its number of keys says, and random absent keys hit it as often as its bits say.
// The Error names entry, list and file:line, or the numbers. unlucky: set to true when only a filter's rate is wrong,
// which another secret may mend.
Result<Proof> prove(const Policy& policy, std::span<const std::byte> snapshot, uint64_t seed, bool* unlucky = nullptr,
                    Progress* progress = nullptr);

// The point about flows.
Result<void> prove_flows(const Policy& policy, const Enforcing& snapshot, const filter::Kernels& kernels,
                         uint64_t seed);

// Does a flow of the list that does not expire match the packet?
bool lasting_flow_matches(const List& list, const weir_packet& packet);

// The point about canaries.
Result<void> prove_canaries(const Policy& policy, const Enforcing& snapshot);

// What flows that name the address do to it. name: of the canary; address: IPv4 in the low 32 bits.
Result<void> prove_flow_canary(const Policy& policy, const Enforcing& snapshot, const std::string& name, uint8_t family,
                               Ipv6 address);

// The point about random addresses at gates. shares: as Proof has them.
Result<void> prove_gates(const filter::SnapshotView& snapshot, uint64_t seed,
                         std::array<double, 2 * WEIR_GATES>& shares);

// The last point, for all hashed shapes. The rates: as Proof has them.
Result<std::vector<std::optional<ProvedRate>>> prove_rates(const filter::SnapshotView& snapshot,
                                                           const filter::Kernels& kernels, uint64_t seed);

// The entries that an overlay changes: lists got them or lost them since its base.
struct Changes {
  const std::vector<Entry<Ipv4>>& v4;
  const std::vector<Entry<Ipv6>>& v6;
  bool has_new_flows;
};

// prove for an overlay on its base. The base is proven already, so this looks up only the changes:
//  - the first and last address of every change, one inside, and those right beside it match exactly the lists that
//    hold them, on each side; no list too few and, unlike in a base, none too many;
//  - entries that expire match until then;
//  - so do addresses from anywhere;
//  - flows, when some were added, and canaries, as in a base.
// If there are many changes, it looks up the addresses inside and beside for some of them only.
Result<void> prove_overlay(const Policy& policy, const Enforcing& enforcing, const Changes& changes);

}  // namespace weir::control
