#include "filter/probe/lookup.h"

#include <algorithm>
#include <bit>

#include "common/bits.h"
#include "common/prefetch.h"
#include "filter/format/chunks.h"
#include "filter/format/hash.h"
#include "filter/probe/exact.h"

namespace weir::filter {
namespace {

// Hit ratios (in 1/65536) above which looking into the table at once is cheaper than asking the filter first, and below
// which the filter pays again. Measured break-even: docs/develop/filter.md. The gap keeps a lane from changing its mind
// with every batch.
constexpr uint32_t kBypassAbove = 65536 * 30 / 100;
constexpr uint32_t kBypassBelow = 65536 * 20 / 100;
constexpr unsigned kRatioShift = 10;  // of the moving average: a key counts 1/1024, so a full batch 1/16

// Asks for the lines of the keys that address(i) gives: of the first two without a branch on how many there are. With
// few hits, the usual case, that is all of them. instead: any line that is in the cache anyhow.
template <class Address>
void ask_for(uint64_t keys, const void* instead, Address address) {
  constexpr unsigned kWithoutBranch = 2;
  uint64_t left = keys;
  for (unsigned i = 0; i < kWithoutBranch; i++, left &= left - 1) {
    const void* line = address(static_cast<unsigned>(std::countr_zero(left | bit(kMaxBatch - 1))));
    prefetch_line(left != 0 ? line : instead);
  }
  for (; left != 0; left &= left - 1) prefetch_line(address(static_cast<unsigned>(std::countr_zero(left))));
}

struct Words {
  const uint64_t* of[WEIR_MAX_KEY_WORDS];
  explicit Words(const Batch& batch) {
    for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) of[w] = batch.word[w];
  }
};

void look_up_pending(const Kernels& kernels, Batch& batch) {
  const ShapeView& shape = *batch.lane->shape;
  const Words words(batch);
  // A batch that went around the filter has been looked up in its own buckets.
  batch.found |= batch.bypass ? exact_find_behind(kernels, shape, words.of, batch.place, batch.pending, batch.rule)
                              : exact_find_batch(kernels, shape, words.of, batch.place, batch.pending, batch.rule);
  batch.pending = 0;
}

void take_ratio(Lane& lane, unsigned hits, unsigned n) {
  lane.hit_ratio += (hits << (16 - kRatioShift)) - (lane.hit_ratio * n >> kRatioShift);
  lane.bypass = lane.hit_ratio > (lane.bypass ? kBypassBelow : kBypassAbove);
}

}  // namespace

LookupPipeline::LookupPipeline(const Kernels& kernels, unsigned look_ahead)
    : kernels_(kernels), look_ahead_(std::min(look_ahead, kMaxLookAhead)) {}

void LookupPipeline::push(Batch* batch) noexcept {
  batch->found = 0;
  batch->let_through = 0;
  batch->pending = 0;
  batch->bypass = batch->lane->bypass && batch->lane->shape->layout != WEIR_LAYOUT_BITMAP;
  slot(pushed_) = batch;
  step(batch, pushed_ < look_ahead_ ? 0 : pushed_ - look_ahead_);
  if (look_ahead_ == 0) {
    while (tested_ != pushed_) step(nullptr, pushed_);
  }
}

void LookupPipeline::tick() noexcept {
  resolve();
  const uint64_t asked_for = fetched_;
  while (tested_ != asked_for || fetched_ != pushed_) step(nullptr, asked_for);
}

Batch* LookupPipeline::pop() noexcept {
  return popped_ == resolved_ ? nullptr : slot(popped_++);
}

void LookupPipeline::drain() noexcept {
  while (tested_ != pushed_) step(nullptr, pushed_);
  resolve();
}

