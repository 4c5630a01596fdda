#include "filter/build/partition.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "filter/build/threads.h"
#include "filter/format/hash.h"

namespace weir::filter {
namespace {

constexpr unsigned kGroup = 8;  // records that are written at once: whole lines, whatever the length of a record

// Groups of all partitions, being filled, stay in L2 together.
constexpr size_t kMaxGroupBytes = size_t{384} << 10;

constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}

// Past the caches, where the processor can: the line is not read before, and drives out none.
void write_lines(uint64_t* to, const uint64_t* from, size_t words) {
#ifdef __SSE2__
  for (size_t w = 0; w < words; w += 2) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + w), _mm_load_si128(reinterpret_cast<const __m128i*>(from + w)));
  }
#else
  memcpy(to, from, words * sizeof *to);
#endif
}

// What write_lines wrote is there for other threads.
void lines_are_written() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

struct FreeLines {
  void operator()(uint64_t* words) const { std::free(words); }
};

// Groups being filled, one a partition, and how many records each partition has.
template <unsigned kRecord>
class Groups {
 public:
  // to: where partition p's records go, at to + p * stride words.
  Groups(uint32_t partitions, uint64_t* to, size_t stride, size_t room)
      : to_(to), stride_(stride), room_(room), counts_(partitions) {
    static_assert(kGroup * kRecord * sizeof(uint64_t) % WEIR_LINE_BYTES == 0);
    words_.reset(static_cast<uint64_t*>(
        std::aligned_alloc(WEIR_LINE_BYTES, size_t{partitions} * kGroup * kRecord * sizeof(uint64_t))));
    if (!words_) throw std::bad_alloc();
  }

  // Where the next record of the partition is to be written; then added(p).
  uint64_t* next(uint32_t p) { return group(p) + counts_[p] % kGroup * kRecord; }
  // False when the partition is full.
  bool added(uint32_t p) { return ++counts_[p] % kGroup != 0 || flush(p); }

  bool finish() {
    for (uint32_t p = 0; p < counts_.size(); p++) {
      const uint32_t left = counts_[p] % kGroup;
      if (left == 0) continue;
      if (counts_[p] > room_) return false;
      memcpy(to_ + p * stride_ + size_t{counts_[p] - left} * kRecord, group(p), left * kRecord * sizeof(uint64_t));
    }
    lines_are_written();
    return true;
  }
  const std::vector<uint32_t>& counts() const { return counts_; }

 private:
  uint64_t* group(uint32_t p) { return words_.get() + size_t{p} * kGroup * kRecord; }
  bool flush(uint32_t p) {
    if (counts_[p] > room_) return false;
    write_lines(to_ + p * stride_ + size_t{counts_[p] - kGroup} * kRecord, group(p), kGroup * kRecord);
    return true;
  }

  uint64_t* const to_;
  const size_t stride_, room_;
  std::vector<uint32_t> counts_;
  std::unique_ptr<uint64_t, FreeLines> words_;
};

}  // namespace

HashRange PartitionPlan::hashes_of(uint32_t first, uint32_t end) const {
  const auto border = [&](uint32_t partition) {
    return first_hash_of(std::min<uint64_t>(uint64_t{partition} << shift, places), places);
  };
  return {static_cast<uint32_t>(border(first)), static_cast<uint32_t>(border(end) - 1)};
}

std::optional<PartitionPlan> plan_partitions(const PartitionTask& task, const PartitionLimits& limits,
                                             unsigned threads) {
  const uint64_t n_keys = task.keys.n;
  if (task.out_bytes < limits.min_out_bytes || n_keys == 0 || n_keys >> 32 != 0) return std::nullopt;
  PartitionPlan plan = {
      .places = task.places, .record_words = task.rules != nullptr ? task.keys.n_words + 1 : 1, .threads = threads};
  const size_t record_bytes = plan.record_words * sizeof(uint64_t);
  const auto most_per_round = static_cast<uint32_t>(kMaxGroupBytes / (kGroup * record_bytes));
  const uint64_t in_bytes =
      n_keys * (task.keys.n_words * sizeof(uint64_t) + (task.rules != nullptr ? sizeof(uint32_t) : 0));
  const double scratch_bytes = static_cast<double>(in_bytes + task.out_bytes) * limits.scratch_share;
  // Rounds, by the memory that there is; then partitions that are as small as they should be, or as many as can be.
  const auto rounds =
      static_cast<uint64_t>(std::ceil(static_cast<double>(n_keys) * static_cast<double>(record_bytes) / scratch_bytes));
  const uint64_t place_bytes = std::max<uint64_t>(1, task.out_bytes / task.places);
  const auto count = [&](unsigned shift) { return ((task.places - 1) >> shift) + 1; };
  while (plan.shift < 31 &&
         ((place_bytes << (plan.shift + 1)) <= limits.partition_bytes || count(plan.shift) > rounds * most_per_round)) {
    plan.shift++;
  }
  plan.partitions = count(plan.shift);
  plan.per_round = std::max<uint32_t>(1, static_cast<uint32_t>((plan.partitions + rounds - 1) / rounds));

  // Keys of one thread in one partition: binomial, so within eight sigma of the mean but once in 10^15.
  const auto largest = static_cast<double>(std::min<uint64_t>(uint64_t{1} << plan.shift, task.places));
  const double mean = static_cast<double>(n_keys) / threads * (largest / static_cast<double>(task.places));
  plan.room = round_up(static_cast<size_t>(mean + 8 * std::sqrt(mean)) + kGroup, kGroup);
  return plan;
}

