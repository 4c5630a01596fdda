// A proof passes on what compile makes, and catches a snapshot that is damaged: the bytes are changed behind its back.

#include "control/compile/prove/prove.h"

#include <bit>
#include <functional>

#include "control/compile/compile.h"
#include "filter/format/buckets.h"
#include "filter/format/gate.h"
#include "filter/format/siphash.h"
#include "filter/layouts/layout.h"
#include "filter/layouts/line8.h"
#include "filter/probe/dispatch.h"
#include "tests/rounds.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

constexpr unsigned kHosts = 20000;

// Hosts 11.0.0.0, 11.0.0.2, ..., a network, an address with a port, IPv6 hosts, and a pass list.
Policy policy_of_everything() {
  Policy policy = make_policy({make_list("own", WEIR_PASS, kEither, {"10.0.0.0/8", "192.0.2.1"}),
                               make_list("hosts", WEIR_DROP, kSource, {}),
                               make_list("mixed", WEIR_DROP, kEither, {"203.0.113.7:443", "2001:db8::/64"})});
  ListDraft hosts;
  for (unsigned i = 0; i < kHosts; i++) {
    const Ipv4 host = (11u << 24) + 2 * i;
    hosts.v4.push_back({host, host, i + 1, 0, kSource, 1});
  }
  policy.lists[1].content = make_entries(std::move(hosts));
  policy.lists[1].feed.path = "feeds/hosts.txt";
  return policy;
}

const weir_shape& shape_named(const BuiltSnapshot& snapshot, uint8_t family, uint8_t bits, bool with_port) {
  weir_snapshot_header& header = snapshot.header();
  for (uint32_t i = 0; i < header.n_shapes; i++) {
    const weir_shape& shape = header.shapes[i];
    if (shape.family == family && shape.addr_bits == bits && (shape.with_port != 0) == with_port) return shape;
  }
  FAIL("no such shape");
  return header.shapes[0];
}

uint64_t hash_of(const BuiltSnapshot& snapshot, Ipv4 host) {
  const uint64_t word = filter::make_key({4, 32, false}, host).word[0];
  return weir_siphash13(snapshot.header().secret, &word, 1);
}

weir_u64* line_of(const BuiltSnapshot& snapshot, Ipv4 host) {
  const weir_shape& shape = shape_named(snapshot, 4, 32, false);
  return snapshot.at<weir_u64>(shape.filter.offset) +
         size_t{weir_hash_range(hash_of(snapshot, host), shape.filter_lines)} * 8;
}

void insert(const BuiltSnapshot& snapshot, Ipv4 host, uint32_t rule) {
  const weir_shape& shape = shape_named(snapshot, 4, 32, false);
  const uint64_t hash = hash_of(snapshot, host);
  auto* buckets = snapshot.at<weir_bucket_v4>(shape.exact.offset);
  const auto done =
      filter::insert_into_buckets(buckets, shape.exact_buckets, filter::make_key({4, 32, false}, host), hash, rule);
  REQUIRE(done == filter::Insertion::done);
  weir_line8_mark(line_of(snapshot, host), hash);
}

// Takes 11.0.0.0 from the gate.
void lose_bits(const BuiltSnapshot& snapshot, weir_gate& gate) {
  REQUIRE(gate.kind == WEIR_GATE_TABLES);
  weir_gate_table& table = gate.table[gate.n_tables - 1];  // of hosts
  const weir_gate_place place =
      weir_gate_place_of(table.prefix_bits, table.n_words, gate.multiplier, uint64_t{11u << 24} << 32);
  weir_u64& word = snapshot.at<weir_u64>(table.bits.offset)[place.word];
  REQUIRE((word & place.bits) == place.bits);
  word &= ~place.bits;
  table.n_set -= static_cast<unsigned>(std::popcount(place.bits));
}

}  // namespace

