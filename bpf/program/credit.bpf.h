/* What a verdict is credited to, as wire::ShadowCredit has it. */
#ifndef WEIR_BPF_CREDIT_H
#define WEIR_BPF_CREDIT_H

#include "bpf/program/sample.bpf.h"
#include "bpf/program/shadow.h"

/* Of a frame that was kept for it (WEIR_SAMPLES_SHADOW): list | enum weir_dropped_by << 16 | layer << 24. reason: enum
 * weir_reason. */
__noinline weir_u32 weir_credit_of(struct weir_frame* frame, weir_u32 reason) {
  const weir_u32 zero = 0;
  if (!frame) return 0;
  if (reason == WEIR_MALFORMED_PASSED || reason == WEIR_MALFORMED_DROPPED) return (weir_u32)WEIR_BY_UNPARSED << 16;
  const weir_u32 by_default = (weir_u32)WEIR_BY_DEFAULT << 16;
  const struct weir_layers* layers = kept_layers(frame) != 0 ? bpf_map_lookup_elem(&weir_layers, &zero) : 0;
  const weir_u32 layer = layers ? (layers->credited - 1) << 24 : 0;
  if (reason == WEIR_DEFAULT_DROPPED) return by_default | layer;
  if (reason != WEIR_LIST_DROPPED && reason != WEIR_LIST_PASSED) return by_default;
  if (layers) return (layers->list & 0xffff) | layer;
  const struct weir_group* group = group_of(frame->group);
  if (!group) return by_default;
  return first_of(&frame->matched, reason == WEIR_LIST_DROPPED ? group->drop_lists : group->pass_lists);
}

/* The packet of the layer that drops. */
static __always_inline void packet_of_credit(const struct weir_frame* frame, struct weir_packet* packet) {
  const weir_u32 zero = 0;
  if (kept_layers(frame) == 0) {
    *packet = frame->packet;
    return;
  }
  const struct weir_layers* layers = bpf_map_lookup_elem(&weir_layers, &zero);
  weir_u64 at = layers ? layers->credited - 1u : WEIR_MAX_LAYERS;
  IN_REGISTER(at);
  if (layers && at < WEIR_MAX_LAYERS) *packet = layers->packet[at];
}

#endif
