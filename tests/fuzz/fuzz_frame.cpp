// Any bytes as a frame: nothing outside is read (AddressSanitizer sees the exact buffer of libFuzzer), the walk ends,
// and what is said of the frame and of the layers in its tunnels holds together.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "filter/frame/tunnel.h"

using namespace weir::filter;

namespace {

void require(bool holds) {
  if (!holds) abort();
}

void require_sound(const Headers& headers, uint32_t size) {
  require(headers.family == 4 || headers.family == 6);
  require(size >= (headers.family == 4 ? WEIR_IPV4_BYTES : WEIR_IPV6_BYTES));
  const auto fields = static_cast<uint8_t>(headers.has & ~(WEIR_INCOMPLETE | WEIR_OPEN_END));
  require((fields & ~weir_carries(headers.protocol)) == 0);  // nothing that the protocol does not have
  require(!has(headers, WEIR_INCOMPLETE) || (fields == 0 && headers.family == 6));
  require(!has(headers, WEIR_HAS_TCP_FLAGS) || has(headers, WEIR_HAS_PORTS));  // they lie behind the ports
  require(headers.dscp < 64 && headers.fragment <= WEIR_FRAGMENT_LATER);
  require(headers.fragment != WEIR_FRAGMENT_LATER || fields == 0);
  require(headers.length >= (headers.family == 4 ? WEIR_IPV4_BYTES : WEIR_IPV6_BYTES));
  require(!has(headers, WEIR_HAS_ICMP_CODE) || has(headers, WEIR_HAS_ICMP_TYPE));
}

bool same(const Headers& a, const Headers& b) {
  if (a.family != b.family || a.protocol != b.protocol || a.has != b.has) return false;
  if (a.length != b.length || a.dscp != b.dscp || a.fragment != b.fragment) return false;
  for (const Side side : {kSource, kDestination}) {
    if (a.family == 4 ? static_cast<uint32_t>(a.address[side][0]) != static_cast<uint32_t>(b.address[side][0])
                      : memcmp(a.address[side], b.address[side], sizeof a.address[side]) != 0) {
      return false;
    }
  }
  if (has(a, WEIR_HAS_PORTS) && memcmp(a.port, b.port, sizeof a.port) != 0) return false;
  if (has(a, WEIR_HAS_ICMP_TYPE) && a.icmp_type != b.icmp_type) return false;
  if (has(a, WEIR_HAS_ICMP_CODE) && a.icmp_code != b.icmp_code) return false;
  return !has(a, WEIR_HAS_TCP_FLAGS) || a.tcp_flags == b.tcp_flags;
}

bool same(const InnerLayers& a, const InnerLayers& b) {
  if (a.n != b.n) return false;
  for (uint32_t i = 0; i < a.n; i++) {
    if (!same(a.layer[i], b.layer[i])) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto length = static_cast<uint32_t>(size);
  Headers headers = {}, outer = {};
  InnerLayers inner = {};
  const Outcome outcome = parse_frame(data, length, headers);
  require(parse_layers(data, length, WEIR_TUNNELS, outer, inner) == outcome);
  if (outcome != Outcome::ip) {
    require(inner.n == 0);
    return 0;
  }
  require_sound(headers, length - WEIR_ETHERNET_BYTES);
  require(same(headers, outer));  // what is inside changes nothing
  require(inner.n < WEIR_MAX_LAYERS && (inner.n == 0 || !has(outer, WEIR_INCOMPLETE)));
  for (uint32_t i = 0; i < inner.n; i++) require_sound(inner.layer[i], length - WEIR_ETHERNET_BYTES);

  // A tunnel that the policy does not name is none.
  const auto some = static_cast<uint8_t>(data[0] & WEIR_TUNNELS);
  InnerLayers fewer = {};
  parse_layers(data, length, some, outer, fewer);
  require(fewer.n < WEIR_MAX_LAYERS && same(headers, outer) && (some != 0 || fewer.n == 0));

  // What the first bytes decide, the rest does not change.
  const uint32_t part = data[1] * length / 256;
  Headers early = {};
  InnerLayers early_inner = {};
  const Outcome early_outcome = parse_layers(data, part, WEIR_TUNNELS, early, early_inner);
  if (decided(early_outcome, early)) require(same(early, headers));
  if (decided(early_outcome, early, early_inner, WEIR_TUNNELS)) require(same(early_inner, inner));
  return 0;
}
