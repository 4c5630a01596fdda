#include "tests/bench/xdp_weir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "control/book/columns.h"
#include "tests/bench/xdp_hosts.h"
#include "tests/bench/xdp_traffic.h"

namespace weir::bench {
namespace {

constexpr uint64_t kEpoch = 1;
constexpr uint64_t kMostBytes = uint64_t{8} << 30;

}  // namespace

Result<control::Compiled> compile_hosts(const XdpPolicy& wanted, uint64_t number) {
  control::Policy policy;
  policy.default_action = wanted.drop_misses ? WEIR_DROP : WEIR_PASS;
  policy.false_positive_rate = wanted.false_positive_rate;
  policy.memory_bytes = kMostBytes;
  control::List list;
  list.name = "members";
  control::ListDraft draft;
  draft.v4.reserve(wanted.members.size());
  for (const uint32_t member : wanted.members) {
    control::Entry<Ipv4> entry = {};
    entry.first = entry.last = member;
    entry.line = static_cast<uint32_t>(draft.v4.size()) + 1;
    entry.directions = WEIR_AS_SOURCE;
    entry.expires = control::kNever;
    draft.v4.push_back(entry);
  }
  draft.v6.reserve(wanted.members6.size());
  for (const uint64_t upper : wanted.members6) {
    control::Entry<Ipv6> entry = {};
    entry.first = entry.last = Ipv6{upper} << 64 | kLowerHalf6;
    entry.line = static_cast<uint32_t>(draft.v4.size() + draft.v6.size()) + 1;
    entry.directions = WEIR_AS_SOURCE;
    entry.expires = control::kNever;
    draft.v6.push_back(entry);
  }
  list.content = control::make_entries(std::move(draft));
  policy.lists.push_back(std::move(list));
  return control::compile(policy, {kEpoch, number}, static_cast<unsigned>(get_nprocs()));
}

Result<double> publish(xdp::Enforcer& enforcer, const control::Compiled& compiled) {
  wire::PublishBody body;
  body.generation = compiled.generation;
  std::copy(compiled.digest.begin(), compiled.digest.end(), body.digest);
  body.size_bytes = compiled.size_bytes;
  const std::span<const std::byte> bytes = wire::bytes_of(body);
  wire::Message message;
  message.header.type = static_cast<uint16_t>(wire::Type::publish);
  message.header.body_bytes = sizeof body;
  message.body.assign(bytes.begin(), bytes.end());
  message.fd.reset(fcntl(compiled.snapshot.get(), F_DUPFD_CLOEXEC, 0));
  const double start = wall_ns();
  const wire::PublishedBody published = enforcer.publish(message);
  const double seconds = (wall_ns() - start) / 1e9;
  if (published.ok == 0) {
    return Error{fmt::format("weir refused the snapshot in step {}: {}", wire::step_name(published.failed_step),
                             wire::get_text(published.reason))};
  }
  return seconds;
}

XdpCounts counts_of(const xdp::Enforcer& enforcer) {
  const wire::Stats stats = enforcer.stats().value();
  const uint64_t listed = stats.lists.empty() ? 0 : stats.lists[0].dropped;
  return {listed, stats.body.totals.packets - listed};
}

}  // namespace weir::bench
