/* The snapshot: one compiled policy as position-independent bytes. control writes it, the data plane and BPF read it.
 *
 * C subset, shared by inclusion (C++, BPF, tests). Little endian, no pointers, no implicit padding: offsets count from
 * the first byte of the snapshot. Order in the file: header, list table, sets, rules, residuals, the gates' tables,
 * then each shape's filter pages, exact pages and (bitmap) rule chunks; every section starts on a 4096-byte boundary. A
 * reader copies the header, validates it (filter/read/view.h) and only then follows offsets.
 *
 * An overlay is a snapshot, too: of only those keys whose rule is another one than in the snapshot on which it stands,
 * its base (filter/read/overlay.h).
 */
#ifndef WEIR_FILTER_SNAPSHOT_H
#define WEIR_FILTER_SNAPSHOT_H

#include "filter/format/fields.h"

#define WEIR_SNAPSHOT_MAGIC 0x50414e5352494557ull /* "WEIRSNAP" */
#define WEIR_SNAPSHOT_VERSION 10u

#define WEIR_PAGE_BYTES 4096u
#define WEIR_LINE_BYTES 64u
#define WEIR_LINES_PER_PAGE 64u /* filter lines, and exact buckets, in a page */

#define WEIR_MAX_LISTS 256u
#define WEIR_LIST_WORDS 4u /* 256 lists / 64 */
#define WEIR_MAX_SHAPES_PER_FAMILY 16u
#define WEIR_MAX_SHAPES (2u * WEIR_MAX_SHAPES_PER_FAMILY)
#define WEIR_MAX_KEY_WORDS 5u
#define WEIR_MAX_CHAIN 64u       /* residuals that one key may have to ask about, of each side */
#define WEIR_LIST_NAME_BYTES 64u /* 63 characters and a NUL */

enum weir_action { WEIR_PASS = 0, WEIR_DROP = 1 };
enum weir_mode { WEIR_ENFORCE = 0, WEIR_MONITOR = 1 };
enum weir_layout {
  WEIR_LAYOUT_LINE8 = 1,
  WEIR_LAYOUT_BITMAP = 2,
  WEIR_LAYOUT_PAGE2 = 3,
  WEIR_LAYOUT_PAGE7 = 4,
  WEIR_LAYOUT_RIBBON = 5,
};
#define WEIR_LAYOUTS 6u
enum weir_direction { WEIR_AS_SOURCE = 1, WEIR_AS_DESTINATION = 2 }; /* a mask */
enum weir_tunnel {                                                   /* a mask */
                   WEIR_TUNNEL_IPIP = 1,
                   WEIR_TUNNEL_6IN4 = 2,
                   WEIR_TUNNEL_GRE = 4,
                   WEIR_TUNNEL_VXLAN = 8,
                   WEIR_TUNNEL_GENEVE = 16,
                   WEIR_TUNNEL_GTPU = 32,
                   WEIR_TUNNEL_TEREDO = 64,
};
#define WEIR_TUNNELS 0x7fu

struct weir_section {
  weir_u64 offset;     /* bytes from the start, a multiple of 4096 */
  weir_u64 size_bytes; /* what is behind them, up to the next multiple of 4096, means nothing */
};

struct weir_list {
  char name[WEIR_LIST_NAME_BYTES]; /* [A-Za-z0-9._-]{1,63}, NUL-padded, unique */
  weir_u8 action;                  /* enum weir_action */
  weir_u8 mode;                    /* enum weir_mode */
  weir_u8 reserved[6];
  weir_u64 n_entries;
};

/* Set 0 is the empty set. Bit l of word l / 64 is list l, the lists in file order. */
struct weir_set {
  weir_u64 lists[WEIR_LIST_WORDS];
};

/* Rule 0 is "no rule" and marks a free slot. A rule without lists is one all the same: in an overlay it takes away what
 * the base's has. Set ids: the lists that match a packet with this key as its source, as its
 * destination. Chains: index of the first of the residuals that may add more lists; 0: none. A flow key has no side:
 * what it means stands under source. */
