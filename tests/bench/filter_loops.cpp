#include "tests/bench/filter_loops.h"

#include <array>
#include <bit>
#include <memory>

#include "filter/probe/lookup.h"
#include "tests/bench/filter_lanes.h"
#include "tests/bench/filter_tables.h"
#include "tests/bench/standard.h"

namespace weir::bench {

using namespace filter;

namespace {

constexpr unsigned kRing = 8;  // batches whose columns are kept: more than any look-ahead and one
constexpr uint64_t kSeed = 0x243f6a8885a308d3;

struct Ring {
  alignas(64) uint64_t hash[kRing][kMaxBatch] = {};
  alignas(64) uint64_t words[kRing][kKeyWords][kMaxBatch] = {};
  KeyStream stream;

  Ring(uint64_t n_members, double hit_ratio) : stream(key_stream(n_members, hit_ratio, kSeed)) {}
  void fill_columns(uint64_t i, unsigned n) {
    lanes().fill_columns(stream, words[i % kRing][0], words[i % kRing][1], n);
  }
  void fill_hashes(uint64_t i, unsigned n) { lanes().fill_hashes(stream, hash[i % kRing], n); }
};

std::shared_ptr<Ring> ring(uint64_t n_members = 1, double hit_ratio = 0) {
  return std::make_shared<Ring>(n_members, hit_ratio);
}

// fetch(i) of batch i, take(i) of the one that is due. Hashes are there.
template <class Fetch, class Take>
uint64_t paced(Pace pace, Ring& columns, uint64_t keys, Fetch fetch, Take take) {
  uint64_t sum = 0;
  const uint64_t late = pace.look_ahead > 0 ? static_cast<uint64_t>(pace.look_ahead) : 0;
  for (uint64_t i = 0; i * pace.batch < keys; i++) {
    columns.fill_hashes(i, pace.batch);
    if (pace.look_ahead != kNoPrefetch) fetch(columns.hash[i % kRing]);
    sum += take(columns.hash[(i - late) % kRing]);
  }
  return sum;
}

}  // namespace

std::string pace_name(Pace pace) {
  if (pace.look_ahead == kNoPrefetch) return "batches of " + std::to_string(pace.batch) + ", no prefetch";
  return std::to_string(pace.look_ahead) + " batches of " + std::to_string(pace.batch) + " ahead";
}

Loop make_hashes_only(unsigned batch) {
  return {"hashes", [batch, columns = ring()](uint64_t keys) {
            for (uint64_t i = 0; i * batch < keys; i++) columns->fill_hashes(i, batch);
            return columns->hash[0][0];
          }};
}

Loop make_columns_only(unsigned batch, uint64_t n_members, double hit_ratio) {
  return {"columns", [batch, columns = ring(n_members, hit_ratio)](uint64_t keys) {
            for (uint64_t i = 0; i * batch < keys; i++) columns->fill_columns(i, batch);
            return columns->words[0][0][0];
          }};
}

Loop make_rows_only(unsigned batch, uint64_t n_members, double hit_ratio) {
  struct State {
    KeyStream stream;
    alignas(64) uint64_t rows[kMaxBatch * kKeyWords] = {};
  };
  auto state = std::make_shared<State>(State{key_stream(n_members, hit_ratio, kSeed)});
  return {"rows", [batch, state](uint64_t keys) {
            for (uint64_t i = 0; i < keys; i += batch) lanes().fill_rows(state->stream, state->rows, batch);
            return state->rows[0];
          }};
}

Loop gather_rolling(FilterBits filter, unsigned distance) {
  return {std::to_string(distance) + " lines ahead", [=, columns = ring()](uint64_t keys) {
            return lanes().rolling(columns->stream, filter.bits, filter.lines, distance, keys);
          }};
}

Loop best_rolling(FilterBits filter) {
  std::vector<Loop> loops;
  for (unsigned distance : {0u, 16u, 32u, 48u, 64u, 96u, 128u, 192u, 256u, 384u}) {
    loops.push_back(gather_rolling(filter, distance));
  }
  return loops[fastest(loops)];
}

Loop gather_paced(const Kernels& kernels, FilterBits filter, Pace pace) {
  return {pace_name(pace), [=, &kernels, columns = ring()](uint64_t keys) {
            const LayoutKernels& layout = kernels.layout[WEIR_LAYOUT_LINE8];
            return paced(
                pace, *columns, keys, [&](const uint64_t* hash) { layout.prefetch(filter, hash, pace.batch); },
                [&](const uint64_t* hash) { return lanes().touch(filter.bits, filter.lines, hash, pace.batch); });
          }};
}

// The pipeline's step with nothing to hash: asks for one batch's lines and tests an earlier batch, in turns.
uint64_t step_hashes(const Kernels& kernels, FilterBits filter, Pace pace, Ring& c, uint64_t keys) {
  const auto late = static_cast<uint64_t>(pace.look_ahead);
  uint64_t hits = 0;
  for (uint64_t i = 0; i * pace.batch < keys; i++) {
    c.fill_hashes(i, pace.batch);
    Line8Step step;
    step.fetch_filter = step.test_filter = filter;
    step.fetch_hash = c.hash[i % kRing];
    step.test_hash = c.hash[(i - late) % kRing];
    step.n_fetch = step.n_test = pace.batch;
    hits += static_cast<uint64_t>(std::popcount(kernels.line8_step(step)));
  }
  return hits;
}

Loop lookup_hashes(const Kernels& kernels, weir_layout id, FilterBits filter, Pace pace) {
  return {pace_name(pace), [=, &kernels, columns = ring()](uint64_t keys) {
            const LayoutKernels& layout = loops_of(kernels, id);
            if (id == WEIR_LAYOUT_LINE8 && pace.look_ahead > 0)
              return step_hashes(kernels, filter, pace, *columns, keys);
            return paced(
                pace, *columns, keys, [&](const uint64_t* hash) { layout.prefetch(filter, hash, pace.batch); },
                [&](const uint64_t* hash) { return layout.check(filter, hash, pace.batch); });
          }};
}

Loop lookup_keys_woven(const Kernels& kernels, FilterBits filter, const uint64_t* secret, Pace pace, uint64_t n_members,
                       double hit_ratio) {
  return {pace_name(pace), [=, &kernels, columns = ring(n_members, hit_ratio)](uint64_t keys) {
            Ring& c = *columns;
            const bool fetch = pace.look_ahead != kNoPrefetch;
            const uint64_t late = fetch ? static_cast<uint64_t>(pace.look_ahead) + 1 : 1;
            uint64_t hits = 0;
            for (uint64_t i = 0; i * pace.batch < keys; i++) {
              c.fill_columns(i, pace.batch);
              const uint64_t* words[] = {c.words[i % kRing][0], c.words[i % kRing][1]};
              Line8Step step;
              step.secret = secret;
              step.words = words;
              step.n_words = kKeyWords;
              step.n_hash = pace.batch;
              step.hash = c.hash[i % kRing];
              if (fetch) {
                step.fetch_filter = filter;
                step.fetch_hash = c.hash[(i - 1) % kRing];
                step.n_fetch = pace.batch;
              }
              step.test_filter = filter;
              step.test_hash = c.hash[(i - late) % kRing];
              step.n_test = pace.batch;
              hits += static_cast<uint64_t>(std::popcount(kernels.line8_step(step)));
            }
            return hits;
          }};
}

Loop lookup_keys_sync(const Kernels& kernels, const ShapeView& shape, unsigned batch, uint64_t n_members,
                      double hit_ratio) {
  return {"batches of " + std::to_string(batch),
          [=, &kernels, &shape, columns = ring(n_members, hit_ratio)](uint64_t keys) {
            uint64_t hits = 0;
            for (uint64_t i = 0; i * batch < keys; i++) {
              columns->fill_columns(0, batch);
              const uint64_t* words[] = {columns->words[0][0], columns->words[0][1]};
              hits +=
                  static_cast<uint64_t>(std::popcount(filter_check(kernels, shape, words, batch, columns->hash[0])));
            }
            return hits;
          }};
}

Loop lookup_rules(const Kernels& kernels, const ShapeView& shape, Pace pace, uint64_t n_members, double hit_ratio) {
  struct Pool {
    std::array<Batch, LookupPipeline::kMaxInFlight> batches;
    std::array<Batch*, LookupPipeline::kMaxInFlight> free;  // a stack: the batch used last is still in L1
    KeyStream stream;
  };
  auto shared = std::make_shared<Pool>();
  shared->stream = key_stream(n_members, hit_ratio, kSeed);
  return {pace_name(pace), [=, &kernels, &shape](uint64_t keys) {
            Pool& pool = *shared;
            unsigned n_free = 0;
            for (Batch& batch : pool.batches) pool.free[n_free++] = &batch;
            LookupPipeline pipeline(kernels, static_cast<unsigned>(pace.look_ahead));
            Lane lane;
            lane.shape = &shape;
            uint64_t sum = 0;
            const auto read = [&] {
              while (Batch* done = pipeline.pop()) {
                for (uint64_t left = done->found; left != 0; left &= left - 1)
                  sum += done->rule[std::countr_zero(left)];
                pool.free[n_free++] = done;
              }
            };
            for (uint64_t i = 0; i * pace.batch < keys; i++) {
              Batch& batch = *pool.free[--n_free];
              batch.lane = &lane;
              batch.n = pace.batch;
              lanes().fill_columns(pool.stream, batch.word[0], batch.word[1], pace.batch);
              pipeline.push(&batch);
              read();
            }
            pipeline.drain();
            read();
            return sum;
          }};
}

Loop lookup_table_only(const Kernels& kernels, const ShapeView& shape, Pace pace, uint64_t n_members,
                       double hit_ratio) {
  return {pace_name(pace), [=, &kernels, &shape, columns = ring(n_members, hit_ratio)](uint64_t keys) {
            Ring& c = *columns;
            const auto late = static_cast<uint64_t>(pace.look_ahead);
            uint64_t sum = 0;
            for (uint64_t i = 0; i * pace.batch < keys; i++) {
              c.fill_columns(i, pace.batch);
              const uint64_t* words[] = {c.words[i % kRing][0], c.words[i % kRing][1]};
              kernels.siphash13(shape.secret, words, kKeyWords, pace.batch, c.hash[i % kRing]);
              kernels.layout[WEIR_LAYOUT_LINE8].prefetch(shape.exact_lines, c.hash[i % kRing], pace.batch);
              const uint64_t due = (i - late) % kRing;
              const uint64_t* keys_due[] = {c.words[due][0], c.words[due][1]};
              uint32_t rule[kMaxBatch];
              const uint64_t found = exact_find_batch(kernels, shape, keys_due, c.hash[due],
                                                      ~uint64_t{0} >> (kMaxBatch - pace.batch), rule);
              for (uint64_t left = found; left != 0; left &= left - 1) sum += rule[std::countr_zero(left)];
            }
            return sum;
          }};
}

std::vector<Pace> pipelined_paces() {
  std::vector<Pace> paces;
  for (unsigned batch : {16u, 32u, 64u}) {
    for (int look_ahead = 1; look_ahead <= static_cast<int>(LookupPipeline::kMaxLookAhead); look_ahead++) {
      paces.push_back({batch, look_ahead});
    }
  }
  return paces;
}

}  // namespace weir::bench
