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

bool is_direct(const weir_gate_table& table) {
  return table.index_bits == table.prefix_bits;
}

std::string gate_name(unsigned family, unsigned side) {
  return std::string("gate of IPv") + (family == 4 ? "4 " : "6 ") +
         (side == WEIR_SIDE_SOURCE ? "sources" : "destinations");
}

Result<weir_gate> plan_tables(const std::string& name, unsigned family, const GateChoice& choice) {
  weir_gate gate = {};
  gate.kind = WEIR_GATE_TABLES;
  if (choice.tables.size() > (family == 4 ? 1 : WEIR_MAX_GATE_TABLES)) {
    return Error{name + ": " + std::to_string(choice.tables.size()) + " tables are too many"};
  }
  for (const GateChoice::Table& wanted : choice.tables) {
    weir_gate_table& table = gate.table[gate.n_tables++];
    table.prefix_bits = wanted.prefix_bits;
    table.index_bits = wanted.index_bits;
    if (const char* problem = gate_table_problem(table, family)) return Error{name + ": " + problem};
    if (gate.n_tables > 1 && (&table)[-1].prefix_bits >= table.prefix_bits) {
      return Error{name + ": tables are not in the order of their prefixes"};
    }
    table.bits.size_bytes = weir_gate_table_bytes(table.index_bits);
  }
  return gate;
}

// That short keys do not fill more than can be waited for.
Result<void> check_fills(const std::string& name, const weir_gate& gate, const weir_snapshot_header& header,
                         unsigned family, unsigned side) {
  const weir_shape* shape = gate_overfiller(header, gate, family, side);
  if (shape == nullptr) return {};
  const unsigned bits = leading_bits(shape_of(*shape), side);
  const std::span tables(gate.table, gate.n_tables);
  return Error{name + ": " + std::to_string(shape->n_keys) + " keys of /" + std::to_string(bits) +
               " would fill too much of a table of /" +
               std::to_string(tables[gate_table_of(tables, bits)].prefix_bits)};
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
    uint32_t index[kMaxBatch];
    for (unsigned i = 0; i < n; i++) {
      index[i] = weir_gate_index(table_.prefix_bits, table_.index_bits, multiplier_, address[i]);
      prefetch_line_to_write(words_ + (index[i] >> 6));
    }
    for (unsigned i = 0; i < n;) {
      const uint32_t word = index[i] >> 6;
      uint64_t bits = 0;
      for (; i < n && index[i] >> 6 == word; i++) bits |= uint64_t{1} << (index[i] & 63);
      set(word, bits);
    }
  }

  // All addresses from `first` to `last`, of which the first prefix_bits bits count.
  void mark_range(uint64_t first, uint64_t last) const {
    const unsigned shift = 64 - table_.prefix_bits;
    first >>= shift, last >>= shift;
    if (is_direct(table_)) {
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

// One table of keys, at one gate. sides: of each rule; an address key stands where its rule has lists.
void mark_keys(const KeyTable& table, unsigned side, const std::vector<uint8_t>& sides, const Marker& marker,
               unsigned threads) {
  const unsigned bits = leading_bits(table.shape, side);
  const uint64_t covered = bits >= marker.prefix_bits() ? 0 : bits == 0 ? ~uint64_t{0} : ~uint64_t{0} >> bits;
  const uint8_t direction = table.shape.flow ? UINT8_MAX : static_cast<uint8_t>(1 << side);
  const size_t n = table.rules.size();
  threads = std::clamp<unsigned>(static_cast<unsigned>(n / kKeysPerThread), 1, std::max(threads, 1u));
  on_threads(threads, [&](unsigned t) {
    const size_t end = n * (t + 1) / threads;
    for (size_t i = n * t / threads; i < end;) {
      uint64_t address[kMaxBatch];
      unsigned some = 0;
      for (; some < kMaxBatch && i < end; i++) {
        address[some] = leading_address(table.shape, side, [&](unsigned w) { return table.words[w][i]; });
        some += (sides[table.rules[i]] & direction) != 0;
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

// Of one gate. No key has three words that begin like this, so that no key's hash is the multiplier.
uint64_t multiplier_of(const uint64_t secret[2], unsigned gate) {
  const uint64_t message[] = {0x65746167'72696577 /* "weirgate" */, gate, ~uint64_t{0}};
  return weir_siphash13(secret, message, std::size(message)) | 1;
}

}  // namespace

Result<void> plan_gates(const SnapshotInput& input, weir_snapshot_header& header) {
  for (const unsigned family : {4u, 6u}) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const unsigned g = weir_gate_number(family, side);
      const bool stands = std::any_of(header.shapes, header.shapes + header.n_shapes, [&](const weir_shape& shape) {
        return shape.family == family && weir_stands_at(&shape, side) != 0;
      });
      header.gates[g] = {};
      if (!stands) {
        header.gates[g].kind = WEIR_GATE_CLOSED;
      } else if (!input.gates[g].tables.empty()) {
        const std::string name = gate_name(family, side);
        const Result<weir_gate> gate = plan_tables(name, family, input.gates[g]);
        if (!gate) return Error{gate.error()};
        if (auto ok = check_fills(name, *gate, header, family, side); !ok) return ok;
        header.gates[g] = *gate;
      }
    }
  }
  return {};
}

void build_gates(const SnapshotInput& input, std::span<std::byte> out, unsigned threads) {
  auto& header = *reinterpret_cast<weir_snapshot_header*>(out.data());
  std::vector<uint8_t> sides;
  for (const weir_rule& rule : input.rules) sides.push_back(sides_of(rule));
  for (const unsigned family : {4u, 6u}) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const unsigned g = weir_gate_number(family, side);
      weir_gate& gate = header.gates[g];
      const std::span tables(gate.table, gate.n_tables);
      const bool hashed = !std::all_of(tables.begin(), tables.end(), is_direct);
      gate.multiplier = hashed ? multiplier_of(header.secret, g) : 0;
      if (gate.kind == WEIR_GATE_TABLES) build_gate(input, family, side, sides, gate, out, threads);
    }
  }
}

}  // namespace weir::filter
