// Which shapes, what is in them, and the memory ceiling.

#include "control/compile/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "control/compile/plan/expand.h"
#include "control/compile/prove/chance.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

constexpr double kRate = 0.005;
constexpr double kMemoryIsAll = 16777216;  // a weight at which no expansion pays

LengthCounts counts(const std::map<unsigned, uint64_t>& given) {
  LengthCounts counts = {};
  for (const auto& [bits, n] : given) counts[bits] = n;
  return counts;
}

// "32<25-32" style is for people; here: shape bits, b for a bitmap, p for ports, then the lengths.
std::string text(const std::vector<Level>& levels) {
  std::string text;
  for (const Level& level : levels) {
    text += (text.empty() ? "" : "; ") + std::to_string(level.shape.addr_bits) + (level.bitmap ? "b" : "") +
            (level.shape.with_port ? "p" : "") + ":";
    for (unsigned bits : level.lengths) text += " " + std::to_string(bits);
  }
  return text;
}

// Bytes of a snapshot without its gates, which give way to shapes.
uint64_t bytes_of_shapes(const Planned& planned) {
  return planned.layout.header.total_bytes - static_cast<uint64_t>(gate_bytes(planned.layout.header));
}

// What levels of IPv6 cost a packet, by the header's constants, straight from their definition.
double cost(const std::vector<Level>& levels, const LengthCounts& counts) {
  static const double bytes_per_key = shape_bytes({6, 0, false}, WEIR_LAYOUT_LINE8, 1e6, kRate) / 1e6;
  double ns = 0;
  for (const Level& level : levels) {
    double keys = 0;
    for (unsigned bits : level.lengths) {
      keys += static_cast<double>(counts[bits]) * std::pow(2.0, level.shape.addr_bits - static_cast<double>(bits));
    }
    ns += kProbeNs + kNsPerMiB * keys * bytes_per_key / (1 << 20);
  }
  return ns;
}

}  // namespace

TEST_CASE("levels of typical lists") {
  const LengthCounts none = {};
  const auto v4 = [&](const std::map<unsigned, uint64_t>& any, const std::map<unsigned, uint64_t>& one = {}) {
    return text(choose_levels(4, counts(any), counts(one), WEIR_LAYOUT_LINE8, kRate, 1));
  };
  CHECK(text(choose_levels(4, none, none, WEIR_LAYOUT_LINE8, kRate, 1)).empty());
  CHECK(v4({{32, 500000}}) == "32: 32");
  CHECK(v4({{29, 200}, {30, 300}, {32, 666000}}) == "32: 29 30 32");
  CHECK(v4({{24, 3}, {32, 10}}) == "32: 24 32");  // 768 more keys are cheaper than a bitmap
  CHECK(v4({{24, 1}}) == "24b: 24");              // but a bitmap alone is cheaper than a hash
  CHECK(v4({{8, 3}, {16, 100}, {24, 1500}, {32, 666000}}) == "24b: 8 16 24; 32: 32");
  CHECK(v4({{0, 1}}) == "24b: 0");
  CHECK(v4({{0, 1}, {32, 5}}) == "24b: 0; 32: 32");
  CHECK(v4({{32, 100}}, {{32, 100}}) == "32: 32; 32p: 32");
  CHECK(v4({}, {{32, 100}}) == "32p: 32");

  const auto v6 = [&](const std::map<unsigned, uint64_t>& any) {
    return text(choose_levels(6, counts(any), none, WEIR_LAYOUT_LINE8, kRate, 1));
  };
  CHECK(v6({{128, 5000}}) == "128: 128");
  CHECK(v6({{0, 1}, {128, 5000}}) == "0: 0; 128: 128");
  CHECK(v6({{29, 1600}, {32, 32000}, {48, 14000}}) == "32: 29 32; 48: 48");
  CHECK(v6({{29, 16000}, {32, 32000}, {48, 14000}}) == "29: 29; 32: 32; 48: 48");
}

