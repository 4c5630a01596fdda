#include "bpf/enforce/gates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "bpf/program/gate_table.h"
#include "common/prefetch.h"
#include "filter/format/buckets.h"
#include "filter/format/gate.h"
#include "filter/format/packet.h"
#include "filter/format/rules.h"
#include "filter/format/siphash.h"
#include "filter/read/overlay.h"

namespace weir::xdp {
namespace {

constexpr unsigned kNetworkBits = 24;      // of the bitmap of IPv4 networks
constexpr unsigned kLeastDirectBits = 15;  // one page
constexpr unsigned kSides[] = {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION};

// What a packet pays that a gate lets through although nobody lists it: a branch that was guessed wrongly once the
// table has answered, the rest of the parse, and a lookup that misses.
constexpr double kLetThroughNs = 100;

// Extra ns of a table of 2^15, 2^16, ... bits, beside the smallest: xdp_bench with 1,000 hosts and tables of one size,
// on a Xeon with 2 MiB of L2 (docs/develop/benchmarks.md, "XDP"). The pages of BPF maps have 4 KiB, so large tables pay
// for the TLB, too. Past the last, each doubling costs as much as the last one.
constexpr double kAccessNs[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.1, 4, 13, 22, 48, 79};

double access_ns(double bits) {
  const double at = std::max(0.0, std::log2(bits) - kLeastDirectBits);
  const auto below = std::min(static_cast<size_t>(at), std::size(kAccessNs) - 2);
  return std::lerp(kAccessNs[below], kAccessNs[below + 1], at - static_cast<double>(below));
}

double let_through_ns(double bits, double share) {
  return access_ns(bits) + share * kLetThroughNs;
}

// The share of strangers that a hashed table lets through, with so many keys a word: the three bits that are asked all
// lie among those of the word's keys, whose number is Poisson distributed.
double share_of_hashed(double keys_per_word) {
  double share = 1;
  constexpr double kTimes[] = {-3, 3, -1};
  for (int asked = 1; asked <= 3; asked++) {
    const double clear = std::pow(1 - asked / 64.0, 3);  // that one key has none of so many bits
    share += kTimes[asked - 1] * std::exp(-keys_per_word * (1 - clear));
  }
  return share;
}

// The size that costs strangers least.
uint32_t pages_of_hashed(uint64_t n_keys) {
  constexpr double kBitsPerKey[] = {8, 10, 12, 14, 16, 20, 24, 32, 48, 64};
  const auto keys = static_cast<double>(n_keys);
  double least = std::numeric_limits<double>::infinity();
  uint32_t best = 1;
  for (const double bits_per_key : kBitsPerKey) {
    const double pages = std::max(1.0, std::ceil(keys * bits_per_key / WEIR_PAGE_BITS));
    const double bits = pages * WEIR_PAGE_BITS, ns = let_through_ns(bits, share_of_hashed(keys * 64 / bits));
    if (ns < least) least = ns, best = static_cast<uint32_t>(pages);
  }
  return best;
}

double share_set(const std::vector<uint64_t>& bits) {
  uint64_t n = 0;
  for (const uint64_t word : bits) n += static_cast<uint64_t>(std::popcount(word));
  return static_cast<double>(n) / (static_cast<double>(bits.size()) * 64);
}

// Each two neighbours of a word become one, in its lower half.
uint64_t joined(uint64_t word) {
  word = (word | word >> 1) & 0x5555555555555555;
  word = (word | word >> 1) & 0x3333333333333333;
  word = (word | word >> 2) & 0x0f0f0f0f0f0f0f0f;
  word = (word | word >> 4) & 0x00ff00ff00ff00ff;
  word = (word | word >> 8) & 0x0000ffff0000ffff;
  return (word | word >> 16) & 0x00000000ffffffff;
}

// The same table, of as many leading bits as cost strangers least.
std::vector<uint64_t> folded(std::vector<uint64_t> bits) {
  std::vector<uint64_t> best = bits;
  double least = std::numeric_limits<double>::infinity();
  for (;;) {
    const double ns = let_through_ns(static_cast<double>(bits.size()) * 64, share_set(bits));
    if (ns < least) least = ns, best = bits;
    if (bits.size() * 64 <= uint64_t{1} << kLeastDirectBits) return best;
    for (size_t i = 0; i < bits.size(); i += 2) bits[i / 2] = joined(bits[i]) | joined(bits[i + 1]) << 32;
    bits.resize(bits.size() / 2);
  }
}

// The leading values of the addresses that a key stands for.
struct Values {
  uint64_t first, last;
};
Values values_of(uint64_t address, unsigned bits, unsigned prefix_bits) {
  const uint64_t others = bits >= prefix_bits ? 0 : bits == 0 ? ~uint64_t{0} : ~uint64_t{0} >> bits;
  return {weir_leading(address, prefix_bits), weir_leading(address | others, prefix_bits)};
}

void set_values(std::vector<uint64_t>& bits, Values values) {
  for (uint64_t word = values.first / 64; word <= values.last / 64; word++) {
    uint64_t these = ~uint64_t{0};
    if (word == values.first / 64) these &= ~uint64_t{0} << (values.first % 64);
    if (word == values.last / 64) these &= ~uint64_t{0} >> (63 - values.last % 64);
    bits[word] |= these;
  }
}

// The different keys of one shape that are shorter than the prefix of a direct table. Many keys may tell the same bits
// of an address: what they cover is filled once, and the work has a bound whatever a snapshot holds.
class ShortKeys {
 public:
  // bits: less than a direct table's prefix_bits, the same in each call. False: the key is not the first.
  bool add(uint64_t address, unsigned bits) {
    if (seen_.empty()) seen_.resize((size_t{1} << bits) / 64 + 1);
    const uint64_t leading = bits == 0 ? 0 : address >> (64 - bits);
    uint64_t& word = seen_[leading / 64];
    const uint64_t bit = uint64_t{1} << (leading % 64);
    const bool is_first = (word & bit) == 0;
    word |= bit;
    return is_first;
  }

