#include "tests/bench/xdp_weir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/digest.h"
#include "common/files.h"
#include "control/policy/model/columns.h"
#include "filter/build/builder.h"
#include "tests/bench/xdp_hosts.h"
#include "tests/bench/xdp_traffic.h"

namespace weir::bench {
namespace {

constexpr uint64_t kEpoch = 1;
constexpr uint64_t kMostBytes = uint64_t{8} << 30;

struct alignas(WEIR_LINE_BYTES) Page {
  std::byte byte[WEIR_PAGE_BYTES];
};

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

namespace {

Result<double> send(xdp::Enforcer& enforcer, const wire::PublishBody& body, int snapshot) {
  const std::span<const std::byte> bytes = wire::bytes_of(body);
  wire::Message message;
  message.header.type = static_cast<uint16_t>(wire::Type::publish);
  message.header.body_bytes = sizeof body;
  message.body.assign(bytes.begin(), bytes.end());
  message.fd.reset(fcntl(snapshot, F_DUPFD_CLOEXEC, 0));
  const double start = wall_ns();
  const wire::PublishedBody published = enforcer.publish(message);
  const double seconds = (wall_ns() - start) / 1e9;
  if (published.ok == 0) {
    return Error{fmt::format("weir refused the snapshot in step {}: {}", wire::step_name(published.failed_step),
                             wire::get_text(published.reason))};
  }
  return seconds;
}

wire::PublishBody body_of(wire::Generation generation, const Digest& digest, uint64_t size_bytes) {
  wire::PublishBody body;
  body.generation = generation;
  std::copy(digest.begin(), digest.end(), body.digest);
  body.size_bytes = size_bytes;
  return body;
}

}  // namespace

Result<double> publish(xdp::Enforcer& enforcer, const control::Compiled& compiled) {
  return send(enforcer, body_of(compiled.generation, compiled.digest, compiled.size_bytes), compiled.snapshot.get());
}

Result<double> publish_overlay(xdp::Enforcer& enforcer, const control::Compiled& base, std::span<const uint32_t> more) {
  const Result<Mapping> bytes = map_read_only(base.snapshot.get(), base.size_bytes);
  if (!bytes) return Error{bytes.error()};
  const auto& header = *reinterpret_cast<const weir_snapshot_header*>(bytes->bytes().data());
  filter::SnapshotInput input;
  input.epoch = header.epoch;
  input.number = header.number + 1;
  std::copy_n(header.secret, 2, input.secret.begin());
  input.default_action = static_cast<weir_action>(header.default_action);
  input.unparsed_action = static_cast<weir_action>(header.unparsed_action);
  input.lists = {{"members", WEIR_DROP, WEIR_ENFORCE, 0}};
  input.sets = {{{0}}, {{1}}};
  input.rules = {{0, 0, 0, 0}, {1, 0, 0, 0}};
  input.tables.resize(1);
  input.tables[0].shape = {4, 32};
  for (const uint32_t host : more) {
    input.tables[0].words[0].push_back(__builtin_bswap32(host));
    input.tables[0].rules.push_back(1);
  }
  Result<filter::SnapshotPlan> plan = filter::plan_snapshot(input);
  if (!plan) return Error{plan.error()};
  plan->header.base_number = header.number;
  std::copy(base.digest.begin(), base.digest.end(), plan->header.base_digest);
  const size_t size = plan->header.total_bytes;
  std::vector<Page> out(size / WEIR_PAGE_BYTES);
  const std::span<std::byte> content = std::as_writable_bytes(std::span(out));
  if (Result<void> built = filter::build_snapshot(input, *plan, content); !built) return Error{built.error()};
  const Fd sealed(memfd_create("overlay", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  if (write(sealed.get(), content.data(), size) != static_cast<ssize_t>(size) ||
      add_seals(sealed.get(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    return Error{"cannot make a memory file of an overlay"};
  }
  wire::PublishBody body = body_of({header.epoch, input.number}, digest_of(content), size);
  body.base = base.generation;
  std::copy(base.digest.begin(), base.digest.end(), body.base_digest);
  return send(enforcer, body, sealed.get());
}

XdpCounts counts_of(const xdp::Enforcer& enforcer) {
  const wire::Stats stats = enforcer.stats().value();
  const uint64_t listed = stats.lists.empty() ? 0 : stats.lists[0].dropped;
  return {listed, stats.body.totals.packets - listed};
}

}  // namespace weir::bench
