// A policy three times over: as a base and an overlay that stands on it, and as one snapshot of what both mean
// together.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "common/digest.h"
#include "filter/read/overlay.h"
#include "tests/unit/bpf/frames.h"

namespace weir::xdp {

using filter::KeyShape;
using filter::SnapshotInput;

// An overlay of this input: what the planner does not know of stands in the header.
inline Buffer build_overlay(const SnapshotInput& input, const Buffer& base) {
  auto plan = filter::plan_snapshot(input);
  INFO((plan ? "" : plan.error()));
  REQUIRE(plan);
  plan->header.base_number = filter::test::open(base).header().number;
  const Digest digest = digest_of(base.bytes());
  std::copy(digest.begin(), digest.end(), plan->header.base_digest);
  Buffer out(plan->header.total_bytes);
  const auto built = filter::build_snapshot(input, *plan, out.bytes());
  INFO((built ? "" : built.error()));
  REQUIRE(built);
  return out;
}

// One list's hosts 198.18.0.x as sources: enough to see what enforces.
inline SnapshotInput hosts(uint64_t number, const std::vector<uint8_t>& last, uint32_t rule = 1) {
  SnapshotInput input = filter::test::empty_input();
  input.epoch = kEpoch;
  input.number = number;
  input.rules = {{0, 0, 0, 0}, {2, 0, 0, 0}, {0, 0, 0, 0}};
  KeyTable table;
  table.shape = {4, 32};
  table.asked = WEIR_AS_SOURCE;
  for (const uint8_t byte : last) {
    table.words[0].push_back(198 | 18 << 8 | uint64_t{byte} << 24);
    table.rules.push_back(rule);
  }
  input.tables = {table};
  return input;
}
constexpr uint32_t kTakenAway = 2;

inline Buffer base_of(uint64_t number, const std::vector<uint8_t>& last) {
  SnapshotInput input = hosts(number, last);
  input.rules.pop_back();
  return filter::test::build(input);
}

// Adds some, takes some away.
inline Buffer overlay_of(uint64_t number, const Buffer& base, const std::vector<uint8_t>& more,
                         const std::vector<uint8_t>& fewer = {}) {
  SnapshotInput input = hosts(number, more);
  const SnapshotInput gone = hosts(number, fewer, kTakenAway);
  KeyTable& table = input.tables[0];
  table.words[0].insert(table.words[0].end(), gone.tables[0].words[0].begin(), gone.tables[0].words[0].end());
  table.rules.insert(table.rules.end(), gone.tables[0].rules.begin(), gone.tables[0].rules.end());
  return build_overlay(input, base);
}

constexpr uint64_t kNow = 1'700'000'000;
constexpr uint8_t kFlowFields = WEIR_FLOW_PROTOCOL | WEIR_FLOW_SPORT | WEIR_FLOW_DPORT;

// What rules 1.. say, in an order of sets, rules and residuals of its own: ids of one snapshot mean nothing in another.
struct RuleBook {
  static constexpr uint32_t kRules = 8;
  static constexpr uint32_t kForFlows[] = {1, 7, 8};  // a flow's rule stands under source
  bool is_overlay;

  uint32_t set(uint32_t id) const { return is_overlay && id != 0 ? 5 - id : id; }
  // Of the overlay, rule 1 takes away: no rule here says that, 0 does.
  uint32_t rule(uint32_t id) const { return !is_overlay ? id : id == 0 ? 1 : kRules + 2 - id; }