// Hashes one batch, asks for the lines of the one before it, tests the one whose lines should be there. Without a batch
// to hash, those that are inside move on.
void LookupPipeline::step(Batch* hash_batch, uint64_t test_limit) noexcept {
  Batch* fetch_batch = fetched_ != pushed_ ? slot(fetched_) : nullptr;
  Batch* test_batch = tested_ < std::min(fetched_, test_limit) ? slot(tested_) : nullptr;

  if (waiting_ == 0 || behind_waits_ || waiting_ >= kFullBatch || tested_ - resolved_ >= kMaxAge) resolve();

  Line8Step work;
  bool fits_line8 = true;
  const uint64_t* words[WEIR_MAX_KEY_WORDS];
  if (hash_batch != nullptr) {
    const ShapeView& shape = *hash_batch->lane->shape;
    for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) words[w] = hash_batch->word[w];
    if (shape.layout == WEIR_LAYOUT_BITMAP) {
      place_keys(kernels_, shape, words, hash_batch->n, hash_batch->place);
    } else {
      work.words = words;
      work.n_words = key_words(shape.shape);
      work.n_hash = hash_batch->n;
      work.hash = hash_batch->place;
      work.secret = shape.secret;
    }
    pushed_++;
  }
  if (fetch_batch != nullptr) {
    const ShapeView& shape = *fetch_batch->lane->shape;
    if (fetch_batch->bypass || (shape.prefetch && shape.layout == WEIR_LAYOUT_LINE8)) {
      work.fetch_filter = fetch_batch->bypass ? shape.exact_lines : shape.filter;
      work.fetch_hash = fetch_batch->place;
      work.n_fetch = fetch_batch->n;
    } else if (shape.prefetch) {
      kernels_.layout[shape.layout].prefetch(shape.filter, fetch_batch->place, fetch_batch->n);
    }
    fetched_++;
  }
  if (test_batch != nullptr && !test_batch->bypass) {
    const ShapeView& shape = *test_batch->lane->shape;
    fits_line8 = shape.layout == WEIR_LAYOUT_LINE8;
    if (fits_line8) {
      work.test_filter = shape.filter;
      work.test_hash = test_batch->place;
      work.n_test = test_batch->n;
    }
  }

  const uint64_t hits = kernels_.line8_step(work);
  if (test_batch == nullptr) return;
  tested_++;
  const ShapeView& shape = *test_batch->lane->shape;
  if (test_batch->bypass) {  // its buckets were asked for instead of the filter's lines
    // Those behind their own buckets are looked up in the next step: their lines are there by then.
    test_batch->found = exact_find_own(kernels_, shape, Words(*test_batch).of, test_batch->place,
                                       low_bits(test_batch->n), test_batch->rule, test_batch->pending);
    behind_waits_ |= test_batch->pending != 0;
    const auto hits_or_behind = static_cast<unsigned>(std::popcount(test_batch->found | test_batch->pending));
    take_ratio(*test_batch->lane, hits_or_behind, test_batch->n);
  } else if (fits_line8) {
    let_through(*test_batch, hits);
  } else {
    let_through(*test_batch, kernels_.layout[shape.layout].check(shape.filter, test_batch->place, test_batch->n));
  }
}

// Asks for the buckets of the keys that the filter did not rule out.
void LookupPipeline::let_through(Batch& batch, uint64_t keys) noexcept {
  const ShapeView& shape = *batch.lane->shape;
  const auto count = static_cast<unsigned>(std::popcount(keys));
  batch.let_through = batch.pending = keys;
  waiting_ += count;
  if (shape.layout == WEIR_LAYOUT_BITMAP) {
    ask_for(keys, &batch, [&](unsigned i) { return shape.exact + batch.place[i] / kChunkRules * sizeof(uint32_t); });
  } else {
    const uint32_t lines = shape.exact_lines.lines;
    ask_for(keys, &batch,
            [&](unsigned i) { return shape.exact + size_t{weir_hash_range(batch.place[i], lines)} * WEIR_LINE_BYTES; });
  }
  take_ratio(*batch.lane, count, batch.n);
}

void LookupPipeline::resolve() noexcept {
  for (; resolved_ != tested_; resolved_++) {
    Batch& batch = *slot(resolved_);
    if (batch.pending != 0) look_up_pending(kernels_, batch);
  }
  waiting_ = 0;
  behind_waits_ = false;
}

}  // namespace weir::filter
