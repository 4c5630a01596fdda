/* What the two programs of a shadow share with each other and with user space: one judges by what runs and hands the
 * frame over, the other by a candidate (bpf/enforce/shadow.h). C subset, shared by inclusion (C++, BPF). */
#ifndef WEIR_BPF_SHADOW_H
#define WEIR_BPF_SHADOW_H

#include "bpf/program/plane.h"

#define WEIR_SHADOW_RING_BYTES (1u << 18) /* of samples that wait to be told */

/* What a verdict is credited to: a list, or behind the lists a reason, enum weir_dropped_by from WEIR_BY_DEFAULT on. Of
 * what runs, lists stand for their slots, which keep their names from one generation to the next. */
#define WEIR_RUNNING_PLACES (WEIR_LIST_SLOTS + 3u)
#define WEIR_CANDIDATE_PLACES WEIR_CREDITS

/* Of one processor, about the frame that it judges. */
struct weir_handed {
  weir_u64 now_unix_s; /* what `expires` is compared with by both programs; 0: only what runs judges the frame */
  weir_u64 time_unix_ns;
  weir_u64 begin_ns;         /* when the frame was handed over, of the clock since boot */
  weir_u64 epoch, number;    /* generation that judged it */
  struct weir_packet packet; /* of the layer that drops, where what runs drops it */
  weir_u32 length;
  weir_u32 place; /* that its verdict is credited to: below WEIR_RUNNING_PLACES */
  weir_u8 dropped;
  weir_u8 layer; /* that is credited; 0: the outer one */
  weir_u8 reserved[6];
};

/* A frame that both judge differently, as it stands in the ring. */
struct weir_shadow_sample {
  weir_u64 time_unix_ns;
  weir_u64 now_unix_s;
  weir_u64 epoch, number;    /* of what runs */
  struct weir_packet packet; /* of the layer that drops, of the one that drops it */
  weir_u32 frame_bytes;      /* without FCS */
  weir_u32 interface, queue;
  weir_u32 running_place, candidate_place;
  weir_u8 running_drops; /* else the candidate does */
  weir_u8 running_layer, candidate_layer;
  weir_u8 reserved;
};

/* Of one processor. */
struct weir_shadow_counts {
  struct weir_tally judged; /* by both */
  weir_u64 nanoseconds;     /* that judging by the candidate took */
  weir_u64 lost;            /* differing frames without a sample: no room */
  struct weir_tally newly_dropped[WEIR_CANDIDATE_PLACES], newly_passed[WEIR_RUNNING_PLACES];
};

#endif
