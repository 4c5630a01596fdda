/* The filter alone: what it does not drop goes on to the kernel. */
#include "bpf/program/filter.bpf.h"

SEC("xdp") /* and BPF_F_XDP_HAS_FRAGS where frames may lie in several buffers */
int weir(struct xdp_md* ctx) {
  return filter(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
