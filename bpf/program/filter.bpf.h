/* The filter: what becomes of one frame. Programs of other choices include it (weir.bpf.c, combined.bpf.c). */
#ifndef WEIR_BPF_FILTER_H
#define WEIR_BPF_FILTER_H

#include "bpf/program/sample.bpf.h"

/* 1: frames may lie in several buffers (jumbo frames). Known when the program is loaded: asking costs a call. */
const volatile weir_u32 multi_buffer = 1;

/* What no list matches. enum weir_reason. */
static __always_inline weir_u32 default_reason(const struct weir_group* group) {
  return group->default_action == WEIR_DROP ? WEIR_DEFAULT_DROPPED : WEIR_DEFAULT_PASSED;
}

/* A frame that its first bytes do not decide. frame->sides: as these say. enum weir_reason. */
static __always_inline weir_u32 judge_frame(struct xdp_md* ctx, struct weir_group* group, struct weir_totals* totals,
                                            struct weir_frame* frame) {
  if (!read_plain(ctx, frame)) {
    const int outcome = weir_read_ethernet(ctx, 0, frame->length, frame);
    if (outcome == NOT_IP) return WEIR_NOT_IP;
    if (outcome != IP) {
      return group->unparsed_action == WEIR_DROP ? WEIR_MALFORMED_DROPPED : WEIR_MALFORMED_PASSED;
    }
    if (frame->packet.has & WEIR_INCOMPLETE) frame->incomplete = 1;
  }
  if (group->tunnels != 0) {
    const weir_u32 tunnel = tunnel_of(&frame->packet, group->tunnels);
    if (tunnel != 0) return weir_judge_layers(ctx, frame, tunnel);
  }
  if (frame->sides == WEIR_SIDES_UNKNOWN) weir_ask_gates(frame);
  if ((frame->sides | frame->overlay_sides) == WEIR_NO_SIDE) return default_reason(group);
  watch_gates(totals);
  if (frame->overlay_sides != WEIR_NO_SIDE && weir_match_overlay(frame)) {
    /* the overlay, and what it leaves of the base */
  } else if (frame->packet.family == 4) {
    match_v4(frame, group, totals);
  } else {
    match_v6(frame, group, totals);
  }
  if (!frame->hit) return default_reason(group);
  const weir_u32 only = only_list(&frame->matched);
  return only == NO_LIST ? weir_judge(frame) : judge_only(group, only, frame->length);
}

/* Most frames never get here: what they do not need is not set before. */
static __always_inline void begin(struct weir_frame* frame, weir_u32 sampling) {
  __builtin_memset(&frame->packet, 0, sizeof frame->packet);
  __builtin_memset(&frame->matched, 0, sizeof frame->matched);
  frame->at = frame->end = 0;
  frame->hit = frame->incomplete = 0;
  frame->samples |= (weir_u8)(sampling << 4);
}

/* XDP_DROP or XDP_PASS. In: frame->samples, what is sampled besides what user space wants; takes_samples: that is taken
 * here. Out: frame->samples, and unless it is 0, the frame and why: enum weir_reason. */
static __always_inline int filter_frame(struct xdp_md* ctx, int takes_samples, struct weir_frame* frame,
                                        weir_u32* why) {
  const weir_u32 zero = 0;
  struct weir_state* state = bpf_map_lookup_elem(&weir_state, &zero);
  struct weir_totals* totals = bpf_map_lookup_elem(&weir_totals, &zero);
  if (!state || !totals) {
    frame->samples = 0;
    return XDP_PASS;
  }
  frame->length = multi_buffer ? (weir_u32)bpf_xdp_get_buff_len(ctx) : (weir_u32)(ctx->data_end - ctx->data);
  const weir_u32 active = *(const volatile weir_u32*)&state->active; /* once: all that follows is of this generation */
  frame->group = (weir_u8)weir_active_base(active);
  frame->overlay = (weir_u8)weir_active_overlay(active);
  weir_u64 reason;
  if (state->bypass) {
    reason = WEIR_BYPASSED;
    frame->samples = 0;
  } else if (frame->group < WEIR_BASES) {
    struct weir_group* group = &state->group[frame->group];
    IN_REGISTER(group);
    frame->sides = totals->around_gates ? WEIR_BOTH_SIDES : (weir_u8)sides_of_frame(ctx, frame->group, group);
    frame->overlay_sides = WEIR_NO_SIDE;
    if (frame->overlay != WEIR_NO_OVERLAY) frame->overlay_sides = (weir_u8)weir_overlay_sides(ctx, frame->overlay);
    const int is_undecided = (frame->sides | frame->overlay_sides) != WEIR_NO_SIDE;
    if (!is_undecided && (state->sampling | frame->samples) == 0) { /* most frames end here */
      const weir_u32 dropped = group->default_action == WEIR_DROP;
      add(dropped ? &totals->reason[WEIR_DEFAULT_DROPPED] : &totals->reason[WEIR_DEFAULT_PASSED], frame->length);
      return dropped ? XDP_DROP : XDP_PASS;
    }
    begin(frame, state->sampling);
    reason = is_undecided ? judge_frame(ctx, group, totals, frame) : default_reason(group);
    if (frame->incomplete) totals->incomplete++;
  } else {
    frame->sides = frame->overlay_sides = WEIR_NO_SIDE;
    frame->samples = 0;
    begin(frame, state->sampling & WEIR_SAMPLES_DROPS); /* nothing judges it */
    reason = state->drop_without_snapshot ? WEIR_NO_SNAPSHOT_DROPPED : WEIR_NO_SNAPSHOT_PASSED;
  }
  IN_REGISTER(reason); /* the verifier knows less of what functions return than the compiler */
  if (reason < WEIR_REASONS) add(&totals->reason[reason], frame->length);
  if (takes_samples && frame->samples != 0) weir_sample(ctx, frame, (weir_u32)reason);
  *why = (weir_u32)reason;
  return drops((weir_u32)reason) ? XDP_DROP : XDP_PASS;
}

/* XDP_DROP or XDP_PASS. */
static __always_inline int filter(struct xdp_md* ctx) {
  struct weir_frame frame;
  weir_u32 reason = 0;
  frame.samples = 0;
  return filter_frame(ctx, 1, &frame, &reason);
}

#endif
