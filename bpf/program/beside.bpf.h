/* A frame on its way from the program that judges by what runs to the one that judges by a candidate. Both have these
 * maps; neither is pinned, so that none outlives the enforcer. */
#ifndef WEIR_BPF_BESIDE_H
#define WEIR_BPF_BESIDE_H

#include "bpf/program/maps.bpf.h"
#include "bpf/program/shadow.h"

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct weir_handed);
} weir_handed SEC(".maps");

static __always_inline struct weir_handed* handed_frame(void) {
  const weir_u32 zero = 0;
  return bpf_map_lookup_elem(&weir_handed, &zero);
}

/* That both compare `expires` with; 0: only what runs judges the frame. */
static __always_inline weir_u64 clock_of_both(void) {
  const struct weir_handed* handed = handed_frame();
  return handed ? handed->now_unix_s : 0;
}

#endif
