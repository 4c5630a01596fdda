/* What the steering programs and their user space share: the maps' values (docs/operate/steering.md). C subset, shared
 * by inclusion (C++, BPF).
 */
#ifndef WEIR_BPF_STEER_H
#define WEIR_BPF_STEER_H

#include "bpf/program/plane.h"

#define WEIR_STEER_VERSION 1u
#define WEIR_MAX_STEER_RULES 64u
#define WEIR_MAX_STEER_QUEUES 1024u /* of an interface: kMaxQueues of dataplane/start/config.h */

enum weir_steer_to { WEIR_TO_KERNEL = 0, WEIR_TO_WORKER = 1 };

enum weir_steer_by { /* a mask */
                     WEIR_STEER_BY_PROTOCOL = 1,
                     WEIR_STEER_BY_SOURCE_PORT = 2,
                     WEIR_STEER_BY_DESTINATION_PORT = 4,
};

/* One predicate on the outer packet of a frame. */
struct weir_steer_rule {
  weir_u64 address[2][2];               /* [side][half] as struct weir_packet has them; 0 where mask is 0 */
  weir_u64 mask[2][2];                  /* of the bits that are compared */
  weir_u16 first_port[2], last_port[2]; /* [side], host order; where asked for */
  weir_u8 family;                       /* 4 or 6; 0: any */
  weir_u8 protocol;                     /* where asked for */
  weir_u8 asks;                         /* mask of enum weir_steer_by */
  weir_u8 to;                           /* enum weir_steer_to */
  weir_u32 reserved;
};

/* What a frame was taken by, beside the rules. */
enum weir_steer_taker {
  WEIR_TAKEN_BY_DEFAULT = WEIR_MAX_STEER_RULES, /* IP, but no rule's */
  WEIR_TAKEN_BY_LINK,                           /* the link's own: not IP, or neighbour or listener discovery */
  WEIR_STEER_TAKERS
};

/* The rules, and what each took: one copy a processor, of which only the counts differ. It is exchanged as a whole,
 * never written while programs read it. */
struct weir_steering {
  weir_u32 version; /* WEIR_STEER_VERSION */
  weir_u32 n_rules;
  weir_u8 default_to, link_to; /* enum weir_steer_to */
  weir_u8 reserved[6];
  weir_u64 since_unix; /* seconds: when it was applied */
  struct weir_steer_rule rule[WEIR_MAX_STEER_RULES];
  struct weir_tally taken[WEIR_STEER_TAKERS];
};

/* What became of a frame; each has one. */
enum weir_steer_end {
  WEIR_STEERED_TO_WORKER,
  WEIR_STEERED_TO_KERNEL,
  WEIR_STEERED_NO_RULES,  /* to the kernel: nothing was applied yet */
  WEIR_STEERED_NO_SOCKET, /* to the kernel: it was the worker's, and none listens on its queue */
  WEIR_STEERED_TOO_LONG,  /* to the kernel: it was the worker's, and lies in several buffers */
  WEIR_STEER_ENDS
};

/* Of one processor, since the map is there. */
struct weir_steer_totals {
  struct weir_tally end[WEIR_STEER_ENDS];
};

WEIR_FORMAT_ASSERT(sizeof(struct weir_steer_rule) == 80, "shared");
WEIR_FORMAT_ASSERT(sizeof(struct weir_steering) == 24 + 80 * WEIR_MAX_STEER_RULES + 16 * WEIR_STEER_TAKERS, "shared");

#endif
