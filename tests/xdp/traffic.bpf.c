/* Makes frames whose right verdict is known, and looks at what a running XDP program says to each (traffic.h). */
#include <stdbool.h>
/* The helpers need the types of the first. */
/* clang-format off */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
/* clang-format on */

#include "tests/xdp/traffic.h"

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct traffic_counts);
} counts SEC(".maps");

volatile const int out_interface = 0;

/* Of the kernel's struct, the fields that are read, wherever they lie in it. */
struct xdp_buff {
  void* data;
} __attribute__((preserve_access_index));

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
  head->source = __builtin_bswap32(source);
  head->destination = __builtin_bswap32(destination);
  head->dport = __builtin_bswap16((__u16)port);
  return (int)bpf_redirect((__u32)out_interface, 0);
}

/* After the program under test, on every frame. */
SEC("fexit")
int observe(unsigned long long* ctx) {
  const struct xdp_buff* frame = (const struct xdp_buff*)ctx[0];
  const int verdict = (int)ctx[1];
  struct traffic_counts* count = mine();
  struct head head;
  if (!count || bpf_probe_read_kernel(&head, sizeof head, frame->data)) return 0;
  const int dport = __builtin_bswap16(head.dport);
  if (dport == PORT_OF_DROP) {
    count->observed++;
    count->wrongly_passed += verdict != XDP_DROP;
  } else if (dport == PORT_OF_PASS) {
    count->observed++;
    count->wrongly_dropped += verdict != XDP_PASS;
  }
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
