/* The fields of a packet, beside its addresses, that an entry may ask for: one row each, in the order in which texts
 * show them. A row makes the field's bit of `asks`, its member of struct weir_residual and of control's Flow, and how
 * it is compared (filter/format/residual.h); parsers fill the packet's member. How a field is written in a policy file
 * and in texts: control/policy/model/fields.cpp.
 *
 * C subset, shared by inclusion (C++, BPF, tests).
 */
#ifndef WEIR_FILTER_FIELDS_H
#define WEIR_FILTER_FIELDS_H

#include "filter/format/types.h"

/* FIELD(name, NAME, kind, needs, member, order)
 *   name    its member of struct weir_residual and of Flow
 *   NAME    its bit is WEIR_ASKS_NAME, its number WEIR_FIELD_NAME
 *   kind    what an entry asks of it: weir_KIND below
 *   needs   mask of enum weir_has: what a packet must have, or it matches no entry that asks; 0: nothing
 *   member  of struct weir_packet
 *   order   of that member's bytes: HOST, or WIRE (two bytes, big-endian)
 * A row stands where its kind leaves no padding in struct weir_residual. */
#define WEIR_FIELDS(FIELD)                                                        \
  FIELD(protocol, PROTOCOL, value, 0, protocol, HOST)                             \
  FIELD(sport, SPORT, range16, WEIR_HAS_PORTS, port[WEIR_SIDE_SOURCE], WIRE)      \
  FIELD(dport, DPORT, range16, WEIR_HAS_PORTS, port[WEIR_SIDE_DESTINATION], WIRE) \
  FIELD(icmp_type, ICMP_TYPE, value, WEIR_HAS_ICMP_TYPE, icmp_type, HOST)         \
  FIELD(icmp_code, ICMP_CODE, value, WEIR_HAS_ICMP_CODE, icmp_code, HOST)         \
  FIELD(tcp_flags, TCP_FLAGS, masked, WEIR_HAS_TCP_FLAGS, tcp_flags, HOST)        \
  FIELD(length, LENGTH, range32, 0, length, HOST)                                 \
  FIELD(dscp, DSCP, one_of, 0, dscp, HOST)                                        \
  FIELD(fragment, FRAGMENT, one_of, 0, fragment, HOST)

enum weir_field {
#define WEIR_FIELD_NUMBER(name, NAME, kind, needs, member, order) WEIR_FIELD_##NAME,
  WEIR_FIELDS(WEIR_FIELD_NUMBER)
#undef WEIR_FIELD_NUMBER
      WEIR_N_FIELDS
};

enum weir_asks { /* a mask: what of a residual must hold */
                 WEIR_ASKS_SOURCE = 1,
                 WEIR_ASKS_DESTINATION = 2,
                 WEIR_ASKS_EXPIRES = 4,
#define WEIR_FIELD_ASKS(name, NAME, kind, needs, member, order) WEIR_ASKS_##NAME = 8 << WEIR_FIELD_##NAME,
                 WEIR_FIELDS(WEIR_FIELD_ASKS)
#undef WEIR_FIELD_ASKS
};
#define WEIR_ASKS ((8u << WEIR_N_FIELDS) - 1)

/* Kinds: what is asked of a packet's value, and whether it holds. Host order. */

typedef weir_u16 weir_value; /* this one */
static inline int weir_value_holds(const weir_value* asked, weir_u32 value) {
  return value == *asked;
}

typedef struct weir_range16 { /* both ends included */
  weir_u16 first, last;
#ifdef __cplusplus
  bool operator==(const weir_range16&) const = default;
#endif
} weir_range16;
static inline int weir_range16_holds(const weir_range16* asked, weir_u32 value) {
  return value >= asked->first && value <= asked->last;
}

typedef struct weir_range32 { /* both ends included; open to above: last is 2^32 - 1 */
  weir_u32 first, last;
#ifdef __cplusplus
  bool operator==(const weir_range32&) const = default;
#endif
} weir_range32;
static inline int weir_range32_holds(const weir_range32* asked, weir_u32 value) {
  return value >= asked->first && value <= asked->last;
}

typedef struct weir_one_of { /* bit v: the value v will do; values are below 64 */
  weir_u64 values;
#ifdef __cplusplus
  bool operator==(const weir_one_of&) const = default;
#endif
} weir_one_of;
static inline int weir_one_of_holds(const weir_one_of* asked, weir_u32 value) {
  return (asked->values >> (value & 63) & 1) != 0;
}

typedef struct weir_masked { /* (value & mask) == set */
  weir_u8 set, mask;
#ifdef __cplusplus
  bool operator==(const weir_masked&) const = default;
#endif
} weir_masked;
static inline int weir_masked_holds(const weir_masked* asked, weir_u32 value) {
  return (value & asked->mask) == asked->set;
}

#endif
