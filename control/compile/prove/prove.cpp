#include "control/compile/prove/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "control/compile/merge/merge.h"
#include "control/compile/prove/chance.h"
#include "control/compile/prove/lookup.h"
#include "control/compile/prove/verdict.h"
#include "control/policy/model/packet.h"
#include "control/policy/model/range_text.h"
#include "control/policy/model/search.h"
#include "control/policy/model/time_text.h"
#include "filter/format/frame_rules.h"
#include "filter/format/residual.h"

namespace weir::control {
namespace {

struct Context {
  const Policy& policy;
  const Enforcing snapshot;
  const filter::Kernels& kernels;
  SplitMix random;
};

template <class Addr>
Addr random_address(SplitMix& random) {
  if constexpr (sizeof(Addr) <= 8) {
    return static_cast<Addr>(random.next());
  } else {
    return Addr{random.next()} << 64 | random.next();
  }
}

// 0 .. count-1; count 0 = the whole range of Addr. The bias of the remainder does not matter to a sample.
template <class Addr>
Addr random_below(SplitMix& random, Addr count) {
  const Addr any = random_address<Addr>(random);
  return count == 0 ? any : static_cast<Addr>(any % count);
}

template <class Addr>
std::string place(const List& list, const Entry<Addr>& entry) {
  return fmt::format("list {}, entry {} ({}:{})", list.name, range_text(entry.first, entry.last, entry.port),
                     list.file_of(entry.source), entry.line);
}

// Entries of one list wait here until there are enough for a batch.
template <class Addr>
class EntryBatch {
 public:
  EntryBatch(Context& context, unsigned list, bool with_ports)
      : context_(context), list_(list), with_ports_(with_ports) {}

  Result<void> add(const Entry<Addr>& entry, Addr address) {
    entries_[n_] = entry;
    sides_[n_] = entry.sides();
    probes_[n_++] = {address, entry.port};
    return n_ == filter::kMaxBatch ? flush() : Result<void>{};
  }

  Result<void> flush() {
    Matched matched[filter::kMaxBatch];
    const Until until = {list_, sides_};
    look_up(context_.snapshot, context_.kernels, std::span(probes_, n_), with_ports_, matched, &until);
    for (unsigned i = 0; i < n_; i++) {
      const uint8_t directions = entries_[i].directions;
      if ((directions & WEIR_AS_SOURCE) != 0) {
        if (auto ok = check(i, matched[i].source, "source"); !ok) return ok;
      }
      if ((directions & WEIR_AS_DESTINATION) != 0) {
        if (auto ok = check(i, matched[i].destination, "destination"); !ok) return ok;
      }
    }
    n_ = 0;
    return {};
  }

 private:
  Result<void> check(unsigned i, const weir_set& matched, const char* side) const {
    const List& list = context_.policy.lists[list_];
    const char* problem = nullptr;
    if (!has_list(matched, list_)) {
      problem = "does not match";
    } else if (list.action == WEIR_PASS && judge(context_.snapshot.header(), matched).action != WEIR_PASS) {
      problem = "does not pass";
    }
    if (problem == nullptr) return {};
    return Error{fmt::format("proof failed: {} {} with {} as {}", place(list, entries_[i]), problem,
                             range_text(probes_[i].address, probes_[i].address, probes_[i].port), side)};
  }

