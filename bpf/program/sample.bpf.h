/* Samples of what is dropped (docs/operate/capture.md), and of all traffic (docs/operate/plan.md): one in N frames goes
 * into a ring that user space empties. */
#ifndef WEIR_BPF_SAMPLE_H
#define WEIR_BPF_SAMPLE_H

#include "bpf/program/verdict.bpf.h"

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, WEIR_SAMPLE_RING_BYTES);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
} weir_samples SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, WEIR_SAMPLE_RING_BYTES);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
} weir_traffic SEC(".maps");

/* Samples while they are made: there is no room for them on the stack. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct weir_sample);
} weir_draft SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct weir_traffic);
} weir_traffic_draft SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, WEIR_CREDITS);
  __type(key, __u32);
  __type(value, struct weir_second);
} weir_seconds SEC(".maps");

static __always_inline weir_u32 random_below(weir_u32 n) {
  return (weir_u32)((weir_u64)bpf_get_prandom_u32() * n >> 32);
}

/* 1: of every one_in frames that ask, one is chosen, and this is it. */
static __always_inline int is_chosen(struct weir_stratum* stratum, weir_u32 one_in) {
  if (stratum->run != one_in) {
    stratum->run = one_in;
    stratum->skip = stratum->place = random_below(one_in);
  }
  if (stratum->skip != 0) {
    stratum->skip--;
    return 0;
  }
  const weir_u32 rest = stratum->run - 1 - stratum->place;
  stratum->place = random_below(stratum->run);
  stratum->skip = (weir_u64)rest + stratum->place;
  return 1;
}

/* 1: the next sample is of this frame, or the first run begins. */
static __always_inline int is_due(struct weir_stratum* stratum) {
  if (stratum->skip == 0) return 1;
  stratum->skip--;
  return 0;
}

/* So many frames the next run has: as is wished while half of the ring is free, then twice as many for each 64th of it
 * that is taken. So none is lost unless nobody asks for long, and the samples stand for all frames. */
static __always_inline weir_u32 traffic_run(weir_u32 one_in) {
  const weir_u64 half = WEIR_SAMPLE_RING_BYTES / 2, step = WEIR_SAMPLE_RING_BYTES / 64, most = 1u << 20;
  const weir_u64 used = bpf_ringbuf_query(&weir_traffic, BPF_RB_AVAIL_DATA);
  if (used < half || one_in >= most) return one_in;
  const weir_u64 longer = (weir_u64)one_in << (((used - half) / step + 1) & 63);
  return longer < most ? (weir_u32)longer : (weir_u32)most;
}

/* Of a stratum that is due: how many frames this one stands for; 0: it is not chosen. */
static __always_inline weir_u32 choose(struct weir_stratum* stratum, weir_u32 next_run) {
  if (stratum->run == 0) {
    stratum->run = next_run;
    stratum->skip = stratum->place = random_below(next_run);
    if (!is_due(stratum)) return 0;
  }
  const weir_u32 run = stratum->run, rest = run - 1 - stratum->place;
  stratum->run = next_run;
  stratum->place = random_below(next_run);
  stratum->skip = (weir_u64)rest + stratum->place;
  return run;
}

/* Whether the credit may have one more sample in this second. */
static __always_inline int is_within_limit(weir_u32 credit, weir_u64 boot_ns, weir_u32 per_second) {
  struct weir_second* second = bpf_map_lookup_elem(&weir_seconds, &credit);
  if (!second) return 0;
  const weir_u64 number = boot_ns / 1000000000ull;
  if (second->number != number) {
    second->number = number;
    second->samples = 0;
  }
  if (second->samples >= per_second) return 0;
  second->samples++;
  return 1;
}

/* The packet of the layer that drops. */
__noinline int weir_tell_packet(struct weir_frame* frame) {
  const weir_u32 zero = 0;
  struct weir_sample* sample = bpf_map_lookup_elem(&weir_draft, &zero);
  if (!frame || !sample) return 0;
  if (kept_layers(frame) != 0) {
    const struct weir_layers* layers = bpf_map_lookup_elem(&weir_layers, &zero);
    weir_u64 at = layers ? layers->credited - 1u : WEIR_MAX_LAYERS;
    IN_REGISTER(at);
    if (!layers || at >= WEIR_MAX_LAYERS) return 0;
    sample->packet = layers->packet[at];
    sample->layer = (weir_u8)at;
    return 0;
  }
  sample->packet = frame->packet;
  return 0;
}

