/* The filter alone: what it does not drop goes on to the kernel. */
#include "bpf/filter.bpf.h"

SEC("xdp.frags")
int weir(struct xdp_md* ctx) {
  return filter(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