  Context& context_;
  unsigned list_;
  bool with_ports_;
  unsigned n_ = 0;
  Entry<Addr> entries_[filter::kMaxBatch];
  uint8_t sides_[filter::kMaxBatch];
  Probe<Addr> probes_[filter::kMaxBatch];
};

// A packet with the address and port on both sides. port 0: none.
template <class Addr>
weir_packet packet_of(Addr address, uint16_t port) {
  constexpr uint8_t kForExperiments = 253;  // RFC 3692
  weir_packet packet = {};
  packet.family = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;
  packet.protocol = kForExperiments;
  if (port != 0) packet.has = WEIR_HAS_PORTS;
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    set_address(packet, side, address);
    packet.port[side] = __builtin_bswap16(port);
  }
  return packet;
}

constexpr int kOtherPackets = 4;

// A packet with the address and port on this side, and anything else elsewhere. port 0: any port, or none.
template <class Addr>
weir_packet some_packet_with(Addr address, uint16_t port, weir_side side, SplitMix& random) {
  constexpr uint8_t kWithPorts[] = {6, 17, 132, 33, 136};
  weir_packet packet = {};
  packet.family = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;
  const weir_side other = side == WEIR_SIDE_SOURCE ? WEIR_SIDE_DESTINATION : WEIR_SIDE_SOURCE;
  set_address(packet, side, address);
  set_address(packet, other, random_address<Addr>(random));
  const uint64_t choice = random.next();
  packet.protocol = port == 0 ? static_cast<uint8_t>(choice) : kWithPorts[choice % std::size(kWithPorts)];
  packet.fragment = port == 0 && (choice >> 8) % 4 == 0 ? WEIR_FRAGMENT_LATER : WEIR_FRAGMENT_NONE;
  if (packet.fragment != WEIR_FRAGMENT_LATER) packet.has = static_cast<uint8_t>(weir_carries(packet.protocol));
  packet.dscp = choice >> 16 & 63;
  packet.length = static_cast<uint32_t>(60 + (choice >> 24) % 1400);
  packet.icmp_type = packet.icmp_code = packet.tcp_flags = static_cast<uint8_t>(choice >> 40);
  packet.port[side] = __builtin_bswap16(port != 0 ? port : static_cast<uint16_t>(random.next()));
  packet.port[other] = static_cast<uint16_t>(random.next());
  weir_clear_absent(&packet);
  return packet;
}

// In time, the list matches; afterwards, as entries and flows that do not expire have it. Where a flow matches the
// packet, too, it would hide an entry that is missing: then another packet of the entry is asked, until no flow does.
template <class Addr>
Result<void> prove_expiring(Context& context, unsigned list, const Entry<Addr>& entry, weir_side side, Addr address) {
  const uint8_t direction = side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
  const List& of_entry = context.policy.lists[list];
  const auto wrong = [&](const char* what) {
    return Error{fmt::format("proof failed: {} {} with {} as {}", place(of_entry, entry), what,
                             range_text(address, address, entry.port),
                             side == WEIR_SIDE_SOURCE ? "source" : "destination")};
  };
  weir_packet packet = packet_of(address, entry.port);
  for (int tried = 0;; tried++) {
    const weir_set before = match(context.snapshot, packet, uint64_t{entry.expires} - 1, direction);
    if (!has_list(before, list)) return wrong("does not match before it expires");
    const bool afterwards = has_list(match(context.snapshot, packet, UINT64_MAX, direction), list);
    const Probe<Addr> probe = {address, port_of(packet, side)};
    Matched lasting;
    look_up(context.snapshot, context.kernels, std::span(&probe, 1), (packet.has & WEIR_HAS_PORTS) != 0, &lasting);
    const bool lasts = has_list(side == WEIR_SIDE_SOURCE ? lasting.source : lasting.destination, list);
    if (afterwards == lasts) return {};
    if (lasts) return wrong("hides one that does not expire");
    if (!lasting_flow_matches(of_entry, packet)) return wrong("matches for longer than it should");
    if (tried == kOtherPackets) return {};
    packet = some_packet_with(address, entry.port, side, context.random);
  }
}

template <class Addr>
Result<void> prove_expiring(Context& context, unsigned list, const Entry<Addr>& entry) {
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    if ((entry.directions & (side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION)) == 0) continue;
    for (const Addr address : {entry.first, entry.last}) {
      if (auto ok = prove_expiring(context, list, entry, side, address); !ok) return ok;
    }
  }
  return {};
}

template <class Addr>
Result<void> prove_entries(Context& context, unsigned list, Progress* progress) {
  ProgressCount proved(progress);
  EntryBatch<Addr> any_port(context, list, false), one_port(context, list, true);
  for (const Entry<Addr> entry : rows_of<Addr>(context.policy.lists[list])) {
    proved.one();
    if (entry.expires == 0) continue;  // it never lives
    if (entry.expires != kNever) {
      if (auto ok = prove_expiring(context, list, entry); !ok) return ok;
      continue;
    }
    EntryBatch<Addr>& batch = entry.port == 0 ? any_port : one_port;
    if (auto ok = batch.add(entry, entry.first); !ok) return ok;
    if (entry.first == entry.last) continue;
    if (auto ok = batch.add(entry, entry.last); !ok) return ok;
    const auto count = static_cast<Addr>(entry.last - entry.first + 1);
    const auto inside = static_cast<Addr>(entry.first + random_below(context.random, count));
    if (auto ok = batch.add(entry, inside); !ok) return ok;
  }
  if (auto ok = any_port.flush(); !ok) return ok;
  return one_port.flush();
}

