#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "filter/build/builder.h"
#include "filter/build/rehash.h"
#include "filter/build/threads.h"
#include "filter/kernels/kernels.h"

// Large tables are written in parts that fit a cache. Keys come in any order, so written as they come each reads and
// changes a random line of the whole table. Instead they are first put down by the part of the table that they go to
// (a radix partition by the high half of the hash), and then part after part is written.
//
// What is put down of a key is a record of 64-bit words: its hash alone, or its words and behind them its rule (low
// half) and its index (high half). There is room for so many that the memory for them stays within a share of what the
// keys and the table take anyhow: with more keys the table is cut into rounds, and each round hashes all keys and puts
// down its own.
namespace weir::filter {

constexpr unsigned kMaxRecordWords = WEIR_MAX_KEY_WORDS + 1;

// A partition is a run of places: pages of buckets, or lines or pages of a filter. The keys of one partition are those
// whose place, weir_hash_range(hash, places) >> shift, is its number.
struct PartitionPlan {
  uint32_t places = 0;
  unsigned shift = 0;
  uint32_t partitions = 0;
  uint32_t per_round = 0;     // partitions
  unsigned record_words = 0;  // 1..kMaxRecordWords
  size_t room = 0;            // records of one thread in one partition; a multiple of 8
  unsigned threads = 1;

  uint32_t rounds() const { return (partitions + per_round - 1) / per_round; }
  uint32_t end_of(uint32_t round) const { return std::min(partitions, (round + 1) * per_round); }
  size_t words() const { return size_t{per_round} * threads * room * record_words; }
  uint32_t partition_of(uint64_t hash) const { return weir_hash_range(hash, places) >> shift; }
  // The hashes of partitions first..end - 1.
  HashRange hashes_of(uint32_t first, uint32_t end) const;
};

// Keys, and the `places` that they are written to, which take out_bytes together. rules: of the keys; null: records are
// hashes.
struct PartitionTask {
  const Kernels& kernels;
  const uint64_t* secret;  // [2]
  const KeyColumns& keys;
  const uint32_t* rules = nullptr;
  uint32_t places = 0;
  uint64_t out_bytes = 0;
};

// Nothing when it does not pay.
std::optional<PartitionPlan> plan_partitions(const PartitionTask& task, const PartitionLimits& limits,
                                             unsigned threads);

// The records of one round.
class Partitions {
 public:
  // Nothing when there is no memory for them.
  static std::optional<Partitions> make(const PartitionPlan& plan);

  // Puts down the keys of a round. False when they are not spread evenly, as hashes are, or memory is short: then there
  // is nothing to read.
  bool take(const PartitionTask& task, uint32_t round);

  // The records of a partition of that round that thread t (0..plan.threads - 1) put down. Those of thread 0 come first
  // in the columns, and each thread's are in their order.
  std::span<const uint64_t> records(uint32_t partition, unsigned t) const;
  const PartitionPlan& plan() const { return plan_; }

 private:
  explicit Partitions(const PartitionPlan& plan) : plan_(plan) {}
  size_t slot(uint32_t partition, unsigned t) const { return size_t{partition % plan_.per_round} * plan_.threads + t; }
  template <unsigned kRecord>
  bool take_share(const PartitionTask& task, uint32_t round, unsigned t);

  struct Free {
    void operator()(uint64_t* words) const { std::free(words); }
  };
  PartitionPlan plan_;
  std::unique_ptr<uint64_t, Free> words_;
  std::vector<uint32_t> counts_;  // by slot()
};

// Writes all keys of a task: write(partitions, p) writes one partition, several of them at a time; stream(range) the
// keys of a range of hashes as they come, where partitions do not pay or cannot be had. Both say whether to go on; of
// the partitions that were not written then, none comes before the one that said no.
template <class Stream, class Write>
void write_in_parts(const PartitionTask& task, const PartitionLimits& limits, unsigned threads, Stream stream,
                    Write write) {
  const std::optional<PartitionPlan> plan = plan_partitions(task, limits, threads);
  std::optional<Partitions> partitions = plan ? Partitions::make(*plan) : std::nullopt;
  if (!partitions) {
    stream(HashRange{0, UINT32_MAX});
    return;
  }
  for (uint32_t round = 0; round < plan->rounds(); round++) {
    const uint32_t first = round * plan->per_round, end = plan->end_of(round);
    if (!partitions->take(task, round)) {
      if (!stream(plan->hashes_of(first, end))) return;
      continue;
    }
    std::atomic<uint32_t> next = first;
    std::atomic<bool> go_on = true;
    on_threads(plan->threads, [&](unsigned) {
      while (go_on) {
        const uint32_t p = next++;
        if (p >= end) return;
        if (!write(*partitions, p)) go_on = false;
      }
    });
    if (!go_on) return;
  }
}

}  // namespace weir::filter
