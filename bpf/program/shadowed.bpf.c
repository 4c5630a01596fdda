/* The filter while a shadow judges beside it: chosen frames go on to the program that judges by the candidate. It is
 * attached instead of weir.bpf.c for as long as the shadow lasts, on the same pinned maps. */
#define WEIR_BESIDE
#include "bpf/program/credit.bpf.h"
#include "bpf/program/filter.bpf.h"

/* Of so many frames one is judged by both; 1: all. Known when the program is loaded. */
const volatile weir_u32 shadow_one_in = 1;

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct weir_stratum);
} weir_chosen SEC(".maps");

/* Where the program stands that judges by the candidate. When nobody holds this map any more, the kernel empties it:
 * then only what runs judges. */
struct {
  __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(__u32));
} weir_next SEC(".maps");

/* Of shadow_one_in frames in a row one, at a random place: traffic with a period cannot fall into step with it. What
 * this returns is a mask of enum weir_sampling. */
__noinline weir_u32 weir_choose_frame(struct xdp_md* ctx) {
  const weir_u32 zero = 0;
  const struct weir_state* state = bpf_map_lookup_elem(&weir_state, &zero);
  struct weir_stratum* stratum = bpf_map_lookup_elem(&weir_chosen, &zero);
  struct weir_handed* handed = handed_frame();
  if (!ctx || !state || !stratum || !handed) return 0;
  handed->now_unix_s = 0;
  if (shadow_one_in != 1 && !is_chosen(stratum, shadow_one_in)) return 0;
  const weir_u64 time_unix_ns = bpf_ktime_get_boot_ns() + state->clock_offset_ns;
  handed->time_unix_ns = time_unix_ns;
  handed->now_unix_s = state->fixed_now_s != 0 ? state->fixed_now_s : time_unix_ns / 1000000000ull;
  return WEIR_SAMPLES_SHADOW;
}

/* What became of a frame, for the program that judges it next. reason: enum weir_reason. */
__noinline int weir_hand_over(struct xdp_md* ctx, struct weir_frame* frame, weir_u32 reason) {
  struct weir_handed* handed = handed_frame();
  if (!ctx || !frame || !handed) return 0;
  handed->begin_ns = bpf_ktime_get_ns();
  handed->length = frame->length;
  handed->dropped = (weir_u8)drops(reason);
  const struct weir_group* by = group_of(frame->overlay != WEIR_NO_OVERLAY ? frame->overlay : frame->group);
  const struct weir_group* base = group_of(frame->group);
  if (!by || !base) return 0;
  handed->epoch = by->epoch;
  handed->number = by->number;
  const weir_u32 credit = weir_credit_of(frame, reason);
  const weir_u32 reason_by = credit >> 16 & 0xff;
  weir_u64 list = credit & (WEIR_MAX_LISTS - 1);
  IN_REGISTER(list);
  handed->place =
      reason_by != WEIR_BY_LIST ? WEIR_LIST_SLOTS - 1 + reason_by : base->slot_of[list & (WEIR_MAX_LISTS - 1)];
  handed->layer = (weir_u8)(credit >> 24);
  if (!handed->dropped || reason_by == WEIR_BY_UNPARSED) return 1;
  if (frame->packet.family == 0 && reason == WEIR_DEFAULT_DROPPED && !read_plain(ctx, frame)) {
    weir_read_ethernet(ctx, 0, frame->length, frame);
  }
  packet_of_credit(frame, &handed->packet);
  return 1;
}

SEC("xdp")
int weir_shadowed(struct xdp_md* ctx) {
  struct weir_frame frame;
  weir_u32 reason = 0;
  frame.samples = (weir_u8)(weir_choose_frame(ctx) << 4);
  const int action = filter_frame(ctx, 1, &frame, &reason);
  if (frame.samples & WEIR_SAMPLES_SHADOW << 4 && weir_hand_over(ctx, &frame, reason)) {
    bpf_tail_call(ctx, &weir_next, 0);
  }
  return action;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
