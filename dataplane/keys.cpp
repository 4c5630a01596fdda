#include <cstring>

#include "dataplane/stages.h"

namespace weir::dataplane {

namespace {

enum class Kind { address, address_and_port, flow, flow_and_ports };

constexpr bool asks_ports(Kind kind) {
  return kind == Kind::address_and_port || kind == Kind::flow_and_ports;
}

// Writes key k of the packet with these headers (canonical bytes: filter/key_shape.h). What the packet does not have
// may be anything: either the lookup does not ask for it, or the key does not count.
template <bool kIsV4, Kind kKind>
void write_key(const Lookup& lookup, const Headers& headers, KeyBatch& batch, uint32_t k) noexcept {
  const auto& address = headers.address;
  if constexpr (kKind == Kind::flow || kKind == Kind::flow_and_ports) {
    uint32_t ports;
    memcpy(&ports, headers.port, sizeof ports);
    const uint64_t rest = (uint64_t{headers.protocol} << 32 | ports) & lookup.fields_mask;
    if constexpr (kIsV4) {
      batch.word[0][k] =
          (address[kSource][0] & lookup.mask[0]) | (address[kDestination][0] & lookup.destination_mask[0]) << 32;
      batch.word[1][k] = rest;
    } else {
      batch.word[0][k] = address[kSource][0] & lookup.mask[0];
      batch.word[1][k] = address[kSource][1] & lookup.mask[1];
      batch.word[2][k] = address[kDestination][0] & lookup.destination_mask[0];
      batch.word[3][k] = address[kDestination][1] & lookup.destination_mask[1];
      batch.word[4][k] = rest;
    }
  } else {
    const uint64_t port = kKind == Kind::address_and_port ? headers.port[lookup.side] : 0;
    batch.word[0][k] = (address[lookup.side][0] & lookup.mask[0]) | (kIsV4 ? port << 32 : 0);
    if constexpr (!kIsV4) {
      batch.word[1][k] = address[lookup.side][1] & lookup.mask[1];
      if constexpr (kKind == Kind::address_and_port) batch.word[2][k] = port;
    }
  }
}

template <bool kIsV4, Kind kKind>
void gather(const Lookup& lookup, const Burst& burst, KeyBatch& batch) noexcept {
  const uint8_t* slots = kIsV4 ? burst.v4 : burst.v6;
  const uint32_t n = kIsV4 ? burst.n_v4 : burst.n_v6;
  uint32_t k = 0;
  for (uint32_t s = 0; s < n; s++) {
    const Headers& headers = burst.hdr[slots[s]];
    write_key<kIsV4, kKind>(lookup, headers, batch, k);
    batch.key_of[k] = slots[s];
    k += !asks_ports(kKind) || has(headers, WEIR_HAS_PORTS);
  }
  batch.n = k;
}

template <bool kIsV4>
void gather(const Lookup& lookup, const Burst& burst, KeyBatch& batch) noexcept {
  const filter::KeyShape shape = lookup.shape->shape;
  if (!shape.flow) {
    shape.with_port ? gather<kIsV4, Kind::address_and_port>(lookup, burst, batch)
                    : gather<kIsV4, Kind::address>(lookup, burst, batch);
  } else if (filter::asks_ports(shape)) {
    gather<kIsV4, Kind::flow_and_ports>(lookup, burst, batch);
  } else {
    gather<kIsV4, Kind::flow>(lookup, burst, batch);
  }
}

}  // namespace

void keys(const Lookup& lookup, Burst& burst, KeyBatch& batch) noexcept {
  batch.burst = &burst;
  batch.side = lookup.side;
  lookup.shape->shape.family == 4 ? gather<true>(lookup, burst, batch) : gather<false>(lookup, burst, batch);
}

}  // namespace weir::dataplane