TEST_CASE("a sound snapshot is proven") {
  const Policy policy = policy_of_everything();
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  const auto proof = prove(policy, snapshot.bytes(), 99);
  if (!proof) FAIL(proof.error());
  CHECK(proof->entries == kHosts + 4);
  CHECK(proof->strangers == 2 * kStrangers);
}

TEST_CASE("damage is found") {
  struct Row {
    const char* what;
    std::function<void(const BuiltSnapshot&)> damage;
    const char* error;
  };
  const Row rows[] = {
      {"a filter bit of one key is lost",
       [](const BuiltSnapshot& snapshot) {
         const Ipv4 host = (11u << 24) + 2 * 777;
         line_of(snapshot, host)[3] &= ~(uint64_t{1} << weir_line8_bit(hash_of(snapshot, host), 3));
       },
       "does not match with "},
      {"a bit of a gate is lost",
       [](const BuiltSnapshot& snapshot) { lose_bits(snapshot, snapshot.header().gates[0]); },
       "proof failed: list hosts, entry 11.0.0.0 (feeds/hosts.txt:1) does not match with 11.0.0.0 as source"},
      {"a bit of XDP's gate is lost",
       [](const BuiltSnapshot& snapshot) { lose_bits(snapshot, snapshot.header().xdp_gates[0]); },
       "does not match with "},
      {"one slot of the exact stage has another rule",
       [](const BuiltSnapshot& snapshot) {
         const weir_shape& shape = shape_named(snapshot, 4, 32, false);
         auto* bucket = snapshot.at<weir_bucket_v4>(shape.exact.offset);
         while (bucket->rule[0] == 0) bucket++;
         snapshot.at<weir_rule>(snapshot.header().rules.offset)[bucket->rule[0]].source_set = 0;
       },
       "proof failed"},
      {"every /24 from 96.0.0.0 on matches too: strangers anywhere",
       [](const BuiltSnapshot& snapshot) {
         const weir_shape& shape = shape_named(snapshot, 4, 24, false);
         auto* chunk_of = snapshot.at<uint32_t>(shape.exact.offset);
         const uint32_t full = chunk_of[10 << 8];  // of 10.0.0.0/8
         memset(snapshot.at<std::byte>(shape.filter.offset) + (96 << 16) / 8, 0xff, (160 << 16) / 8);
         for (uint32_t slot = 96 << 8; slot < 65536; slot++) chunk_of[slot] = full;
         const_cast<weir_shape&>(shape).n_keys += (160 << 16);
       },
       ", which no entry covers, matches list own"},
      {"one stranger right beside an entry matches",
       [](const BuiltSnapshot& snapshot) {
         for (Ipv4 beside : {Ipv4{0x0affffff} + 2, Ipv4{0xc0000202}, Ipv4{0xc0000200}}) insert(snapshot, beside, 1);
         const_cast<weir_shape&>(shape_named(snapshot, 4, 32, false)).n_keys += 3;
       },
       ", which no entry covers, matches list own"},
      {"the filter is over-full",
       [](const BuiltSnapshot& snapshot) {
         const weir_shape& shape = shape_named(snapshot, 4, 32, false);
         auto* words = snapshot.at<weir_u64>(shape.filter.offset);
         for (uint32_t i = 0; i < shape.filter_lines * 8; i += 2) words[i] = ~uint64_t{0};
       },
       " bits set, a false-positive rate of "},
      {"pass lists are not pass lists any more",
       [](const BuiltSnapshot& snapshot) {
         snapshot.header().pass_lists[0] = 0;
         snapshot.header().drop_lists[0] |= 1;
         snapshot.at<weir_list>(snapshot.header().lists.offset)[0].action = WEIR_DROP;
       },
       "proof failed: list own, entry 10.0.0.0/8 (weir.yaml:10) does not pass with 10.0.0.0 as source"},
      {"the header is broken", [](const BuiltSnapshot& snapshot) { snapshot.header().n_shapes = 99; },
       "proof failed: "},
  };
  const Policy policy = policy_of_everything();
  for (const Row& row : rows) {
    INFO(row.what);
    const BuiltSnapshot snapshot = build_unproven(policy, 1);
    row.damage(snapshot);
    const auto proof = prove(policy, snapshot.bytes(), 99);
    REQUIRE_FALSE(proof);
    INFO(proof.error());
    CHECK(proof.error().find(row.error) != std::string::npos);
  }
}

