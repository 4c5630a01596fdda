/* What the XDP program and its user space share: the maps' values. C subset, shared by inclusion (C++, BPF).
 *
 * A snapshot lies in array maps as it is, page by page (the arena), so filter/format/snapshot.h defines its bytes here
 * too. What a packet needs before its first lookup stands in a group: two are for snapshots of whole policies, the
 * bases, two for overlays. One word, weir_state.active, names those that enforce (docs/operate/xdp.md).
 */
#ifndef WEIR_BPF_PLANE_H
#define WEIR_BPF_PLANE_H

#include "filter/format/frame_rules.h"
#include "filter/format/packet.h"
#include "filter/format/snapshot.h"

/* Of the values below and of what the program makes of them. Pins of another version are not adopted. */
#define WEIR_XDP_VERSION 7u

#define WEIR_BASES 2u /* groups 0 and 1: of bases */
#define WEIR_GROUPS 4u
#define WEIR_NO_GROUP 4u      /* instead of a base's group: no snapshot yet */
#define WEIR_NO_OVERLAY 0u    /* instead of an overlay's group */
#define WEIR_UNKNOWN_KIND 2u  /* weir_state.multi_buffer: which program is pinned is not known */
#define WEIR_MAX_LOOKUPS 32u  /* of a family: 16 shapes from two sides */
#define WEIR_LIST_SLOTS 1024u /* lists whose counts are kept: those of two bases, and former ones */
/* An arena's pages lie in chunks, maps of one size: the verifier turns a lookup in a map whose size it knows into a few
 * instructions, and any other into a call. 16 GiB a group. */
#define WEIR_CHUNK_PAGES 1024u
#define WEIR_CHUNKS 4096u
#define WEIR_SAMPLE_BYTES 512u            /* of a sampled frame, at most */
#define WEIR_SAMPLE_RING_BYTES (1u << 20) /* of samples that wait to be told: of drops, and as many of traffic */
#define WEIR_PAGE_BITS (WEIR_PAGE_BYTES * 8u)
#define WEIR_PAGE_WORDS (WEIR_PAGE_BYTES / 8u)
#define WEIR_SHORT_RULES 128u
/* Lookups that are counted: of a base's IPv4, of its IPv6, and the same of an overlay, WEIR_MAX_LOOKUPS each. */
#define WEIR_PROBES 128u
#define WEIR_SAMPLED_KEYS 1024u /* the newest, of a processor */
#define WEIR_SAMPLE_ONE_IN 8u   /* keys that a lookup's filter is asked for, on the average */
#define WEIR_SAMPLED_HASH_SHIFT 9u

/* weir_state.active: a base's group, and in the byte above that of the overlay which stands on it. */
static inline weir_u32 weir_active(weir_u32 base, weir_u32 overlay) {
  return base | overlay << 8;
}
static inline weir_u32 weir_active_base(weir_u32 active) {
  return active & 0xff;
}
static inline weir_u32 weir_active_overlay(weir_u32 active) {
  return active >> 8;
}

/* A gate of the snapshot (filter/format/gate.h), and where its tables lie in the arena. */
struct weir_asked_table {
  weir_u32 page;
  weir_u32 n_words;    /* 0: direct */
  weir_u8 prefix_bits; /* 1..64 */
  weir_u8 reserved[7];
};
struct weir_asked_gate {
  weir_u8 n_tables;
  weir_u8 is_open; /* without a table: 1 lets everything through, 0 nothing */
  weir_u8 reserved[6];
  weir_u64 multiplier;
  struct weir_asked_table table[WEIR_MAX_GATE_TABLES];
};

/* One pass over one table: the keys of one shape, taken from one side. */
struct weir_lookup {
  weir_u8 layout;  /* enum weir_layout */
  weir_u8 n_words; /* of the key */
  weir_u8 side;    /* enum weir_side; flow shapes: source */
  weir_u8 flow;    /* 1: of both addresses */
  weir_u8 needs_ports;
  weir_u8 with_port; /* the address's port is in the key */
  weir_u8 k;         /* of the filter */
  weir_u8 behind;    /* the side at whose gate it stands, as a mask: 1 << enum weir_side */
  weir_u32 filter_lines;
  weir_u32 exact_buckets;
  weir_u32 filter_page; /* of the arena: where the section begins */
  weir_u32 exact_page;
  weir_u32 chunks_page;
  weir_u32 replaces; /* overlay: the base's lookup for the same keys from the same side, as a mask: 1 << its index */
  weir_u32 probe;    /* where it counts: weir_totals.probe */
  weir_u32 shape;    /* its number in the snapshot's header */
  weir_u64 mask[WEIR_MAX_KEY_WORDS]; /* of the packet's bits: those in the key */
};

