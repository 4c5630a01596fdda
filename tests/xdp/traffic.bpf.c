/* Makes frames whose right verdict is known, and counts those that an XDP program let through (traffic.h). */
/* The helpers need the types of the first. */
/* clang-format off */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "tests/xdp/traffic.h"

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct traffic_counts);
} counts SEC(".maps");

volatile const int out_interface = 0;

/* Frames to pass that may be on their way: there are as many to drop, and a veth holds 256. */
#define WINDOW 96
__u64 came_to_pass = 0; /* by whichever processor */

static __always_inline struct traffic_counts* mine(void) {
  const __u32 zero = 0;
  return bpf_map_lookup_elem(&counts, &zero);
}

struct head {
  __u8 ethernet[14];
  __u8 ip[12];
  __u32 source, destination;
  __u16 sport, dport;
} __attribute__((packed));

/* Turns the frame into the next one and sends it out. */
SEC("xdp")
int make(struct xdp_md* ctx) {
  struct head* head = (void*)(long)ctx->data;
  struct traffic_counts* count = mine();
  if (!count || (void*)(head + 1) > (void*)(long)ctx->data_end) return XDP_ABORTED;
  if (count->made_to_pass - *(volatile __u64*)&came_to_pass >= WINDOW) return XDP_DROP; /* not now: it would be lost */
  const __u32 n = (__u32)count->made++;
  __u32 source = 0, destination = INNOCENT_DST, port = PORT_OF_DROP;
  switch (n & 3) {
    case 0:
      source = ADDRESS_OF(n / 4 % MEMBERS);
      break;
    case 1:
      source = ADDRESS_OF(STRANGERS + n / 4);
      port = PORT_OF_PASS;
      break;
    case 2:
      source = EXCUSED_SRC;
      destination = BLOCKED_DST;
      port = PORT_OF_PASS;
      break;
    default:
      source = EVEN_SRC;
      destination = ODD_DST;
      break;
  }
  count->made_to_pass += port == PORT_OF_PASS;
  head->source = __builtin_bswap32(source);
  head->destination = __builtin_bswap32(destination);
  head->dport = __builtin_bswap16((__u16)port);
  return (int)bpf_redirect((__u32)out_interface, 0);
}

/* On what comes through; it ends here. */
SEC("tc")
int arrive(struct __sk_buff* ctx) {
  struct head head;
  struct traffic_counts* count = mine();
  if (!count || bpf_skb_load_bytes(ctx, 0, &head, sizeof head)) return TC_ACT_SHOT;
  const int dport = __builtin_bswap16(head.dport);
  count->came_of_drop += dport == PORT_OF_DROP;
  count->came_of_pass += dport == PORT_OF_PASS;
  if (dport == PORT_OF_PASS) __sync_fetch_and_add(&came_to_pass, 1);
  return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