TEST_CASE("a lost key is named with its list, file and line") {
  const Policy policy = policy_of_everything();
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  const Ipv4 host = (11u << 24) + 2 * 4;
  memset(line_of(snapshot, host), 0, WEIR_LINE_BYTES);
  Policy only_it = policy;  // other hosts of the line are gone as well: ask for this one alone
  edit(only_it.lists[1])->v4 = {policy.lists[1].v4()[4]};
  const auto proof = prove(only_it, snapshot.bytes(), 99);
  REQUIRE_FALSE(proof);
  CHECK(proof.error() ==
        "proof failed: list hosts, entry 11.0.0.8 (feeds/hosts.txt:5) does not match with 11.0.0.8 as source");
}

TEST_CASE("false-positive rates hold at every size and rate") {
  for (const unsigned n : {1u, 10u, 1000u, 50000u}) {
    for (const double rate : {0.2, 0.01, 0.0005}) {
      Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, {})});
      policy.false_positive_rate = rate;
      ListDraft hosts;
      for (unsigned i = 0; i < n; i++) hosts.v6.push_back({Ipv6{i} << 20, Ipv6{i} << 20, 1, 0, kSource, 0});
      policy.lists[0].content = make_entries(std::move(hosts));
      for (uint64_t secret = 0; secret < 3; secret++) {
        const BuiltSnapshot snapshot = build_unproven(policy, secret);
        const auto proof = prove(policy, snapshot.bytes(), secret);
        if (!proof) FAIL(n << " keys at " << rate << ": " << proof.error());
      }
    }
  }
}

namespace {

// In front of what a layout lets through: the rates that it is chosen for, or that it can keep.
struct LayoutRow {
  weir_layout layout;
  std::vector<double> rates;
};
const LayoutRow kLayouts[] = {
    {WEIR_LAYOUT_LINE8, {0.2, 0.005}},
    {WEIR_LAYOUT_PAGE2, {0.2, 0.005, 0.0001}},
    {WEIR_LAYOUT_PAGE7, {0.2, 0.005, 0.0001}},
    {WEIR_LAYOUT_RIBBON, {0.2, 0.005}},
};

Policy policy_of_hosts(weir_layout layout, double rate, unsigned n) {
  Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, {})});
  policy.layout = layout;
  policy.false_positive_rate = rate;
  ListDraft hosts;
  for (unsigned i = 0; i < n; i++) hosts.v6.push_back({Ipv6{i} << 20, Ipv6{i} << 20, 1, 0, kSource, 0});
  policy.lists[0].content = make_entries(std::move(hosts));
  return policy;
}

}  // namespace

TEST_CASE("false-positive rates hold in every layout") {
  for (const LayoutRow& row : kLayouts) {
    for (const double rate : row.rates) {
      for (const unsigned n : {1u, 10u, 1000u, 50000u}) {
        const Policy policy = policy_of_hosts(row.layout, rate, n);
        for (uint64_t secret = 0; secret < rounds(3); secret++) {
          const BuiltSnapshot snapshot = build_unproven(policy, secret);
          REQUIRE(snapshot.header().shapes[0].layout == row.layout);
          const auto proof = prove(policy, snapshot.bytes(), secret);
          if (!proof)
            FAIL(filter::layout_of(row.layout).name << ", " << n << " keys at " << rate << ": " << proof.error());
        }
      }
    }
  }
}