/* What of a snapshot every packet needs; most need no more than what stands first. Written while it is idle. */
struct weir_group {
  weir_u8 default_action, unparsed_action; /* enum weir_action */
  weir_u8 tunnels;                         /* mask of enum weir_tunnel */
  weir_u8 reserved[5];
  struct weir_asked_gate gate[WEIR_GATES]; /* in the order of weir_gate_number() */
  weir_u64 epoch, number;                  /* generation */
  weir_u64 secret[2];
  weir_u64 pass_lists[WEIR_LIST_WORDS], drop_lists[WEIR_LIST_WORDS], monitor_lists[WEIR_LIST_WORDS];
  weir_u32 sets_page, rules_page, residuals_page; /* of the arena */
  weir_u32 n_v4, n_v6;                            /* lookups */
  weir_u32 n_lists;
  weir_u64 snapshot_bytes;
  weir_u64 digest[2];
  weir_u64 n_keys; /* overlay: all of them */
  weir_u64 reserved1[8];
  weir_u16 slot_of[WEIR_MAX_LISTS]; /* where a list counts; of overlays nobody asks */
  /* By side, what a rule says, where it has no chain and only lists of the first 64: saves the way to rule and set. 0:
   * ask the rule. */
  weir_u64 lists_of_rule[2][WEIR_SHORT_RULES];
  struct weir_lookup v4[WEIR_MAX_LOOKUPS], v6[WEIR_MAX_LOOKUPS];
};

/* The one word and what else user space tells a program that runs. */
struct weir_state {
  weir_u32 version; /* WEIR_XDP_VERSION */
  weir_u32 active;  /* the groups that enforce, read once a packet: weir_active() */
  weir_u32 bypass;  /* 1: everything passes */
  weir_u32 drop_without_snapshot;
  weir_u64 clock_offset_ns; /* wall clock minus the clock since boot */
  weir_u64 fixed_now_s;     /* replays: the time that `expires` is compared with; 0: the wall clock */
  weir_u64 start_time_unix; /* seconds: since when it counts */
  weir_u32 multi_buffer;    /* 1: the pinned program takes frames that lie in several buffers; WEIR_UNKNOWN_KIND */
  weir_u32 sampling;        /* mask of enum weir_sampling, read once a packet: which frames are sampled */
  /* One in so many dropped frames is a sample; of each list, and on each processor, so many a second at most. */
  weir_u32 drops_one_in, drops_per_second;
  weir_u32 snap_bytes;     /* of a sampled frame that are kept; at most WEIR_SAMPLE_BYTES */
  weir_u32 traffic_one_in; /* one in so many frames that a snapshot judges is a sample of traffic */
  /* Of no concern to programs: samples that somebody was given. */
  weir_u64 drops_told, traffic_told;
  weir_u64 reserved[6];
  struct weir_group group[WEIR_GROUPS];
};

/* What an overlay has to have in common with its base. */
struct weir_base {
  struct weir_snapshot_header header;
  struct weir_list lists[WEIR_MAX_LISTS];
};

/* Why a frame passed or was dropped; each frame has one. */
enum weir_reason {
  WEIR_DEFAULT_PASSED,
  WEIR_DEFAULT_DROPPED,
  WEIR_LIST_PASSED,
  WEIR_LIST_DROPPED,
  WEIR_NOT_IP,
  WEIR_MALFORMED_PASSED,
  WEIR_MALFORMED_DROPPED,
  WEIR_BYPASSED,
  WEIR_NO_SNAPSHOT_PASSED,
  WEIR_NO_SNAPSHOT_DROPPED,
  WEIR_REASONS
};

/* A mask. The last one is for programs alone: a candidate judges the frame, too. */
enum weir_sampling { WEIR_SAMPLES_DROPS = 1, WEIR_SAMPLES_TRAFFIC = 2, WEIR_SAMPLES_SHADOW = 4 };

/* Why a sampled frame was dropped; as wire::DroppedBy. */
enum weir_dropped_by { WEIR_BY_LIST, WEIR_BY_DEFAULT, WEIR_BY_UNPARSED, WEIR_BY_NO_SNAPSHOT };
#define WEIR_CREDITS (WEIR_MAX_LISTS + 3u) /* lists, and the reasons that are no list */

