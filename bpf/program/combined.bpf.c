/* The filter first, on the maps that controld keeps; then the choice, for what it does not drop. */
#include "bpf/program/filter.bpf.h"
#include "bpf/program/steer.bpf.h"

SEC("xdp.frags")
int weir_combined(struct xdp_md* ctx) {
  return filter(ctx) == XDP_DROP ? XDP_DROP : steer(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