struct weir_rule {
  weir_u32 source_set;
  weir_u32 destination_set;
  weir_u32 source_chain;
  weir_u32 destination_chain;
};

/* What an entry demands beyond its key (filter/format/residual.h compares). The residuals of a chain lie one behind the
 * other, at most WEIR_MAX_CHAIN, up to the one that is `last`. Residual 0 is all zero but `last`. What is not asked is
 * 0. */
struct weir_residual {
  weir_u32 set;  /* lists that match when everything asked holds */
  weir_u16 asks; /* mask of enum weir_asks */
  weir_u8 last;  /* 1: ends its chain */
  weir_u8 reserved0;
  weir_u64 expires_unix_s;                  /* live while now < expires */
  weir_u64 source_first[2], source_last[2]; /* host order, high half first; IPv4 in the low 32 bits of the low half */
  weir_u64 destination_first[2], destination_last[2];
#define WEIR_RESIDUAL_MEMBER(name, NAME, kind, needs, member, order) weir_##kind name;
  WEIR_FIELDS(WEIR_RESIDUAL_MEMBER) /* what each row of filter/format/fields.h asks for */
#undef WEIR_RESIDUAL_MEMBER
  weir_u64 reserved[1];
};

/* What is asked before any lookup: an address that its side's gate does not let through has no key in any lookup of
 * that side. There is a gate for each family and side, the union of all its lookups (filter/format/gate.h). Each plane
 * has its own: what is cheapest for many packets at once in huge pages is not for one packet in the kernel. */
enum weir_gate_kind {
  WEIR_GATE_OPEN = 0,   /* lets everything through: the plan expects that a table would let too much through */
  WEIR_GATE_CLOSED = 1, /* lets nothing through: no lookup stands at this side */
  WEIR_GATE_TABLES = 2, /* lets through what one of its tables knows */
};
#define WEIR_GATES 4u           /* in this order: IPv4 source, IPv4 destination, IPv6 source, IPv6 destination */
#define WEIR_MAX_GATE_TABLES 2u /* of networks, and of hosts */
#define WEIR_MAX_GATE_PREFIX_V4 32u
#define WEIR_MAX_GATE_PREFIX 64u
#define WEIR_MIN_DIRECT_PREFIX 15u /* a page of bits */
#define WEIR_MAX_DIRECT_PREFIX 28u
#define WEIR_MAX_GATE_PAGES 32768u

/* Knows the leading bits of addresses; of an entry that is shorter, those of all addresses in it. Direct: one bit for
 * each value of these bits. Words: a Bloom filter of 64-bit words; a value has three bits, all in one word. */
struct weir_gate_table {
  weir_u8 prefix_bits; /* leading bits it looks at: direct 15..28, words 1..32 of IPv4, 1..64 of IPv6 */
  weir_u8 reserved[3];
  weir_u32 n_words; /* words: how many, whole pages of them; direct: 0 */
  weir_u64 n_set;   /* bits that are set */
  struct weir_section
      bits; /* direct: 2^prefix_bits / 8 bytes, bit i is bit i % 64 of word i / 64; words: n_words * 8 */
};

/* Gates may have the same tables: a gate of destinations those of the sources', where all keys stand at both sides, and
 * XDP's those of the data plane. */
struct weir_gate {
  weir_u8 kind;     /* enum weir_gate_kind */
  weir_u8 n_tables; /* 1 or 2; 0 when it has none */
  weir_u8 reserved[6];
  weir_u64 multiplier;                                /* of words: odd and secret; 0 when all tables are direct */
  struct weir_gate_table table[WEIR_MAX_GATE_TABLES]; /* prefix_bits ascending; those behind n_tables are 0 */
};

/* What a flow key holds besides its addresses; a mask. */
enum weir_flow_field {
  WEIR_FLOW_PROTOCOL = 1,
  WEIR_FLOW_SPORT = 2,
  WEIR_FLOW_DPORT = 4,
};

