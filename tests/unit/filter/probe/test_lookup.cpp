#include <deque>

#include "filter/layouts/layout.h"
#include "filter/probe/dispatch.h"
#include "filter/probe/lookup.h"
#include "tests/rounds.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using namespace weir::filter::test;

namespace {

// A snapshot of every shape, each with another layout, and networks.
SnapshotInput mixed_input(size_t n) {
  SnapshotInput input = full_input(n, 40);
  const weir_layout kLayouts[] = {WEIR_LAYOUT_LINE8, WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_RIBBON, WEIR_LAYOUT_PAGE7};
  for (size_t i = 0; i < input.tables.size(); i++) input.tables[i].layout = kLayouts[i % 4];
  return input;
}

// Some keys of the shape, members with the given probability; n 1..kMaxBatch.
void fill(Batch& batch, Lane& lane, const SnapshotInput& input, uint64_t member_percent, Random& random) {
  const KeyShape shape = lane.shape->shape;
  const auto table =
      std::find_if(input.tables.begin(), input.tables.end(), [&](const KeyTable& t) { return t.shape == shape; });
  batch.lane = &lane;
  batch.n = 1 + static_cast<unsigned>(random.below(kMaxBatch));
  if (random.below(2) == 0) batch.n = kMaxBatch;
  for (unsigned i = 0; i < batch.n; i++) {
    const bool member = table != input.tables.end() && random.below(100) < member_percent;
    const Key key = member ? key_at(*table, random.below(table->rules.size())) : random.key(shape);
    for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) batch.word[w][i] = key.word[w];
  }
}

void compare(const Batch& batch) {
  for (unsigned i = 0; i < batch.n; i++) {
    Key key;
    for (unsigned w = 0; w < key_words(batch.lane->shape->shape); w++) key.word[w] = batch.word[w][i];
    const uint32_t expected = find_rule(*batch.lane->shape, key);
    REQUIRE((batch.found >> i & 1) == (expected != 0));
    if (expected != 0) REQUIRE(batch.rule[i] == expected);
  }
  if (batch.n < kMaxBatch) REQUIRE(batch.found >> batch.n == 0);
}

}  // namespace

TEST_CASE("the pipeline gives what one lookup after the other gives, in order") {
  const SnapshotInput input = mixed_input(3000);
  const Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  for (const Kernels* kernels : all_kernels()) {
    if (!kernels->usable()) continue;
    for (unsigned look_ahead = 0; look_ahead <= LookupPipeline::kMaxLookAhead; look_ahead++) {
      for (bool prefetch : {false, true}) {
        for (uint64_t member_percent : {0u, 1u, 10u, 100u}) {
          Random random(look_ahead + member_percent);
          std::vector<ShapeView> shapes(view.shapes().begin(), view.shapes().end());
          std::vector<Lane> lanes;
          for (ShapeView& shape : shapes) {
            shape.prefetch = prefetch;
            lanes.push_back({.shape = &shape});
          }
          LookupPipeline pipeline(*kernels, look_ahead);
          std::vector<Batch> batches(LookupPipeline::kMaxInFlight);
          uint32_t pushed = 0, popped = 0, bypassed = 0;
          const auto pop_all = [&] {
            while (Batch* done = pipeline.pop()) {
              REQUIRE(done == &batches[popped++ % batches.size()]);
              bypassed += done->bypass;
              compare(*done);
            }
          };
          INFO(std::string(kernels->name) << ", look-ahead " << look_ahead << ", members " << member_percent << " %");
          for (int i = 0; i < rounds(300); i++) {
            REQUIRE(pushed - popped < LookupPipeline::kMaxInFlight);
            Batch& batch = batches[pushed % batches.size()];
            fill(batch, lanes[random.below(lanes.size())], input, member_percent, random);
            pushed++;
            pipeline.push(&batch);
            pop_all();
            if (random.below(40) == 0) {
              pipeline.drain();
              pop_all();
              REQUIRE(pipeline.empty());
            }
          }
          pipeline.drain();
          pop_all();
          REQUIRE(popped == pushed);
          REQUIRE((bypassed > 0) == (member_percent == 100));  // both ways were taken
        }
      }
    }
  }
}

TEST_CASE("a lane goes around the filter while most keys are hits, and comes back") {
  const SnapshotInput input = mixed_input(1000);
  const Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  Random random(41);
  Lane lane = {.shape = &view.shapes()[0]};
  LookupPipeline pipeline(**choose_kernels(), 0);
  Batch batch;
  const auto run = [&](int batches, uint64_t member_percent) {
    for (int i = 0; i < batches; i++) {
      fill(batch, lane, input, member_percent, random);
      pipeline.push(&batch);
      pipeline.drain();
      REQUIRE(pipeline.pop() == &batch);
      compare(batch);
    }
  };
  run(100, 10);
  REQUIRE_FALSE(lane.bypass);
  run(100, 100);
  REQUIRE(lane.bypass);
  REQUIRE(batch.bypass);
  run(100, 25);  // between the two thresholds: it stays
  REQUIRE(lane.bypass);
  run(200, 5);
  REQUIRE_FALSE(lane.bypass);
  REQUIRE_FALSE(batch.bypass);
}

TEST_CASE("a survivor does not wait for ever") {
  SnapshotInput input = empty_input();
  Random random(42);
  input.tables.push_back(random_table({6, 128, false}, 1000, 4, random));
  const Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  Lane lane = {.shape = &view.shapes()[0]};
  LookupPipeline pipeline(**choose_kernels(), 2);
  std::vector<Batch> batches(LookupPipeline::kMaxInFlight);
  fill(batches[0], lane, input, 0, random);
  batches[0].word[0][0] = input.tables[0].words[0][7];
  batches[0].word[1][0] = input.tables[0].words[1][7];
  pipeline.push(&batches[0]);
  unsigned later = 0;
  Batch* done = nullptr;
  while (done == nullptr) {
    REQUIRE(++later <= 2 + 2 + LookupPipeline::kMaxAge);
    fill(batches[later], lane, input, 0, random);
    pipeline.push(&batches[later]);
    done = pipeline.pop();
  }
  REQUIRE(done == &batches[0]);
  REQUIRE((done->found & 1) == 1);
}
