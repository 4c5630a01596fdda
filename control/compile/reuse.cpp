#include "control/compile/reuse.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string>

#include "common/clock.h"
#include "control/compile/seal.h"

namespace weir::control {
namespace {

class Bytes {
 public:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add(const std::string& text) {
    add(uint64_t{text.size()});
    bytes_ += text;
  }
  std::array<uint64_t, 2> digest() const { return digest_of(std::as_bytes(std::span(bytes_))); }

 private:
  std::string bytes_;
};

template <class Addr>
bool may_expire(const Rows<Addr>& rows) {
  return !rows.expires.each.empty() || (!rows.empty() && rows.expires.all != kNever);
}

bool may_expire(const List& list) {
  return may_expire(list.v4()) || may_expire(list.v6()) ||
         std::any_of(list.flows().begin(), list.flows().end(), [](const Flow& flow) { return flow.expires != kNever; });
}

void add_settings(const Policy& policy, Bytes& inputs) {
  inputs.add(policy.default_action);
  inputs.add(policy.unparsed_action);
  inputs.add(policy.tunnels);
  inputs.add(policy.false_positive_rate);
  inputs.add(policy.memory_bytes);
  inputs.add(policy.gates_for);
  inputs.add(policy.layout.has_value());
  inputs.add(policy.layout.value_or(WEIR_LAYOUT_LINE8));
  for (const List& list : policy.lists) {
    inputs.add(list.name);
    inputs.add(list.action);
    inputs.add(list.mode);
  }
}

}  // namespace

std::optional<InputsDigest> inputs_digest(const Policy& policy) {
  if (!policy.canaries.empty() &&
      std::any_of(policy.lists.begin(), policy.lists.end(), [](const List& list) { return may_expire(list); })) {
    return std::nullopt;
  }
  Bytes inputs;
  add_settings(policy, inputs);
  inputs.add(uint64_t{policy.canaries.size()});
  for (const Canary& canary : policy.canaries) {
    inputs.add(canary.is_v6);
    inputs.add(canary.is_v6 ? canary.v6 : Ipv6{canary.v4});
  }
  for (const List& list : policy.lists) {
    inputs.add(list.entries());
    inputs.add(list.content->digest);
  }
  return inputs.digest();
}

InputsDigest settings_digest(const Policy& policy) {
  Bytes settings;
  add_settings(policy, settings);
  return settings.digest();
}

Result<Compiled> renumber(std::span<const std::byte> snapshot, std::array<uint64_t, 2> digest,
                          const CompileReport& report, wire::Generation generation) {
  const Clock::time_point begin = Clock::now();
  Result<Draft> draft = make_draft(snapshot.size());
  if (!draft) return draft.failure();
  memcpy(draft->mapping.bytes().data(), snapshot.data(), snapshot.size());
  if (digest_of(draft->mapping.bytes()) != digest) return Error{"the snapshot that is published is damaged"};
  auto& header = *reinterpret_cast<weir_snapshot_header*>(draft->mapping.bytes().data());
  header.epoch = generation.epoch;
  header.number = generation.number;
  header.built_unix_s = static_cast<uint64_t>(unix_now());
  const double copied_ms = ms_since(begin);

  const Clock::time_point sealing = Clock::now();
  Compiled compiled;
  compiled.generation = generation;
  compiled.size_bytes = snapshot.size();
  Result<Sealed> sealed = seal(std::move(*draft));
  if (!sealed) return sealed.failure();
  compiled.snapshot = std::move(sealed->fd);
  compiled.digest = sealed->digest;
  compiled.report = report;
  compiled.report.phases = {{"merge", 0},         {"index", 0}, {"plan", 0},
                            {"build", copied_ms}, {"prove", 0}, {"seal", ms_since(sealing)}};
  return compiled;
}

}  // namespace weir::control