 private:
  std::vector<uint64_t> seen_;
};

// Sets bits anywhere in an arena that no cache holds: the places are asked for before they are written.
class Marker {
 public:
  ~Marker() { flush(); }

  void mark(uint64_t* word, uint64_t bits) {
    filter::prefetch_line_to_write(word);
    marks_[n_++] = {word, bits};
    if (n_ == std::size(marks_)) flush();
  }

 private:
  struct Mark {
    uint64_t* word;
    uint64_t bits;
  };

  void flush() {
    for (size_t i = 0; i < n_; i++) *marks_[i].word |= marks_[i].bits;
    n_ = 0;
  }

  Mark marks_[32];
  size_t n_ = 0;
};

uint64_t multiplier_of(const uint64_t secret[2]) {
  const uint64_t message[] = {0x65746167'70647872 /* "rxdpgate" */, ~uint64_t{0}, ~uint64_t{0}};  // no key's words
  return weir_siphash13(secret, message, std::size(message)) | 1;
}

// The leading bits of an overlay's tables: those that its keys tell. Of more than there may be tables, the least, the
// most, and one between: keys stand in the table that tells no more than they do.
std::vector<uint8_t> prefixes_of_keys(std::span<const filter::ShapeView> shapes, unsigned family) {
  std::set<uint8_t> told;
  for (const filter::ShapeView& shape : shapes) {
    if (shape.shape.family != family) continue;
    for (const unsigned side : kSides) {
      if (shape.shape.flow && shape.gate_side != side) continue;
      told.insert(static_cast<uint8_t>(std::max(1u, filter::leading_bits(shape.shape, side))));
    }
  }
  std::vector<uint8_t> prefixes(told.begin(), told.end());
  if (prefixes.size() <= WEIR_MAX_GATE_TABLES) return prefixes;
  return {prefixes.front(), prefixes[prefixes.size() / 2], prefixes.back()};
}

}  // namespace

// The rest of a key: visit(sides (mask of weir_direction), address).
template <class Visit>
void Gates::visit_keys(const filter::ShapeView& view, Visit visit) const {
  const filter::KeyShape shape = view.shape;
  const bool is_overlay = filter::is_overlay(view_.header());
  filter::with_bucket_type(shape, [&]<class Bucket>() {
    for (const Bucket& bucket : std::span(reinterpret_cast<const Bucket*>(view.exact), view.exact_buckets)) {
      for (unsigned slot = 0; slot < filter::kSlots<Bucket>; slot++) {
        if (bucket.rule[slot] == 0) continue;
        // An overlay's key is to be found although its rule has no lists.
        const int listed =
            is_overlay ? WEIR_AS_SOURCE | WEIR_AS_DESTINATION : filter::sides_of(view_.rule(bucket.rule[slot]));
        visit(shape.flow ? 1 << view.gate_side : listed & view.directions,
              filter::leading_address(shape, view.gate_side, [&](unsigned w) {
                return w < filter::key_words_of<Bucket>() ? filter::slot_word(bucket, slot, w) : 0;
              }));
      }
    }
  });
}

template <class Visit>
void Gates::visit_networks(const filter::ShapeView& view, Visit visit) const {
  const auto* chunk_of = reinterpret_cast<const uint32_t*>(view.exact);
  for (uint64_t first = 0; first < uint64_t{1} << kNetworkBits; first += 64) {
    for (uint64_t left = filter::load_word(view.filter.bits + first / 8); left != 0; left &= left - 1) {
      const uint64_t network = first + static_cast<unsigned>(std::countr_zero(left));
      const uint32_t rule = view.chunks[uint64_t{chunk_of[network >> 8]} * 256 + (network & 255)];
      if (rule == 0) continue;
      visit(filter::sides_of(view_.rule(rule)) & view.directions, network << (64 - kNetworkBits));
    }
  }
}

// Where a key belongs at each of these sides: visit(gate, table, values).
template <class Visit>
void Gates::visit_tables(unsigned family, int sides, unsigned bits, uint64_t address, Visit visit) const {
  for (const unsigned side : kSides) {
    const unsigned g = weir_gate_number(family, side);
    const std::vector<Table>& tables = gates_[g].tables;
    if ((sides >> side & 1) == 0 || tables.empty()) continue;
    const size_t t = filter::gate_table_of(tables, bits);
    visit(g, t, values_of(address, bits, tables[t].prefix_bits));
  }
}

Gates::Gates(const filter::SnapshotView& view) : view_(view) {
  const bool is_overlay = filter::is_overlay(view.header());
  for (const unsigned family : {4u, 6u}) {
    for (const unsigned side : kSides) {
      if (is_overlay) {
        for (const uint8_t prefix : prefixes_of_keys(view.shapes(), family)) {
          gates_[weir_gate_number(family, side)].tables.push_back({prefix, false, 0, {}});
        }
        continue;
      }
      const weir_gate& from = view.header().gates[weir_gate_number(family, side)];
      Gate& gate = gates_[weir_gate_number(family, side)];
      gate.is_open = from.kind == WEIR_GATE_OPEN;
      if (from.kind != WEIR_GATE_TABLES) continue;
      if (family == 4) {
        gate.tables = {{kNetworkBits, true, 0, {}}, {32, false, 0, {}}};
      } else {
        for (const weir_gate_table& table : std::span(from.table, from.n_tables)) {
          gate.tables.push_back({table.prefix_bits, table.index_bits == table.prefix_bits, 0, {}});
        }
      }
    }
  }
  for (const filter::ShapeView& shape : view.shapes()) {
    ShortKeys short_keys[WEIR_GATES];
    const auto count = [&](unsigned bits) {
      return [&, bits](int sides, uint64_t address) {
        same_sides_[shape.shape.family == 6] &= sides == (WEIR_AS_SOURCE | WEIR_AS_DESTINATION);
        visit_tables(shape.shape.family, sides, bits, address, [&](unsigned g, size_t t, Values values) {
          Table& table = gates_[g].tables[t];
          table.n_keys += values.last - values.first + 1;
          if (!table.direct) {
            fills_ += values.last - values.first + 1;
            return;
          }
          if (table.bits.empty()) table.bits.resize((uint64_t{1} << table.prefix_bits) / 64);
          if (bits < table.prefix_bits && !short_keys[g].add(address, bits)) return;
          set_values(table.bits, values);
          fills_ += values.last / 64 - values.first / 64 + 1;
        });
      };
    };
    if (shape.layout == WEIR_LAYOUT_BITMAP) {
      visit_networks(shape, count(kNetworkBits));
    } else {
      visit_keys(shape, count(filter::leading_bits(shape.shape, shape.gate_side)));
    }
  }
  for (Gate& gate : gates_) {
    std::erase_if(gate.tables, [](const Table& table) { return table.n_keys == 0; });
    for (Table& table : gate.tables) {
      if (table.direct) table.bits = folded(std::move(table.bits));
    }
  }
}

uint32_t Gates::place(uint32_t page, weir_group& group) const {
  for (unsigned g = 0; g < WEIR_GATES; g++) {
    weir_asked_gate& asked = group.gate[g];
    asked = {};
    asked.is_open = gates_[g].is_open ? 1 : 0;
    asked.multiplier = multiplier_of(view_.header().secret);
    if (g % 2 == WEIR_SIDE_DESTINATION && same_sides_[g / 2]) {
      asked = group.gate[g - 1];
      continue;
    }
    for (const Table& table : gates_[g].tables) {
      weir_asked_table& place = asked.table[asked.n_tables++];
      place.page = page;
      if (table.direct) {
        place.prefix_bits = static_cast<uint8_t>(std::countr_zero(table.bits.size() * 64));
        page += static_cast<uint32_t>(table.bits.size() * 64 / WEIR_PAGE_BITS);
      } else {
        const uint32_t pages = pages_of_hashed(table.n_keys);
        place.prefix_bits = table.prefix_bits;
        place.n_words = pages * (WEIR_PAGE_BITS / 64);
        page += pages;
      }
    }
  }
  return page;
}

void Gates::fill(const weir_group& group, std::span<std::byte> arena) const {
  Marker marker;
  const auto words_at = [&](const weir_asked_table& place) {
    return reinterpret_cast<uint64_t*>(arena.data() + uint64_t{place.page} * WEIR_PAGE_BYTES);
  };
  for (unsigned g = 0; g < WEIR_GATES; g++) {
    for (size_t t = 0; t < gates_[g].tables.size(); t++) {
      const std::vector<uint64_t>& bits = gates_[g].tables[t].bits;
      std::copy(bits.begin(), bits.end(), words_at(group.gate[g].table[t]));
    }
  }
  for (const filter::ShapeView& shape : view_.shapes()) {
    if (shape.layout == WEIR_LAYOUT_BITMAP) continue;  // direct
    const unsigned family = shape.shape.family, bits = filter::leading_bits(shape.shape, shape.gate_side);
    visit_keys(shape, [&](int sides, uint64_t address) {
      if (same_sides_[family == 6]) sides = WEIR_AS_SOURCE;
      visit_tables(family, sides, bits, address, [&](unsigned g, size_t t, Values values) {
        if (gates_[g].tables[t].direct) return;
        const weir_asked_table& place = group.gate[g].table[t];
        for (uint64_t value = values.first; value <= values.last; value++) {
          const uint64_t spread = weir_spread(value, group.gate[g].multiplier);
          marker.mark(words_at(place) + weir_spread_word(spread, place.n_words), weir_spread_bits(spread));
        }
      });
    });
  }
}

}  // namespace weir::xdp
