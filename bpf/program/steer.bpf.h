/* The choice: which frames go to the data plane's worker by AF_XDP, and which stay in the kernel
 * (docs/operate/steering.md). */
#ifndef WEIR_BPF_STEER_BPF_H
#define WEIR_BPF_STEER_BPF_H

#include "bpf/program/frame.bpf.h"
#include "bpf/program/steer.h"

/* The sockets of the interface's queues. DPDK's net_af_xdp fills it, and finds it by this name. */
struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, WEIR_MAX_STEER_QUEUES);
  __type(key, __u32);
  __type(value, __u32);
} xsks_map SEC(".maps");

struct weir_steer_inner {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(struct weir_steering));
};

/* One element, or none: the rules that apply. Exchanging it is the whole publication, and the kernel itself waits for
 * the programs that still read the old ones. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, 1);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
  __type(key, __u32);
  __array(values, struct weir_steer_inner);
} weir_steer SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
  __type(key, __u32);
  __type(value, struct weir_steer_totals);
} weir_steered SEC(".maps");

static __always_inline void count_frame(struct weir_tally* tally, weir_u32 length) {
  tally->packets++;
  tally->bytes += length;
}

/* ICMPv6 of the link itself, without which IPv6 finds no neighbour: listener discovery (RFC 2710, RFC 3810) and
 * neighbour discovery (RFC 4861). */
static __always_inline int is_discovery(const struct weir_packet* packet) {
  if (packet->protocol != 58 || packet->family != 6 || !(packet->has & WEIR_HAS_ICMP_TYPE)) return 0;
  return (packet->icmp_type >= 130 && packet->icmp_type <= 137) || packet->icmp_type == 143;
}

static __always_inline int port_is_in(const struct weir_steer_rule* rule, const struct weir_packet* packet, int side) {
  const weir_u16 port = __builtin_bswap16(packet->port[side]);
  return port >= rule->first_port[side] && port <= rule->last_port[side];
}

static __always_inline int rule_takes(const struct weir_steer_rule* rule, const struct weir_packet* packet,
                                      int has_ports) {
  if (rule->family != 0 && rule->family != packet->family) return 0;
  weir_u64 differs = 0;
  for (int i = 0; i < 4; i++)
    differs |= (packet->address[i / 2][i % 2] ^ rule->address[i / 2][i % 2]) & rule->mask[i / 2][i % 2];
  if (differs != 0) return 0;
  const weir_u32 asks = rule->asks;
  if ((asks & WEIR_STEER_BY_PROTOCOL) && rule->protocol != packet->protocol) return 0;
  if (!(asks & (WEIR_STEER_BY_SOURCE_PORT | WEIR_STEER_BY_DESTINATION_PORT))) return 1;
  if (!has_ports) return 0;
  if ((asks & WEIR_STEER_BY_SOURCE_PORT) && !port_is_in(rule, packet, WEIR_SIDE_SOURCE)) return 0;
  return !(asks & WEIR_STEER_BY_DESTINATION_PORT) || port_is_in(rule, packet, WEIR_SIDE_DESTINATION);
}

/* The number of the first rule that takes the packet; WEIR_TAKEN_BY_DEFAULT: none does. Fragments have no ports here,
 * the first one neither: so all of a packet goes one way. */
__noinline weir_u32 weir_first_rule(struct weir_steering* steering, struct weir_frame* frame) {
  if (!steering || !frame) return WEIR_TAKEN_BY_DEFAULT;
  const int has_ports = (frame->packet.has & WEIR_HAS_PORTS) && frame->packet.fragment == WEIR_FRAGMENT_NONE;
  for (weir_u32 i = 0; i < WEIR_MAX_STEER_RULES; i++) {
    if (i >= steering->n_rules) break;
    if (rule_takes(&steering->rule[i], &frame->packet, has_ports)) return i;
  }
  return WEIR_TAKEN_BY_DEFAULT;
}

/* What takes the frame: a rule's number, or enum weir_steer_taker. */
static __always_inline weir_u32 taker_of(struct xdp_md* ctx, struct weir_steering* steering, weir_u32 length) {
  struct weir_frame frame = {};
  if (!read_plain(ctx, &frame)) {
    const int outcome = weir_read_ethernet(ctx, 0, length, &frame);
    if (outcome == NOT_IP) return WEIR_TAKEN_BY_LINK;
    if (outcome != IP) return WEIR_TAKEN_BY_DEFAULT;
  }
  return is_discovery(&frame.packet) ? WEIR_TAKEN_BY_LINK : weir_first_rule(steering, &frame);
}

/* What the rules say of the frame: enum weir_steer_end. The functions stand beside each other
 * where they can: then their stacks do not add up. */
__noinline weir_u32 weir_choose(struct xdp_md* ctx) {
  const weir_u32 zero = 0;
  void* rules = bpf_map_lookup_elem(&weir_steer, &zero);
  if (!rules) return WEIR_STEERED_NO_RULES;
  struct weir_steering* steering = bpf_map_lookup_elem(rules, &zero);
  if (!steering || steering->version != WEIR_STEER_VERSION) return WEIR_STEERED_NO_RULES;
  const weir_u32 length = (weir_u32)bpf_xdp_get_buff_len(ctx);
  weir_u64 taker = taker_of(ctx, steering, length);
  /* Else half of the register would be compared, and the verifier learns about all of it only from all of it. */
  asm volatile("" : "+r"(taker));
  weir_u32 to = taker == WEIR_TAKEN_BY_LINK ? steering->link_to : steering->default_to;
  if (taker < WEIR_MAX_STEER_RULES) to = steering->rule[taker].to;
  if (taker < WEIR_STEER_TAKERS) count_frame(&steering->taken[taker], length);
  return to == WEIR_TO_WORKER ? WEIR_STEERED_TO_WORKER : WEIR_STEERED_TO_KERNEL;
}

/* Counts what becomes of the frame, and does it: XDP_REDIRECT or XDP_PASS. */
__noinline int weir_hand_on(struct xdp_md* ctx, weir_u32 end) {
  const weir_u32 zero = 0;
  const weir_u32 queue = ctx->rx_queue_index;
  const weir_u32 length = (weir_u32)bpf_xdp_get_buff_len(ctx);
  if (end == WEIR_STEERED_TO_WORKER) {
    /* AF_XDP takes one buffer: net_af_xdp asks for no more, and kernels before 6.6 know none. */
    const weir_u8* data = (const weir_u8*)(long)ctx->data;
    if (length > (weir_u32)((const weir_u8*)(long)ctx->data_end - data)) {
      end = WEIR_STEERED_TOO_LONG;
    } else if (!bpf_map_lookup_elem(&xsks_map, &queue)) {
      end = WEIR_STEERED_NO_SOCKET;
    }
  }
  struct weir_steer_totals* totals = bpf_map_lookup_elem(&weir_steered, &zero);
  if (totals && end < WEIR_STEER_ENDS) count_frame(&totals->end[end], length);
  return end == WEIR_STEERED_TO_WORKER ? (int)bpf_redirect_map(&xsks_map, queue, XDP_PASS) : XDP_PASS;
}

static __always_inline int steer(struct xdp_md* ctx) {
  return weir_hand_on(ctx, weir_choose(ctx));
}

#endif
