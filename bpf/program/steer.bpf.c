/* The choice alone: the worker gets what the rules name, the kernel the rest, unfiltered. */
#include "bpf/program/steer.bpf.h"

SEC("xdp.frags")
int weir_steering(struct xdp_md* ctx) {
  return steer(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
