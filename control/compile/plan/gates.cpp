#include "control/compile/plan/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "control/compile/plan/levels.h"
#include "filter/format/gate.h"
#include "filter/format/packet.h"
#include "filter/format/rules.h"

namespace weir::control {

namespace {

constexpr unsigned kNetworkBits = 24;

// Two neighbours in order that share c leading bits begin a new prefix of every length above c.
class PrefixCounter {
 public:
  // Ascending. False: it was not, and nothing is counted right any more.
  bool add(uint64_t address) {
    if (keys_ > 0 && address < last_) return false;
    if (keys_ > 0 && address != last_) shared_[static_cast<unsigned>(std::countl_zero(address ^ last_))]++;
    keys_++;
    last_ = address;
    return true;
  }

  void write(GateLoad& load) const {
    load.keys = static_cast<double>(keys_);
    uint64_t prefixes = keys_ > 0 ? 1 : 0;
    for (unsigned b = 0; b <= load.bits; b++) {
      if (b > 0) prefixes += shared_[b - 1];
      load.prefixes[b] = static_cast<double>(prefixes);
    }
  }

 private:
  std::array<uint64_t, kGateBits> shared_{};
  uint64_t keys_ = 0, last_ = 0;
};

uint64_t address_of(const filter::KeyTable& table, unsigned side, size_t i) {
  const bool second = table.shape.flow && side == WEIR_SIDE_DESTINATION;
  if (table.shape.family == 6) return weir_gate_address_v6(table.words[second ? 2 : 0][i]);
  return weir_gate_address_v4(static_cast<uint32_t>(table.words[0][i] >> (second ? 32 : 0)));
}

std::vector<bool> rules_at(const std::vector<weir_rule>& rules, unsigned side, bool flow) {
  std::vector<bool> stands;
  for (const weir_rule& rule : rules) stands.push_back((filter::sides_of(rule) & (flow ? UINT8_MAX : 1 << side)) != 0);
  return stands;
}

}  // namespace

double GateLoad::covered(unsigned b) const {
  if (b <= bits) return prefixes[b];
  return std::ldexp(prefixes[bits], static_cast<int>(b - bits));
}

GateLoad load_of(const filter::KeyTable& table, unsigned side, const std::vector<weir_rule>& rules) {
  GateLoad load;
  const bool second = table.shape.flow && side == WEIR_SIDE_DESTINATION;
  load.bits = std::min<unsigned>(second ? table.shape.destination_bits : table.shape.addr_bits, kGateBits);
  const std::vector<bool> stands = rules_at(rules, side, table.shape.flow);
  PrefixCounter counter;
  bool sorted = true;
  for (size_t i = 0; i < table.rules.size() && sorted; i++) {
    if (stands[table.rules[i]]) sorted = counter.add(address_of(table, side, i));
  }
  if (!sorted) {  // as keys of flows are
    std::vector<uint64_t> addresses;
    for (size_t i = 0; i < table.rules.size(); i++) {
      if (stands[table.rules[i]]) addresses.push_back(address_of(table, side, i));
    }
    std::sort(addresses.begin(), addresses.end());
    counter = {};
    for (const uint64_t address : addresses) counter.add(address);
  }
  counter.write(load);
  load.shape_keys = static_cast<double>(table.rules.size());
  return load;
}

GateLoad load_of(const std::vector<filter::NetworkRun>& networks, unsigned side, const std::vector<weir_rule>& rules) {
  GateLoad load;
  load.bits = kNetworkBits;
  const std::vector<bool> stands = rules_at(rules, side, false);
  std::array<int64_t, kNetworkBits + 1> last;  // prefix that was counted last, of each length
  last.fill(-1);
  for (const filter::NetworkRun& run : networks) {
    if (!stands[run.rule]) continue;
    load.keys += run.last - run.first + 1;
    for (unsigned b = 0; b <= kNetworkBits; b++) {
      const int64_t from = std::max<int64_t>(run.first >> (kNetworkBits - b), last[b] + 1);
      const int64_t to = run.last >> (kNetworkBits - b);
      load.prefixes[b] += static_cast<double>(to - from + 1);
      last[b] = to;
    }
  }
  return load;
}

namespace {

// What packets pay that go on, besides the probes of their lookups. They are taken out of their reception, wait in
// columns until there are enough like them, and are judged. That a reception has any costs most: with 1M hosts on a
// Xeon of 4.1 GHz one of 32 cost 79 ns, and eight of 32 30 each; where none leaves before, they stay where they are,
// and all 32 cost 18 each, probes of 10 included (docs/develop/filter.md).
constexpr double kReceived = 32;
constexpr double kSomeGoOnNs = 54;  // a reception
constexpr double kTakenOutNs = 24;  // a packet that others leave behind
constexpr double kAllGoOnNs = 8;    // a packet where all go on

// For what a packet does not see: a MiB more is cleared, counted, digested, sent and copied at every publication, about
// a millisecond. A twentieth of what levels.h takes for a MiB of keys, which are expanded and proven besides.
constexpr double kGateNsPerMiB = kNsPerMiB / 20;
// A table that saves less than this share of the lookups' cost is not worth having.
constexpr double kLeastSaving = 0.1;

constexpr unsigned kLargestTable = 28;  // index bits: 32 MiB
constexpr double kMaxFills = filter::kMaxGateFills;
constexpr double kBytesPerMiB = 1 << 20;

// Strangers of IPv6 do not come from anywhere: about 2^17 networks of /32 are announced, 2^-15 of all. A table that
// looks at few bits knows many of those that stand beside a key.
constexpr int kUnannouncedBits = 15;

struct Choice {
  std::vector<filter::GateChoice::Table> tables;
  double ns = 0;     // a packet
  double share = 1;  // of strangers that pass
};

// A packet's share of what those cost that a gate lets through.
double survivors_ns(double share, double lookups_ns) {
  const double some = 1 - std::pow(1 - share, kReceived);
  return some * kSomeGoOnNs / kReceived + share * (kTakenOutNs + lookups_ns);
}

double lookups_ns(const std::vector<GateLoad>& loads) {
  return std::accumulate(loads.begin(), loads.end(), 0.0,
                         [](double sum, const GateLoad& l) { return sum + l.lookup_ns; });
}

double table_bytes(unsigned index_bits) {
  return static_cast<double>(weir_gate_table_bytes(index_bits));
}

double table_ns(unsigned index_bits) {
  return gate_access_ns(table_bytes(index_bits)) + kGateNsPerMiB * table_bytes(index_bits) / kBytesPerMiB;
}

double fills_of(const GateLoad& load, unsigned prefix_bits, bool direct) {
  if (load.bits >= prefix_bits) return 0;
  const double each = std::ldexp(1, static_cast<int>(prefix_bits - load.bits));
  return load.shape_keys * (direct ? std::max(each / 64, 1.0) : each);
}

// One table of the leading b bits.
std::optional<Choice> table_v4(const std::vector<GateLoad>& loads, unsigned b, double lookups_ns) {
  double kept_out = 1, fills = 0;
  for (const GateLoad& load : loads) {
    fills += fills_of(load, b, true);
    if (fills > kMaxFills) return std::nullopt;
    kept_out *= 1 - std::min(1.0, std::ldexp(load.covered(b), -static_cast<int>(b)));
  }
  return Choice{{{static_cast<uint8_t>(b), static_cast<uint8_t>(b)}},
                table_ns(b) + survivors_ns(1 - kept_out, lookups_ns),
                1 - kept_out};
}

Choice best_v4(const std::vector<GateLoad>& loads, double lookups_ns, unsigned largest) {
  Choice best = {{}, std::numeric_limits<double>::infinity(), 1};
  for (unsigned b = WEIR_MIN_GATE_PREFIX_V4; b <= std::min(WEIR_MAX_GATE_PREFIX_V4, largest); b++) {
    const std::optional<Choice> choice = table_v4(loads, b, lookups_ns);
    if (choice && choice->ns < best.ns) best = *choice;
  }
  return best;
}

// The share of strangers that a table of these keys lets through.
double share_v6(double keys, unsigned prefix_bits, unsigned index_bits) {
  const int announced = std::max(0, static_cast<int>(prefix_bits) - kUnannouncedBits);
  const double beside = std::min(1.0, std::ldexp(keys, -announced));
  if (index_bits == prefix_bits) return beside;
  return 1 - (1 - beside) * std::exp(-std::ldexp(keys, -static_cast<int>(index_bits)));
}

// Tables of these prefixes, ascending; each of the best size for what falls to it.
std::optional<Choice> tables_v6(const std::vector<GateLoad>& loads, const std::vector<unsigned>& prefixes,
                                double lookups_ns, unsigned largest) {
  std::vector<double> keys(prefixes.size());
  double fills = 0;
  for (const GateLoad& load : loads) {
    size_t t = 0;
    while (t + 1 < prefixes.size() && prefixes[t + 1] <= load.bits) t++;
    fills += fills_of(load, prefixes[t], false);
    if (fills > kMaxFills) return std::nullopt;
    keys[t] += load.covered(prefixes[t]);
  }
  Choice choice = {{}, 0, 1};
  double kept_out = 1;
  for (size_t t = 0; t < prefixes.size(); t++) {
    double least = std::numeric_limits<double>::infinity(), share = 1;
    unsigned best = 0;
    for (unsigned index = WEIR_MIN_GATE_INDEX; index <= std::min(prefixes[t], largest); index++) {
      const double passes = share_v6(keys[t], prefixes[t], index),
                   ns = table_ns(index) + survivors_ns(passes, lookups_ns);
      if (ns >= least) continue;
      least = ns, best = index, share = passes;
    }
    if (best == 0) return std::nullopt;
    choice.tables.push_back({static_cast<uint8_t>(prefixes[t]), static_cast<uint8_t>(best)});
    kept_out *= 1 - share;
    choice.ns += table_ns(best);
  }
  choice.share = 1 - kept_out;
  choice.ns += survivors_ns(choice.share, lookups_ns);
  return choice;
}

// The lengths of the keys are the only prefixes worth looking at, and one short enough for what is shorter.
Choice best_v6(const std::vector<GateLoad>& loads, double lookups_ns, unsigned largest) {
  constexpr unsigned kShort = 16;
  std::vector<unsigned> lengths = {kShort};
  for (const GateLoad& load : loads) {
    if (load.bits > kShort) lengths.push_back(load.bits);
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  Choice best = {{}, std::numeric_limits<double>::infinity(), 1};
  const auto consider = [&](const std::vector<unsigned>& prefixes) {
    const std::optional<Choice> choice = tables_v6(loads, prefixes, lookups_ns, largest);
    if (choice && choice->ns < best.ns) best = *choice;
  };
  for (size_t a = 0; a < lengths.size(); a++) {
    consider({lengths[a]});
    for (size_t b = a + 1; b < lengths.size(); b++) {
      consider({lengths[a], lengths[b]});
      for (size_t c = b + 1; c < lengths.size(); c++) consider({lengths[a], lengths[b], lengths[c]});
    }
  }
  return best;
}

struct Gate {
  Choice choice;  // no tables: open
  std::string why;
};

// largest: index bits of a table. Without loads: closed.
Gate choose(unsigned family, const std::vector<GateLoad>& loads, unsigned largest) {
  if (loads.empty()) return {{{}, 0, 0}, "nothing is looked up at this side"};
  const double probes_ns = lookups_ns(loads);
  const double open_ns = kSomeGoOnNs / kReceived + kAllGoOnNs + probes_ns;
  const auto open = [&](std::string why) -> Gate { return {{{}, open_ns, 1}, std::move(why)}; };
  if (std::any_of(loads.begin(), loads.end(), [](const GateLoad& load) { return load.bits == 0; })) {
    return open("some entry is looked up whatever the address");
  }
  const Choice best = family == 4 ? best_v4(loads, probes_ns, largest) : best_v6(loads, probes_ns, largest);
  if (best.tables.empty()) return open("entries of few bits would fill any table");
  const std::string costs = fmt::format("{:.1f} ns a packet against {:.1f} without", best.ns, open_ns);
  if (best.ns > (1 - kLeastSaving) * open_ns) {
    return open(fmt::format("the best table would let {:.3g} % through: {}", best.share * 100, costs));
  }
  return {best, costs};
}

double bytes_of(const Choice& choice) {
  return std::accumulate(choice.tables.begin(), choice.tables.end(), 0.0,
                         [](double sum, const auto& table) { return sum + table_bytes(table.index_bits); });
}

double lookup_ns(weir_layout layout, uint64_t keys) {
  constexpr double kUsualBytesPerKey = 1.5;
  return probe_ns(layout) + gate_access_ns(kUsualBytesPerKey * static_cast<double>(keys));
}

// The load of so many keys of all bits that lie anywhere.
GateLoad random_load(uint64_t keys, unsigned bits) {
  GateLoad load;
  load.bits = bits;
  load.keys = load.shape_keys = static_cast<double>(keys);
  for (unsigned b = 0; b <= bits; b++) {
    const double prefixes = std::ldexp(1, static_cast<int>(b));
    load.prefixes[b] = -prefixes * std::expm1(-load.keys / prefixes);
  }
  return load;
}

// Both sides of a family.
class Sides {
 public:
  Sides(filter::SnapshotInput& input, unsigned family) : input_(input), family_(family) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      for (const filter::KeyTable& table : input.tables) {
        if (table.shape.family == family && !table.shape.flow) add(side, table_load(table, side));
      }
      if (family != 4) continue;
      GateLoad networks = load_of(input.networks, side, input.rules);
      networks.lookup_ns = kBitmapProbeNs;
      add(side, networks);
    }
    place_flows();
  }

