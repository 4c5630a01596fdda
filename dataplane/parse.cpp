#include <algorithm>

#include "dataplane/stages.h"

namespace weir::dataplane {

namespace {

// A frame in several segments whose first one did not hold all headers: parses a copy of what headers can reach. A copy
// is bounded by kMaxHeaderBytes (33 KiB), so no frame makes it large.
[[gnu::noinline]] Outcome parse_segments(const rte_mbuf* packet, Headers& headers) noexcept {
  uint8_t copy[kMaxHeaderBytes];
  const uint32_t length = std::min(packet->pkt_len, kMaxHeaderBytes);
  const void* bytes = rte_pktmbuf_read(packet, 0, length, copy);
  return bytes == nullptr ? Outcome::malformed : parse_frame(static_cast<const uint8_t*>(bytes), length, headers);
}

}  // namespace

void parse(Burst& burst, WorkerCounters& counters) noexcept {
  burst.not_ip = burst.malformed = burst.incomplete = burst.hit = 0;
  burst.n_v4 = burst.n_v6 = 0;
  for (uint32_t i = 0; i < burst.n; i++) {
    const rte_mbuf* packet = burst.pkt[i];
    Headers& headers = burst.hdr[i];
    Outcome outcome = parse_frame(rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len, headers);
    if (packet->data_len < packet->pkt_len && !decided(outcome, headers)) outcome = parse_segments(packet, headers);
    if (outcome == Outcome::ip) {
      burst.v4[burst.n_v4] = static_cast<uint8_t>(i);
      burst.v6[burst.n_v6] = static_cast<uint8_t>(i);
      burst.n_v4 += headers.family == 4;
      burst.n_v6 += headers.family == 6;
      burst.incomplete |= uint64_t{has(headers, WEIR_INCOMPLETE)} << i;
    } else {
      burst.not_ip |= uint64_t{outcome == Outcome::not_ip} << i;
      burst.malformed |= uint64_t{outcome == Outcome::malformed} << i;
    }
  }
  burst.ip = low_bits(burst.n) & ~burst.not_ip & ~burst.malformed;
  counters.not_ip.add(static_cast<uint64_t>(__builtin_popcountll(burst.not_ip)));
  counters.malformed.add(static_cast<uint64_t>(__builtin_popcountll(burst.malformed)));
  counters.incomplete.add(static_cast<uint64_t>(__builtin_popcountll(burst.incomplete)));
}

}  // namespace weir::dataplane
