// Overlays: which ones stand on a base, and what they set in its gates.
#include <algorithm>
#include <functional>

#include "filter/format/packet.h"
#include "filter/format/rules.h"
#include "filter/read/overlay.h"
#include "tests/unit/filter/support.h"

using namespace weir;
using namespace weir::filter;
using namespace weir::filter::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr KeyShape kHosts = {4, 32, false}, kHosts6 = {6, 128, false}, kNetworks = {4, 24, false};
constexpr KeyShape kFlow = {4, 32, false, true, 24, WEIR_FLOW_DPORT};

KeyTable table_of(KeyShape shape, size_t n, Random& random) {
  KeyTable table = random_table(shape, n, 4, random);
  if (shape.flow) std::fill(table.rules.begin(), table.rules.end(), 1);
  return table;
}

// Tables for IPv4, and for IPv6 sources; IPv6 destinations are open.
SnapshotInput base_input(uint64_t seed) {
  Random random(seed);
  SnapshotInput input = empty_input();
  input.tables = {table_of(kHosts, 30, random), table_of(kFlow, 30, random), table_of(kHosts6, 30, random)};
  input.networks = {{300, 310, 3}};
  for (const unsigned gate : {0u, 1u}) input.gates[gate].tables = {{20, 0}};
  input.gates[2].tables = {{16, 512}, {48, 1024}};
  return input;
}

SnapshotInput overlay_input(uint64_t seed) {
  Random random(seed);
  SnapshotInput input = empty_input();
  input.number = 2;
  for (const KeyShape shape : {kHosts, kNetworks, kFlow, kHosts6, KeyShape{6, 64, true}}) {
    KeyTable& table = input.tables.emplace_back(table_of(shape, 20, random));
    table.asked = shape.flow ? WEIR_AS_SOURCE : WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
  }
  return input;
}

Buffer build_on(const Buffer& base, const SnapshotInput& input) {
  auto plan = plan_snapshot(input);
  REQUIRE(plan);
  const Digest digest = digest_of(base.bytes());
  plan->header.base_number = open(base).header().number;
  std::copy(digest.begin(), digest.end(), plan->header.base_digest);
  Buffer out(plan->header.total_bytes);
  REQUIRE(build_snapshot(input, *plan, out.bytes()));
  return out;
}

std::string problem_of(const Buffer& base, const Buffer& overlay) {
  const Result<void> checked = check_overlay(open(base), digest_of(base.bytes()), open(overlay));
  return checked ? "" : checked.error();
}

// The error for an overlay of this input.
std::string problem_with(const std::function<void(SnapshotInput&)>& change, const Buffer& base) {
  SnapshotInput input = overlay_input(2);
  change(input);
  return problem_of(base, build_on(base, input));
}

bool bit_at(const Buffer& snapshot, const weir_gate_table& table, uint64_t bit) {
  return (reinterpret_cast<const uint64_t*>(snapshot.bytes().data() + table.bits.offset)[bit / 64] >> bit % 64 & 1) !=
         0;
}

}  // namespace

TEST_CASE("an overlay stands on its base and on no other") {
  const Buffer base = build(base_input(1));
  CHECK(problem_with([](SnapshotInput&) {}, base) == "");
  CHECK(problem_of(base, build_on(base, overlay_input(2))) == "");
  CHECK_THAT(problem_of(base, build(overlay_input(2))), ContainsSubstring("made for number 0, and this is 1"));
  CHECK_THAT(problem_of(build(base_input(3)), build_on(base, overlay_input(2))), ContainsSubstring("other bytes"));
  const Buffer overlay = build_on(base, overlay_input(2));
  SnapshotInput third = overlay_input(2);
  third.number = 3;
  CHECK_THAT(problem_of(overlay, build_on(overlay, third)), ContainsSubstring("an overlay itself"));
  SnapshotInput second = base_input(1);
  second.number = 2;
  third.number = 4;
  CHECK_THAT(problem_of(base, build_on(build(second), third)), ContainsSubstring("made for number 2, and this is 1"));
}

TEST_CASE("what base and overlay must have in common is named") {
  const Buffer base = build(base_input(1));
  using Input = SnapshotInput&;
  CHECK_THAT(problem_with([](Input i) { i.epoch++; }, base), ContainsSubstring("made for number 1"));
  CHECK_THAT(problem_with([](Input i) { i.secret[0]++; }, base), ContainsSubstring("secrets differ"));
  CHECK_THAT(problem_with([](Input i) { i.secret[1]++; }, base), ContainsSubstring("secrets differ"));
  for (const auto& change : {std::function<void(Input)>([](Input i) { i.default_action = WEIR_DROP; }),
                             std::function<void(Input)>([](Input i) { i.unparsed_action = WEIR_DROP; }),
                             std::function<void(Input)>([](Input i) { i.tunnels = 1; })}) {
    CHECK_THAT(problem_with(change, base), ContainsSubstring("default, unparsed or tunnels differ"));
  }
  CHECK_THAT(problem_with([](Input i) { i.lists[1].name = "other"; }, base), ContainsSubstring("lists differ"));
  CHECK_THAT(problem_with([](Input i) { i.lists[1].action = WEIR_PASS; }, base), ContainsSubstring("lists differ"));
  CHECK_THAT(problem_with([](Input i) { i.lists[1].mode = WEIR_MONITOR; }, base), ContainsSubstring("lists differ"));
  CHECK_THAT(problem_with([](Input i) { i.lists.push_back({"more"}); }, base), ContainsSubstring("lists differ"));
  CHECK_THAT(problem_with([](Input i) { std::swap(i.lists[1], i.lists[2]); }, base), ContainsSubstring("lists differ"));
  CHECK(problem_with([](Input i) { i.lists[1].n_entries++; }, base) == "");
}

