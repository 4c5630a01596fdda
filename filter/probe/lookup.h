#pragma once

#include <cstdint>

#include "filter/format/key_shape.h"
#include "filter/kernels/kernels.h"
#include "filter/read/view.h"

// Lookups of many batches at once. One batch is too short for the memory: the lines of 64 keys arrive long after they
// were asked for, and one core can wait for more than a hundred at once. So batches overlap: while
// batch i is hashed, the lines of batch i - 1 are asked for and batch i - 1 - look_ahead is tested.
namespace weir::filter {

// Keys of one shape, probed from one side: what they are looked up in and how the recent ones fared. One for each place
// that batches come from; one thread's.
struct Lane {
  const ShapeView* shape = nullptr;
  uint32_t hit_ratio = 0;  // moving average of keys that get to the exact stage, in 1/65536
  bool bypass = false;     // the hit ratio is so high that the filter only costs: go to the exact stage at once
};

// Caller's, from push() until pop() gives it back.
struct Batch {
  // Filled by the caller. Word w of key i is word[w][i]; what lies behind the n keys may be anything.
  Lane* lane = nullptr;
  unsigned n = 0;  // 1..kMaxBatch
  alignas(64) uint64_t word[WEIR_MAX_KEY_WORDS][kMaxBatch] = {};

  // Filled by the pipeline.
  alignas(64) uint64_t place[kMaxBatch] = {};  // of the keys: filter/probe/exact.h
  uint64_t found = 0;                          // bit i: key i has a rule
  uint32_t rule[kMaxBatch] = {};               // where found
  uint64_t let_through = 0;                    // bit i: key i may be present, says the filter; not with bypass
  uint64_t pending = 0;                        // keys that wait for the exact stage
  bool bypass = false;                         // as the lane was when the batch came
};

class LookupPipeline {
 public:
  static constexpr unsigned kMaxLookAhead = 16;  // batches
  // An exact lookup waits for company, but not for more than so many batches.
  static constexpr unsigned kMaxAge = 8;
  static constexpr unsigned kMaxInFlight = 32;

  // look_ahead: batches between asking for a line and testing it, 0..kMaxLookAhead; filter/probe/calibrate.h finds the
  // best. 0: every batch is tested when it comes.
  LookupPipeline(const Kernels& kernels, unsigned look_ahead);
  // From the next push() on. More than kMaxLookAhead is kMaxLookAhead.
  void look_ahead(unsigned batches) noexcept { look_ahead_ = batches < kMaxLookAhead ? batches : kMaxLookAhead; }

  // Takes a batch in. At most kMaxInFlight may be inside: pop() what is finished after every push. No allocation, lock
  // or system call.
  void push(Batch* batch) noexcept;
  // Time has passed without a batch: every batch inside becomes one step older.
  void tick() noexcept;
  // The oldest batch, when it is finished; null otherwise. Batches come out in the order in which they went in.
  Batch* pop() noexcept;
  // Finishes all that is inside; pop() then gives it back.
  void drain() noexcept;
  bool empty() const { return popped_ == pushed_; }

 private:
  // Keys that the filter let through are looked up when so many wait, or the first has waited for kMaxAge batches:
  // their buckets, asked for when the filter said so, are there by then.
  static constexpr unsigned kFullBatch = 32;

  Batch*& slot(uint64_t index) { return ring_[index % kMaxInFlight]; }
  // test_limit: number of the first batch that is not tested yet.
  void step(Batch* hash_batch, uint64_t test_limit) noexcept;
  void let_through(Batch& batch, uint64_t keys) noexcept;
  void resolve() noexcept;

  const Kernels& kernels_;
  unsigned look_ahead_;
  // Batches are numbered as they come. popped_ <= resolved_ <= tested_ <= fetched_ <= pushed_.
  uint64_t pushed_ = 0, fetched_ = 0, tested_ = 0, resolved_ = 0, popped_ = 0;
  Batch* ring_[kMaxInFlight] = {};
  unsigned waiting_ = 0;       // keys between tested and resolved
  bool behind_waits_ = false;  // keys of a lane that goes around its filter, behind their own buckets
};

}  // namespace weir::filter
