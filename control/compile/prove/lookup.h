#pragma once

#include <cstdint>
#include <span>

#include "common/ip.h"
#include "control/compile/merge/rule_book.h"
#include "filter/format/packet.h"
#include "filter/read/view.h"

namespace weir::control {

// What is looked into: a base, and the overlay on it where there is one (filter/read/overlay.h).
struct Enforcing {
  const filter::SnapshotView& base;
  const filter::SnapshotView* overlay;
  Enforcing(const filter::SnapshotView& snapshot, const filter::SnapshotView* on_it = nullptr)
      : base(snapshot), overlay(on_it) {}
  const weir_snapshot_header& header() const { return (overlay != nullptr ? *overlay : base).header(); }
};

// The lists that match every packet with the address (and port) as its source, as its destination.
struct Matched {
  weir_set source = {};
  weir_set destination = {};
};

template <class Addr>
struct Probe {
  Addr address;
  uint16_t port;
};

// A data plane may leave gates out, and finds the same: what must match is looked up behind the gates of both planes,
// what must not without. An overlay's keys join the gates of its base only where both are enforced: with one all gates
// are open here.
enum class Gates { of_both_planes, of_data_plane, left_out };

// The lists that match the packet at this time (Unix seconds): gates, every shape, filter, exact stage and residuals;
// scalar.
// sides: mask of weir_direction, the sides on which address shapes are asked. Flow shapes always are.
weir_set match(const Enforcing& enforcing, const weir_packet& packet, uint64_t now,
               uint8_t sides = WEIR_AS_SOURCE | WEIR_AS_DESTINATION, Gates gates = Gates::of_both_planes);

// When to stop asking about a probe: it has this list on all of these sides (mask of weir_direction).
struct Until {
  unsigned list;
  const uint8_t* sides;  // of each probe
};

// What a data plane would find by address alone, without residuals and flow shapes: where a gate keeps an address out,
// nothing; else the shapes of the family, the longest first; filter, then exact stage, in batches and with the kernels
// that data planes use. probes.size() <= filter::kMaxBatch; matched has as many. with_ports: the packet has ports;
// without them no port shape is asked. until: none: every shape is asked.
void look_up(const Enforcing& enforcing, const filter::Kernels& kernels, std::span<const Probe<Ipv4>> probes,
             bool with_ports, Matched* matched, const Until* until = nullptr, Gates gates = Gates::of_both_planes);
void look_up(const Enforcing& enforcing, const filter::Kernels& kernels, std::span<const Probe<Ipv6>> probes,
             bool with_ports, Matched* matched, const Until* until = nullptr, Gates gates = Gates::of_both_planes);

}  // namespace weir::control
