#include <atomic>
#include <map>
#include <thread>

#include "filter/build/update.h"
#include "filter/layouts/layout.h"
#include "filter/probe/dispatch.h"
#include "filter/probe/lookup.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using namespace weir::filter::test;

namespace {

std::vector<weir_layout> changeable_layouts() {
  std::vector<weir_layout> ids;
  for (const Layout& layout : all_layouts()) {
    if (layout.in_snapshots && layout.mark != nullptr) ids.push_back(layout.id);
  }
  return ids;
}

SnapshotInput one_table(KeyShape shape, weir_layout layout, size_t n, Random& random) {
  SnapshotInput input = empty_input();
  input.tables.push_back(random_table(shape, n, 4, random));
  input.tables[0].layout = layout;
  return input;
}

using Rules = std::map<std::array<uint64_t, WEIR_MAX_KEY_WORDS>, uint32_t>;

void require_same(const ShapeView& shape, const Rules& rules) {
  for (const auto& [word, rule] : rules) REQUIRE(find_rule(shape, Key{word}) == rule);
}

}  // namespace

TEST_CASE("changes in place: what is added is found, what is removed is not, and the filter forgets it") {
  Random random(50);
  for (const weir_layout layout : changeable_layouts()) {
    for (KeyShape shape : kShapes) {
      constexpr size_t kKeys = 3000;
      const SnapshotInput input = one_table(shape, layout, kKeys, random);
      Buffer bytes = build(input);
      const SnapshotView view = test::open(bytes);
      const ShapeView& found = view.shapes()[0];
      auto updater = Updater::open(bytes.bytes(), **choose_kernels());
      REQUIRE(updater);
      Rules rules;
      std::vector<Key> removed;
      for (size_t i = 0; i < kKeys; i++) rules[key_at(input.tables[0], i).word] = input.tables[0].rules[i];
      INFO(std::string(layout_of(layout).name)
           << ", v" << int{shape.family} << " addr/" << int{shape.addr_bits} << " port " << shape.with_port);
      for (int round = 0; round < 20; round++) {
        std::vector<Change> changes;
        for (int i = 0; i < 100; i++) {
          const uint32_t kind = static_cast<uint32_t>(random.below(4));
          Key key = random.key(shape);
          if (kind != 0) key.word = std::next(rules.begin(), static_cast<long>(random.below(rules.size())))->first;
          const uint32_t rule = kind < 2 ? 1 + static_cast<uint32_t>(random.below(3)) : 0;  // add, change, remove
          changes.push_back({key, rule});
          if (rule == 0) {
            rules.erase(key.word);
            removed.push_back(key);
          } else {
            rules[key.word] = rule;
          }
        }
        const auto done = updater->apply(0, changes);
        INFO((done ? "" : done.error()));
        REQUIRE(done);
        if (round % 2 == 1) updater->grace_passed();
        require_same(found, rules);
        for (const Key& key : removed) {
          if (rules.count(key.word) == 0) REQUIRE(find_rule(found, key) == 0);
        }
        REQUIRE(view.header().shapes[0].n_keys == rules.size());
        REQUIRE(SnapshotView::open(bytes.bytes()));
      }

      // Its bits are exactly those of the keys that are left: units with removals were made anew.
      for (const auto& [word, rule] : Rules(rules)) {
        const Change remove[] = {{Key{word}, 0}};
        REQUIRE(updater->apply(0, remove));
      }
      const auto* words = reinterpret_cast<const uint64_t*>(found.filter.bits);
      REQUIRE(std::all_of(words, words + size_t{found.filter.lines} * 8, [](uint64_t w) { return w == 0; }));
      REQUIRE(view.header().shapes[0].n_keys == 0);
    }
  }
}

TEST_CASE("changes fill a table to its room and past it, with errors that say what to do") {
  Random random(51);
  Buffer bytes = build(one_table({4, 32, false}, WEIR_LAYOUT_LINE8, 1000, random));
  const SnapshotView view = test::open(bytes);
  auto updater = Updater::open(bytes.bytes(), **choose_kernels());
  const uint64_t room = view.header().shapes[0].max_keys - view.header().shapes[0].n_keys;
  Rules added;
  while (added.size() < room) {
    const Key key = random.key({4, 32, false});
    if (find_rule(view.shapes()[0], key) != 0) continue;
    const Change change[] = {{key, 1}};
    REQUIRE(updater->apply(0, change));
    added[key.word] = 1;
  }
  require_same(view.shapes()[0], added);
  const Change one_more[] = {{random.key({4, 32, false}), 1}};
  REQUIRE_THAT(updater->apply(0, one_more).error(), Catch::Matchers::Contains("full with 1250 keys: build a new"));
  const Change no_rule[] = {{random.key({4, 32, false}), 99}};
  REQUIRE_THAT(updater->apply(0, no_rule).error(), Catch::Matchers::Contains("rule 99 is not there"));
  REQUIRE_THAT(updater->apply(1, one_more).error(), Catch::Matchers::Contains("no shape 1"));
  bytes.header().shapes[0].directions = WEIR_AS_SOURCE;
  const Change other_side[] = {{random.key({4, 32, false}), 2}};
  REQUIRE_THAT(updater->apply(0, other_side).error(), Catch::Matchers::Contains("lists on a side"));

  Buffer ribbon = build(one_table({4, 32, false}, WEIR_LAYOUT_RIBBON, 1000, random));
  REQUIRE_THAT(Updater::open(ribbon.bytes(), **choose_kernels())->apply(0, one_more).error(),
               Catch::Matchers::Contains("a ribbon filter cannot be changed in place"));
  SnapshotInput networks = empty_input();
  networks.networks = {{5, 5, 1}};
  Buffer bitmap = build(networks);
  REQUIRE_THAT(Updater::open(bitmap.bytes(), **choose_kernels())->apply(0, one_more).error(),
               Catch::Matchers::Contains("a bitmap filter cannot be changed in place"));
}

