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
constexpr unsigned kRatioShift = 4;  // of the moving average: a batch counts 1/16

const uint8_t* bucket_of(const ShapeView& shape, const Batch& batch, uint32_t i) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) return shape.exact + batch.place[i] / kChunkRules * sizeof(uint32_t);
  return shape.exact + size_t{weir_hash_range(batch.place[i], shape.exact_lines.lines)} * WEIR_LINE_BYTES;
}

void look_up_pending(Batch& batch) {
  const uint64_t* words[WEIR_MAX_KEY_WORDS];
  for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) words[w] = batch.word[w];
  batch.found = exact_find_batch(*batch.lane->shape, words, batch.place, batch.pending, batch.rule);
  batch.pending = 0;
}

void take_ratio(Lane& lane, unsigned hits, unsigned n) {
  lane.hit_ratio += (hits << 16) / n >> kRatioShift;
  lane.hit_ratio -= lane.hit_ratio >> kRatioShift;
  lane.bypass = lane.hit_ratio > (lane.bypass ? kBypassBelow : kBypassAbove);
}

}  // namespace

LookupPipeline::LookupPipeline(const Kernels& kernels, unsigned look_ahead)
    : kernels_(kernels), look_ahead_(std::min(look_ahead, kMaxLookAhead)) {}

void LookupPipeline::push(Batch* batch) noexcept {
  batch->found = 0;
  batch->pending = 0;
  batch->bypass = batch->lane->bypass && batch->lane->shape->layout != WEIR_LAYOUT_BITMAP;
  slot(pushed_) = batch;
  step(batch);
  if (look_ahead_ == 0) {
    while (tested_ != pushed_) step(nullptr);
  }
}

Batch* LookupPipeline::pop() noexcept {
  return popped_ == resolved_ ? nullptr : slot(popped_++);
}

void LookupPipeline::drain() noexcept {
  while (tested_ != pushed_) step(nullptr);
  resolve();
}

// Hashes one batch, asks for the lines of the one before it, tests the one whose lines should be there. Without a batch
// to hash, those that are inside move on.
void LookupPipeline::step(Batch* hash_batch) noexcept {
  const bool draining = hash_batch == nullptr;
  Batch* fetch_batch = fetched_ != pushed_ ? slot(fetched_) : nullptr;
  const bool due = tested_ != fetched_ && (draining || pushed_ - tested_ > look_ahead_);
  Batch* test_batch = due ? slot(tested_) : nullptr;

  if (waiting_ == 0 || waiting_ >= kFullBatch || tested_ - resolved_ >= kMaxAge) resolve();

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
    test_batch->pending = low_bits(test_batch->n);
    look_up_pending(*test_batch);
    take_ratio(*test_batch->lane, static_cast<unsigned>(std::popcount(test_batch->found)), test_batch->n);
  } else if (fits_line8) {
    let_through(*test_batch, hits);
  } else {
    let_through(*test_batch, kernels_.layout[shape.layout].check(shape.filter, test_batch->place, test_batch->n));
  }
}

// Asks for the buckets of the keys: of the first few without a branch on how many there are. With few hits, the usual
// case, that is all of them.
void LookupPipeline::let_through(Batch& batch, uint64_t keys) noexcept {
  constexpr unsigned kWithoutBranch = 4;
  const ShapeView& shape = *batch.lane->shape;
  const auto count = static_cast<unsigned>(std::popcount(keys));
  batch.pending = keys;
  waiting_ += count;
  uint64_t left = keys;
  for (unsigned i = 0; i < kWithoutBranch; i++, left &= left - 1) {
    const uint8_t* bucket = bucket_of(shape, batch, static_cast<uint32_t>(std::countr_zero(left | uint64_t{1} << 63)));
    prefetch_line(left != 0 ? bucket : reinterpret_cast<const uint8_t*>(&batch));
  }
  for (; left != 0; left &= left - 1) {
    prefetch_line(bucket_of(shape, batch, static_cast<uint32_t>(std::countr_zero(left))));
  }
  take_ratio(*batch.lane, count, batch.n);
}

void LookupPipeline::resolve() noexcept {
  for (; resolved_ != tested_; resolved_++) {
    Batch& batch = *slot(resolved_);
    if (batch.pending != 0) look_up_pending(batch);
  }
  waiting_ = 0;
}

}  // namespace weir::filter
