/* What becomes of a frame, and what is counted for it (docs/operate/dataplane.md, "Verdict" and "Counters"). */
#ifndef WEIR_BPF_VERDICT_H
#define WEIR_BPF_VERDICT_H

#include "bpf/program/match.bpf.h"
#include "bpf/program/tunnel.bpf.h"

/* 0: what lists decide is not counted for them. */
#ifndef WEIR_TALLIES_LISTS
#define WEIR_TALLIES_LISTS 1
#endif

#define NO_LIST WEIR_MAX_LISTS
#define SEVERAL_LISTS (WEIR_MAX_LISTS + 1)

/* The packets of a frame in tunnels, outer one first: for its sample. */
struct weir_layers {
  struct weir_packet packet[WEIR_MAX_LAYERS];
  /* Which of them decides, from 1: the one that drops, else the first one that a pass list has; where none does, what
   * stood here before. */
  weir_u32 credited;
  weir_u32 list; /* by which list; NO_LIST: by default */
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct weir_layers);
} weir_layers SEC(".maps");

struct weir_verdict {
  struct weir_set matched, would_drop; /* in some layer */
  weir_u32 list;                       /* credited; NO_LIST: the default decided */
  weir_u32 passed_by;                  /* of the outermost layer that has a pass list; NO_LIST: none has */
  weir_u32 dropped_by;                 /* the only one that drops, in some layer; NO_LIST; SEVERAL_LISTS */
  weir_u32 length;
  weir_u8 dropped;
  weir_u8 group;
  weir_u8 keeps; /* not 0: frames are sampled, and this one may have several layers */
  weir_u8 layer; /* from 0 */
};

static __always_inline int drops(weir_u32 reason) {
  return reason == WEIR_DEFAULT_DROPPED || reason == WEIR_LIST_DROPPED || reason == WEIR_MALFORMED_DROPPED ||
         reason == WEIR_NO_SNAPSHOT_DROPPED;
}

static __always_inline weir_u32 lowest_bit(weir_u64 bits) {
  return (weir_u32)__builtin_popcountll((bits & -bits) - 1);
}

/* The first list of both sets. */
static __always_inline weir_u32 first_of(const struct weir_set* matched, const weir_u64* lists) {
  for (weir_u32 w = 0; w < WEIR_LIST_WORDS; w++) {
    const weir_u64 both = matched->lists[w] & lists[w];
    if (both != 0) return w * 64 + lowest_bit(both);
  }
  return NO_LIST;
}

/* The only list of both sets; NO_LIST: there is none; SEVERAL_LISTS. */
static __always_inline weir_u32 one_of(const struct weir_set* matched, const weir_u64* lists) {
  weir_u32 one = NO_LIST;
  for (weir_u32 w = 0; w < WEIR_LIST_WORDS; w++) {
    const weir_u64 both = matched->lists[w] & lists[w];
    if (both == 0) continue;
    one = one != NO_LIST || (both & (both - 1)) != 0 ? SEVERAL_LISTS : w * 64 + lowest_bit(both);
  }
  return one;
}

static __always_inline void add(struct weir_tally* tally, weir_u32 length) {
  tally->packets++;
  tally->bytes += length;
}

/* Counts the frame for one list. */
static __always_inline void tally_list(const struct weir_group* group, const struct weir_verdict* verdict,
                                       weir_u32 list, int would_drop) {
  weir_u64 at = list;
  IN_REGISTER(at); /* a compiler that knows the bound does not ask, and Linux 6.1 does not know it */
  const weir_u32 slot = group->slot_of[at & (WEIR_MAX_LISTS - 1)];
  struct weir_list_tally* tally = bpf_map_lookup_elem(&weir_lists, &slot);
  if (!tally) return;
  add(&tally->matched, verdict->length);
  if (would_drop) {
    add(&tally->would_drop, verdict->length);
    if (verdict->dropped_by == NO_LIST) add(&tally->would_drop_alone, verdict->length);
  }
  if (list == verdict->list) {
    add(verdict->dropped ? &tally->dropped : &tally->passed, verdict->length);
    if (list == verdict->dropped_by) add(&tally->dropped_alone, verdict->length);
  }
}

