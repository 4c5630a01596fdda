#include "filter/lookup.h"

#include <algorithm>
#include <bit>

#include "filter/exact.h"
#include "filter/networks.h"

namespace weir::filter {
namespace {

// Hit ratios (in 1/65536) above which looking into the table at once is cheaper than asking the filter first, and below
// which the filter pays again. Measured break-even: docs/filter.md. The gap keeps a lane from changing its mind with
// every batch.
constexpr uint32_t kBypassAbove = 65536 * 30 / 100;
constexpr uint32_t kBypassBelow = 65536 * 20 / 100;
constexpr unsigned kRatioShift = 4;  // of the moving average: a batch counts 1/16

constexpr uint64_t low_bits(unsigned n) {
  return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

Key key_of(const Batch& batch, uint32_t i) {
  Key key;
  for (unsigned w = 0; w < key_words(batch.lane->shape->shape); w++) key.word[w] = batch.word[w][i];
  return key;
}

const uint8_t* bucket_of(const ShapeView& shape, const Batch& batch, uint32_t i) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) return shape.exact + batch.hash[i] / kChunkRules * sizeof(uint32_t);
  return shape.exact + size_t{weir_hash_range(batch.hash[i], shape.exact_lines.lines)} * WEIR_LINE_BYTES;
}

void find_one(Batch& batch, uint32_t i) {
  const uint32_t rule = exact_find(*batch.lane->shape, key_of(batch, i), batch.hash[i]);
  batch.rule[i] = rule;
  batch.found |= uint64_t{rule != 0} << i;
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
  if (popped_ == tested_ || slot(popped_)->pending != 0) return nullptr;
  return slot(popped_++);
}

void LookupPipeline::drain() noexcept {
  while (tested_ != pushed_) step(nullptr);
  resolve_queue();
}

// Hashes one batch, asks for the lines of the one before it, tests the one whose lines should be there. Without a batch
// to hash, those that are inside move on.
void LookupPipeline::step(Batch* hash_batch) noexcept {
  steps_++;
  const bool draining = hash_batch == nullptr;
  Batch* fetch_batch = fetched_ != pushed_ ? slot(fetched_) : nullptr;
  const bool due = tested_ != fetched_ && (draining || pushed_ - tested_ > look_ahead_);
  Batch* test_batch = due ? slot(tested_) : nullptr;

  if (tail_ - head_ >= kFullBatch || (tail_ != head_ && steps_ - oldest_ > kMaxAge)) resolve_queue();

  Line8Step work;
  bool fits_line8 = true;
  const uint64_t* words[WEIR_MAX_KEY_WORDS];
  if (hash_batch != nullptr) {
    const ShapeView& shape = *hash_batch->lane->shape;
    for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) words[w] = hash_batch->word[w];
    if (shape.layout == WEIR_LAYOUT_BITMAP) {
      hash_keys(kernels_, shape, words, hash_batch->n, hash_batch->hash);
    } else {
      work.words = words;
      work.n_words = key_words(shape.shape);
      work.n_hash = hash_batch->n;
      work.hash = hash_batch->hash;
      work.secret = shape.secret;
    }
    pushed_++;
  }
  if (fetch_batch != nullptr) {
    const ShapeView& shape = *fetch_batch->lane->shape;
    if (fetch_batch->bypass || (shape.prefetch && shape.layout == WEIR_LAYOUT_LINE8)) {
      work.fetch_filter = fetch_batch->bypass ? shape.exact_lines : shape.filter;
      work.fetch_hash = fetch_batch->hash;
      work.n_fetch = fetch_batch->n;
    } else if (shape.prefetch) {
      kernels_.layout[shape.layout].prefetch(shape.filter, fetch_batch->hash, fetch_batch->n);
    }
    fetched_++;
  }
  if (test_batch != nullptr && !test_batch->bypass) {
    const ShapeView& shape = *test_batch->lane->shape;
    fits_line8 = shape.layout == WEIR_LAYOUT_LINE8;
    if (fits_line8) {
      work.test_filter = shape.filter;
      work.test_hash = test_batch->hash;
      work.n_test = test_batch->n;
    }
  }

  const uint64_t hits = kernels_.line8_step(work);
  if (test_batch == nullptr) return;
  tested_++;
  if (test_batch->bypass) return find_all(*test_batch);
  const ShapeView& shape = *test_batch->lane->shape;
  test_batch->maybe =
      fits_line8 ? hits : kernels_.layout[shape.layout].check(shape.filter, test_batch->hash, test_batch->n);
  queue_survivors(*test_batch);
}

// The first survivors of a batch are queued without a branch on how many there are: with few hits, the usual case, that
// is all of them.
void LookupPipeline::queue_survivors(Batch& batch) noexcept {
  constexpr unsigned kWithoutBranch = 4;
  const ShapeView& shape = *batch.lane->shape;
  const auto count = static_cast<unsigned>(std::popcount(batch.maybe));
  batch.pending = count;
  if (tail_ == head_) oldest_ = steps_;
  uint64_t left = batch.maybe;
  uint64_t at = tail_;
  for (unsigned i = 0; i < kWithoutBranch; i++) {
    const auto key = static_cast<uint32_t>(std::countr_zero(left | uint64_t{1} << 63));
    queue_[at++ % kQueue] = {&batch, key};
    const uint8_t* bucket = bucket_of(shape, batch, key);
    __builtin_prefetch(left != 0 ? bucket : reinterpret_cast<const uint8_t*>(&batch));
    left &= left - 1;
  }
  for (; left != 0; left &= left - 1) {
    const auto key = static_cast<uint32_t>(std::countr_zero(left));
    queue_[at++ % kQueue] = {&batch, key};
    __builtin_prefetch(bucket_of(shape, batch, key));
  }
  tail_ += count;
  take_ratio(*batch.lane, count, batch.n);
}

void LookupPipeline::resolve_queue() noexcept {
  for (; head_ != tail_; head_++) {
    const Survivor& survivor = queue_[head_ % kQueue];
    find_one(*survivor.batch, survivor.key);
    survivor.batch->pending--;
  }
}

void LookupPipeline::find_all(Batch& batch) noexcept {
  batch.maybe = low_bits(batch.n);
  for (uint32_t i = 0; i < batch.n; i++) find_one(batch, i);
  take_ratio(*batch.lane, static_cast<unsigned>(std::popcount(batch.found)), batch.n);
}

void LookupPipeline::take_ratio(Lane& lane, unsigned hits, unsigned n) noexcept {
  lane.hit_ratio += (hits << 16) / n >> kRatioShift;
  lane.hit_ratio -= lane.hit_ratio >> kRatioShift;
  lane.bypass = lane.hit_ratio > (lane.bypass ? kBypassBelow : kBypassAbove);
}

}  // namespace weir::filter
