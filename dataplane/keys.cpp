#include "dataplane/stages.h"

namespace weir::dataplane {

namespace {

// Writes key k of the packet with these headers (canonical bytes: filter/key_shape.h).
template <bool kIsV4, bool kWithPort>
void write_key(const Lookup& lookup, const Headers& headers, KeyBatch& batch, uint32_t k) noexcept {
  const uint64_t port = kWithPort ? headers.port[lookup.side] : 0;
  batch.word[0][k] = headers.address[lookup.side][0] & lookup.mask[0];
  if constexpr (kIsV4) {
    if constexpr (kWithPort) batch.word[0][k] |= port << 32;
  } else {
    batch.word[1][k] = headers.address[lookup.side][1] & lookup.mask[1];
    if constexpr (kWithPort) batch.word[2][k] = port;
  }
}

template <bool kIsV4, bool kWithPort>
void gather(const Lookup& lookup, const Burst& burst, KeyBatch& batch) noexcept {
  const uint8_t* frames = kIsV4 ? burst.v4 : burst.v6;
  const uint32_t n = kIsV4 ? burst.n_v4 : burst.n_v6;
  uint32_t k = 0;
  for (uint32_t f = 0; f < n; f++) {
    const Headers& headers = burst.hdr[frames[f]];
    if (kWithPort && !has(headers, WEIR_HAS_PORTS)) continue;
    write_key<kIsV4, kWithPort>(lookup, headers, batch, k);
    batch.key_of[k++] = frames[f];
  }
  batch.n = k;
}

}  // namespace

void keys(const Lookup& lookup, Burst& burst, KeyBatch& batch) noexcept {
  batch.burst = &burst;
  batch.side = lookup.side;
  const filter::KeyShape shape = lookup.shape->shape;
  if (shape.family == 4) {
    shape.with_port ? gather<true, true>(lookup, burst, batch) : gather<true, false>(lookup, burst, batch);
  } else {
    shape.with_port ? gather<false, true>(lookup, burst, batch) : gather<false, false>(lookup, burst, batch);
  }
}

}  // namespace weir::dataplane