// Few keys in few lines: what one secret makes of them is far from what all make on average. With these secrets sound
// filters were refused: some of those among a million.
TEST_CASE("a sound filter of few keys is proven with every secret") {
  struct Row {
    weir_layout layout;
    double rate;
    unsigned n;
    std::vector<uint64_t> refused_once;
  };
  const Row rows[] = {
      {WEIR_LAYOUT_LINE8, 0.001, 80, {53234, 223534, 227280, 268250}},
      {WEIR_LAYOUT_LINE8, 0.005, 50, {203651, 349906, 386499, 630725}},
  };
  const filter::Kernels& kernels = **filter::choose_kernels();
  for (const Row& row : rows) {
    const Policy policy = policy_of_hosts(row.layout, row.rate, row.n);
    for (const uint64_t secret : row.refused_once) {
      INFO(filter::layout_of(row.layout).name << ", " << row.n << " keys at " << row.rate << ", secret " << secret);
      const BuiltSnapshot snapshot = build_unproven(policy, secret);
      const auto proof = prove_rates(snapshot.view(), kernels, secret);
      if (!proof) FAIL(proof.error());
    }
  }
}

TEST_CASE("damage is found in every layout") {
  for (const LayoutRow& row : kLayouts) {
    const std::string name(filter::layout_of(row.layout).name);
    for (const double rate : row.rates) {
      const Policy policy = policy_of_hosts(row.layout, rate, 20000);
      const auto error_after = [&](const std::function<void(std::span<weir_u64>)>& damage) {
        const BuiltSnapshot snapshot = build_unproven(policy, 1);
        const weir_shape& shape = snapshot.header().shapes[0];
        damage({snapshot.at<weir_u64>(shape.filter.offset), size_t{shape.filter_lines} * 8});
        const auto proof = prove(policy, snapshot.bytes(), 99);
        return proof ? "" : proof.error();
      };
      INFO(name << " at " << rate);
      // The entries of one page are lost: some bits of a ribbon's rows are turned around.
      const auto lost = error_after([&](std::span<weir_u64> words) {
        for (weir_u64& word : words.first(512)) word = row.layout == WEIR_LAYOUT_RIBBON ? ~word : 0;
      });
      CHECK(lost.find("does not match with ") != std::string::npos);
      // Nothing is lost, and too many strangers pass: bits that no key has are set, in a tenth of all pages and in all;
      // an empty ribbon page lets all pass.
      for (const unsigned step : {1u, 10u}) {
        const auto full = error_after([&](std::span<weir_u64> words) {
          for (size_t page = 0; page < words.size(); page += 512 * step) {
            for (size_t w = page; w < page + 512 && w < words.size(); w++) {
              words[w] = row.layout == WEIR_LAYOUT_RIBBON ? 0 : words[w] | 0x5555555555555555;
            }
          }
        });
        INFO("every " << step << ". page");
        CHECK(full.find("proof failed: ") == 0);
        const bool by_bits = full.find("proof failed: the filter of v6 addr/128 has ") == 0 &&
                             full.find(" bits set, a false-positive rate of ") != std::string::npos;
        const bool by_hits =
            full.find("absent keys hit the filter of v6 addr/128; its keys give ") != std::string::npos;
        CHECK((row.layout == WEIR_LAYOUT_RIBBON ? by_hits : by_bits));
      }
    }
  }
}

// A filter whose bits are plausible, read by a kernel that places them elsewhere: what absent keys hit tells.
TEST_CASE("hits that the bits do not explain are found") {
  const Policy policy = policy_of_hosts(WEIR_LAYOUT_PAGE2, 0.005, 20000);
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  filter::Kernels wrong = **filter::choose_kernels();
  wrong.layout[WEIR_LAYOUT_PAGE2].check = [](const filter::FilterBits&, const uint64_t*, unsigned) -> uint64_t {
    return 1;
  };
  const auto proof = prove_rates(snapshot.view(), wrong, 1);
  REQUIRE_FALSE(proof);
  CHECK(proof.error().find("proof failed: 1024 of 65536 absent keys hit the filter of v6 addr/128; its bits give ") ==
        0);
}

