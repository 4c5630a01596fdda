#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>

#include "common/files.h"
#include "control/compile/prove/chance.h"
#include "control/compile/prove/prove.h"
#include "control/policy/model/packet.h"
#include "control/policy/model/range_text.h"
#include "control/policy/model/search.h"
#include "filter/format/frame_rules.h"

namespace weir::control {
namespace {

constexpr size_t kAskedInFull = 4096;  // changes of which more than the first address is asked about
// Addresses of each family that are asked besides: so many for each change, within bounds. Among ten million entries
// each of them misses the caches some thirty times.
constexpr size_t kFromAnywhere = 16, kLeastFromAnywhere = 64, kMostFromAnywhere = 1024;

template <class Addr>
Addr any_address(SplitMix& random) {
  if constexpr (sizeof(Addr) <= 8) {
    return static_cast<Addr>(random.next());
  } else {
    return Addr{random.next()} << 64 | random.next();
  }
}

std::string names_of(const Policy& policy, const weir_set& set) {
  std::string names;
  for (unsigned l = 0; l < policy.lists.size(); l++) {
    if (has_list(set, l)) names += (names.empty() ? "" : ", ") + policy.lists[l].name;
  }
  return names.empty() ? "no list" : names;
}

bool operator==(const weir_set& a, const weir_set& b) {
  uint64_t differs = 0;
  for (unsigned w = 0; w < WEIR_LIST_WORDS; w++) differs |= a.lists[w] ^ b.lists[w];
  return differs == 0;
}

// Addresses wait here until there are enough for a batch.
template <class Addr>
class Asked {
 public:
  Asked(const Policy& policy, const Enforcing& enforcing, const filter::Kernels& kernels, bool with_ports)
      : policy_(policy), enforcing_(enforcing), kernels_(kernels), with_ports_(with_ports) {}

  Result<void> add(Addr address, uint16_t port) {
    probes_[n_++] = {address, port};
    return n_ == filter::kMaxBatch ? flush() : Result<void>{};
  }

  Result<void> flush() {
    Matched matched[filter::kMaxBatch];
    look_up(enforcing_, kernels_, std::span(probes_, n_), with_ports_, matched, nullptr, Gates::left_out);
    for (unsigned i = 0; i < n_; i++) {
      const Matched wanted = lists_that_hold(probes_[i]);
      for (const bool as_source : {true, false}) {
        const weir_set& has = as_source ? matched[i].source : matched[i].destination;
        const weir_set& should = as_source ? wanted.source : wanted.destination;
        if (has == should) continue;
        return Error{fmt::format("proof failed: {} matches {} as {}; its entries are of {}",
                                 range_text(probes_[i].address, probes_[i].address, probes_[i].port),
                                 names_of(policy_, has), as_source ? "source" : "destination",
                                 names_of(policy_, should))};
      }
    }
    n_ = 0;
    return {};
  }

 private:
  // By entries that do not expire.
  Matched lists_that_hold(const Probe<Addr>& probe) const {
    Matched wanted;
    for (unsigned l = 0; l < policy_.lists.size(); l++) {
      const Rows<Addr>& rows = rows_of<Addr>(policy_.lists[l]);
      visit_rows(rows, probe.address, [&](size_t row) {
        if (rows.expires[row] != kNever) return;
        if (rows.port[row] != 0 && (!with_ports_ || rows.port[row] != probe.port)) return;
        if ((rows.directions[row] & WEIR_AS_SOURCE) != 0) add_list(wanted.source, l);
        if ((rows.directions[row] & WEIR_AS_DESTINATION) != 0) add_list(wanted.destination, l);
      });
    }
    return wanted;
  }