TEST_CASE("the programme finds the cheapest mixture: every mixture of eight lengths is tried") {
  SplitMix random{11};
  for (int round = 0; round < 60; round++) {
    std::set<unsigned> chosen;
    while (chosen.size() < 8) chosen.insert(20 + static_cast<unsigned>(random.next() % 40));
    const std::vector<unsigned> lengths(chosen.begin(), chosen.end());
    LengthCounts prefixes = {};
    for (unsigned bits : lengths) prefixes[bits] = 1 + random.next() % (uint64_t{1} << (random.next() % 20));

    double least = std::numeric_limits<double>::infinity();
    for (unsigned cuts = 0; cuts < 1u << 7; cuts++) {  // bit i: a shape ends after lengths[i]
      std::vector<Level> levels;
      for (size_t i = 0; i < lengths.size(); i++) {
        if (i == 0 || (cuts >> (i - 1) & 1) != 0) levels.push_back({{6, 0, false}, false, {}});
        levels.back().lengths.push_back(lengths[i]);
        levels.back().shape.addr_bits = static_cast<uint8_t>(lengths[i]);
      }
      least = std::min(least, cost(levels, prefixes));
    }
    const std::vector<Level> levels = choose_levels(6, prefixes, {}, WEIR_LAYOUT_LINE8, kRate, 1);
    INFO(text(levels));
    CHECK(cost(levels, prefixes) == Approx(least));
  }
}

TEST_CASE("sixty IPv6 lengths, with and without ports, share sixteen shapes") {
  LengthCounts any = {}, one = {};
  for (unsigned bits = 20; bits < 80; bits++) any[bits] = 1000 + bits;
  for (unsigned bits = 120; bits <= 128; bits++) one[bits] = 10;
  for (double weight : {1.0, 64.0, kMemoryIsAll}) {
    const std::vector<Level> levels = choose_levels(6, any, one, WEIR_LAYOUT_LINE8, kRate, weight);
    INFO(text(levels));
    CHECK(levels.size() <= WEIR_MAX_SHAPES_PER_FAMILY);
    std::multiset<unsigned> served_any, served_one;
    for (const Level& level : levels) {
      for (unsigned bits : level.lengths) {
        CHECK(bits <= level.shape.addr_bits);
        (level.shape.with_port ? served_one : served_any).insert(bits);
      }
    }
    CHECK(served_any.size() == 60);
    CHECK(std::set<unsigned>(served_any.begin(), served_any.end()).size() == 60);
    CHECK(served_one.size() == 9);
  }
}

TEST_CASE("when memory is all that counts, nothing is expanded") {
  LengthCounts any = {};
  for (unsigned bits : {29u, 30u, 32u, 48u, 64u, 128u}) any[bits] = 5;
  CHECK(text(choose_levels(6, any, {}, WEIR_LAYOUT_LINE8, kRate, 1)) !=
        text(choose_levels(6, any, {}, WEIR_LAYOUT_LINE8, kRate, kMemoryIsAll)));
  CHECK(text(choose_levels(6, any, {}, WEIR_LAYOUT_LINE8, kRate, kMemoryIsAll)) ==
        "29: 29; 30: 30; 32: 32; 48: 48; 64: 64; 128: 128");
}