TEST_CASE("an overlay's shapes are asked wherever the base's are, and none is a bitmap") {
  const Buffer base = build(base_input(1));
  using Input = SnapshotInput&;
  CHECK_THAT(problem_with(
                 [](Input i) {
                   i.tables.erase(i.tables.begin() + 1);
                   i.networks = {{1, 2, 3}};
                 },
                 base),
             ContainsSubstring("is a bitmap"));
  CHECK_THAT(problem_with(
                 [](Input i) {
                   i.tables[0].asked = 0;
                   std::fill(i.tables[0].rules.begin(), i.tables[0].rules.end(), 1);  // source only
                 },
                 base),
             ContainsSubstring("is not asked where the base's is"));
  CHECK_THAT(problem_with([](Input i) { i.tables[2].gate_side = WEIR_SIDE_DESTINATION; }, base),
             ContainsSubstring("is not asked where the base's is"));
}

TEST_CASE("keys that would set too much of a gate are refused") {
  const Buffer base = build(base_input(1));
  Random random(5);
  const auto with_table = [&](KeyShape shape, size_t n) {
    return problem_with(
        [&](SnapshotInput& input) {
          KeyTable table = table_of(shape, n, random);
          table.asked = WEIR_AS_SOURCE;
          input.tables = {table};
        },
        base);
  };
  CHECK(with_table({4, 8, false}, 3) == "");  // 2^12 bits each
  CHECK_THAT(with_table({4, 7, false}, 3), ContainsSubstring("each of its keys would set 8192 values"));
  CHECK_THAT(with_table({6, 0, false}, 1), ContainsSubstring("would set 65536 values"));
  CHECK(with_table({4, 8, true}, 8000) == "");
  CHECK_THAT(with_table({4, 8, true}, 9000), ContainsSubstring("its keys would set"));
}

TEST_CASE("joined gates let through what the base's did, and every key of the overlay") {
  for (uint64_t seed = 1; seed <= 5; seed++) {
    SnapshotInput of_base = base_input(seed);
    if (seed == 5) of_base.tables.pop_back();  // no IPv6: its gates are closed
    const Buffer base = build(of_base);
    const SnapshotInput input = overlay_input(seed + 100);
    const Buffer overlay_bytes = build_on(base, input);
    Buffer joined(base.bytes());
    const SnapshotView before = open(base), after = open(joined), overlay = open(overlay_bytes);
    join_gates(overlay, joined.bytes());

    const weir_snapshot_header& header = before.header();
    for (const weir_gate& gate : header.gates) {
      for (unsigned t = 0; t < gate.n_tables; t++) {
        uint64_t lost = 0, new_bits = 0;
        for (uint64_t bit = 0; bit < weir_gate_table_words(gate.table[t].prefix_bits, gate.table[t].n_words) * 64;
             bit++) {
          const bool was = bit_at(base, gate.table[t], bit), is = bit_at(joined, gate.table[t], bit);
          lost += was && !is;
          new_bits += is && !was;
        }
        CHECK(lost == 0);
        CHECK(new_bits <= 3 * 4 * 20);  // at most three bits for a key, of four shapes at most
      }
    }
    // Outside of the gates' tables nothing has changed.
    const size_t tables_begin = header.residuals.offset + header.residuals.size_bytes;
    const size_t tables_end = header.shapes[0].filter.offset;
    CHECK(memcmp(base.bytes().data(), joined.bytes().data(), tables_begin) == 0);
    CHECK(memcmp(base.bytes().data() + tables_end, joined.bytes().data() + tables_end,
                 header.total_bytes - tables_end) == 0);

    size_t kept_out = 0;
    for (const KeyTable& table : input.tables) {
      for (size_t i = 0; i < table.rules.size(); i++) {
        const Key key = key_at(table, i);
        for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
          if ((sides_of(input.rules[table.rules[i]]) >> side & 1) == 0) continue;
          const uint64_t address = leading_address(table.shape, side, [&](unsigned w) { return key.word[w]; });
          kept_out += !passes_gate(before.gate(table.shape.family, side), address);
          CHECK(passes_gate(joined_gate(after, overlay, table.shape.family, side), address));
        }
      }
    }
    CHECK(kept_out > 10);  // by the base alone
  }
}