// Where the list names the address, for the error.
template <class Addr>
std::string blame(const Policy& policy, int list, Addr address, uint16_t port) {
  if (list == kNoList) return "policy.default";
  const List& guilty = policy.lists[static_cast<size_t>(list)];
  const Rows<Addr>& rows = rows_of<Addr>(guilty);
  std::optional<Entry<Addr>> first;
  visit_rows(rows, address, [&](size_t row) {
    const Entry<Addr> entry = rows[row];
    if (entry.port != 0 && entry.port != port) return;
    if (!first || std::tie(entry.source, entry.line) < std::tie(first->source, first->line)) first = entry;
  });
  return first ? place(guilty, *first) : "list " + guilty.name;
}

// Now, and every later time at which an entry about the address ends: nobody publishes then. No port (0), and every
// port that an entry about the address asks for.
struct Moments {
  std::set<uint64_t> times;
  std::set<uint16_t> ports = {0};
};

template <class Addr>
Moments moments_of(const Policy& policy, uint64_t now, Addr address) {
  Moments moments = {{now}};
  for (const List& list : policy.lists) {
    const Rows<Addr>& rows = rows_of<Addr>(list);
    visit_rows(rows, address, [&](size_t row) {
      moments.ports.insert(rows.port[row]);
      const uint32_t expires = rows.expires[row];
      if (expires != kNever && expires > now) moments.times.insert(expires);
    });
  }
  return moments;
}

template <class Addr>
Result<void> prove_canary(const Policy& policy, const Enforcing& snapshot, const Canary& canary, Addr address) {
  const Moments moments = moments_of(policy, snapshot.header().built_unix_s, address);
  for (const uint64_t time : moments.times) {
    for (const uint16_t port : moments.ports) {
      for (const bool as_source : {true, false}) {
        const weir_set matched = match(snapshot, packet_of(address, port), time,
                                       as_source ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION, Gates::left_out);
        const Judgement verdict = judge(snapshot.header(), matched);
        if (verdict.action != WEIR_DROP) continue;
        const bool later = time != snapshot.header().built_unix_s;
        return Error{fmt::format(
            "canary {} would drop as {}{}{}: {}\nhint: put it into a pass list or policy.own, or take the entry out",
            canary.text, as_source ? "source" : "destination", port == 0 ? "" : fmt::format(" with port {}", port),
            later ? ", from " + time_text(static_cast<uint32_t>(time)) + " on" : "",
            blame(policy, verdict.list, address, port))};
      }
    }
  }
  return prove_flow_canary(policy, snapshot, canary.text, sizeof(Addr) == sizeof(Ipv4) ? 4 : 6, address);
}

// What no entry covers, as inclusive ranges.
template <class Addr>
struct Gap {
  Addr first;
  Addr last;
  Addr end;  // addresses in this and all earlier gaps (below 2^width: the family has entries)
};

template <class Addr>
std::vector<Gap<Addr>> gaps_between_entries(const Policy& policy) {
  std::vector<std::pair<Addr, Addr>> ranges;
  for (const List& list : policy.lists) {
    const Rows<Addr>& rows = rows_of<Addr>(list);
    for (size_t row = 0; row < rows.size(); row++) ranges.emplace_back(rows.first[row], rows.last_of(row));
  }
  sort_runs(ranges);
  std::vector<Gap<Addr>> gaps;
  if (ranges.empty()) return gaps;
  Addr free = 0, end = 0;  // the lowest address that is not covered by the ranges so far
  for (const auto& [first, last] : ranges) {
    if (first > free) {
      end += static_cast<Addr>(first - free);
      gaps.push_back({free, static_cast<Addr>(first - 1), end});
    }
    if (last == static_cast<Addr>(~Addr{0})) return gaps;
    free = std::max(free, static_cast<Addr>(last + 1));
  }
  end += static_cast<Addr>(~Addr{0} - free + 1);
  gaps.push_back({free, static_cast<Addr>(~Addr{0}), end});
  return gaps;
}