/* A dropped frame, as it stands in the ring; its bytes end where they end. */
struct weir_sample {
  weir_u64 epoch, number; /* generation; 0: none */
  weir_u64 time_unix_ns;
  weir_u64 now_unix_s; /* what `expires` was compared with */
  struct weir_packet packet;
  char list[WEIR_LIST_NAME_BYTES];
  weir_u32 interface, queue; /* where it came in: the interface's index */
  weir_u32 frame_bytes;      /* without FCS */
  weir_u32 captured_bytes;
  weir_u32 one_in;      /* dropped frames that it stands for */
  weir_u8 dropped_by;   /* enum weir_dropped_by */
  weir_u8 layer;        /* 0: the outer one */
  weir_u8 reserved[10]; /* to a multiple of 8 */
  weir_u8 bytes[WEIR_SAMPLE_BYTES + 8];
};

/* A frame that was judged, passed or dropped, as it stands in the ring; it ends behind its packets. As
 * wire::TrafficSample. */
enum weir_frame_kind { WEIR_KIND_PACKETS, WEIR_KIND_NOT_IP, WEIR_KIND_MALFORMED };
struct weir_traffic {
  weir_u64 time_unix_ns;
  weir_u32 weight; /* frames that it stands for */
  weir_u32 frame_bytes;
  weir_u8 kind; /* enum weir_frame_kind */
  weir_u8 dropped;
  weir_u8 layers;
  weir_u8 reserved[5];
  struct weir_packet packet[WEIR_MAX_LAYERS]; /* of them, outer one first */
};

/* Of one processor: one of every `run` frames in a row is chosen, at a random place. */
struct weir_stratum {
  weir_u32 run;   /* as it was when the run began */
  weir_u32 place; /* of the run's sample in it */
  weir_u64 skip;  /* frames before the next sample */
  /* Counts; `sampled` is raised first, and read last. */
  weir_u64 limited, lost, sampled;
};

/* Of one processor and one credit: samples of a second. */
struct weir_second {
  weir_u64 number, samples;
};

struct weir_tally {
  weir_u64 packets, bytes; /* bytes: frame length without FCS */
};

/* What one lookup asked of its filter, and how often it found something. */
struct weir_probe {
  weir_u64 asked;       /* keys */
  weir_u64 let_through; /* of these */
  weir_u64 found;       /* of these: in the exact stage */
  weir_u32 hit_rate;    /* of late: 65536 for 1. No count, but whether to ask the filter */
  weir_u32 reserved;
};

/* Of one processor. */
struct weir_totals {
  struct weir_tally reason[WEIR_REASONS];
  weir_u64 incomplete;
  /* No counts, but whether it pays to ask the gates (gate.bpf.h). */
  weir_u32 around_gates; /* 1: they are not asked */
  weir_u32 let_through;  /* packets that came to lookups */
  weir_u64 judged_before, listed_before;
  weir_u64 n_sampled; /* keys, in all: the next is sampled[n_sampled % WEIR_SAMPLED_KEYS] */
  struct weir_probe probe[WEIR_PROBES];
  /* Of keys: hash << WEIR_SAMPLED_HASH_SHIFT | number of the probe << 2 | was found << 1 | was let through. */
  weir_u64 sampled[WEIR_SAMPLED_KEYS];
  struct weir_stratum drops, traffic; /* that are sampled */
  weir_u64 chosen; /* which samples are of the frame that is judged now: a mask of enum weir_sampling */
};

/* Of one processor and one list. */
struct weir_list_tally {
  struct weir_tally matched, dropped, passed, would_drop;
  /* Of dropped, of would_drop: no other enforced drop list decides so. */
  struct weir_tally dropped_alone, would_drop_alone;
};

/* Whose counts a slot holds. */
struct weir_list_name {
  char name[WEIR_LIST_NAME_BYTES]; /* empty: free */
  weir_u64 used;                   /* number of the newest generation that has the list */
};

WEIR_FORMAT_ASSERT(sizeof(struct weir_sample) == 176 + WEIR_SAMPLE_BYTES + 8, "shared");
WEIR_FORMAT_ASSERT(sizeof(struct weir_traffic) == 24 + WEIR_MAX_LAYERS * sizeof(struct weir_packet), "shared");
WEIR_FORMAT_ASSERT(sizeof(struct weir_lookup) == 80, "shared");
WEIR_FORMAT_ASSERT(sizeof(struct weir_state) == 128 + WEIR_GROUPS * sizeof(struct weir_group), "shared");
WEIR_FORMAT_ASSERT(sizeof(struct weir_group) ==
                       448 + 2 * WEIR_MAX_LISTS + 16 * WEIR_SHORT_RULES + 2 * 80 * WEIR_MAX_LOOKUPS,
                   "shared");
WEIR_FORMAT_ASSERT(sizeof(struct weir_group) % WEIR_LINE_BYTES == 0, "what stands first lies in few lines");

#endif
