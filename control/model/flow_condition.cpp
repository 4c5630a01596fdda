#include "control/model/flow_condition.h"

namespace weir::control {
namespace {

void put(Ipv6 address, weir_u64 (&halves)[2]) {
  halves[0] = static_cast<uint64_t>(address >> 64);
  halves[1] = static_cast<uint64_t>(address);
}

}  // namespace

weir_residual condition_of(const Flow& flow) {
  weir_residual condition = {};
  const auto ask = [&](weir_asks what) { condition.asks = static_cast<weir_u16>(condition.asks | what); };
  if (flow.src) {
    ask(WEIR_ASKS_SOURCE);
    put(flow.src->first, condition.source_first);
    put(flow.src->last, condition.source_last);
  }
  if (flow.dst) {
    ask(WEIR_ASKS_DESTINATION);
    put(flow.dst->first, condition.destination_first);
    put(flow.dst->last, condition.destination_last);
  }
  if (flow.protocol) {
    ask(WEIR_ASKS_PROTOCOL);
    condition.protocol = *flow.protocol;
  }
  if (flow.sport) {
    ask(WEIR_ASKS_SPORT);
    condition.sport_first = flow.sport->first;
    condition.sport_last = flow.sport->last;
  }
  if (flow.dport) {
    ask(WEIR_ASKS_DPORT);
    condition.dport_first = flow.dport->first;
    condition.dport_last = flow.dport->last;
  }
  if (flow.icmp_type) {
    ask(WEIR_ASKS_ICMP_TYPE);
    condition.icmp_type = *flow.icmp_type;
  }
  if (flow.icmp_code) {
    ask(WEIR_ASKS_ICMP_CODE);
    condition.icmp_code = *flow.icmp_code;
  }
  if (flow.tcp_mask != 0) {
    ask(WEIR_ASKS_TCP_FLAGS);
    condition.tcp_set = flow.tcp_set;
    condition.tcp_mask = flow.tcp_mask;
  }
  if (flow.expires != kNever) {
    ask(WEIR_ASKS_EXPIRES);
    condition.expires_unix_s = flow.expires;
  }
  return condition;
}

void forget(weir_residual& condition, unsigned asked) {
  condition.asks = static_cast<weir_u16>(condition.asks & ~asked);
  if ((asked & WEIR_ASKS_SOURCE) != 0) {
    put(0, condition.source_first);
    put(0, condition.source_last);
  }
  if ((asked & WEIR_ASKS_DESTINATION) != 0) {
    put(0, condition.destination_first);
    put(0, condition.destination_last);
  }
  if ((asked & WEIR_ASKS_PROTOCOL) != 0) condition.protocol = 0;
  if ((asked & WEIR_ASKS_SPORT) != 0) condition.sport_first = condition.sport_last = 0;
  if ((asked & WEIR_ASKS_DPORT) != 0) condition.dport_first = condition.dport_last = 0;
}

Flow flow_of(const weir_residual& residual, uint8_t family) {
  const auto asks = [&](weir_asks what) { return (residual.asks & what) != 0; };
  const auto address = [](const weir_u64(&halves)[2]) { return Ipv6{halves[0]} << 64 | halves[1]; };
  Flow flow;
  flow.family = family;
  if (asks(WEIR_ASKS_SOURCE)) flow.src = {address(residual.source_first), address(residual.source_last)};
  if (asks(WEIR_ASKS_DESTINATION)) flow.dst = {address(residual.destination_first), address(residual.destination_last)};
  if (asks(WEIR_ASKS_PROTOCOL)) flow.protocol = residual.protocol;
  if (asks(WEIR_ASKS_SPORT)) flow.sport = {residual.sport_first, residual.sport_last};
  if (asks(WEIR_ASKS_DPORT)) flow.dport = {residual.dport_first, residual.dport_last};
  if (asks(WEIR_ASKS_ICMP_TYPE)) flow.icmp_type = residual.icmp_type;
  if (asks(WEIR_ASKS_ICMP_CODE)) flow.icmp_code = residual.icmp_code;
  flow.tcp_set = residual.tcp_set;
  flow.tcp_mask = residual.tcp_mask;
  if (asks(WEIR_ASKS_EXPIRES)) flow.expires = static_cast<uint32_t>(residual.expires_unix_s);
  return flow;
}

}  // namespace weir::control