/* What a key is made of: see filter/format/key_shape.h for the bytes. */
struct weir_shape {
  weir_u8 family;     /* 4 or 6 */
  weir_u8 addr_bits;  /* leading address bits in the key: 0..32 or 0..128 */
  weir_u8 with_port;  /* 1: the key also holds the port on the address's side of the packet */
  weir_u8 layout;     /* enum weir_layout of its filter */
  weir_u8 directions; /* mask of enum weir_direction: the sides on which some rule here has lists */
  weir_u8 k;          /* bits of a key in the filter: line8 8, page2 8..14 (even), page7 7, ribbon 8, bitmap 1 */
  weir_u8 flow; /* 1: a flow shape, of both addresses: addr_bits of the source, destination_bits of the destination */
  weir_u8 destination_bits; /* flow: 0..32 or 0..128 */
  weir_u8 flow_fields;      /* flow: mask of enum weir_flow_field */
  weir_u8 gate_side;        /* flow: at which side's gate it stands, enum weir_side; others: 0, at that of each side */
  weir_u8 reserved[6];
  weir_u64 n_keys;            /* hashed: keys; bitmap: bits set */
  weir_u32 filter_lines;      /* hashed: lines of the filter, layouts of pages a multiple of 64; bitmap: 2^24 / 512 */
  weir_u32 exact_buckets;     /* hashed: buckets, whole pages of them; bitmap: 0 */
  struct weir_section filter; /* filter_lines * 64 bytes; bitmap: 2 MiB */
  struct weir_section exact;  /* hashed: buckets; bitmap: weir_u32 chunk_of[65536], indexed by address >> 16 */
  struct weir_section chunks; /* bitmap: weir_u32 rule[256] per chunk, indexed by (address >> 8) & 255; hashed: empty.
                                 Chunk 0 is all zero. */
};

/* Exact buckets: one cache line each (flow keys: four); bucket = hi32(hash) * exact_buckets >> 32, the same order as
 * the filter's lines. A key that finds its bucket full goes to the next one of the same page (cyclic), and its bit (1
 * << (lo32(hash) >> 27)) is set in `overflow` of every full bucket that it passed: a lookup stops at the first bucket
 * without that bit. */
#define WEIR_SLOTS_V4 7u
struct weir_bucket_v4 { /* v4 without port: word 0 of the key, low half */
  weir_u32 key[WEIR_SLOTS_V4];
  weir_u32 rule[WEIR_SLOTS_V4];
  weir_u32 overflow;
  weir_u32 reserved;
};
#define WEIR_SLOTS_V4_PORT 5u
struct weir_bucket_v4_port {
  weir_u64 key[WEIR_SLOTS_V4_PORT];
  weir_u32 rule[WEIR_SLOTS_V4_PORT];
  weir_u32 overflow;
};
#define WEIR_SLOTS_V6 3u
struct weir_bucket_v6 { /* two words: v6 without port, v4 flow */
  weir_u64 key[WEIR_SLOTS_V6][2];
  weir_u32 rule[WEIR_SLOTS_V6];
  weir_u32 overflow;
};
#define WEIR_SLOTS_V6_PORT 2u
struct weir_bucket_v6_port {
  weir_u64 key[WEIR_SLOTS_V6_PORT][3];
  weir_u32 rule[WEIR_SLOTS_V6_PORT];
  weir_u32 overflow;
  weir_u32 reserved;
};
#define WEIR_SLOTS_FLOW 5u
struct weir_bucket_flow { /* v6 flow: five words, 40 bytes */
  weir_u64 key[WEIR_SLOTS_FLOW][5];
  weir_u32 rule[WEIR_SLOTS_FLOW];
  weir_u32 overflow;
  weir_u32 reserved[8];
};