// Every address of 10.0.0.0/20 and its neighbourhood, asked of the expanded shapes and of the entries themselves.
TEST_CASE("expansion neither loses nor invents anything") {
  SplitMix random{3};
  const std::vector<std::vector<Level>> ways = {
      {{{4, 24, false}, true, {18, 20, 22, 23, 24}}, {{4, 32, false}, false, {25, 26, 28, 30, 31, 32}}},
      {{{4, 32, false}, false, {18, 20, 22, 23, 24, 25, 26, 28, 30, 31, 32}}},
      {{{4, 24, false}, true, {18, 20, 22, 23, 24}},
       {{4, 26, false}, false, {25, 26}},
       {{4, 30, false}, false, {28, 30}},
       {{4, 32, false}, false, {31, 32}}},
  };
  constexpr Ipv4 kBase = 10u << 24;
  constexpr Ipv4 kSize = 1 << 14;
  constexpr Ipv4 kAround = 300;
  struct Lists {
    weir_set source = {}, destination = {};
  };
  const unsigned lengths[] = {18, 20, 22, 23, 24, 25, 26, 28, 30, 31, 32};
  for (int round = 0; round < 30; round++) {
    Policy policy = make_policy({});
    for (int l = 0; l < 4; l++) {
      List list = make_list("l" + std::to_string(l), WEIR_DROP, kSource, {});
      ListDraft draft;
      for (uint64_t n = random.next() % 40; n > 0; n--) {
        const unsigned bits = lengths[random.next() % std::size(lengths)];
        const Ipv4 first = (kBase + static_cast<Ipv4>(random.next() % kSize)) & prefix_mask<Ipv4>(bits);
        const auto directions = static_cast<uint8_t>(1 + random.next() % 3);
        draft.v4.push_back({first, first | low_bits<Ipv4>(32 - bits), 1, 0, directions, 0});
      }
      list.content = make_entries(std::move(draft));
      policy.lists.push_back(std::move(list));
    }
    std::vector<Lists> wanted(kAround + kSize + kAround);
    for (unsigned l = 0; l < policy.lists.size(); l++) {
      for (const Entry<Ipv4> entry : policy.lists[l].v4()) {
        for (Ipv4 address = entry.first; address <= entry.last; address++) {
          Lists& here = wanted[address - (kBase - kAround)];
          if ((entry.directions & kSource) != 0) add_list(here.source, l);
          if ((entry.directions & kDestination) != 0) add_list(here.destination, l);
        }
      }
    }
    const Merged merged = merge(policy);
    for (const std::vector<Level>& levels : ways) {
      RuleBook book = merged.book;
      std::vector<std::pair<unsigned, std::unordered_map<Ipv4, uint32_t>>> shapes;  // address bits; key -> rule
      for (const Level& level : levels) {
        std::unordered_map<Ipv4, uint32_t> rules;
        if (level.bitmap) {
          int64_t previous = -1;
          for (const filter::NetworkRun& run : expand_networks(merged, level.lengths, book)) {
            REQUIRE(int64_t{run.first} > previous);
            REQUIRE(run.first <= run.last);
            REQUIRE(run.rule != 0);
            for (uint32_t network = run.first; network <= run.last; network++) rules[network << 8] = run.rule;
            previous = run.last;
          }
        } else {
          const filter::KeyTable table = expand_keys(merged, level, book);
          for (size_t i = 0; i < table.rules.size(); i++) {
            rules[__builtin_bswap32(static_cast<uint32_t>(table.words[0][i]))] = table.rules[i];
          }
          REQUIRE(rules.size() == table.rules.size());  // no key twice
          REQUIRE(count_keys(merged, level) == static_cast<double>(table.rules.size()));
        }
        shapes.emplace_back(level.shape.addr_bits, std::move(rules));
      }
      for (Ipv4 i = 0; i < wanted.size(); i++) {
        const Ipv4 address = kBase - kAround + i;
        Lists have;
        for (const auto& [bits, rules] : shapes) {
          const auto found = rules.find(address & prefix_mask<Ipv4>(bits));
          if (found == rules.end()) continue;
          const weir_rule& rule = book.rules()[found->second];
          have.source = have.source | book.sets()[rule.source_set];
          have.destination = have.destination | book.sets()[rule.destination_set];
        }
        const bool same = have.source.lists[0] == wanted[i].source.lists[0] &&
                          have.destination.lists[0] == wanted[i].destination.lists[0];
        if (!same) FAIL("wrong lists for " << to_string(address) << " in round " << round);
      }
    }
  }
}

TEST_CASE("expansion of port keys and of IPv6") {
  const Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, {"2001:db8::/126", "2001:db8::2"})});
  Policy with_ports = policy;
  edit(with_ports.lists[0])->v4.push_back({0x0a000000, 0x0a000003, 1, 443, kSource, 0});
  edit(with_ports.lists[0])->v4.push_back({0x0a000000, 0x0a000003, 1, 80, kSource, 0});
  edit(with_ports.lists[0])->v4.push_back({0x0a000001, 0x0a000001, 1, 80, kDestination, 0});
  const Merged merged = merge(with_ports);
  RuleBook book = merged.book;
  const Level v6 = {{6, 128, false}, false, {126, 128}};
  CHECK(count_keys(merged, v6) == 4);
  CHECK(expand_keys(merged, v6, book).rules.size() == 4);
  const Level ports = {{4, 32, true}, false, {30, 32}};
  CHECK(count_keys(merged, ports) == 8);
  const filter::KeyTable table = expand_keys(merged, ports, book);
  REQUIRE(table.rules.size() == 8);
  const uint64_t shared = filter::make_key(ports.shape, Ipv4{0x0a000001}, 80).word[0];
  for (size_t i = 0; i < 8; i++) {
    CHECK((book.rules()[table.rules[i]].destination_set != 0) == (table.words[0][i] == shared));
  }
}