  Gate choose(unsigned side, unsigned largest) const { return control::choose(family_, loads_[side], largest); }

 private:
  void add(unsigned side, const GateLoad& load) {
    if (load.stands()) loads_[side].push_back(load);
  }

  GateLoad table_load(const filter::KeyTable& table, unsigned side) const {
    GateLoad load = load_of(table, side, input_.rules);
    load.lookup_ns = lookup_ns(table.layout, table.rules.size());
    return load;
  }

  // Each to the side where both gates together are cheaper with it. Those that let most through come first: what they
  // spoil is spoilt for the others, too.
  void place_flows() {
    struct Flow {
      filter::KeyTable* table;
      GateLoad load[2];
      double least_share() const { return std::min(share(load[0]), share(load[1])); }
      static double share(const GateLoad& load) {
        return std::ldexp(load.covered(load.bits), -static_cast<int>(load.bits));
      }
    };
    std::vector<Flow> flows;
    for (filter::KeyTable& table : input_.tables) {
      if (table.shape.family != family_ || !table.shape.flow) continue;
      flows.push_back({&table, {table_load(table, WEIR_SIDE_SOURCE), table_load(table, WEIR_SIDE_DESTINATION)}});
    }
    std::stable_sort(flows.begin(), flows.end(),
                     [](const Flow& a, const Flow& b) { return a.least_share() > b.least_share(); });
    for (const Flow& flow : flows) {
      double ns[2];
      for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
        std::vector<GateLoad> with = loads_[side];
        with.push_back(flow.load[side]);
        ns[side] = control::choose(family_, with, kLargestTable).choice.ns + choose(1 - side, kLargestTable).choice.ns;
      }
      const unsigned side = ns[WEIR_SIDE_DESTINATION] < ns[WEIR_SIDE_SOURCE] ? WEIR_SIDE_DESTINATION : WEIR_SIDE_SOURCE;
      flow.table->gate_side = static_cast<uint8_t>(side);
      add(side, flow.load[side]);
    }
  }

