#include <map>
#include <set>

#include "filter/build/networks.h"
#include "filter/build/sizing.h"
#include "filter/format/buckets.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"
#include "filter/layouts/line8.h"
#include "filter/probe/dispatch.h"
#include "tests/rounds.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using namespace weir::filter::test;

namespace {

constexpr auto kMany = static_cast<size_t>(rounds(20'000));  // keys

// filter_check and exact_find over a whole table, in batches, as a worker does it.
std::vector<uint32_t> find_all(const ShapeView& shape, const KeyTable& table) {
  const Kernels& kernels = **choose_kernels();
  std::vector<uint32_t> rules;
  for (size_t at = 0; at < table.rules.size(); at += kMaxBatch) {
    const unsigned n = static_cast<unsigned>(std::min<size_t>(kMaxBatch, table.rules.size() - at));
    const uint64_t* words[WEIR_MAX_KEY_WORDS] = {};
    for (unsigned w = 0; w < key_words(table.shape); w++) words[w] = table.words[w].data() + at;
    uint64_t hash[kMaxBatch] = {};
    const uint64_t hits = filter_check(kernels, shape, words, n, hash);
    for (unsigned i = 0; i < n; i++) {
      rules.push_back((hits >> i & 1) != 0 ? exact_find(shape, key_at(table, at + i), hash[i]) : 0);
    }
  }
  return rules;
}

}  // namespace

TEST_CASE("every key of every shape is found with its rule, strangers are not") {
  Random random(5);
  for (KeyShape shape : kShapes) {
    for (size_t n : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{300}, kMany}) {
      SnapshotInput input = empty_input();
      input.tables.push_back(random_table(shape, n, 4, random));
      const Buffer bytes = build(input);
      const SnapshotView view = test::open(bytes);
      REQUIRE(view.shapes().size() == 1);
      const ShapeView& found = shape_view(view, shape);
      INFO("v" << int{shape.family} << " addr/" << int{shape.addr_bits} << " port " << shape.with_port << ", n " << n);
      REQUIRE(find_all(found, input.tables[0]) == input.tables[0].rules);

      std::set<std::array<uint64_t, WEIR_MAX_KEY_WORDS>> members;
      for (size_t i = 0; i < n; i++) {
        const Key key = key_at(input.tables[0], i);
        members.insert(key.word);
        REQUIRE(find_rule(found, key) == input.tables[0].rules[i]);
      }
      for (int i = 0; i < 2000; i++) {
        const Key key = random.key(shape);
        if (members.count(key.word) != 0) continue;
        REQUIRE(find_rule(found, key) == 0);
        REQUIRE(exact_find(found, key, weir_siphash13(found.secret, key.word.data(), key_words(shape))) == 0);
      }
    }
  }
}

TEST_CASE("every layout that snapshots hold finds every key") {
  Random random(13);
  for (const Layout& layout : all_layouts()) {
    if (layout.id == WEIR_LAYOUT_BITMAP) continue;
    for (KeyShape shape : kShapes) {
      for (size_t n : {size_t{1}, size_t{300}, kMany}) {
        SnapshotInput input = empty_input();
        input.tables.push_back(random_table(shape, n, 4, random));
        input.tables[0].layout = layout.id;
        const Buffer bytes = build(input);
        const SnapshotView view = test::open(bytes);
        const ShapeView& found = shape_view(view, shape);
        INFO(std::string(layout.name) << ", v" << int{shape.family} << " addr/" << int{shape.addr_bits} << ", n " << n);
        REQUIRE(found.layout == layout.id);
        REQUIRE(find_all(found, input.tables[0]) == input.tables[0].rules);
        for (size_t i = 0; i < n; i++)
          REQUIRE(find_rule(found, key_at(input.tables[0], i)) == input.tables[0].rules[i]);
        int hits = 0;
        constexpr int kStrangers = 20'000;
        for (int i = 0; i < kStrangers; i++) hits += layout.check(found.filter, random.next());
        REQUIRE(hits < kStrangers / 100);  // 0.5 % was wanted
      }
    }
  }
}

TEST_CASE("flow keys are found in every layout, and strangers are not") {
  for (const Layout& layout : all_layouts()) {
    if (layout.id == WEIR_LAYOUT_BITMAP) continue;
    for (const size_t n : {1u, 5000u}) {
      SnapshotInput input = flow_input(n, 17);
      for (KeyTable& table : input.tables) table.layout = layout.id;
      const Buffer bytes = build(input);
      const SnapshotView view = test::open(bytes);
      INFO(std::string(layout.name) << ", n " << n);
      for (const KeyTable& table : input.tables) {
        const ShapeView& found = shape_view(view, table.shape);
        REQUIRE(find_all(found, table) == table.rules);
        std::set<std::array<uint64_t, WEIR_MAX_KEY_WORDS>> members;
        for (size_t m = 0; m < table.rules.size(); m++) members.insert(key_at(table, m).word);
        Random random(18);
        for (int i = 0; i < 2000; i++) {
          Key key = key_at(table, i % table.rules.size());
          const auto word = static_cast<unsigned>(random.below(key_words(table.shape)));
          const uint64_t allowed = key_mask(table.shape).word[word];
          if (allowed == 0) continue;
          key.word[word] ^= allowed & -allowed;  // its lowest bit
          if (members.count(key.word) == 0) REQUIRE(find_rule(found, key) == 0);
        }
      }
      const weir_residual* chain = view.chain(view.rule(2).source_chain);
      CHECK(chain[0].last == 0);
      CHECK(chain[1].dport.last == 90);
      CHECK(chain[1].last == 1);
    }
  }
}

TEST_CASE("several threads write the filter that one writes, and the same keys") {
  Random random(14);
  for (const Layout& layout : all_layouts()) {
    if (layout.id == WEIR_LAYOUT_BITMAP) continue;
    SnapshotInput input = empty_input();
    input.tables.push_back(random_table({6, 128, false}, 350'100, 4, random));
    input.tables[0].layout = layout.id;
    const auto plan = plan_snapshot(input);
    REQUIRE(plan);
    const weir_section filter = plan->header.shapes[0].filter;
    REQUIRE(plan->header.shapes[0].exact.size_bytes / WEIR_PAGE_BYTES % 3 != 0);  // threads have unequal parts
    Buffer one(plan->header.total_bytes), three(plan->header.total_bytes);
    REQUIRE(build_snapshot(input, *plan, one.bytes(), 1));
    REQUIRE(build_snapshot(input, *plan, three.bytes(), 3));
    INFO(std::string(layout.name));
    REQUIRE(memcmp(one.at<std::byte>(filter), three.at<std::byte>(filter), filter.size_bytes) == 0);
    const SnapshotView view = test::open(three);
    REQUIRE(find_all(view.shapes()[0], input.tables[0]) == input.tables[0].rules);

    if (layout.mark == nullptr) continue;
    Buffer alone(filter.size_bytes);
    const ShapeView& shape = view.shapes()[0];
    build_filter(**choose_kernels(), shape.secret, columns_of(input.tables[0]), layout.id,
                 {reinterpret_cast<uint64_t*>(alone.bytes().data()), shape.filter.lines, shape.filter.k}, 3);
    REQUIRE(memcmp(one.at<std::byte>(filter), alone.bytes().data(), filter.size_bytes) == 0);
  }
}

TEST_CASE("the key of zeros is a key like any other") {
  for (KeyShape shape : kShapes) {
    SnapshotInput input = empty_input();
    Random random(6);
    input.tables.push_back(random_table(shape, 10, 4, random));
    const Buffer without = build(input);
    for (unsigned w = 0; w < key_words(shape); w++) input.tables[0].words[w].push_back(0);
    input.tables[0].rules.push_back(2);
    const Buffer with = build(input);
    const SnapshotView view_without = test::open(without), view_with = test::open(with);
    REQUIRE(find_rule(shape_view(view_without, shape), Key{}) == 0);
    REQUIRE(find_rule(shape_view(view_with, shape), Key{}) == 2);
  }
}

TEST_CASE("same input and same secret: the same bytes; another secret: others") {
  SnapshotInput input = full_input(500, 7);
  const Buffer one = build(input), two = build(input);
  REQUIRE(std::equal(one.bytes().begin(), one.bytes().end(), two.bytes().begin(), two.bytes().end()));
  input.secret[1] ^= 1;
  const Buffer other = build(input);
  const SnapshotView view = test::open(one), changed = test::open(other);
  const uint32_t lines = view.shapes()[0].filter.lines;
  REQUIRE(memcmp(view.shapes()[0].filter.bits, changed.shapes()[0].filter.bits, size_t{lines} * WEIR_LINE_BYTES) != 0);
}

TEST_CASE("the header says what went in") {
  const SnapshotInput input = full_input(100, 8);
  const Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  const weir_snapshot_header& header = view.header();
  REQUIRE(header.epoch == 7);
  REQUIRE(header.number == 1);
  REQUIRE(header.built_unix_s == 1'700'000'000);
  REQUIRE(header.pass_lists[0] == 1);
  REQUIRE(header.drop_lists[0] == 2);
  REQUIRE(header.monitor_lists[0] == 4);
  REQUIRE(std::string(view.lists()[2].name) == "watch_me-6");
  REQUIRE(view.lists()[2].n_entries == 3);
  REQUIRE(view.set(3).lists[0] == 6);
  REQUIRE(view.rule(3).source_set == 3);
  REQUIRE(view.shapes().size() == kShapes.size());
  for (size_t i = 1; i < view.shapes().size(); i++) {
    REQUIRE(view.shapes()[i - 1].shape.family <= view.shapes()[i].shape.family);
  }
}

TEST_CASE("directions are the sides that some rule has lists on") {
  const std::pair<uint32_t, int> kRuleAndSides[] = {{1, WEIR_AS_SOURCE}, {2, WEIR_AS_DESTINATION}, {3, 3}};
  for (const auto& [rule, sides] : kRuleAndSides) {
    SnapshotInput input = empty_input();
    Random random(9);
    input.tables.push_back(random_table({4, 32, false}, 10, 4, random));
    input.tables[0].rules.assign(10, rule);
    input.networks = {{1, 2, rule}};
    const Buffer bytes = build(input);
    const SnapshotView view = test::open(bytes);
    REQUIRE(view.shapes()[0].directions == sides);
    REQUIRE(view.shapes()[1].directions == sides);
  }
}

TEST_CASE("a snapshot is as large as what it holds, and the rate holds") {
  const SnapshotInput input = full_input(4000, 10);
  const auto plan = plan_snapshot(input);
  REQUIRE(plan);
  const weir_snapshot_header& header = plan->header;
  REQUIRE(header.lists.size_bytes == header.n_lists * sizeof(weir_list));
  REQUIRE(header.sets.size_bytes == header.n_sets * sizeof(weir_set));
  REQUIRE(header.rules.size_bytes == header.n_rules * sizeof(weir_rule));
  REQUIRE(header.residuals.size_bytes == header.n_residuals * sizeof(weir_residual));
  uint64_t end = WEIR_PAGE_BYTES;  // of the section before, in whole pages
  const auto follows = [&](const weir_section& section) {
    REQUIRE(section.offset == end);
    end += (section.size_bytes + WEIR_PAGE_BYTES - 1) / WEIR_PAGE_BYTES * WEIR_PAGE_BYTES;
  };
  for (const weir_section& section : {header.lists, header.sets, header.rules, header.residuals}) follows(section);
  for (const weir_shape& shape : std::span(header.shapes, header.n_shapes)) {
    follows(shape.filter);
    follows(shape.exact);
    if (shape.layout == WEIR_LAYOUT_BITMAP) {
      follows(shape.chunks);
      continue;
    }
    REQUIRE(shape.n_keys == 4000);
    REQUIRE(line8_fpr(4000, shape.filter_lines) <= 0.005);
    REQUIRE(line8_fpr(4000, shape.filter_lines - 1) > 0.005);
    REQUIRE(shape.exact_buckets ==
            exact_buckets(4000, slots_per_bucket(shape_of(shape)), buckets_per_page(shape_of(shape))));
  }
  REQUIRE(header.total_bytes == end);
}

TEST_CASE("an empty policy and an empty table are snapshots too") {
  SnapshotInput input;
  input.sets = {{}};
  input.rules = {{}};
  const Buffer nothing = build(input);
  REQUIRE(test::open(nothing).shapes().empty());

  input.tables.push_back({});
  const Buffer no_keys = build(input);
  const SnapshotView view = test::open(no_keys);
  REQUIRE(view.shapes()[0].directions == 0);
  REQUIRE(find_rule(view.shapes()[0], make_key({4, 32, false}, weir::Ipv4{1})) == 0);
}

TEST_CASE("networks: every /24 has the rule of its run") {
  SnapshotInput input = empty_input();
  input.networks = {
      {0, 0, 1},     {7, 7, 2},          {8, 15, 3},          {250, 260, 1},       {300, 300, 2},
      {301, 767, 3}, {65536, 131071, 1}, {131072, 131072, 2}, {200000, 400000, 3}, {0xfffffe, 0xffffff, 1}};
  const Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  const ShapeView& shape = view.shapes()[0];
  REQUIRE(shape.layout == WEIR_LAYOUT_BITMAP);
  std::vector<uint32_t> expected(WEIR_BITMAP_BITS);
  uint64_t set_bits = 0;
  for (const NetworkRun& run : input.networks) {
    std::fill(expected.begin() + run.first, expected.begin() + run.last + 1, run.rule);
    set_bits += run.last - run.first + 1;
  }
  REQUIRE(view.header().shapes[0].n_keys == set_bits);
  uint64_t wrong = 0;
  for (uint32_t network = 0; network < WEIR_BITMAP_BITS; network++) {
    const Key key = make_key(shape.shape, weir::Ipv4{network << 8 | 77});
    wrong += find_rule(shape, key) != expected[network];
    wrong += weir_bitmap_check(shape.filter.bits, network) != (expected[network] != 0);
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("networks: equal chunks are stored once") {
  SnapshotInput input = empty_input();
  input.networks = {{0, WEIR_BITMAP_BITS - 1, 1}};  // 0.0.0.0/0
  const Buffer all = build(input);
  REQUIRE(test::open(all).header().shapes[0].chunks.size_bytes == 2 * sizeof(RuleChunk));

  input.networks = {{0, 255, 1}, {256, 511, 2}, {512, 767, 1}, {1024 + 3, 1024 + 9, 3}, {2048 + 3, 2048 + 9, 3}};
  const Buffer some = build(input);
  REQUIRE(test::open(some).header().shapes[0].chunks.size_bytes == 4 * sizeof(RuleChunk));
}

// A page is filled past what sizing would ever allow, so that chains of overflow get long and wrap around its end.
TEST_CASE("exact stage: overflow stays in the page, is found, and a full page is an error") {
  for (KeyShape shape : kShapes) {
    with_bucket_type(shape, [&]<class Bucket>() {
      constexpr uint32_t kPages = 2;
      constexpr uint32_t kBuckets = kPages * WEIR_LINES_PER_PAGE;
      Buffer memory(kBuckets * sizeof(Bucket));
      auto* buckets = reinterpret_cast<Bucket*>(memory.bytes().data());
      Random random(11 + shape.addr_bits);
      // Only buckets of page 0, so that it fills to the last slot; most of them its last eight, so that it wraps.
      const auto crowded_hash = [&] {
        const uint64_t last_eighth = random.below(8) != 0 ? 0x7 : 0x0;
        return last_eighth << 60 | random.next() >> 4;
      };
      std::map<std::array<uint64_t, WEIR_MAX_KEY_WORDS>, std::pair<uint64_t, uint32_t>> members;
      const uint32_t capacity = WEIR_LINES_PER_PAGE * kSlots<Bucket>;
      while (members.size() < capacity) {
        const Key key = random.key(shape);
        const uint64_t hash = crowded_hash();
        if (members.count(key.word) != 0) continue;
        const uint32_t rule = 1 + static_cast<uint32_t>(members.size());
        REQUIRE(insert_into_buckets(buckets, kBuckets, key, hash, rule) == Insertion::done);
        REQUIRE(insert_into_buckets(buckets, kBuckets, key, hash, rule) == Insertion::duplicate);
        members[key.word] = {hash, rule};
      }
      uint32_t away_from_home = 0;
      for (const auto& [word, hash_and_rule] : members) {
        const auto& [hash, rule] = hash_and_rule;
        REQUIRE(find_in_buckets(buckets, kBuckets, Key{word}, hash) == rule);
        const Bucket& home = buckets[weir_hash_range(hash, kBuckets)];
        away_from_home += std::count(std::begin(home.rule), std::end(home.rule), rule) == 0;
      }
      REQUIRE(away_from_home > 10);
      for (int i = 0; i < 1000; i++) {
        const Key key = random.key(shape);
        if (members.count(key.word) == 0) {
          REQUIRE(find_in_buckets(buckets, kBuckets, key, random.next()) == 0);
        }
      }
      Key one_more = random.key(shape);
      while (members.count(one_more.word) != 0) one_more = random.key(shape);
      REQUIRE(insert_into_buckets(buckets, kBuckets, one_more, 0, 1) == Insertion::page_full);
      for (uint32_t b = WEIR_LINES_PER_PAGE; b < kBuckets; b++) {  // the other page is untouched
        REQUIRE(std::count(std::begin(buckets[b].rule), std::end(buckets[b].rule), 0u) == kSlots<Bucket>);
      }
    });
  }
}

TEST_CASE("exact stage: keys of 40 bytes, in buckets of four lines") {
  using Bucket = weir_bucket_flow;
  constexpr size_t kKeys = 5000;
  const uint32_t buckets = exact_buckets(kKeys, kSlots<Bucket>, kBucketsPerPage<Bucket>);
  REQUIRE(buckets % kBucketsPerPage<Bucket> == 0);
  Buffer memory(buckets * sizeof(Bucket));
  auto* table = reinterpret_cast<Bucket*>(memory.bytes().data());
  Random random(15);
  const uint64_t secret[2] = {random.next(), random.next()};
  std::vector<uint64_t> columns[WEIR_MAX_KEY_WORDS];
  for (auto& column : columns) {
    for (size_t i = 0; i < 2 * kKeys; i++) column.push_back(random.below(4) == 0 ? 7 : random.next());  // much alike
  }
  for (size_t i = 0; i < 2 * kKeys; i++) columns[4][i] = i;  // and still different
  const auto key_of = [&](size_t i) {
    return Key{{columns[0][i], columns[1][i], columns[2][i], columns[3][i], columns[4][i]}};
  };
  std::vector<uint64_t> hashes(2 * kKeys);
  for (size_t i = 0; i < 2 * kKeys; i++) hashes[i] = weir_siphash13(secret, key_of(i).word.data(), WEIR_MAX_KEY_WORDS);
  for (size_t i = 0; i < kKeys; i++) {
    REQUIRE(insert_into_buckets(table, buckets, key_of(i), hashes[i], static_cast<uint32_t>(i + 1)) == Insertion::done);
  }
  for (size_t i = 0; i < 2 * kKeys; i++) {  // the first half are members
    REQUIRE(find_in_buckets(table, buckets, key_of(i), hashes[i]) == (i < kKeys ? i + 1 : 0));
  }
  for (size_t first = 0; first + kMaxBatch <= 2 * kKeys; first += kMaxBatch) {
    const uint64_t* words[WEIR_MAX_KEY_WORDS];
    for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) words[w] = columns[w].data() + first;
    uint32_t rule[kMaxBatch];
    const Kernels& kernels = *all_kernels().back();
    const auto* bytes = reinterpret_cast<const uint8_t*>(table);
    uint64_t behind = 0;
    uint64_t found =
        kernels.buckets[kBucketFlow].find(bytes, buckets, words, hashes.data() + first, ~uint64_t{0}, rule, &behind);
    found |= kernels.buckets[kBucketFlow].find_behind(bytes, buckets, words, hashes.data() + first, behind, rule);
    for (unsigned i = 0; i < kMaxBatch; i++) REQUIRE((found >> i & 1) == (first + i < kKeys));
  }
}

TEST_CASE("the planner refuses what the format cannot hold, and says what") {
  const auto refused = [](auto change) {
    SnapshotInput input = full_input(10, 12);
    change(input);
    const auto plan = plan_snapshot(input);
    return plan ? std::string("accepted") : plan.error();
  };
  using Catch::Matchers::ContainsSubstring;
  using Input = SnapshotInput&;
  CHECK(refused([](Input) {}) == "accepted");
  CHECK_THAT(refused([](Input i) {
               for (int n = 0; n < 254; n++) i.lists.push_back({"l" + std::to_string(n), WEIR_DROP, WEIR_ENFORCE, 0});
             }),
             ContainsSubstring("257 lists: a snapshot holds at most 256"));
  CHECK_THAT(refused([](Input i) { i.lists[1].name = "two words"; }), ContainsSubstring("'two words' is not"));
  CHECK_THAT(refused([](Input i) { i.lists[1].name = std::string(64, 'a'); }),
             ContainsSubstring("is not [A-Za-z0-9._-]{1,63}"));
  CHECK_THAT(refused([](Input i) { i.lists[1].name = i.lists[0].name; }), ContainsSubstring("twice"));
  CHECK_THAT(refused([](Input i) { i.lists[0].mode = WEIR_MONITOR; }), ContainsSubstring("only drop lists"));
  CHECK_THAT(refused([](Input i) { i.sets[0].lists[0] = 1; }), ContainsSubstring("set 0"));
  CHECK_THAT(refused([](Input i) { i.sets[1].lists[0] = 8; }), ContainsSubstring("set 1 names a list"));
  CHECK_THAT(refused([](Input i) { i.sets[1].lists[0] = 0; }), ContainsSubstring("set 1 is empty"));
  CHECK_THAT(refused([](Input i) { i.rules[0] = {1, 0, 0, 0}; }), ContainsSubstring("rule 0"));
  CHECK_THAT(refused([](Input i) { i.rules[2] = {4, 0, 0, 0}; }), ContainsSubstring("rule 2 names a set"));
  CHECK_THAT(refused([](Input i) { i.tables[0].rules[3] = 0; }), ContainsSubstring("v4 addr/32: rule 0 is not there"));
  CHECK_THAT(refused([](Input i) { i.tables[0].rules[3] = 4; }), ContainsSubstring("rule 4 is not there"));
  CHECK_THAT(refused([](Input i) { i.tables[0].words[0].pop_back(); }), ContainsSubstring("differ in number"));
  CHECK_THAT(refused([](Input i) { i.tables[0].words[0][0] |= 1ull << 40; }),
             ContainsSubstring("bits outside its shape"));
  CHECK_THAT(refused([](Input i) { i.tables[0].false_positive_rate = 0; }), ContainsSubstring("false-positive rate"));
  CHECK_THAT(refused([](Input i) { i.tables[0].shape.addr_bits = 33; }), ContainsSubstring("no such key shape"));
  CHECK_THAT(refused([](Input i) { i.tables.push_back(i.tables[0]); }), ContainsSubstring("v4 addr/32 is there twice"));
  CHECK_THAT(refused([](Input i) { i.tables[0].shape.addr_bits = 24; }),
             ContainsSubstring("v4 addr/24 is there twice"));
  CHECK_THAT(refused([](Input i) {
               for (uint8_t bits = 1; bits < 16; bits++) {
                 i.tables.push_back({});
                 i.tables.back().shape = {4, bits, false};
               }
             }),
             ContainsSubstring("18 key shapes for IPv4"));
  CHECK_THAT(refused([](Input i) { i.networks[1].first = 5; }), ContainsSubstring("run 5..1000 is out of order"));
  CHECK_THAT(refused([](Input i) { i.networks[3].last = WEIR_BITMAP_BITS; }), ContainsSubstring("out of range"));
  CHECK_THAT(refused([](Input i) { i.networks[0].rule = 9; }), ContainsSubstring("networks: rule 9"));
}

TEST_CASE("the builder refuses duplicate keys and wrong output") {
  SnapshotInput input = full_input(100, 13);
  const auto plan = plan_snapshot(input);
  REQUIRE(plan);
  Buffer small(plan->header.total_bytes - 1);
  REQUIRE_FALSE(build_snapshot(input, *plan, small.bytes()));
  input.tables[0].words[0][99] = input.tables[0].words[0][3];
  Buffer out(plan->header.total_bytes);
  const auto built = build_snapshot(input, *plan, out.bytes());
  REQUIRE_FALSE(built);
  REQUIRE_THAT(built.error(), Catch::Matchers::ContainsSubstring("key 99 of a shape is there twice"));
}