TEST_CASE("the ceiling: less expansion first, then a refusal with the numbers") {
  Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, {"2001:db8::/48"})});
  ListDraft draft = draft_of(*policy.lists[0].content);
  for (unsigned i = 0; i < 3000; i++) {  // /45: eight keys each when written as /48
    const Ipv6 first = Ipv6{0x2a00} << 112 | Ipv6{i} << 83;
    draft.v6.push_back({first, first | low_bits<Ipv6>(83), 1, 0, kSource, 0});
  }
  policy.lists[0].content = make_entries(std::move(draft));
  const Merged merged = merge(policy);
  const Result<Planned> roomy = plan(merged, policy);
  REQUIRE(roomy);
  REQUIRE(roomy->shapes.size() == 1);
  CHECK(roomy->shapes[0].name == "v6 addr/48");
  CHECK(roomy->shapes[0].why == "serves /45, /48: 24001 keys, 24000 of them from expanding shorter prefixes");
  CHECK(roomy->shapes[0].expected_fpr > 0.001);
  CHECK(roomy->shapes[0].expected_fpr < kRate);

  CHECK(roomy->shapes[0].layout_why == "0.5 % wanted");

  policy.memory_bytes = bytes_of_shapes(*roomy);
  CHECK(plan(merged, policy)->shapes[0].shape.layout == WEIR_LAYOUT_LINE8);
  policy.memory_bytes--;  // one dearer probe is cheaper than two
  const Result<Planned> compact = plan(merged, policy);
  REQUIRE(compact);
  REQUIRE(compact->shapes.size() == 1);
  CHECK(compact->shapes[0].shape.layout == WEIR_LAYOUT_RIBBON);
  CHECK(compact->shapes[0].layout_why == "line8 needs 0.0 MiB more than filter.memory allows");
  CHECK(compact->shapes[0].bits_per_key < roomy->shapes[0].bits_per_key - 1.5);

  policy.memory_bytes = bytes_of_shapes(*compact) - 1;
  const Result<Planned> tight = plan(merged, policy);
  REQUIRE(tight);
  REQUIRE(tight->shapes.size() == 2);
  CHECK(tight->shapes[0].why == "serves /45: 3000 keys, none from expansion");
  CHECK(tight->shapes[0].shape.layout == WEIR_LAYOUT_LINE8);
  CHECK(tight->layout.header.total_bytes <= policy.memory_bytes);

  policy.memory_bytes = bytes_of_shapes(*tight) - 1;  // two compact ones, before nothing
  const Result<Planned> tightest = plan(merged, policy);
  REQUIRE(tightest);
  REQUIRE(tightest->shapes.size() == 2);
  CHECK(tightest->shapes[0].shape.layout == WEIR_LAYOUT_RIBBON);
  CHECK(tightest->shapes[1].shape.layout == WEIR_LAYOUT_LINE8);  // its one key saves nothing
  CHECK(tightest->layout.header.total_bytes <= policy.memory_bytes);

  policy.memory_bytes = 1 << 16;
  const Result<Planned> refused = plan(merged, policy);
  REQUIRE_FALSE(refused);
  const double needed = shape_bytes({6, 45, false}, WEIR_LAYOUT_RIBBON, 3000, kRate) +
                        shape_bytes({6, 48, false}, WEIR_LAYOUT_LINE8, 1, kRate);
  CHECK(refused.error().find(fmt::format("the snapshot needs {:.1f} MiB, filter.memory allows 0.1 MiB; "
                                         "largest: v6 addr/45 ",
                                         needed / (1 << 20))) == 0);
  CHECK(refused.error().find("(3000 keys, ribbon), v6 addr/48 ") != std::string::npos);
  CHECK(refused.error().find("hint: raise filter.memory to ") != std::string::npos);
}

