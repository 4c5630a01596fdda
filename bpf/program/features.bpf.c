/* Loads where the kernel has, and libbpf knows that it has, what weir.bpf.c needs; it is never attached. */
/* The helpers need the types of the first. */
/* clang-format off */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

const volatile int added = 1; /* global data */

__attribute__((noinline)) int add(int to) { /* a global function: verified once, however often it is called */
  return to + added;
}

/* The field can be read only by a program that says how it will be attached: BPF_XDP_DEVMAP. */
SEC("xdp")
int features(struct xdp_md* ctx) {
  return add((int)ctx->egress_ifindex) != 0 ? XDP_PASS : XDP_ABORTED;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