std::optional<Partitions> Partitions::make(const PartitionPlan& plan) {
  Partitions partitions(plan);
  const size_t size_bytes = round_up(plan.words() * sizeof(uint64_t), kHugePage);
  partitions.words_.reset(static_cast<uint64_t*>(std::aligned_alloc(kHugePage, size_bytes)));
  if (!partitions.words_) return std::nullopt;
  madvise(partitions.words_.get(), size_bytes, MADV_HUGEPAGE);  // a wish
  try {
    partitions.counts_.resize(size_t{plan.per_round} * plan.threads);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  return partitions;
}

template <unsigned kRecord>
bool Partitions::take_share(const PartitionTask& task, uint32_t round, unsigned t) {
  const KeyColumns& keys = task.keys;
  const uint32_t first_partition = round * plan_.per_round, n_partitions = plan_.end_of(round) - first_partition;
  const HashRange range = plan_.hashes_of(first_partition, first_partition + n_partitions);
  const PartitionPlan plan = plan_;
  const size_t share_words = plan.room * kRecord;
  Groups<kRecord> groups(n_partitions, words_.get() + t * share_words, plan.threads * share_words, plan.room);
  const size_t begin = keys.n * t / plan.threads, end = keys.n * (t + 1) / plan.threads;
  for (size_t first = begin; first < end; first += kMaxBatch) {
    const auto n = static_cast<unsigned>(std::min<size_t>(kMaxBatch, end - first));
    const uint64_t* words[WEIR_MAX_KEY_WORDS];
    for (unsigned w = 0; w < keys.n_words; w++) words[w] = keys.words[w] + first;
    uint64_t hash[kMaxBatch];
    task.kernels.siphash13(task.secret, words, keys.n_words, n, hash);
    uint8_t own[kMaxBatch];  // the keys of this round, found without a branch
    unsigned n_own = 0;
    for (unsigned i = 0; i < n; i++) {
      own[n_own] = static_cast<uint8_t>(i);
      n_own += range.holds(hash[i]);
    }
    for (unsigned o = 0; o < n_own; o++) {
      const unsigned i = own[o];
      const uint32_t partition = plan.partition_of(hash[i]) - first_partition;
      uint64_t* record = groups.next(partition);
      if constexpr (kRecord == 1) {
        record[0] = hash[i];
      } else {
        for (unsigned w = 0; w + 1 < kRecord; w++) record[w] = words[w][i];
        record[kRecord - 1] = task.rules[first + i] | uint64_t{first + i} << 32;
      }
      if (!groups.added(partition)) return false;
    }
  }
  if (!groups.finish()) return false;
  for (uint32_t p = 0; p < n_partitions; p++) counts_[slot(first_partition + p, t)] = groups.counts()[p];
  return true;
}

bool Partitions::take(const PartitionTask& task, uint32_t round) {
  const auto share = [&](unsigned t) {
    switch (plan_.record_words) {
      case 1:
        return take_share<1>(task, round, t);
      case 2:
        return take_share<2>(task, round, t);
      case 3:
        return take_share<3>(task, round, t);
      case 4:
        return take_share<4>(task, round, t);
      default:
        static_assert(kMaxRecordWords == 6);
        return take_share<6>(task, round, t);
    }
  };
  std::atomic<bool> taken = true;
  try {
    on_threads(plan_.threads, [&](unsigned t) {
      if (!share(t)) taken = false;
    });
  } catch (const std::bad_alloc&) {
    return false;
  }
  return taken;
}

std::span<const uint64_t> Partitions::records(uint32_t partition, unsigned t) const {
  const size_t at = slot(partition, t);
  return {words_.get() + at * plan_.room * plan_.record_words, size_t{counts_[at]} * plan_.record_words};
}

}  // namespace weir::filter