TEST_CASE("the layout follows the rate, unless one is asked for") {
  Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, {"2001:db8::/48", "192.0.2.7", "10.0.0.0/8"})});
  ListDraft draft = draft_of(*policy.lists[0].content);
  for (unsigned i = 0; i < 5000; i++) {
    const Ipv6 first = Ipv6{0x2a00} << 112 | Ipv6{i} << 80;
    draft.v6.push_back({first, first | low_bits<Ipv6>(80), 1, 0, kSource, 0});
  }
  policy.lists[0].content = make_entries(std::move(draft));
  struct Row {
    double rate;
    std::optional<weir_layout> asked;
    weir_layout layout;
    const char* why;
  };
  const Row rows[] = {
      {0.005, {}, WEIR_LAYOUT_LINE8, "0.5 % wanted"},
      {0.001, {}, WEIR_LAYOUT_LINE8, "0.1 % wanted"},
      {0.0009, {}, WEIR_LAYOUT_PAGE2, "0.09 % wanted, below 0.1 %"},
      {1e-6, {}, WEIR_LAYOUT_PAGE2, "0.0001 % wanted, below 0.1 %"},
      {0.0009, WEIR_LAYOUT_LINE8, WEIR_LAYOUT_LINE8, "asked for"},
      {0.005, WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_PAGE2, "asked for"},
      {0.005, WEIR_LAYOUT_PAGE7, WEIR_LAYOUT_PAGE7, "asked for"},
      {0.005, WEIR_LAYOUT_RIBBON, WEIR_LAYOUT_RIBBON, "asked for"},
      {0x1p-8, WEIR_LAYOUT_RIBBON, WEIR_LAYOUT_RIBBON, "asked for"},
  };
  for (const Row& row : rows) {
    policy.false_positive_rate = row.rate;
    policy.layout = row.asked;
    const Result<Planned> planned = plan(merge(policy), policy);
    INFO(row.rate << " " << row.why << (planned ? "" : planned.error()));
    REQUIRE(planned);
    REQUIRE(planned->shapes.size() == 3);
    for (const ShapeReport& report : planned->shapes) {
      INFO(report.name);
      const bool bitmap = report.name == "v4 addr/24 bitmap";
      CHECK(report.shape.layout == (bitmap ? WEIR_LAYOUT_BITMAP : row.layout));
      CHECK(report.layout_why == (bitmap ? "one bit for each /24" : row.why));
      CHECK((report.bits_per_key == 0) == bitmap);
      CHECK(report.expected_fpr <= row.rate);
    }
  }
  policy.false_positive_rate = 0.001;
  policy.layout = WEIR_LAYOUT_RIBBON;
  const Result<Planned> impossible = plan(merge(policy), policy);
  REQUIRE_FALSE(impossible);
  CHECK(impossible.error().find("no ribbon filter keeps a false-positive rate of 0.001\nhint: ") == 0);
  policy.false_positive_rate = 0.005;
  policy.layout = WEIR_LAYOUT_PAGE7;
  policy.memory_bytes = 1 << 16;
  const Result<Planned> refused = plan(merge(policy), policy);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().find("take filter.layout (page7) out, or allow a higher") != std::string::npos);
}

// At 5,000 /48s, ribbons of 9 bits would save memory, and no rate below 2^-8 can have them.
TEST_CASE("a low rate has no compact mode") {
  Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, {})});
  ListDraft draft = draft_of(*policy.lists[0].content);
  for (unsigned i = 0; i < 5000; i++) {
    const Ipv6 first = Ipv6{0x2a00} << 112 | Ipv6{i} << 80;
    draft.v6.push_back({first, first | low_bits<Ipv6>(80), 1, 0, kSource, 0});
  }
  policy.lists[0].content = make_entries(std::move(draft));
  policy.false_positive_rate = 0.002;
  policy.memory_bytes = bytes_of_shapes(*plan(merge(policy), policy)) - 1;
  const Result<Planned> refused = plan(merge(policy), policy);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().find("(5000 keys, line8)") != std::string::npos);
}

TEST_CASE("a bitmap's reason") {
  Policy policy = make_policy({make_list("a", WEIR_DROP, kEither, {"10.0.0.0/8", "10.1.0.0/16", "192.0.2.0/24"})});
  const Result<Planned> planned = plan(merge(policy), policy);
  REQUIRE(planned);
  REQUIRE(planned->shapes.size() == 1);
  CHECK(planned->shapes[0].name == "v4 addr/24 bitmap");
  CHECK(planned->shapes[0].why == "serves /8, /16, /24: 3 prefixes are 65537 networks of /24, one bit each");
  CHECK(planned->shapes[0].expected_fpr == 0);
}

}  // namespace weir::control
