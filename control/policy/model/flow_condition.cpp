#include "control/policy/model/flow_condition.h"

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
#define WEIR_ASK_FOR(name, NAME, kind, needs, member, order) \
  if (flow.name) {                                           \
    ask(WEIR_ASKS_##NAME);                                   \
    condition.name = *flow.name;                             \
  }
  WEIR_FIELDS(WEIR_ASK_FOR)
#undef WEIR_ASK_FOR
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
#define WEIR_FORGET(name, NAME, kind, needs, member, order) \
  if ((asked & WEIR_ASKS_##NAME) != 0) condition.name = {};
  WEIR_FIELDS(WEIR_FORGET)
#undef WEIR_FORGET
}

Flow flow_of(const weir_residual& residual, uint8_t family) {
  const auto asks = [&](weir_asks what) { return (residual.asks & what) != 0; };
  const auto address = [](const weir_u64(&halves)[2]) { return Ipv6{halves[0]} << 64 | halves[1]; };
  Flow flow;
  flow.family = family;
  if (asks(WEIR_ASKS_SOURCE)) flow.src = {address(residual.source_first), address(residual.source_last)};
  if (asks(WEIR_ASKS_DESTINATION)) flow.dst = {address(residual.destination_first), address(residual.destination_last)};
#define WEIR_ASKED(name, NAME, kind, needs, member, order) \
  if (asks(WEIR_ASKS_##NAME)) flow.name = residual.name;
  WEIR_FIELDS(WEIR_ASKED)
#undef WEIR_ASKED
  if (asks(WEIR_ASKS_EXPIRES)) flow.expires = static_cast<uint32_t>(residual.expires_unix_s);
  return flow;
}

}  // namespace weir::control