  void write(SnapshotInput& input) const {
    weir_residual expired = {}, dns = {}, expires = {};
    expired.set = set(2);
    expired.asks = expires.asks = WEIR_ASKS_EXPIRES;
    expired.expires_unix_s = kNow;
    dns.set = set(2);
    dns.asks = WEIR_ASKS_PROTOCOL | WEIR_ASKS_DPORT;
    dns.protocol = 17;
    dns.dport = {53, 53};
    dns.last = 1;
    expires.set = set(3);
    expires.expires_unix_s = kNow + 1;
    expires.last = 1;
    input.residuals = {filter::no_residual()};
    const uint32_t chain = is_overlay ? 2 : 1, one = is_overlay ? 1 : 3;
    if (is_overlay) input.residuals.push_back(expires);
    input.residuals.insert(input.residuals.end(), {expired, dns});
    if (!is_overlay) input.residuals.push_back(expires);
    constexpr uint64_t kSets[] = {0, 1, 2, 6, 4};
    input.sets.resize(std::size(kSets));
    for (uint32_t id = 0; id < std::size(kSets); id++) input.sets[set(id)] = {{kSets[id]}};
    const weir_rule rules[] = {{0, 0, 0, 0},   {2, 0, 0, 0}, {0, 2, 0, 0},     {3, 1, 0, 0},  {0, 0, chain, chain},
                               {1, 0, 0, one}, {4, 4, 0, 0}, {0, 0, chain, 0}, {4, 0, one, 0}};
    input.rules.assign(is_overlay ? kRules + 2 : kRules + 1, weir_rule{});
    for (uint32_t id = 1; id <= kRules; id++) {
      const weir_rule& from = rules[id];
      input.rules[rule(id)] = {set(from.source_set), set(from.destination_set), from.source_chain,
                               from.destination_chain};
    }
  }
};

// Of one shape: key -> rule of the RuleBook. In an overlay 0 takes away.
using Keys = std::map<std::array<uint64_t, WEIR_MAX_KEY_WORDS>, uint32_t>;

inline KeyTable table_of(KeyShape shape, const Keys& keys, RuleBook book) {
  KeyTable table;
  table.shape = shape;
  for (const auto& [words, rule] : keys) {
    for (unsigned w = 0; w < filter::key_words(shape); w++) table.words[w].push_back(words[w]);
    table.rules.push_back(book.rule(rule));
  }
  return table;
}

inline std::array<uint64_t, WEIR_MAX_KEY_WORDS> network_key(uint32_t network) {
  return {__builtin_bswap32(network << 8), 0, 0, 0, 0};
}

struct OnBase {
  struct Choice {
    bool gates = true;     // of the base: tables, else open
    bool networks = true;  // the base has some
    uint8_t flow_side = WEIR_SIDE_SOURCE;
    weir_layout layout = WEIR_LAYOUT_LINE8;  // of the base
    weir_action default_action = WEIR_PASS;
  };

  // The base is generation number, overlay and whole the next one.
  OnBase(uint64_t number, Choice choice) : random(number) {
    base_input = input_of(number, choice, {false});
    whole_input = input_of(number + 1, choice, {false});
    overlay_input = input_of(number + 1, choice, {true});
    for (filter::GateChoice& gate : overlay_input.gates) gate.tables.clear();
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      overlay_input.xdp_gates[weir_gate_number(4, side)].tables = {{20, 512}, {32, 512}};
      overlay_input.xdp_gates[weir_gate_number(6, side)].tables = {{48, 512}, {64, 512}};
    }
    for (const KeyShape shape :
         {KeyShape{4, 32}, KeyShape{4, 32, true}, KeyShape{4, 28}, KeyShape{4, 32, false, true, 32, kFlowFields},
          KeyShape{6, 128}, KeyShape{6, 48}, KeyShape{6, 64, true}, KeyShape{6, 128, false, true, 128, kFlowFields}}) {
      add_shape(shape, true, choice);
    }
    for (const KeyShape shape : {KeyShape{4, 20}, KeyShape{6, 56}, KeyShape{6, 128, true},
                                 KeyShape{4, 24, false, true, 24, WEIR_FLOW_PROTOCOL | WEIR_FLOW_DPORT}}) {
      add_shape(shape, false, choice);
    }
    add_networks(choice);
    base = filter::test::build(base_input);
    whole = filter::test::build(whole_input);
    // Asked wherever the base's are: what is taken away is told there, too.
    const filter::SnapshotView view = filter::test::open(base);
    for (KeyTable& table : overlay_input.tables) {
      const filter::ShapeView* same = filter::find_shape(view, table.shape);
      if (same != nullptr) table.asked = same->directions;
    }
    overlay = build_overlay(overlay_input, base);
  }

  Random random;
  SnapshotInput base_input, overlay_input, whole_input;
  Buffer base{0}, overlay{0}, whole{0};
  std::vector<KeyTable> keys;  // of base, overlay, or both; for packets: rules mean nothing

