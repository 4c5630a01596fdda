/* Frames whose source changes from one to the next: user space fills `sources`, which take turns. One processor. */
#include "tests/bench/xdp_frame.bpf.h"
#include "tests/bench/xdp_tally.h"

/* Elements of array maps are 8 bytes apart, whatever they hold. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, XDP_SOURCES);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, __u64); /* big endian: IPv4 in the first four bytes, or the upper half of IPv6 */
} sources SEC(".maps");

__u32 next_source;
__u64 not_called;
const volatile __u32 out_interface = 0;
const volatile __u32 family = 4;
const volatile __u32 tags = 0; /* VLAN tags of frames of IPv4 */

struct {
  __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} callee SEC(".maps");

static __always_inline struct iphdr* ipv4_behind_tags(struct xdp_md* ctx) {
  struct iphdr* ip = (void*)(long)ctx->data + sizeof(struct ethhdr) + (tags & 7) * 4;
  return (void*)(ip + 1) > (void*)(long)ctx->data_end ? 0 : ip;
}

static __always_inline int change_source6(struct xdp_md* ctx, const __u64* source) {
  struct ipv6hdr* ip = ipv6_of(ctx);
  if (!ip) return 0;
  __u64* upper_half = (__u64*)&ip->saddr;
  __asm__ volatile("" : "+r"(upper_half)); /* one store: from two, no load of eight bytes could be forwarded */
  *upper_half = *source;
  return 1;
}

/* The header's checksum stays right (RFC 1624, equation 3): the kernel's stack looks at it. */
static __always_inline int change_source(struct xdp_md* ctx) {
  const __u32 turn = next_source++ % XDP_SOURCES;
  const __u64* source = bpf_map_lookup_elem(&sources, &turn);
  if (!source) return 0;
  if (family == 6) return change_source6(ctx, source);
  struct iphdr* ip = ipv4_behind_tags(ctx);
  if (!ip) return 0;
  const __u32 now = (__u32)*source;
  const __u32 before = ~ip->saddr;
  __u32 sum = (~ip->check & 0xffffu) + (before & 0xffffu) + (before >> 16) + (now & 0xffffu) + (now >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  ip->check = (__u16)~sum;
  ip->saddr = now;
  return 1;
}

/* Into the program that is measured, with the next source. Costs the same in front of each of them. */
SEC("xdp")
int vary(struct xdp_md* ctx) {
  if (change_source(ctx)) bpf_tail_call(ctx, &callee, 0);
  not_called++;
  return XDP_ABORTED;
}

/* Out of an interface, with the next source. */
SEC("xdp")
int generate(struct xdp_md* ctx) {
  return change_source(ctx) ? (int)bpf_redirect(out_interface, 0) : XDP_ABORTED;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
