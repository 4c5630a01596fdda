#include "filter/build/gates.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <string>

#include "common/prefetch.h"
#include "filter/build/threads.h"
#include "filter/format/gate.h"
#include "filter/format/rules.h"
#include "filter/format/siphash.h"

namespace weir::filter {
namespace {

constexpr uint8_t kNetworkBits = 24;  // of NetworkRun

std::string gate_name(unsigned family, unsigned side) {
  return std::string("gate of IPv") + (family == 4 ? "4 " : "6 ") +
         (side == WEIR_SIDE_SOURCE ? "sources" : "destinations");
}

Result<weir_gate> plan_tables(const std::string& name, unsigned family, const GateChoice& choice) {
  weir_gate gate = {};
  gate.kind = WEIR_GATE_TABLES;
  if (choice.tables.size() > WEIR_MAX_GATE_TABLES) {
    return Error{name + ": " + std::to_string(choice.tables.size()) + " tables are too many"};
  }
  for (const GateChoice::Table& wanted : choice.tables) {
    weir_gate_table& table = gate.table[gate.n_tables++];
    table.prefix_bits = wanted.prefix_bits;
    table.n_words = wanted.n_words;
    if (const char* problem = gate_table_problem(table, family)) return Error{name + ": " + problem};
    if (gate.n_tables > 1 && (&table)[-1].prefix_bits >= table.prefix_bits) {
      return Error{name + ": tables are not in the order of their prefixes"};
    }
    table.bits.size_bytes = gate_table_bytes(table);
  }
  return gate;
}

// Words (direct) or values (words) of the table that one key of this length fills.
uint64_t fills_of(const weir_gate_table& table, unsigned bits) {
  const unsigned more = table.prefix_bits - std::min<unsigned>(bits, table.prefix_bits);
  if (table.n_words == 0) return more <= 6 ? 1 : uint64_t{1} << (more - 6);
  return more < 64 ? uint64_t{1} << more : ~uint64_t{0};
}

// Short keys do not fill more than kMaxGateFills.
Result<void> check_fills(const std::string& name, const weir_gate& gate, const weir_snapshot_header& header,
                         unsigned family, unsigned side) {
  const std::span tables(gate.table, gate.n_tables);
  uint64_t left = kMaxGateFills;
  for (const weir_shape& shape : std::span(header.shapes, header.n_shapes)) {
    if (shape.family != family || weir_stands_at(&shape, side) == 0) continue;
    const unsigned bits = leading_bits(shape_of(shape), side);
    const weir_gate_table& table = tables[gate_table_of(tables, bits)];
    const uint64_t fills = fills_of(table, bits);
    // A bitmap's networks differ from each other, so they fill no direct table twice.
    if (fills == 1 || shape.n_keys == 0 || (shape.layout == WEIR_LAYOUT_BITMAP && table.n_words == 0)) continue;
    if (fills > left / shape.n_keys) {
      return Error{name + ": " + std::to_string(shape.n_keys) + " keys of /" + std::to_string(bits) +
                   " would fill too much of a table of /" + std::to_string(table.prefix_bits)};
    }
    left -= fills * shape.n_keys;
  }
  return {};
}

// Sets bits of one table, from several threads at once.
class Marker {
 public:
  Marker(const weir_gate_table& table, uint64_t multiplier, std::span<std::byte> out)
      : table_(table), multiplier_(multiplier), words_(reinterpret_cast<uint64_t*>(out.data() + table.bits.offset)) {}

  unsigned prefix_bits() const { return table_.prefix_bits; }

  // n <= kMaxBatch addresses with at least prefix_bits bits. Bits of neighbours, as sorted keys are, go to memory
  // together: an atomic store costs more than all the rest.
  void mark(const uint64_t* address, unsigned n) const {
    weir_gate_place place[kMaxBatch];
    for (unsigned i = 0; i < n; i++) {
      place[i] = weir_gate_place_of(table_.prefix_bits, table_.n_words, multiplier_, address[i]);
      prefetch_line_to_write(words_ + place[i].word);
    }
    for (unsigned i = 0; i < n;) {
      const uint32_t word = place[i].word;
      uint64_t bits = 0;
      for (; i < n && place[i].word == word; i++) bits |= place[i].bits;
      set(word, bits);
    }
  }

  // All addresses from `first` to `last`, of which the first prefix_bits bits count.
  void mark_range(uint64_t first, uint64_t last) const {
    const unsigned shift = 64 - table_.prefix_bits;
    first >>= shift, last >>= shift;
    if (table_.n_words == 0) {
      set_range(first, last);
      return;
    }
    for (uint64_t leading = first;; leading++) {
      const uint64_t address = leading << shift;
      mark(&address, 1);
      if (leading == last) return;
    }
  }