 private:
  static SnapshotInput input_of(uint64_t number, Choice choice, RuleBook book) {
    SnapshotInput input = filter::test::empty_input();
    input.number = number;
    input.default_action = choice.default_action;
    input.tunnels = WEIR_TUNNEL_IPIP | WEIR_TUNNEL_6IN4;
    book.write(input);
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if (!choice.gates) continue;
      input.gates[weir_gate_number(4, side)].tables = {{20, 0}};
      input.gates[weir_gate_number(6, side)].tables = {{40, 4096}, {64, 4096}};
    }
    input.xdp_gates = input.gates;
    return input;
  }

  uint32_t any_rule(bool flow) {
    return flow ? RuleBook::kForFlows[random.below(std::size(RuleBook::kForFlows))]
                : 1 + static_cast<uint32_t>(random.below(RuleBook::kRules));
  }

  std::array<uint64_t, WEIR_MAX_KEY_WORDS> any_key(KeyShape shape) {
    Key key = random.key(shape);
    auto* first = reinterpret_cast<uint8_t*>(key.word.data());
    first[0] = 0x20;  // no stranger's
    if (shape.flow) reinterpret_cast<uint8_t*>(&key.word[shape.family == 4 ? 1 : 4])[4] = 17;
    for (unsigned w = 0; w < filter::key_words(shape); w++) key.word[w] &= filter::key_mask(shape).word[w];
    return key.word;
  }

  // In the base or not, in the overlay or not, taken away or not.
  void add_shape(KeyShape shape, bool in_base, Choice choice) {
    Keys of_base, of_overlay, together;
    for (int i = 0; i < 48; i++) {
      const auto key = any_key(shape);
      if (in_base && i < 32) of_base[key] = together[key] = any_rule(shape.flow);
      if (i >= 16 && i < 24 && in_base) {
        of_overlay[key] = 0;
        together.erase(key);
      } else if (i >= 24) {
        of_overlay[key] = together[key] = any_rule(shape.flow);
      }
    }
    Keys all = of_base;
    all.insert(of_overlay.begin(), of_overlay.end());
    keys.push_back(table_of(shape, all, {false}));
    const uint8_t gate_side = shape.flow ? choice.flow_side : 0;
    const auto add = [&](SnapshotInput& input, const Keys& content, RuleBook book, weir_layout layout) {
      if (content.empty()) return;
      input.tables.push_back(table_of(shape, content, book));
      input.tables.back().gate_side = gate_side;
      input.tables.back().layout = layout;
    };
    add(base_input, of_base, {false}, choice.layout);
    add(whole_input, together, {false}, WEIR_LAYOUT_LINE8);
    add(overlay_input, of_overlay, {true}, WEIR_LAYOUT_LINE8);
  }

  // The base's are a bitmap, the overlay's keys.
  void add_networks(Choice choice) {
    std::map<uint32_t, uint32_t> of_base;
    const auto add = [&](uint32_t first, uint32_t last, uint32_t rule) {
      for (uint32_t network = first; network <= last; network++) of_base[network] = rule;
    };
    if (choice.networks) add(0x210000, 0x2100ff, 1), add(0x220100, 0x2201ff, 2), add(0x230000, 0x23000f, 5);
    const std::map<uint32_t, uint32_t> of_overlay = {{0x210003, choice.networks ? 0u : 3u},
                                                     {0x210010, 2},
                                                     {0x220105, choice.networks ? 0u : 1u},
                                                     {0x230001, 4},
                                                     {0x240000, 3},
                                                     {0x240100, 6}};
    std::map<uint32_t, uint32_t> together = of_overlay;
    together.insert(of_base.begin(), of_base.end());
    const auto write = [](SnapshotInput& input, const std::map<uint32_t, uint32_t>& networks) {
      for (const auto& [network, rule] : networks) {
        if (rule != 0) input.networks.push_back({network, network, rule});
      }
    };
    write(base_input, of_base);
    write(whole_input, together);
    Keys changed, asked;
    for (const auto& [network, rule] : of_overlay) changed[network_key(network)] = rule;
    for (const auto& [network, rule] : together) asked[network_key(network)] = rule;
    overlay_input.tables.push_back(table_of({4, 24}, changed, {true}));
    keys.push_back(table_of({4, 24}, asked, {false}));
  }
};

}  // namespace weir::xdp