TEST_CASE("nothing and everything") {
  const Policy empty = make_policy({});
  CHECK(prove(empty, build_unproven(empty, 1).bytes(), 1)->strangers == 0);
  const Policy all = make_policy({make_list("a", WEIR_DROP, kSource, {"0.0.0.0-255.255.255.255", "::/0"})});
  const auto proof = prove(all, build_unproven(all, 1).bytes(), 1);
  REQUIRE(proof);
  CHECK(proof->entries == 2);
  CHECK(proof->strangers == 0);  // there are none
}

// A flow of the same list may match whatever an entry that expires matches, and go on when that has ended.
TEST_CASE("an entry that expires beside flows is proven") {
  constexpr uint32_t kExpires = 4'000'000'000;
  const auto expiring = [](const char* text, uint8_t match, std::vector<Flow> flows) {
    Policy policy = make_policy({make_list("a", WEIR_DROP, match, {text}), make_list("b", WEIR_DROP, kSource, {})});
    {
      auto list = edit(policy.lists[0]);
      for (auto& entry : list->v4) entry.expires = kExpires;
      for (auto& entry : list->v6) entry.expires = kExpires;
      list->flows = std::move(flows);
    }
    return policy;
  };
  const auto range = [](Ipv6 first, Ipv6 last) { return std::optional(AddressRange{first, last}); };
  Flow between, to_port, any_length;
  between.family = 4;
  between.src = between.dst = range(10u << 24, (11u << 24) - 1);
  to_port.dport = PortRange{443, 443};
  any_length.length = weir_range32{0, UINT32_MAX};
  const Policy rows[] = {
      expiring("10.1.2.3", kEither, {between}),
      expiring("203.0.113.7:443", kSource, {to_port}),
      expiring("203.0.113.7:443", kDestination, {to_port}),  // every packet that it matches
      expiring("203.0.113.0/24", kEither, {any_length}),
      expiring("[2001:db8::7]:443", kEither, {to_port, any_length}),
  };
  for (const Policy& policy : rows) {
    const BuiltSnapshot snapshot = build_unproven(policy, 1);
    const auto proof = prove(policy, snapshot.bytes(), 7);
    if (!proof) FAIL(proof.error());

    // The same bytes, when the policy has no such flow, or says that the entry ends earlier or later.
    Policy without = policy;
    edit(without.lists[0])->flows.clear();
    CHECK_FALSE(prove(without, snapshot.bytes(), 7));
    Policy longer = policy;
    {
      auto list = edit(longer.lists[0]);
      for (auto& entry : list->v4) entry.expires++;
      for (auto& entry : list->v6) entry.expires++;
    }
    const bool a_flow_has_all =
        policy.lists[0].flows().back().length.has_value() || policy.lists[0].match == kDestination;
    CHECK(static_cast<bool>(prove(longer, snapshot.bytes(), 7)) == a_flow_has_all);
  }
}

TEST_CASE("canaries") {
  const auto compiled = [](const char* canary, weir_action default_action) -> std::string {
    Policy policy = policy_of_everything();
    policy.default_action = default_action;
    const EntryText parsed = parse_entry(canary);
    if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) {
      policy.canaries.push_back({false, v4->first, 0, canary});
    } else {
      policy.canaries.push_back({true, 0, std::get<ParsedEntry<Ipv6>>(parsed).first, canary});
    }
    const auto result = compile(policy, {1, 1});
    return result ? "" : result.error();
  };
  CHECK(compiled("11.0.0.1", WEIR_PASS).empty());
  CHECK(compiled("192.0.2.1", WEIR_DROP).empty());
  CHECK(compiled("11.0.0.4", WEIR_PASS)
            .find("canary 11.0.0.4 would drop as source: list hosts, entry 11.0.0.4 (feeds/hosts.txt:3)\nhint: ") == 0);
  CHECK(compiled("2001:db8::99", WEIR_PASS)
            .find("canary 2001:db8::99 would drop as source: list mixed, entry 2001:db8::/64 (weir.yaml:11)") == 0);
  CHECK(compiled("11.0.0.1", WEIR_DROP).find("canary 11.0.0.1 would drop as source: policy.default") == 0);
}

}  // namespace weir::control