  const Policy& policy_;
  const Enforcing& enforcing_;
  const filter::Kernels& kernels_;
  bool with_ports_;
  unsigned n_ = 0;
  Probe<Addr> probes_[filter::kMaxBatch];
};

// A moment before the entry ends, every list that has one as live matches.
template <class Addr>
Result<void> prove_expiry(const Policy& policy, const Enforcing& enforcing, const Entry<Addr>& changed) {
  constexpr uint8_t kForExperiments = 253;  // RFC 3692
  const uint64_t now = uint64_t{changed.expires} - 1;
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    const uint8_t direction = side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
    weir_packet packet = {};
    packet.family = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;
    packet.protocol = kForExperiments;
    if (changed.port != 0) packet.has = WEIR_HAS_PORTS;
    set_address(packet, side, changed.first);
    packet.port[side] = __builtin_bswap16(changed.port);
    const weir_set matched = match(enforcing, packet, now, direction, Gates::left_out);
    for (unsigned l = 0; l < policy.lists.size(); l++) {
      const Rows<Addr>& rows = rows_of<Addr>(policy.lists[l]);
      bool holds = false;
      visit_rows(rows, changed.first, [&](size_t row) {
        holds |= (rows.directions[row] & direction) != 0 && rows.expires[row] > now &&
                 (rows.port[row] == 0 || rows.port[row] == changed.port);
      });
      if (!holds || has_list(matched, l)) continue;
      return Error{fmt::format("proof failed: {} of list {} does not match before it expires",
                               range_text(changed.first, changed.last, changed.port), policy.lists[l].name)};
    }
  }
  return {};
}

template <class Addr>
Result<void> prove_changes(const Policy& policy, const Enforcing& enforcing, const filter::Kernels& kernels,
                           const std::vector<Entry<Addr>>& changes, SplitMix& random) {
  Asked<Addr> any_port(policy, enforcing, kernels, false), one_port(policy, enforcing, kernels, true);
  for (size_t i = 0; i < changes.size(); i++) {
    const Entry<Addr>& entry = changes[i];
    if (entry.expires != kNever && entry.expires != 0 && i < kAskedInFull) {
      if (auto ok = prove_expiry(policy, enforcing, entry); !ok) return ok;
    }
    Asked<Addr>& asked = entry.port == 0 ? any_port : one_port;
    if (auto ok = asked.add(entry.first, entry.port); !ok) return ok;
    if (i >= kAskedInFull) continue;
    const auto inside = static_cast<Addr>(entry.last - entry.first) + Addr{1};
    const Addr offset = inside == 0 ? any_address<Addr>(random) : any_address<Addr>(random) % inside;
    for (const Addr address : {entry.last, static_cast<Addr>(entry.first + offset), static_cast<Addr>(entry.first - 1),
                               static_cast<Addr>(entry.last + 1)}) {
      if (auto ok = asked.add(address, entry.port); !ok) return ok;
    }
  }
  const size_t n_from_anywhere = std::clamp(changes.size() * kFromAnywhere, kLeastFromAnywhere, kMostFromAnywhere);
  for (size_t i = 0; i < n_from_anywhere; i++) {
    if (auto ok = any_port.add(any_address<Addr>(random), 0); !ok) return ok;
  }
  if (auto ok = any_port.flush(); !ok) return ok;
  return one_port.flush();
}

}  // namespace

Result<void> prove_overlay(const Policy& policy, const Enforcing& enforcing, const Changes& changes) {
  const auto kernels = filter::choose_kernels();
  if (!kernels) return Error{kernels.error()};
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
    return errno_error("cannot get random bytes");
  }
  SplitMix random{seed};
  if (auto ok = prove_changes(policy, enforcing, **kernels, changes.v4, random); !ok) return ok;
  if (auto ok = prove_changes(policy, enforcing, **kernels, changes.v6, random); !ok) return ok;
  if (changes.has_new_flows) {
    if (auto ok = prove_flows(policy, enforcing, **kernels, random.next()); !ok) return ok;
  }
  return prove_canaries(policy, enforcing);
}

}  // namespace weir::control