template <class Addr>
Addr pick_stranger(const std::vector<Gap<Addr>>& gaps, SplitMix& random) {
  const uint64_t choice = random.next();
  if ((choice & 1) != 0) {  // beside an entry
    const Gap<Addr>& gap = gaps[random.next() % gaps.size()];
    return (choice & 2) != 0 ? gap.first : gap.last;
  }
  const Addr nth = random_below(random, gaps.back().end);
  const auto gap = std::upper_bound(gaps.begin(), gaps.end(), nth,
                                    [](Addr value, const Gap<Addr>& candidate) { return value < candidate.end; });
  return static_cast<Addr>(gap->last - (gap->end - 1 - nth));
}

template <class Addr>
Result<uint64_t> prove_strangers(Context& context) {
  const std::vector<Gap<Addr>> gaps = gaps_between_entries<Addr>(context.policy);
  if (gaps.empty()) return uint64_t{0};
  Probe<Addr> probes[filter::kMaxBatch];
  Matched matched[filter::kMaxBatch];
  for (unsigned done = 0; done < kStrangers; done += filter::kMaxBatch) {
    for (Probe<Addr>& probe : probes) {
      probe = {pick_stranger(gaps, context.random), static_cast<uint16_t>(context.random.next())};
    }
    look_up(context.snapshot, context.kernels, probes, true, matched, nullptr, Gates::left_out);
    for (unsigned i = 0; i < filter::kMaxBatch; i++) {
      const weir_set any = matched[i].source | matched[i].destination;
      if (is_empty(any)) continue;
      return Error{fmt::format("proof failed: {}, which no entry covers, matches list {}",
                               range_text(probes[i].address, probes[i].address, probes[i].port),
                               context.policy.lists[static_cast<size_t>(first_list(any))].name)};
    }
  }
  return uint64_t{kStrangers};
}

}  // namespace

Result<void> prove_canaries(const Policy& policy, const Enforcing& snapshot) {
  for (const Canary& canary : policy.canaries) {
    auto ok = canary.is_v6 ? prove_canary(policy, snapshot, canary, canary.v6)
                           : prove_canary(policy, snapshot, canary, canary.v4);
    if (!ok) return ok;
  }
  return {};
}

Result<Proof> prove(const Policy& policy, std::span<const std::byte> snapshot, uint64_t seed, bool* unlucky,
                    Progress* progress) {
  const auto kernels = filter::choose_kernels();
  if (!kernels) return Error{kernels.error()};
  const auto view = filter::SnapshotView::open(snapshot);
  if (!view) return Error{"proof failed: " + view.error()};
  if (view->lists().size() != policy.lists.size()) {
    return Error{fmt::format("proof failed: the snapshot has {} lists, the policy {}", view->lists().size(),
                             policy.lists.size())};
  }
  Context context{policy, *view, **kernels, {seed}};
  Proof proof;
  for (unsigned list = 0; list < policy.lists.size(); list++) {
    if (auto ok = prove_entries<Ipv4>(context, list, progress); !ok) return Error{ok.error()};
    if (auto ok = prove_entries<Ipv6>(context, list, progress); !ok) return Error{ok.error()};
    proof.entries += policy.lists[list].entries();
  }
  if (auto ok = prove_flows(policy, *view, **kernels, context.random.next()); !ok) return Error{ok.error()};
  if (auto ok = prove_canaries(policy, *view); !ok) return Error{ok.error()};
  for (const auto& strangers : {prove_strangers<Ipv4>(context), prove_strangers<Ipv6>(context)}) {
    if (!strangers) return Error{strangers.error()};
    proof.strangers += *strangers;
  }
  if (auto ok = prove_gates(*view, context.random.next(), proof.gate_shares); !ok) return Error{ok.error()};
  auto rates = prove_rates(*view, **kernels, context.random.next());
  if (!rates) {
    if (unlucky != nullptr) *unlucky = true;
    return Error{rates.error()};
  }
  proof.shape_rates = std::move(*rates);
  return proof;
}

}  // namespace weir::control