/* That drops the frame. */
static __always_inline weir_u32 list_of(const struct weir_frame* frame) {
  const weir_u32 zero = 0;
  if (kept_layers(frame) == 0) {
    const struct weir_group* group = group_of(frame->group);
    return group ? first_of(&frame->matched, group->drop_lists) : NO_LIST;
  }
  const struct weir_layers* layers = bpf_map_lookup_elem(&weir_layers, &zero);
  return layers ? layers->list : NO_LIST;
}

/* Where the credited list is written, and the generation. */
static __always_inline void name_credit(const struct weir_frame* frame, weir_u32 list, struct weir_sample* sample) {
  const struct weir_group* judged_by =
      group_of(frame->overlay != WEIR_NO_OVERLAY ? (weir_u32)frame->overlay : (weir_u32)frame->group);
  if (judged_by) {
    sample->epoch = judged_by->epoch;
    sample->number = judged_by->number;
  }
  const weir_u32 key = frame->group;
  const struct weir_base* base = list < WEIR_MAX_LISTS ? bpf_map_lookup_elem(&weir_bases, &key) : 0;
  if (!base) return;
  weir_u64 at = list;
  IN_REGISTER(at);
  const struct weir_list* named = &base->lists[at & (WEIR_MAX_LISTS - 1)];
  __builtin_memcpy(sample->list, named->name, sizeof sample->list);
}

/* Its first bytes, and then the sample goes into the ring. 0: there is no room. */
__noinline int weir_put_sample(struct xdp_md* ctx, weir_u32 length, weir_u32 snap_bytes) {
  const weir_u32 zero = 0;
  struct weir_sample* sample = bpf_map_lookup_elem(&weir_draft, &zero);
  if (!sample) return 0;
  weir_u64 last = (weir_u64)(length < snap_bytes ? length : snap_bytes) - 1; /* so Linux 6.1 knows that it loads some */
  weir_u64 captured = 0;
  IN_REGISTER(last);
  if (last < WEIR_SAMPLE_BYTES && !bpf_xdp_load_bytes(ctx, 0, sample->bytes, (weir_u32)last + 1)) captured = last + 1;
  sample->captured_bytes = (weir_u32)captured;
  const weir_u64 bytes = (sizeof *sample - sizeof sample->bytes) + ((captured + 7) & ~7ull);
  return !bpf_ringbuf_output(&weir_samples, sample, bytes, BPF_RB_NO_WAKEUP);
}

/* A dropped frame that was chosen. reason: enum weir_reason. */
__noinline int weir_sample_drop(struct xdp_md* ctx, struct weir_frame* frame, weir_u32 reason) {
  const weir_u32 zero = 0;
  const struct weir_state* state = bpf_map_lookup_elem(&weir_state, &zero);
  struct weir_totals* totals = bpf_map_lookup_elem(&weir_totals, &zero);
  struct weir_sample* sample = bpf_map_lookup_elem(&weir_draft, &zero);
  if (!frame || !state || !totals || !sample) return 0;
  totals->drops.sampled++;
  weir_u32 list = NO_LIST, by = WEIR_BY_UNPARSED;
  if (reason == WEIR_NO_SNAPSHOT_DROPPED) by = WEIR_BY_NO_SNAPSHOT;
  if (reason == WEIR_DEFAULT_DROPPED) by = WEIR_BY_DEFAULT;
  if (reason == WEIR_LIST_DROPPED) {
    list = list_of(frame);
    by = WEIR_BY_LIST;
  }
  const weir_u64 boot_ns = bpf_ktime_get_boot_ns();
  const weir_u32 credit = list < WEIR_MAX_LISTS ? list : WEIR_MAX_LISTS - 1 + by;
  if (!is_within_limit(credit, boot_ns, state->drops_per_second)) {
    totals->drops.limited++;
    return 0;
  }
  __builtin_memset(sample, 0, sizeof *sample - sizeof sample->bytes);
  sample->time_unix_ns = boot_ns + state->clock_offset_ns;
  if (by != WEIR_BY_NO_SNAPSHOT) {
    sample->now_unix_s = state->fixed_now_s != 0 ? state->fixed_now_s : sample->time_unix_ns / 1000000000ull;
    name_credit(frame, list, sample);
    if (by != WEIR_BY_UNPARSED) weir_tell_packet(frame);
  }
  sample->interface = ctx->ingress_ifindex;
  sample->queue = ctx->rx_queue_index;
  sample->frame_bytes = frame->length;
  sample->one_in = totals->drops.run;
  sample->dropped_by = (weir_u8)by;
  if (!weir_put_sample(ctx, frame->length, state->snap_bytes)) totals->drops.lost++;
  return 0;
}

