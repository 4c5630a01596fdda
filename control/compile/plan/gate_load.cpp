#include "control/compile/plan/gate_load.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "filter/format/gate.h"
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
  return filter::leading_address(table.shape, side, [&](unsigned w) { return table.words[w][i]; });
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
  load.bits = filter::leading_bits(table.shape, side);
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
  load.is_bitmap = true;
  const std::vector<bool> stands = rules_at(rules, side, false);
  std::array<int64_t, kNetworkBits + 1> last;  // prefix that was counted last, of each length
  last.fill(-1);
  for (const filter::NetworkRun& run : networks) {
    load.shape_keys += run.last - run.first + 1;
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

}  // namespace weir::control