 private:
  void set(uint64_t word, uint64_t bits) const {
    const std::atomic_ref<uint64_t> at(words_[word]);
    if ((at.load(std::memory_order_relaxed) & bits) != bits) at.fetch_or(bits, std::memory_order_relaxed);
  }
  void set_range(uint64_t first, uint64_t last) const {
    for (uint64_t word = first / 64; word <= last / 64; word++) {
      uint64_t bits = ~uint64_t{0};
      if (word == first / 64) bits &= ~uint64_t{0} << (first % 64);
      if (word == last / 64) bits &= ~uint64_t{0} >> (63 - last % 64);
      set(word, bits);
    }
  }

  const weir_gate_table& table_;
  const uint64_t multiplier_;
  uint64_t* const words_;
};

// One table of keys, at one gate. sides: of each rule; an address key stands where its rule has lists, and in an
// overlay wherever the base asks for such keys, to replace its rule.
void mark_keys(const KeyTable& table, unsigned side, const std::vector<uint8_t>& sides, const Marker& marker,
               unsigned threads) {
  const unsigned bits = leading_bits(table.shape, side);
  const uint64_t covered = bits >= marker.prefix_bits() ? 0 : bits == 0 ? ~uint64_t{0} : ~uint64_t{0} >> bits;
  const auto direction = static_cast<uint8_t>(1 << side);
  const bool all = table.shape.flow || (table.asked & direction) != 0;
  const size_t n = table.rules.size();
  threads = std::clamp<unsigned>(static_cast<unsigned>(n / kKeysPerThread), 1, std::max(threads, 1u));
  on_threads(threads, [&](unsigned t) {
    const size_t end = n * (t + 1) / threads;
    for (size_t i = n * t / threads; i < end;) {
      uint64_t address[kMaxBatch];
      unsigned some = 0;
      for (; some < kMaxBatch && i < end; i++) {
        address[some] = leading_address(table.shape, side, [&](unsigned w) { return table.words[w][i]; });
        some += all || (sides[table.rules[i]] & direction) != 0;
      }
      if (covered == 0) {
        marker.mark(address, some);
        continue;
      }
      for (unsigned k = 0; k < some; k++) marker.mark_range(address[k], address[k] | covered);
    }
  });
}

void mark_networks(const std::vector<NetworkRun>& runs, unsigned side, const std::vector<uint8_t>& sides,
                   const Marker& marker) {
  constexpr unsigned kShift = 64 - kNetworkBits;
  for (const NetworkRun& run : runs) {
    if ((sides[run.rule] & 1 << side) == 0) continue;
    marker.mark_range(uint64_t{run.first} << kShift, (uint64_t{run.last} << kShift) | ((uint64_t{1} << kShift) - 1));
  }
}

uint64_t count_bits(const uint64_t* words, size_t n) {
  uint64_t bits = 0;
  for (size_t i = 0; i < n; i++) bits += static_cast<uint64_t>(std::popcount(words[i]));
  return bits;
}

void build_gate(const SnapshotInput& input, unsigned family, unsigned side, const std::vector<uint8_t>& sides,
                weir_gate& gate, std::span<std::byte> out, unsigned threads) {
  const std::span tables(gate.table, gate.n_tables);
  const auto marker_of = [&](unsigned bits) {
    return Marker(tables[gate_table_of(tables, bits)], gate.multiplier, out);
  };
  for (const KeyTable& table : input.tables) {
    if (table.shape.family != family || (table.shape.flow && table.gate_side != side)) continue;
    mark_keys(table, side, sides, marker_of(leading_bits(table.shape, side)), threads);
  }
  if (family == 4) mark_networks(input.networks, side, sides, marker_of(kNetworkBits));
  for (weir_gate_table& table : tables) {
    table.n_set = count_bits(reinterpret_cast<const uint64_t*>(out.data() + table.bits.offset),
                             table.bits.size_bytes / sizeof(uint64_t));
  }
}

// No key has three words that begin like this, so that no key's hash is the multiplier.
uint64_t multiplier_of(const uint64_t secret[2]) {
  const uint64_t message[] = {0x65746167'72696577 /* "weirgate" */, ~uint64_t{0}, ~uint64_t{0}};
  return weir_siphash13(secret, message, std::size(message)) | 1;
}

}  // namespace

namespace {

bool has_same_plan(const weir_gate& a, const weir_gate& b) {
  const auto is_same = [](const weir_gate_table& x, const weir_gate_table& y) {
    return x.prefix_bits == y.prefix_bits && x.n_words == y.n_words;
  };
  return a.kind == WEIR_GATE_TABLES && b.kind == WEIR_GATE_TABLES &&
         std::equal(a.table, a.table + a.n_tables, b.table, b.table + b.n_tables, is_same);
}

// Every key of the family stands at both sides.
bool has_same_sides(const SnapshotInput& input, unsigned family) {
  constexpr uint8_t kBoth = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
  const auto is_at_both = [&](uint32_t rule) { return sides_of(input.rules[rule]) == kBoth; };
  for (const KeyTable& table : input.tables) {
    if (table.shape.family != family) continue;
    if (table.shape.flow) return false;
    if (table.asked != kBoth && !std::all_of(table.rules.begin(), table.rules.end(), is_at_both)) return false;
  }
  return family == 6 || std::all_of(input.networks.begin(), input.networks.end(),
                                    [&](const NetworkRun& run) { return is_at_both(run.rule); });
}

// Where the gate stands in the header: its plane's gates, and its number among these.
struct GatePlace {
  bool is_of_xdp;
  unsigned number;
  unsigned family() const { return number < weir_gate_number(6, WEIR_SIDE_SOURCE) ? 4 : 6; }
  unsigned side() const { return number % 2; }
};
GatePlace place_of(const weir_snapshot_header& header, const weir_gate& gate) {
  const bool is_of_xdp = &gate >= header.xdp_gates;
  return {is_of_xdp, static_cast<unsigned>(&gate - (is_of_xdp ? header.xdp_gates : header.gates))};
}

}  // namespace

const weir_gate* same_gate(const SnapshotInput& input, const weir_snapshot_header& header, const weir_gate& gate) {
  const GatePlace place = place_of(header, gate);
  const weir_gate* of_data_plane = &header.gates[place.number];
  if (place.is_of_xdp && has_same_plan(gate, *of_data_plane)) return of_data_plane;
  if (place.side() != WEIR_SIDE_DESTINATION || !has_same_plan(gate, (&gate)[-1])) return nullptr;
  return has_same_sides(input, place.family()) ? &gate - 1 : nullptr;
}

Result<void> plan_gates(const SnapshotInput& input, weir_snapshot_header& header) {
  for (const bool is_of_xdp : {false, true}) {
    for (unsigned g = 0; g < WEIR_GATES; g++) {
      weir_gate& gate = (is_of_xdp ? header.xdp_gates : header.gates)[g];
      const GateChoice& choice = (is_of_xdp ? input.xdp_gates : input.gates)[g];
      const unsigned family = g < weir_gate_number(6, WEIR_SIDE_SOURCE) ? 4 : 6, side = g % 2;
      const bool stands = std::any_of(header.shapes, header.shapes + header.n_shapes, [&](const weir_shape& shape) {
        return shape.family == family && weir_stands_at(&shape, side) != 0;
      });
      gate = {};
      if (!stands) {
        gate.kind = WEIR_GATE_CLOSED;
      } else if (!choice.tables.empty()) {
        const std::string name = gate_name(family, side);
        const Result<weir_gate> planned = plan_tables(name, family, choice);
        if (!planned) return Error{planned.error()};
        if (auto ok = check_fills(name, *planned, header, family, side); !ok) return ok;
        gate = *planned;
      }
    }
  }
  return {};
}

void build_gates(const SnapshotInput& input, std::span<std::byte> out, unsigned threads) {
  auto& header = *reinterpret_cast<weir_snapshot_header*>(out.data());
  std::vector<uint8_t> sides;
  for (const weir_rule& rule : input.rules) sides.push_back(sides_of(rule));
  for (weir_gate* gates : {header.gates, header.xdp_gates}) {
    for (unsigned g = 0; g < WEIR_GATES; g++) {
      weir_gate& gate = gates[g];
      if (gate.kind != WEIR_GATE_TABLES) continue;
      if (const weir_gate* same = same_gate(input, header, gate)) {
        gate = *same;
        continue;
      }
      const bool has_words = std::any_of(gate.table, gate.table + gate.n_tables,
                                         [](const weir_gate_table& table) { return table.n_words != 0; });
      gate.multiplier = has_words ? multiplier_of(header.secret) : 0;
      const GatePlace place = place_of(header, gate);
      build_gate(input, place.family(), place.side(), sides, gate, out, threads);
    }
  }
}

}  // namespace weir::filter