  filter::SnapshotInput& input_;
  const unsigned family_;
  std::vector<GateLoad> loads_[2];
};

}  // namespace

double gate_access_ns(double table_bytes) {
  // bench_gates --benchmark_filter=gate/access, the geometric mean of an EPYC of two cores with 1 MiB of L2, others at
  // work on its L3, and a Xeon with 2 MiB, which beyond L2 differ by four; within it those of the EPYC.
  constexpr struct {
    double mib, ns;
  } kMeasured[] = {{0.25, 0.1}, {1, 0.2}, {4, 0.5}, {8, 1.0}, {16, 2.9}, {32, 4.0}, {64, 5.2}};
  const double mib = table_bytes / kBytesPerMiB;
  const auto* above = std::find_if(std::begin(kMeasured), std::end(kMeasured), [&](auto at) { return at.mib >= mib; });
  if (above == std::begin(kMeasured)) return above->ns;
  if (above == std::end(kMeasured)) return above[-1].ns;
  const double share = std::log2(mib / above[-1].mib) / std::log2(above->mib / above[-1].mib);
  return above[-1].ns + share * (above->ns - above[-1].ns);
}

double usual_gate_bytes(unsigned family, weir_layout layout, uint64_t keys) {
  GateLoad load = random_load(keys, family == 4 ? 32 : kGateBits);
  load.lookup_ns = lookup_ns(layout, keys);
  return bytes_of(choose(family, {load}, kLargestTable).choice);
}