/* Counts the frame for every list that matches. */
__noinline int weir_tally_lists(struct weir_verdict* verdict) {
  if (!verdict) return 0;
  const struct weir_group* group = group_of(verdict->group);
  if (!group) return 0;
  for (weir_u32 w = 0; w < WEIR_LIST_WORDS; w++) {
    weir_u64 left = verdict->matched.lists[w];
    const weir_u64 would_drop = verdict->would_drop.lists[w];
    for (weir_u32 i = 0; i < 64 && left != 0; i++) {
      const weir_u32 b = lowest_bit(left);
      tally_list(group, verdict, w * 64 + b, would_drop >> (b & 63) & 1);
      left &= left - 1;
    }
  }
  return 0;
}

static __always_inline void begin_verdict(const struct weir_frame* frame, struct weir_verdict* verdict) {
  verdict->list = verdict->passed_by = verdict->dropped_by = NO_LIST;
  verdict->length = frame->length;
  verdict->group = frame->group;
}

static __always_inline weir_u32 reason_of(const struct weir_verdict* verdict) {
  if (verdict->list == NO_LIST) return verdict->dropped ? WEIR_DEFAULT_DROPPED : WEIR_DEFAULT_PASSED;
  return verdict->dropped ? WEIR_LIST_DROPPED : WEIR_LIST_PASSED;
}

__noinline int weir_keep_layer(struct weir_frame* frame, weir_u32 layer) {
  const weir_u32 zero = 0;
  struct weir_layers* layers = bpf_map_lookup_elem(&weir_layers, &zero);
  weir_u64 at = layer;
  IN_REGISTER(at);
  if (!frame || !layers || at >= WEIR_MAX_LAYERS) return 0;
  layers->packet[at] = frame->packet;
  frame->samples = (frame->samples & 0xf0) | (weir_u8)(at + 1);
  return 0;
}

/* The layer that was kept last decides. */
__noinline int weir_keep_credit(struct weir_frame* frame, weir_u32 list) {
  const weir_u32 zero = 0;
  struct weir_layers* layers = bpf_map_lookup_elem(&weir_layers, &zero);
  if (!frame || !layers) return 0;
  layers->credited = kept_layers(frame);
  layers->list = list;
  return 0;
}

/* Steps 3 to 5 for one layer. The outermost layer that drops is credited. */
__noinline int weir_judge_layer(struct weir_frame* frame, struct weir_verdict* verdict) {
  if (!frame || !verdict) return 0;
  const struct weir_group* group = group_of(frame->group);
  if (!group) return 0;
  if (verdict->keeps) weir_keep_layer(frame, verdict->layer);
  for (weir_u32 w = 0; w < WEIR_LIST_WORDS; w++) verdict->matched.lists[w] |= frame->matched.lists[w];
  const weir_u32 passed_by = first_of(&frame->matched, group->pass_lists);
  if (passed_by != NO_LIST) {
    if (verdict->passed_by == NO_LIST) {
      verdict->passed_by = passed_by;
      if (verdict->keeps && !verdict->dropped) weir_keep_credit(frame, passed_by);
    }
    return 0;
  }
  for (weir_u32 w = 0; w < WEIR_LIST_WORDS; w++) {
    verdict->would_drop.lists[w] |= frame->matched.lists[w] & group->monitor_lists[w];
  }
  const weir_u32 dropped_by = first_of(&frame->matched, group->drop_lists);
  const weir_u32 one = one_of(&frame->matched, group->drop_lists);
  if (verdict->dropped_by == NO_LIST) {
    verdict->dropped_by = one;
  } else if (one != NO_LIST && one != verdict->dropped_by) {
    verdict->dropped_by = SEVERAL_LISTS;
  }
  if (!verdict->dropped && (dropped_by != NO_LIST || group->default_action == WEIR_DROP)) {
    verdict->dropped = 1;
    verdict->list = dropped_by;
    if (verdict->keeps) weir_keep_credit(frame, dropped_by);
  }
  return 0;
}