struct weir_snapshot_header {
  weir_u64 magic;
  weir_u32 version;
  weir_u32 header_bytes; /* sizeof(struct weir_snapshot_header) */
  weir_u64 total_bytes;
  weir_u64 epoch; /* generation */
  weir_u64 number;
  weir_u64 built_unix_s;
  weir_u64 secret[2];      /* SipHash key: k0, k1; an overlay has its base's */
  weir_u64 base_number;    /* overlay: of its base's generation, of the same epoch; others: 0 */
  weir_u64 base_digest[2]; /* overlay: XXH3-128 (low, high) of its base's bytes; others: 0 */
  weir_u8 default_action;  /* enum weir_action: packets that no list matches */
  weir_u8 unparsed_action; /* enum weir_action: malformed frames */
  weir_u8 tunnels;         /* mask of enum weir_tunnel: inner layers are judged too */
  weir_u8 reserved[5];
  weir_u32 n_lists;
  weir_u32 n_shapes;
  weir_u32 n_sets;      /* set 0 included */
  weir_u32 n_rules;     /* rule 0 included */
  weir_u32 n_residuals; /* residual 0 included */
  weir_u32 reserved1;
  weir_u64 pass_lists[WEIR_LIST_WORDS];    /* bits of the pass lists */
  weir_u64 drop_lists[WEIR_LIST_WORDS];    /* drop lists that are enforced */
  weir_u64 monitor_lists[WEIR_LIST_WORDS]; /* drop lists that are monitored */
  struct weir_section lists;
  struct weir_section sets;
  struct weir_section rules;
  struct weir_section residuals;
  struct weir_gate gates[WEIR_GATES];        /* of the data plane */
  struct weir_gate xdp_gates[WEIR_GATES];    /* of XDP; closed where that of the data plane is */
  struct weir_shape shapes[WEIR_MAX_SHAPES]; /* the first n_shapes: IPv4 ones first */
};

#ifdef __cplusplus
#define WEIR_FORMAT_ASSERT static_assert
#else
#define WEIR_FORMAT_ASSERT _Static_assert
#endif
WEIR_FORMAT_ASSERT(sizeof(struct weir_section) == 16, "format");
WEIR_FORMAT_ASSERT(sizeof(struct weir_list) == 80, "format");
WEIR_FORMAT_ASSERT(sizeof(struct weir_set) == 32, "format");
WEIR_FORMAT_ASSERT(sizeof(struct weir_rule) == 16, "format");
WEIR_FORMAT_ASSERT(sizeof(struct weir_residual) == 128, "format");
#define WEIR_FIELD_BYTES(name, NAME, kind, needs, member, order) +sizeof(weir_##kind)
WEIR_FORMAT_ASSERT(sizeof(struct weir_residual) ==
                       8 + 9 * 8 WEIR_FIELDS(WEIR_FIELD_BYTES) + sizeof(((struct weir_residual*)0)->reserved),
                   "no padding: move the row, or take the bytes from `reserved`");
#undef WEIR_FIELD_BYTES
WEIR_FORMAT_ASSERT(sizeof(struct weir_shape) == 80, "format");
WEIR_FORMAT_ASSERT(sizeof(struct weir_bucket_v4) == WEIR_LINE_BYTES, "one cache line");
WEIR_FORMAT_ASSERT(sizeof(struct weir_bucket_v4_port) == WEIR_LINE_BYTES, "one cache line");
WEIR_FORMAT_ASSERT(sizeof(struct weir_bucket_v6) == WEIR_LINE_BYTES, "one cache line");
WEIR_FORMAT_ASSERT(sizeof(struct weir_bucket_v6_port) == WEIR_LINE_BYTES, "one cache line");
WEIR_FORMAT_ASSERT(sizeof(struct weir_bucket_flow) == 4 * WEIR_LINE_BYTES, "four cache lines");
WEIR_FORMAT_ASSERT(sizeof(struct weir_gate_table) == 32, "format");
WEIR_FORMAT_ASSERT(sizeof(struct weir_gate) == 16 + 32 * WEIR_MAX_GATE_TABLES, "format");
WEIR_FORMAT_ASSERT(sizeof(struct weir_snapshot_header) ==
                       96 + 24 + 96 + 64 + 2 * 80 * WEIR_GATES + 80 * WEIR_MAX_SHAPES,
                   "format");

#endif
