#include "control/compile/plan/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "control/compile/plan/gate_load.h"
#include "control/compile/plan/levels.h"
#include "filter/format/gate.h"
#include "filter/format/rules.h"

namespace weir::control {

namespace {

enum class Plane { data_plane, xdp };

// Costs of packets that pass a gate in the data plane, besides the probes of their lookups. The loop copies them into a
// group, and judges them when it has enough. The first one of a reception costs most: with 1M hosts on a Xeon of 4.1
// GHz one of 32 cost 79 ns, and eight of 32 30 ns each. At an open gate all 32 cost 18 ns each, probes of 10 included
// (docs/develop/filter.md).
constexpr double kReceived = 32;
constexpr double kSomeGoOnNs = 54;  // a reception
constexpr double kTakenOutNs = 24;  // a packet that others leave behind
constexpr double kAllGoOnNs = 8;    // a packet where all go on
// XDP has one packet at a time. One that passes a gate mispredicts a branch, parses the rest of its headers, and makes
// a lookup that misses.
constexpr double kXdpGoesOnNs = 100;

// In the data plane: the hash of words, and the line of a second table (docs/develop/gate.md). In XDP: the branch of a
// second table.
constexpr double kWordsNs = 2, kSecondTableNs = 2, kXdpSecondTableNs = 1;

// The price of memory: each publication clears, counts, digests, sends and copies a MiB more, in about a millisecond. A
// twentieth of what levels.h takes for a MiB of keys, which are expanded and proven besides.
constexpr double kGateNsPerMiB = kNsPerMiB / 20;
// A table that saves less than this share of the lookups' cost is not worth having.
constexpr double kLeastSaving = 0.1;

constexpr double kMaxFills = filter::kMaxGateFills;
constexpr double kBytesPerMiB = 1 << 20;
constexpr double kLargestTable = 32 * kBytesPerMiB;

// Strangers of IPv6 do not come from anywhere: about 2^17 networks of /32 are announced, 2^-15 of all. A table that
// looks at few bits knows many of those that stand beside a key.
constexpr int kUnannouncedBits = 15;
constexpr unsigned kShortestPrefix = 16;

struct Choice {
  std::vector<filter::GateChoice::Table> tables;
  double ns = 0;     // a packet
  double share = 1;  // of strangers that pass
};

// A packet's share of what those cost that a gate lets through.
double survivors_ns(Plane plane, double share, double lookups_ns) {
  if (plane == Plane::xdp) return share * kXdpGoesOnNs;
  const double some = 1 - std::pow(1 - share, kReceived);
  return some * kSomeGoOnNs / kReceived + share * (kTakenOutNs + lookups_ns);
}

// The cost of a packet at an open gate.
double open_ns(Plane plane, double lookups_ns) {
  return plane == Plane::xdp ? kXdpGoesOnNs : kSomeGoOnNs / kReceived + kAllGoOnNs + lookups_ns;
}

double lookups_ns(const std::vector<GateLoad>& loads) {
  return std::accumulate(loads.begin(), loads.end(), 0.0,
                         [](double sum, const GateLoad& l) { return sum + l.lookup_ns; });
}

double table_bytes(filter::GateChoice::Table table) {
  return static_cast<double>(weir_gate_table_words(table.prefix_bits, table.n_words)) * sizeof(uint64_t);
}

// Extra ns of a table of 2^15, 2^16, ... bits in XDP, beside the smallest: xdp_bench with 1,000 hosts and tables of one
// size, on a Xeon with 2 MiB of L2 (docs/develop/benchmarks.md, "XDP"). The pages of BPF maps have 4 KiB, so large
// tables pay for the TLB, too. Past the last, each doubling costs as much as the last one.
double xdp_access_ns(double table_bytes) {
  constexpr double kMeasured[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.1, 4, 13, 22, 48, 79};
  const double at = std::max(0.0, std::log2(table_bytes * 8) - WEIR_MIN_DIRECT_PREFIX);
  const auto below = std::min(static_cast<size_t>(at), std::size(kMeasured) - 2);
  return std::lerp(kMeasured[below], kMeasured[below + 1], at - static_cast<double>(below));
}

// The share of other values that pass words, with so many keys in each on the average. Three bits are asked, drawn with
// repetition, and all lie among those of the word's keys, whose number is Poisson distributed.
double share_through_words(double keys_per_word) {
  const auto all_set = [&](int asked) {  // so many different bits
    double share = 0, times = 1;
    for (int clear = 0; clear <= asked; clear++) {
      share += times * std::exp(-keys_per_word * (1 - std::pow(1 - clear / 64.0, 3)));
      times *= -static_cast<double>(asked - clear) / (clear + 1);
    }
    return share;
  };
  return (63.0 * 62 * all_set(3) + 3 * 63 * all_set(2) + all_set(1)) / (64 * 64);
}

// The access of every packet.
double table_ns(Plane plane, filter::GateChoice::Table table) {
  const double bytes = table_bytes(table), size_ns = kGateNsPerMiB * bytes / kBytesPerMiB;
  if (plane == Plane::xdp) return xdp_access_ns(bytes) + size_ns;
  return gate_access_ns(bytes) + size_ns + (table.n_words != 0 ? kWordsNs : 0);
}

// One table, for the keys that fall to it.
struct TableCost {
  filter::GateChoice::Table table;
  double ns;     // its access, for every packet
  double share;  // of strangers that pass
};

// One gate's question.
struct Question {
  Plane plane;
  unsigned family;
  const std::vector<GateLoad>& loads;
  double lookups_ns;
  double largest_bytes;  // of a table
};

// The form and size that cost least together; null: none fits. keys: different leading prefix_bits bits.
std::optional<TableCost> best_table(const Question& question, double keys, unsigned prefix_bits) {
  // Strangers beside a key, with the same leading bits.
  const int announced = static_cast<int>(prefix_bits) - (question.family == 6 ? kUnannouncedBits : 0);
  const double beside = std::min(1.0, std::ldexp(keys, -std::max(0, announced)));
  std::optional<TableCost> best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](filter::GateChoice::Table table, double share) {
    if (table_bytes(table) > question.largest_bytes) return;
    const TableCost cost = {table, table_ns(question.plane, table), share};
    const double ns = cost.ns + survivors_ns(question.plane, share, question.lookups_ns);
    if (ns < least) least = ns, best = cost;
  };
  const auto prefix = static_cast<uint8_t>(prefix_bits);
  if (prefix_bits >= WEIR_MIN_DIRECT_PREFIX && prefix_bits <= WEIR_MAX_DIRECT_PREFIX) consider({prefix, 0}, beside);
  // Words of fewer bits than the keys have would let neighbours through, and be no smaller.
  const bool is_length = std::any_of(question.loads.begin(), question.loads.end(), [&](const GateLoad& load) {
    return std::max(kShortestPrefix, load.bits) == prefix_bits;
  });
  if (!is_length) return best;
  for (const double bits_per_key : {8, 10, 12, 14, 16, 20, 24, 32, 48, 64}) {
    const double pages = std::max(1.0, std::ceil(keys * bits_per_key / (WEIR_PAGE_BYTES * 8)));
    if (pages > WEIR_MAX_GATE_PAGES) break;
    const auto n_words = static_cast<uint32_t>(pages) * (WEIR_PAGE_BYTES / 8);
    consider({prefix, n_words}, beside + (1 - beside) * share_through_words(keys / n_words));
  }
  return best;
}

// Words of a direct table, or values of words, that the keys of the load set one by one.
double fills_of(const GateLoad& load, filter::GateChoice::Table table) {
  if (load.bits >= table.prefix_bits || (load.is_bitmap && table.n_words == 0)) return 0;
  const double each = std::ldexp(1, static_cast<int>(table.prefix_bits - load.bits));
  return load.shape_keys * (table.n_words == 0 ? std::max(each / 64, 1.0) : each);
}

// Tables of these prefixes, ascending; each of the best form and size for what falls to it.
std::optional<Choice> tables_of(const Question& question, const std::vector<unsigned>& prefixes) {
  const auto table_of = [&](const GateLoad& load) {
    size_t t = 0;
    while (t + 1 < prefixes.size() && prefixes[t + 1] <= load.bits) t++;
    return t;
  };
  std::vector<double> keys(prefixes.size());
  for (const GateLoad& load : question.loads) keys[table_of(load)] += load.covered(prefixes[table_of(load)]);
  const double second_ns = question.plane == Plane::xdp ? kXdpSecondTableNs : kSecondTableNs;
  Choice choice = {{}, prefixes.size() > 1 ? second_ns : 0, 1};
  double kept_out = 1;
  for (size_t t = 0; t < prefixes.size(); t++) {
    const std::optional<TableCost> table = best_table(question, keys[t], prefixes[t]);
    if (!table) return std::nullopt;
    choice.tables.push_back(table->table);
    kept_out *= 1 - table->share;
    choice.ns += table->ns;
  }
  double fills = 0;
  for (const GateLoad& load : question.loads) fills += fills_of(load, choice.tables[table_of(load)]);
  if (fills > kMaxFills) return std::nullopt;
  choice.share = 1 - kept_out;
  choice.ns += survivors_ns(question.plane, choice.share, question.lookups_ns);
  return choice;
}

// Prefixes worth looking at: the lengths of the keys, and for networks shorter ones.
std::vector<unsigned> prefixes_for(const Question& question) {
  std::vector<unsigned> prefixes = {kShortestPrefix};
  if (question.family == 4) {
    for (unsigned bits = kShortestPrefix; bits <= WEIR_MAX_DIRECT_PREFIX; bits++) prefixes.push_back(bits);
  }
  for (const GateLoad& load : question.loads) prefixes.push_back(std::max(kShortestPrefix, load.bits));
  std::sort(prefixes.begin(), prefixes.end());
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
  return prefixes;
}

Choice best_choice(const Question& question) {
  Choice best = {{}, std::numeric_limits<double>::infinity(), 1};
  const auto consider = [&](const std::vector<unsigned>& prefixes) {
    const std::optional<Choice> choice = tables_of(question, prefixes);
    if (choice && choice->ns < best.ns) best = *choice;
  };
  const std::vector<unsigned> prefixes = prefixes_for(question);
  for (size_t a = 0; a < prefixes.size(); a++) {
    consider({prefixes[a]});
    for (size_t b = a + 1; b < prefixes.size(); b++) consider({prefixes[a], prefixes[b]});
  }
  return best;
}

struct Gate {
  Choice choice;  // no tables: open
  std::string why;
};

// Without loads: closed.
Gate choose(Plane plane, unsigned family, const std::vector<GateLoad>& loads, double largest_bytes) {
  if (loads.empty()) return {{{}, 0, 0}, "nothing is looked up at this side"};
  const double probes_ns = lookups_ns(loads), without_ns = open_ns(plane, probes_ns);
  const auto open = [&](std::string why) -> Gate { return {{{}, without_ns, 1}, std::move(why)}; };
  if (std::any_of(loads.begin(), loads.end(), [](const GateLoad& load) { return load.bits == 0; })) {
    return open("some entry is looked up whatever the address");
  }
  const Choice best = best_choice({plane, family, loads, probes_ns, largest_bytes});
  if (best.tables.empty()) return open("entries of few bits would fill any table");
  const std::string costs = fmt::format("{:.1f} ns a packet against {:.1f} without", best.ns, without_ns);
  if (best.ns > (1 - kLeastSaving) * without_ns) {
    return open(fmt::format("the best table would let {:.3g} % through: {}", best.share * 100, costs));
  }
  return {best, costs};
}

double bytes_of(const Choice& choice) {
  return std::accumulate(choice.tables.begin(), choice.tables.end(), 0.0,
                         [](double sum, const auto& table) { return sum + table_bytes(table); });
}

double lookup_ns(weir_layout layout, uint64_t keys) {
  constexpr double kUsualBytesPerKey = 1.5;
  return probe_ns(layout) + gate_access_ns(kUsualBytesPerKey * static_cast<double>(keys));
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

  Gate choose(Plane plane, unsigned side, double largest_bytes) const {
    return control::choose(plane, family_, loads_[side], largest_bytes);
  }

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
        ns[side] = control::choose(Plane::data_plane, family_, with, kLargestTable).choice.ns +
                   choose(Plane::data_plane, 1 - side, kLargestTable).choice.ns;
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
  return bytes_of(choose(Plane::data_plane, family, {load}, kLargestTable).choice);
}

GateReasons choose_gates(filter::SnapshotInput& input, double most_bytes, uint8_t kinds) {
  const Sides sides[] = {{input, 4}, {input, 6}};
  std::array<Gate, 2 * WEIR_GATES> gates;
  std::array<bool, 2 * WEIR_GATES> wanted = {};  // tables, if there were room
  // When memory is short, smaller tables for all: the largest are those that save least by their size.
  for (double largest_bytes = kLargestTable;; largest_bytes /= 2) {
    double bytes = 0;
    for (unsigned i = 0; i < gates.size(); i++) {
      const unsigned g = i % WEIR_GATES, of_v6 = g / 2, side = g % 2;
      const Plane plane = i < WEIR_GATES ? Plane::data_plane : Plane::xdp;
      const bool is_asked = (kinds & bit_of(plane == Plane::xdp ? TargetKind::xdp : TargetKind::dataplane)) != 0;
      gates[i] = is_asked ? sides[of_v6].choose(plane, side, largest_bytes) : Gate{{}, "no target of this plane"};
      if (largest_bytes == kLargestTable) wanted[i] = !gates[i].choice.tables.empty();
      if (wanted[i] && gates[i].choice.tables.empty()) gates[i].why = "filter.memory has no room for a table";
      bytes += bytes_of(gates[i].choice);
    }
    if (bytes <= most_bytes || bytes == 0) break;
  }
  GateReasons why;
  for (unsigned i = 0; i < gates.size(); i++) {
    (i < WEIR_GATES ? input.gates : input.xdp_gates)[i % WEIR_GATES].tables = gates[i].choice.tables;
    why[i] = gates[i].why;
  }
  return why;
}

double gate_bytes(const weir_snapshot_header& header) {
  double bytes = 0;
  uint64_t last = 0;  // offset of the table counted last
  for (const weir_gate* gates : {header.gates, header.xdp_gates}) {
    for (const weir_gate& gate : std::span(gates, WEIR_GATES)) {
      for (const weir_gate_table& table : std::span(gate.table, gate.n_tables)) {
        if (table.bits.offset <= last) continue;  // shared
        last = table.bits.offset;
        bytes += static_cast<double>(table.bits.size_bytes);
      }
    }
  }
  return bytes;
}

namespace {

double share_through(const weir_gate_table& table) {
  const double share_set = static_cast<double>(table.n_set) / (static_cast<double>(table.bits.size_bytes) * 8);
  if (table.n_words == 0) return share_set;
  const double keys_per_word = -std::log1p(-std::min(share_set, 1 - 1e-9)) / (1 - std::pow(63 / 64.0, 3));
  return share_through_words(keys_per_word);
}

}  // namespace

std::array<GateReport, 2 * WEIR_GATES> describe_gates(const weir_snapshot_header& header) {
  std::array<GateReport, 2 * WEIR_GATES> reports;
  for (unsigned i = 0; i < reports.size(); i++) {
    const unsigned g = i % WEIR_GATES;
    GateReport& report = reports[i];
    report.is_of_xdp = i >= WEIR_GATES;
    report.family = g < weir_gate_number(6, WEIR_SIDE_SOURCE) ? 4 : 6;
    report.side = g % 2;
    report.name = fmt::format("v{} {}{}", report.family, report.side == WEIR_SIDE_SOURCE ? "src" : "dst",
                              report.is_of_xdp ? ", XDP" : "");
    report.gate = (report.is_of_xdp ? header.xdp_gates : header.gates)[g];
    double kept_out = report.gate.kind == WEIR_GATE_OPEN ? 0 : 1;
    for (unsigned t = 0; t < report.gate.n_tables; t++) kept_out *= 1 - share_through(report.gate.table[t]);
    report.expected_share = 1 - kept_out;
  }
  return reports;
}

}  // namespace weir::control
