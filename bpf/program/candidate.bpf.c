/* The filter once more, by the candidate of a shadow, with maps of its own: what it decides otherwise than what runs is
 * counted and sampled (docs/operate/shadow.md). It returns what was decided by what runs. */
#define WEIR_BESIDE
#define WEIR_TALLIES_LISTS 0
#include "bpf/program/credit.bpf.h"
#include "bpf/program/filter.bpf.h"

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct weir_shadow_counts);
} weir_shadow SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, WEIR_SHADOW_RING_BYTES);
} weir_differing SEC(".maps");

/* One of them: there is no room for it on the stack. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct weir_shadow_sample);
} weir_differing_draft SEC(".maps");

static __always_inline void count_place(struct weir_tally* tallies, weir_u32 place, weir_u32 places, weir_u32 length) {
  weir_u64 at = place;
  IN_REGISTER(at);
  if (at < places) add(&tallies[at], length);
}

/* A frame that only one of both drops. reason: of the candidate. */
__noinline int weir_note_difference(struct xdp_md* ctx, struct weir_frame* frame, weir_u32 reason) {
  const weir_u32 zero = 0;
  struct weir_shadow_counts* counts = bpf_map_lookup_elem(&weir_shadow, &zero);
  struct weir_shadow_sample* sample = bpf_map_lookup_elem(&weir_differing_draft, &zero);
  const struct weir_handed* handed = handed_frame();
  if (!ctx || !frame || !counts || !sample || !handed) return 0;
  const weir_u32 credit = weir_credit_of(frame, reason);
  const weir_u32 by = credit >> 16 & 0xff;
  const weir_u32 place = by != WEIR_BY_LIST ? WEIR_MAX_LISTS - 1 + by : credit & 0xffff;
  if (handed->dropped) {
    count_place(counts->newly_passed, handed->place, WEIR_RUNNING_PLACES, handed->length);
  } else {
    count_place(counts->newly_dropped, place, WEIR_CANDIDATE_PLACES, handed->length);
  }
  __builtin_memset(sample, 0, sizeof *sample);
  sample->time_unix_ns = handed->time_unix_ns;
  sample->now_unix_s = handed->now_unix_s;
  sample->epoch = handed->epoch;
  sample->number = handed->number;
  sample->frame_bytes = handed->length;
  sample->interface = ctx->ingress_ifindex;
  sample->queue = ctx->rx_queue_index;
  sample->running_place = handed->place;
  sample->candidate_place = place;
  sample->running_drops = handed->dropped;
  sample->running_layer = handed->layer;
  sample->candidate_layer = (weir_u8)(credit >> 24);
  if (handed->dropped) {
    if (handed->place != WEIR_LIST_SLOTS - 1 + WEIR_BY_UNPARSED) sample->packet = handed->packet;
  } else if (by != WEIR_BY_UNPARSED) {
    if (frame->packet.family == 0 && reason == WEIR_DEFAULT_DROPPED && !read_plain(ctx, frame)) {
      weir_read_ethernet(ctx, 0, frame->length, frame);
    }
    packet_of_credit(frame, &sample->packet);
  }
  if (bpf_ringbuf_output(&weir_differing, sample, sizeof *sample, BPF_RB_NO_WAKEUP)) counts->lost++;
  return 0;
}

SEC("xdp")
int weir_candidate(struct xdp_md* ctx) {
  const weir_u32 zero = 0;
  struct weir_frame frame;
  weir_u32 reason = 0;
  frame.samples = WEIR_SAMPLES_SHADOW << 4;
  const int drops_it = filter_frame(ctx, 0, &frame, &reason) == XDP_DROP;
  const struct weir_handed* handed = handed_frame();
  struct weir_shadow_counts* counts = bpf_map_lookup_elem(&weir_shadow, &zero);
  if (!handed || !counts) return XDP_PASS;
  if (drops_it != (handed->dropped != 0)) weir_note_difference(ctx, &frame, reason);
  add(&counts->judged, handed->length);
  counts->nanoseconds += bpf_ktime_get_ns() - handed->begin_ns;
  return handed->dropped ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
