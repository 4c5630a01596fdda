/* What else XDP has for a list of hosts, each as small as it can be: the header's bounds checked, the source
 * looked up, the outcome counted on this processor. They know no other family, tag or tunnel, keep no counters by list,
 * and cannot be swapped. */
#include "tests/bench/xdp_frame.bpf.h"
#include "tests/bench/xdp_tally.h"

const volatile __u32 miss_action = XDP_PASS;

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, XDP_TALLIES);
  __type(key, __u32);
  __type(value, __u64);
} tallies SEC(".maps");

/* User space sets max_entries of all four. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} members SEC(".maps");

struct address6 {
  __u64 half[2];
};
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, struct address6);
  __type(value, __u32);
} members6 SEC(".maps");

struct prefix {
  __u32 bits;
  __u32 address_be;
};
struct {
  __uint(type, BPF_MAP_TYPE_LPM_TRIE);
  __uint(max_entries, 1);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct prefix);
  __type(value, __u32);
} trie SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
  __uint(max_entries, 1);
  __type(value, __u32);
} filter SEC(".maps");

static __always_inline int decide(__u32 hit) {
  __u32 key = hit ? XDP_TALLY_HIT : XDP_TALLY_MISS;
  __u64* count = bpf_map_lookup_elem(&tallies, &key);
  if (count) (*count)++;
  return hit ? XDP_DROP : (int)miss_action;
}

/* The base of all of them: nothing is looked up, and no frame has the source 0. */
SEC("xdp")
int parse(struct xdp_md* ctx) {
  const struct iphdr* ip = ipv4_of(ctx);
  return ip ? decide(ip->saddr == 0) : XDP_ABORTED;
}

SEC("xdp")
int hash(struct xdp_md* ctx) {
  const struct iphdr* ip = ipv4_of(ctx);
  if (!ip) return XDP_ABORTED;
  const __u32 source = ip->saddr;
  return decide(bpf_map_lookup_elem(&members, &source) != 0);
}

SEC("xdp")
int lpm(struct xdp_md* ctx) {
  const struct iphdr* ip = ipv4_of(ctx);
  if (!ip) return XDP_ABORTED;
  const struct prefix host = {32, ip->saddr};
  return decide(bpf_map_lookup_elem(&trie, &host) != 0);
}

/* The hash map confirms what the filter lets through. */
SEC("xdp")
int bloom(struct xdp_md* ctx) {
  const struct iphdr* ip = ipv4_of(ctx);
  if (!ip) return XDP_ABORTED;
  const __u32 source = ip->saddr;
  if (bpf_map_peek_elem(&filter, (void*)&source) != 0) return decide(0);
  return decide(bpf_map_lookup_elem(&members, &source) != 0);
}

/* The filter alone: its rate of false positives. */
SEC("xdp")
int bloom_alone(struct xdp_md* ctx) {
  const struct iphdr* ip = ipv4_of(ctx);
  if (!ip) return XDP_ABORTED;
  const __u32 source = ip->saddr;
  return decide(bpf_map_peek_elem(&filter, (void*)&source) == 0);
}

/* The same base and the same hash map, for IPv6. */
SEC("xdp")
int parse6(struct xdp_md* ctx) {
  const struct ipv6hdr* ip = ipv6_of(ctx);
  return ip ? decide(ip->saddr.in6_u.u6_addr32[0] == 0) : XDP_ABORTED;
}

SEC("xdp")
int hash6(struct xdp_md* ctx) {
  const struct ipv6hdr* ip = ipv6_of(ctx);
  if (!ip) return XDP_ABORTED;
  struct address6 source;
  __builtin_memcpy(&source, &ip->saddr, sizeof source);
  return decide(bpf_map_lookup_elem(&members6, &source) != 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