GateReasons choose_gates(filter::SnapshotInput& input, double most_bytes) {
  const Sides sides[] = {{input, 4}, {input, 6}};
  Gate gates[WEIR_GATES];
  bool wanted[WEIR_GATES] = {};  // tables, if there were room
  // When memory is short, smaller tables for all: the largest are those that save least by their size.
  for (unsigned largest = kLargestTable;; largest--) {
    double bytes = 0;
    for (const unsigned family : {4u, 6u}) {
      for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
        Gate& gate = gates[weir_gate_number(family, side)];
        gate = sides[family == 6].choose(side, largest);
        bool& wants = wanted[weir_gate_number(family, side)];
        if (largest == kLargestTable) wants = !gate.choice.tables.empty();
        if (wants && gate.choice.tables.empty()) gate.why = "filter.memory has no room for a table";
        bytes += bytes_of(gate.choice);
      }
    }
    if (bytes <= most_bytes || bytes == 0) break;
  }
  GateReasons why;
  for (unsigned g = 0; g < WEIR_GATES; g++) {
    input.gates[g].tables = gates[g].choice.tables;
    why[g] = gates[g].why;
  }
  return why;
}

double gate_bytes(const weir_snapshot_header& header) {
  double bytes = 0;
  for (const weir_gate& gate : header.gates) {
    for (unsigned t = 0; t < gate.n_tables; t++) bytes += table_bytes(gate.table[t].index_bits);
  }
  return bytes;
}

GateReport describe_gate(const weir_snapshot_header& header, unsigned g) {
  const weir_gate& gate = header.gates[g];
  GateReport report;
  report.family = g < weir_gate_number(6, WEIR_SIDE_SOURCE) ? 4 : 6;
  report.side = g % 2;
  report.name = fmt::format("v{} {}", report.family, report.side == WEIR_SIDE_SOURCE ? "src" : "dst");
  report.gate = gate;
  double kept_out = gate.kind == WEIR_GATE_OPEN ? 0 : 1;
  for (unsigned t = 0; t < gate.n_tables; t++) {
    kept_out *= 1 - std::ldexp(static_cast<double>(gate.table[t].n_set), -static_cast<int>(gate.table[t].index_bits));
  }
  report.expected_share = 1 - kept_out;
  return report;
}

}  // namespace weir::control