/* Counts for the lists. enum weir_reason. */
static __always_inline weir_u32 end_verdict(struct weir_verdict* verdict) {
  if (!verdict->dropped) verdict->list = verdict->passed_by;
  if (WEIR_TALLIES_LISTS) weir_tally_lists(verdict);
  return reason_of(verdict);
}

/* A frame of one layer that was matched. enum weir_reason. */
__noinline weir_u32 weir_judge(struct weir_frame* frame) {
  if (!frame) return WEIR_DEFAULT_PASSED;
  struct weir_verdict verdict = {};
  begin_verdict(frame, &verdict);
  weir_judge_layer(frame, &verdict);
  return end_verdict(&verdict);
}

/* The only list that matches, which is what nearly every hit is: told without a loop, and counted without a call. More
 * than one, or one past the first 64: NO_LIST. */
static __always_inline weir_u32 only_list(const struct weir_set* matched) {
  const weir_u64 first = matched->lists[0];
  const weir_u64 others = matched->lists[1] | matched->lists[2] | matched->lists[3];
  return (first & (first - 1)) | others ? NO_LIST : lowest_bit(first);
}

/* weir_judge() when only this list matches. */
static __always_inline weir_u32 judge_only(const struct weir_group* group, weir_u32 list, weir_u32 length) {
  const weir_u64 bit = 1ull << (list & 63);
  const int monitored = (group->monitor_lists[0] & bit) != 0;
  const int dropped = (group->drop_lists[0] & bit) != 0;
  const weir_u32 slot = group->slot_of[list & 63];
  struct weir_list_tally* tally = WEIR_TALLIES_LISTS ? bpf_map_lookup_elem(&weir_lists, &slot) : 0;
  if (tally) {
    add(&tally->matched, length);
    add(monitored ? &tally->would_drop : dropped ? &tally->dropped : &tally->passed, length);
    if (monitored || dropped) add(monitored ? &tally->would_drop_alone : &tally->dropped_alone, length);
  }
  if (monitored) return group->default_action == WEIR_DROP ? WEIR_DEFAULT_DROPPED : WEIR_DEFAULT_PASSED;
  return dropped ? WEIR_LIST_DROPPED : WEIR_LIST_PASSED;
}

/* In the loop below its jumps would make an order of blocks in which the loop is entered in its middle: Linux 6.1 takes
 * no way back that is not a jump. */
__noinline weir_u32 weir_inner_tunnel(struct weir_frame* frame, weir_u32 tunnels) {
  return frame ? tunnel_of(&frame->packet, tunnels) : 0;
}

/* A frame with inner layers: each is a packet of its own, the frame drops when one of them does. Counts once per frame
 * and list. tunnel: of the outer packet, which is parsed. enum weir_reason. */
__noinline weir_u32 weir_judge_layers(struct xdp_md* ctx, struct weir_frame* frame, weir_u32 tunnel) {
  if (!frame) return WEIR_DEFAULT_PASSED;
  const struct weir_group* group = group_of(frame->group);
  if (!group) return WEIR_DEFAULT_PASSED;
  const weir_u32 tunnels = group->tunnels;
  struct weir_verdict verdict = {};
  begin_verdict(frame, &verdict);
  verdict.keeps = frame->samples >> 4;
  _Pragma("nounroll") for (weir_u32 layer = 0; layer < WEIR_MAX_LAYERS; layer++) {
    match_layer(frame);
    verdict.layer = (weir_u8)layer;
    weir_judge_layer(frame, &verdict);
    if (layer + 1 == WEIR_MAX_LAYERS || tunnel == 0 || !weir_enter(ctx, tunnel, frame)) break;
    tunnel = weir_inner_tunnel(frame, tunnels);
  }
  return end_verdict(&verdict);
}

#endif
