#pragma once

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "filter/build/builder.h"
#include "filter/format/rules.h"

// Made-up snapshots, for unit tests and fuzzing.
namespace weir::filter::test {

class Random {  // splitmix64 (Steele, Lea, Flood 2014): the same numbers on every machine
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return next() % n; }
  Key key(KeyShape shape) {
    Key key;
    const Key mask = key_mask(shape);
    for (unsigned w = 0; w < key_words(shape); w++) key.word[w] = next() & mask.word[w];
    return key;
  }

 private:
  uint64_t state_;
};

inline const std::vector<KeyShape> kShapes = {
    {4, 32, false}, {4, 24, false}, {4, 32, true}, {6, 128, false}, {6, 48, false}, {6, 128, true}, {6, 64, true},
};

inline const std::vector<KeyShape> kFlowShapes = {
    {4, 24, false, true, 32, WEIR_FLOW_PROTOCOL | WEIR_FLOW_DPORT},
    {4, 0, false, true, 0, WEIR_FLOW_SPORT},
    {6, 128, false, true, 64, WEIR_FLOW_PROTOCOL | WEIR_FLOW_SPORT | WEIR_FLOW_DPORT},
};

inline Key key_at(const KeyTable& table, size_t i) {
  Key key;
  for (unsigned w = 0; w < key_words(table.shape); w++) key.word[w] = table.words[w][i];
  return key;
}

// n different keys with rules 1..n_rules-1 in turn.
inline KeyTable random_table(KeyShape shape, size_t n, uint32_t n_rules, Random& random) {
  KeyTable table;
  table.shape = shape;
  std::set<std::array<uint64_t, WEIR_MAX_KEY_WORDS>> seen;
  while (seen.size() < n) {
    const Key key = random.key(shape);
    if (!seen.insert(key.word).second) continue;
    for (unsigned w = 0; w < key_words(shape); w++) table.words[w].push_back(key.word[w]);
    table.rules.push_back(1 + static_cast<uint32_t>(table.rules.size()) % (n_rules - 1));
  }
  return table;
}

// Three lists (pass, drop, monitored), sets and rules over them, no keys yet. Rule 1 is source only, 2 destination
// only, 3 both.
inline SnapshotInput empty_input() {
  SnapshotInput input;
  input.epoch = 7;
  input.number = 1;
  input.built_unix_s = 1'700'000'000;
  input.secret = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  input.lists = {{"partners", WEIR_PASS, WEIR_ENFORCE, 1},
                 {"drop.v4", WEIR_DROP, WEIR_ENFORCE, 2},
                 {"watch_me-6", WEIR_DROP, WEIR_MONITOR, 3}};
  input.sets = {{{0}}, {{1}}, {{2}}, {{6}}};
  input.rules = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 2, 0, 0}, {3, 2, 0, 0}};
  return input;
}

// Flow shapes with n keys each (fewer where there are not as many) and chains of residuals: rule 1 has lists, 2 a chain
// of two, 3 a chain of one as source and lists.
inline SnapshotInput flow_input(size_t n, uint64_t seed) {
  Random random(seed);
  SnapshotInput input = empty_input();
  weir_residual expiring = {}, web = {};
  expiring.set = 2;
  expiring.asks = WEIR_ASKS_EXPIRES;
  expiring.expires_unix_s = 1'800'000'000;
  web.set = 1;
  web.asks = WEIR_ASKS_PROTOCOL | WEIR_ASKS_DPORT;
  web.protocol = 6;
  web.dport = {80, 90};
  web.last = 1;
  input.residuals = {no_residual(), expiring, web, web};
  input.rules = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 1, 0}, {2, 0, 3, 0}};
  for (KeyShape shape : kFlowShapes) {
    const size_t keys = shape.addr_bits + shape.destination_bits == 0 ? std::min<size_t>(n, 10'000) : n;
    input.tables.push_back(random_table(shape, keys, static_cast<uint32_t>(input.rules.size()), random));
  }
  return input;
}

// Every shape with n keys each, and some networks (v4 addr/24 becomes the bitmap).
inline SnapshotInput full_input(size_t n, uint64_t seed) {
  Random random(seed);
  SnapshotInput input = empty_input();
  for (KeyShape shape : kShapes) {
    if (shape == KeyShape{4, 24, false}) continue;
    input.tables.push_back(random_table(shape, n, static_cast<uint32_t>(input.rules.size()), random));
  }
  input.networks = {{5, 5, 1}, {300, 1000, 2}, {0x0a0000, 0x0affff, 3}, {0xffff00, 0xffffff, 1}};
  return input;
}

}  // namespace weir::filter::test
