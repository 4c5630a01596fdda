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

#define WEIR_VALUE_HOST(member) ((weir_u32)(member))
#define WEIR_VALUE_WIRE(member) ((weir_u32)__builtin_bswap16(member))

/* now: Unix seconds. */
static inline int weir_residual_holds(const struct weir_residual* residual, const struct weir_packet* packet,
                                      weir_u64 now) {
  const weir_u32 asks = residual->asks;
  const weir_u32 has = packet->has;
  if ((asks & WEIR_ASKS_EXPIRES) != 0 && now >= residual->expires_unix_s) return 0;
#define WEIR_ASK_FIELD(name, NAME, kind, needs, member, order)                                              \
  if ((asks & WEIR_ASKS_##NAME) != 0 &&                                                                     \
      (((needs) & ~has) != 0 || !weir_##kind##_holds(&residual->name, WEIR_VALUE_##order(packet->member)))) \
    return 0;
  WEIR_FIELDS(WEIR_ASK_FIELD)
#undef WEIR_ASK_FIELD
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

/* Makes 0 of what the packet does not have, so that equal packets are equal bytes. */
static inline void weir_clear_absent(struct weir_packet* packet) {
  const weir_u32 has = packet->has;
#define WEIR_CLEAR_FIELD(name, NAME, kind, needs, member, order) \
  if (((needs) & ~has) != 0) packet->member = 0;
  WEIR_FIELDS(WEIR_CLEAR_FIELD)
#undef WEIR_CLEAR_FIELD
  if (packet->family != 6) packet->address[WEIR_SIDE_SOURCE][1] = packet->address[WEIR_SIDE_DESTINATION][1] = 0;
}

#endif
