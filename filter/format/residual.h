/* Does a packet meet what an entry demands beyond its key? C subset, shared by inclusion (C++, BPF, tests): one
 * definition for every plane. */
#ifndef WEIR_FILTER_RESIDUAL_H
#define WEIR_FILTER_RESIDUAL_H

#include "filter/format/packet.h"

/* first <= address <= last. Ranges: host order, the high half first; IPv4 in the low 32 bits of the low half. */
static inline int weir_address_within(const struct weir_packet* packet, int side, const weir_u64* first,
                                      const weir_u64* last) {
  weir_u64 high, low;
  if (packet->family == 4) {
    high = 0;
    low = __builtin_bswap32((weir_u32)packet->address[side][0]);
  } else {
    high = __builtin_bswap64(packet->address[side][0]);
    low = __builtin_bswap64(packet->address[side][1]);
  }
  return (high > first[0] || (high == first[0] && low >= first[1])) &&
         (high < last[0] || (high == last[0] && low <= last[1]));
}

/* now: Unix seconds. */
static inline int weir_residual_holds(const struct weir_residual* residual, const struct weir_packet* packet,
                                      weir_u64 now) {
  const weir_u32 asks = residual->asks;
  const weir_u8 has = packet->has;
  if ((asks & WEIR_ASKS_EXPIRES) != 0 && now >= residual->expires_unix_s) return 0;
  if ((asks & WEIR_ASKS_PROTOCOL) != 0 && packet->protocol != residual->protocol) return 0;
  if ((asks & (WEIR_ASKS_SPORT | WEIR_ASKS_DPORT)) != 0) {
    if ((has & WEIR_HAS_PORTS) == 0) return 0;
    const weir_u16 sport = __builtin_bswap16(packet->port[WEIR_SIDE_SOURCE]);
    const weir_u16 dport = __builtin_bswap16(packet->port[WEIR_SIDE_DESTINATION]);
    if ((asks & WEIR_ASKS_SPORT) != 0 && (sport < residual->sport_first || sport > residual->sport_last)) return 0;
    if ((asks & WEIR_ASKS_DPORT) != 0 && (dport < residual->dport_first || dport > residual->dport_last)) return 0;
  }
  if ((asks & (WEIR_ASKS_ICMP_TYPE | WEIR_ASKS_ICMP_CODE)) != 0) {
    if ((has & WEIR_HAS_ICMP) == 0) return 0;
    if ((asks & WEIR_ASKS_ICMP_TYPE) != 0 && packet->icmp_type != residual->icmp_type) return 0;
    if ((asks & WEIR_ASKS_ICMP_CODE) != 0 && packet->icmp_code != residual->icmp_code) return 0;
  }
  if ((asks & WEIR_ASKS_TCP_FLAGS) != 0) {
    if ((has & WEIR_HAS_TCP_FLAGS) == 0) return 0;
    if ((packet->tcp_flags & residual->tcp_mask) != residual->tcp_set) return 0;
  }
  if ((asks & WEIR_ASKS_SOURCE) != 0 &&
      !weir_address_within(packet, WEIR_SIDE_SOURCE, residual->source_first, residual->source_last)) {
    return 0;
  }
  if ((asks & WEIR_ASKS_DESTINATION) != 0 &&
      !weir_address_within(packet, WEIR_SIDE_DESTINATION, residual->destination_first, residual->destination_last)) {
    return 0;
  }
  return 1;
}

#endif
