/* What the XDP programs of the benchmarks know of a frame: Ethernet, then IPv4 or IPv6. */
#ifndef WEIR_BENCH_XDP_FRAME_BPF_H
#define WEIR_BENCH_XDP_FRAME_BPF_H

/* The helpers need the types of the first. */
/* clang-format off */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

/* The header, when all of it is in the frame; null: it is no IPv4. */
static __always_inline struct iphdr* ipv4_of(struct xdp_md* ctx) {
  void* end = (void*)(long)ctx->data_end;
  struct ethhdr* ethernet = (void*)(long)ctx->data;
  if ((void*)(ethernet + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP)) return 0;
  struct iphdr* ip = (void*)(ethernet + 1);
  if ((void*)(ip + 1) > end || ip->version != 4 || ip->ihl < 5) return 0;
  return ip;
}

static __always_inline struct ipv6hdr* ipv6_of(struct xdp_md* ctx) {
  void* end = (void*)(long)ctx->data_end;
  struct ethhdr* ethernet = (void*)(long)ctx->data;
  if ((void*)(ethernet + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IPV6)) return 0;
  struct ipv6hdr* ip = (void*)(ethernet + 1);
  if ((void*)(ip + 1) > end || ip->version != 6) return 0;
  return ip;
}

#endif