/* The packets of a frame in tunnels. */
static __always_inline weir_u32 tell_layers(weir_u32 layers, struct weir_traffic* traffic) {
  const weir_u32 zero = 0;
  const struct weir_layers* kept = bpf_map_lookup_elem(&weir_layers, &zero);
  if (!kept) return 0;
  for (weir_u32 layer = 0; layer < WEIR_MAX_LAYERS; layer++) {
    if (layer >= layers) break;
    traffic->packet[layer] = kept->packet[layer];
  }
  return layers;
}

/* A frame that a snapshot judged, when the next sample of traffic is due. reason: enum weir_reason. */
__noinline int weir_sample_traffic(struct weir_frame* frame, weir_u32 reason) {
  const weir_u32 zero = 0;
  const struct weir_state* state = bpf_map_lookup_elem(&weir_state, &zero);
  struct weir_totals* totals = bpf_map_lookup_elem(&weir_totals, &zero);
  struct weir_traffic* traffic = bpf_map_lookup_elem(&weir_traffic_draft, &zero);
  if (!frame || !state || !totals || !traffic) return 0;
  const weir_u32 weight = choose(&totals->traffic, traffic_run(state->traffic_one_in));
  if (weight == 0) return 0;
  totals->traffic.sampled++;
  traffic->time_unix_ns = bpf_ktime_get_boot_ns() + state->clock_offset_ns;
  traffic->weight = weight;
  traffic->frame_bytes = frame->length;
  traffic->dropped = drops(reason);
  weir_u64 layers = 0;
  if (reason == WEIR_NOT_IP) {
    traffic->kind = WEIR_KIND_NOT_IP;
  } else if (reason == WEIR_MALFORMED_PASSED || reason == WEIR_MALFORMED_DROPPED) {
    traffic->kind = WEIR_KIND_MALFORMED;
  } else {
    traffic->kind = WEIR_KIND_PACKETS;
    layers = 1;
    if (kept_layers(frame) != 0) {
      layers = tell_layers(kept_layers(frame), traffic);
    } else {
      traffic->packet[0] = frame->packet;
    }
  }
  IN_REGISTER(layers);
  if (layers > WEIR_MAX_LAYERS) layers = WEIR_MAX_LAYERS;
  traffic->layers = (weir_u8)layers;
  const weir_u64 bytes = sizeof *traffic - sizeof traffic->packet + layers * sizeof traffic->packet[0];
  if (bpf_ringbuf_output(&weir_traffic, traffic, bytes, BPF_RB_NO_WAKEUP)) totals->traffic.lost++;
  return 0;
}

/* Which samples are of this frame: a mask of enum weir_sampling, kept for the samples. */
static __always_inline weir_u32 choose_samples(weir_u32 sampling, weir_u32 dropped) {
  const weir_u32 zero = 0;
  const struct weir_state* state = bpf_map_lookup_elem(&weir_state, &zero);
  struct weir_totals* totals = bpf_map_lookup_elem(&weir_totals, &zero);
  if (!state || !totals) return 0;
  weir_u32 chosen = 0;
  if (sampling & WEIR_SAMPLES_TRAFFIC && is_due(&totals->traffic)) chosen |= WEIR_SAMPLES_TRAFFIC;
  if (sampling & WEIR_SAMPLES_DROPS && dropped && is_chosen(&totals->drops, state->drops_one_in)) {
    chosen |= WEIR_SAMPLES_DROPS;
  }
  totals->chosen = chosen;
  return chosen;
}

static __always_inline void take_samples(struct xdp_md* ctx, struct weir_frame* frame, weir_u32 reason) {
  const weir_u32 zero = 0;
  const struct weir_totals* totals = bpf_map_lookup_elem(&weir_totals, &zero);
  if (!totals) return;
  const weir_u32 chosen = totals->chosen;
  if (chosen & WEIR_SAMPLES_DROPS) weir_sample_drop(ctx, frame, reason);
  if (chosen & WEIR_SAMPLES_TRAFFIC) weir_sample_traffic(frame, reason);
}

/* A frame, while frames are sampled. reason: enum weir_reason. */
__noinline int weir_sample(struct xdp_md* ctx, struct weir_frame* frame, weir_u32 reason) {
  if (!frame || !choose_samples(frame->samples >> 4, drops(reason))) return 0;
  const int is_read = frame->packet.family != 0 || (reason != WEIR_DEFAULT_PASSED && reason != WEIR_DEFAULT_DROPPED);
  if (!is_read && !read_plain(ctx, frame)) weir_read_ethernet(ctx, 0, frame->length, frame);
  take_samples(ctx, frame, reason);
  return 0;
}

#endif