TEST_CASE("a slot that was freed waits for the grace period") {
  Random random(52);
  const SnapshotInput input = one_table({6, 128, false}, WEIR_LAYOUT_LINE8, 500, random);
  Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  auto updater = Updater::open(bytes.bytes(), **choose_kernels());
  const Key key = key_at(input.tables[0], 7);
  const Change remove[] = {{key, 0}}, add[] = {{key, 2}};
  REQUIRE(updater->apply(0, remove));
  const auto* buckets = reinterpret_cast<const weir_bucket_v6*>(view.shapes()[0].exact);
  const auto slots_with_key = [&] {
    int slots = 0;
    for (uint32_t b = 0; b < view.shapes()[0].exact_buckets; b++) {
      for (unsigned s = 0; s < kSlots<weir_bucket_v6>; s++) slots += slot_holds(buckets[b], s, key);
    }
    return slots;
  };
  REQUIRE(updater->freed_slots() == 1);
  REQUIRE(slots_with_key() == 1);
  REQUIRE(updater->apply(0, add));
  REQUIRE(slots_with_key() == 2);  // beside the old one
  REQUIRE(find_rule(view.shapes()[0], key) == 2);
  REQUIRE(updater->apply(0, remove));
  updater->grace_passed();
  REQUIRE(updater->freed_slots() == 0);
  REQUIRE(updater->apply(0, add));
  REQUIRE(slots_with_key() == 2);  // one of them was used again
}

// Readers never miss a key that stays, whatever is added and removed around it, in the same lines, pages and buckets.
// Under ThreadSanitizer only the scalar kernels: a vector load of words that a writer stores one by one is a race to
// it, and what this test would show.
TEST_CASE("readers beside a writer find every key that stays", "[stress]") {
#ifdef __SANITIZE_THREAD__
  const auto kernel_sets = all_kernels().last(1);
  constexpr int kChanges = 2000;
#else
  const auto kernel_sets = all_kernels();
  constexpr int kChanges = 10'000;
#endif
  for (const Kernels* kernels : kernel_sets) {
    if (!kernels->usable()) continue;
    for (const weir_layout layout : changeable_layouts()) {
      for (KeyShape shape : {KeyShape{4, 32, false}, KeyShape{6, 128, false}, KeyShape{6, 128, true}}) {
        Random random(53);
        constexpr size_t kKeys = 2000, kStay = 1000;  // the first ones stay
        const SnapshotInput input = one_table(shape, layout, kKeys, random);
        const KeyTable& table = input.tables[0];
        Buffer bytes = build(input);
        const SnapshotView view = test::open(bytes);
        std::atomic<bool> stop = false, missed = false;
        std::atomic<uint64_t> looks = 0, rounds = 0;
        std::thread reader([&] {
          Lane lane = {.shape = &view.shapes()[0]};
          LookupPipeline pipeline(*kernels, 2);
          std::vector<Batch> batches(LookupPipeline::kMaxInFlight);
          Random mine(54);
          size_t next = 0;
          while (!stop) {
            for (unsigned b = 0; b < 16; b++) {
              Batch& batch = batches[b];
              batch.lane = &lane;
              batch.n = kMaxBatch;
              lane.bypass = mine.below(2) != 0;
              for (unsigned i = 0; i < kMaxBatch; i++) {
                const Key key = key_at(table, next++ % kStay);
                for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) batch.word[w][i] = key.word[w];
              }
              pipeline.push(&batch);
            }
            pipeline.drain();
            while (const Batch* done = pipeline.pop()) {
              if (done->found != ~uint64_t{0}) missed = true;
            }
            looks += 16 * kMaxBatch;
            rounds++;  // quiescent: nothing is in flight
          }
        });
        auto updater = Updater::open(bytes.bytes(), *kernels);
        std::string error;
        for (int done = 0; done < kChanges && error.empty();) {
          std::vector<Change> changes;
          for (int i = 0; i < 50; i++, done++) {
            const Key key = key_at(table, kStay + random.below(kKeys - kStay));
            changes.push_back({key, random.below(2) == 0 ? 0u : 1u});
          }
          if (auto ok = updater->apply(0, changes); !ok) error = ok.error();
          const uint64_t seen = rounds;  // a grace period: the reader has begun and ended a round since
          while (rounds < seen + 2) std::this_thread::yield();
          updater->grace_passed();
        }
        stop = true;
        reader.join();
        INFO(std::string(kernels->name) << ", " << std::string(layout_of(layout).name) << ", " << looks << " lookups");
        REQUIRE(error.empty());
        REQUIRE_FALSE(missed);
        REQUIRE(looks > 20'000);
      }
    }
  }
}
