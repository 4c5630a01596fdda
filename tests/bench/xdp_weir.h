#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "bpf/enforce/enforcer.h"
#include "common/result.h"
#include "control/compile/compile.h"
#include "tests/bench/xdp_peers.h"

// weir's XDP plane for benchmarks: policies of hosts, compiled as controld does it, and published as controld does it.
namespace weir::bench {

constexpr const char* kBpfDir = "/sys/fs/bpf";

struct XdpPolicy {
  std::span<const uint32_t> members;        // host order: a drop list of sources
  std::span<const uint64_t> members6 = {};  // as members6() of xdp_hosts.h, in the same list
  bool drop_misses = false;                 // policy.default
  double false_positive_rate = 0.005;
};
// number: of the generation.
Result<control::Compiled> compile_hosts(const XdpPolicy& policy, uint64_t number);

// A publication's seconds, as the caller sees them.
Result<double> publish(xdp::Enforcer& enforcer, const control::Compiled& compiled);

// The same of an overlay that adds these sources, generation 2, built by hand from what the base says of itself.
Result<double> publish_overlay(xdp::Enforcer& enforcer, const control::Compiled& base, std::span<const uint32_t> more);

XdpCounts counts_of(const xdp::Enforcer& enforcer);

}  // namespace weir::bench
