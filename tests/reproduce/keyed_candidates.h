// Rows of the survey whose keys are hashed by weir's batched SipHash-1-3, from a 16-byte key to an answer: prefetch a
// batch, then test it.
#pragma once

#include "tests/reproduce/line8_filter.h"
#include "tests/reproduce/survey.h"

namespace weir::reproduce {

constexpr weir_u64 kSecret[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

// `visit(hash, n)` for batches of the keys first .. first + n - 1.
template <class Visit>
void each_batch(uint64_t first, uint64_t n, Visit visit) {
  static const filter::Kernels& kernels = best_kernels();
  uint64_t column[2][kBatch], hash[kBatch];
  const uint64_t* columns[] = {column[0], column[1]};
  for (uint64_t at = 0; at < n; at += kBatch) {
    const auto batch = static_cast<unsigned>(std::min<uint64_t>(kBatch, n - at));
    for (unsigned i = 0; i < batch; i++) {
      column[0][i] = scatter(first + at + i);
      column[1][i] = first + at + i;
    }
    kernels.siphash13(kSecret, columns, 2, batch, hash);
    visit(hash, batch);
  }
}

inline double timed_ns(uint64_t n, const std::function<void()>& work) {
  const double start = thread_ns();
  work();
  return (thread_ns() - start) / static_cast<double>(n);
}

template <class Filter>
void prefetch_all(const Filter& filter, const uint64_t* hash, unsigned batch) {
  for (unsigned i = 0; i < batch; i++) filter.prefetch(hash[i]);
  if constexpr (requires { filter.prefetch_next(uint64_t{}); }) {  // what the first line says where to find
    for (unsigned i = 0; i < batch; i++) filter.prefetch_next(hash[i]);
  }
}

// Of the keys first .. first + n - 1, how many `test(hash)` holds for.
template <class Filter, class Test>
uint64_t count_of(const Filter& filter, uint64_t first, uint64_t n, Test test) {
  uint64_t found = 0;
  each_batch(first, n, [&](const uint64_t* hash, unsigned batch) {
    prefetch_all(filter, hash, batch);
    for (unsigned i = 0; i < batch; i++) found += test(hash[i]);
  });
  return found;
}

// Fills the filter with the keys 0 .. n - 1. A filter of a fixed set has finish(); one whose promise to a member is
// more than "may be present" has keeps(hash).
template <class Filter>
Candidate candidate(const char* name, Filter& filter, uint64_t n, double expected) {
  const auto insert = [&filter, name](uint64_t first, uint64_t keys) {
    each_batch(first, keys, [&](const uint64_t* hash, unsigned batch) {
      if constexpr (!requires { filter.finish(); }) {
        for (unsigned i = 0; i < batch; i++) filter.prefetch(hash[i]);
      }
      for (unsigned i = 0; i < batch; i++) {
        if (!filter.insert(hash[i])) give_up(std::string(name) + " is full");
      }
    });
  };
  Candidate made;
  made.name = name;
  made.source = "test-only";
  made.expected_rate = expected;
  made.insert_ns = timed_ns(n, [&] {
    insert(0, n);
    if constexpr (requires { filter.finish(); }) filter.finish();
  });
  made.bits_per_key = static_cast<double>(filter.bits()) / static_cast<double>(n);
  made.count = [&filter](uint64_t first, uint64_t keys) {
    return count_of(filter, first, keys, [&](uint64_t hash) { return filter.check(hash); });
  };
  if constexpr (requires { filter.keeps(uint64_t{}); }) {
    uint64_t kept = 0, exact = 0;
    each_batch(0, n, [&](const uint64_t* hash, unsigned batch) {
      prefetch_all(filter, hash, batch);
      for (unsigned i = 0; i < batch; i++) {
        kept += filter.keeps(hash[i]);
        if constexpr (requires { filter.is_exact(uint64_t{}); }) exact += filter.is_exact(hash[i]);
      }
    });
    made.kept = [kept] { return kept; };
    made.exact = exact;
  }
  if constexpr (requires { filter.erase(uint64_t{}); }) {
    made.insert = insert;
    made.erase = [&filter](uint64_t first, uint64_t keys) {
      each_batch(first, keys, [&](const uint64_t* hash, unsigned batch) {
        for (unsigned i = 0; i < batch; i++) filter.prefetch(hash[i]);
        for (unsigned i = 0; i < batch; i++) filter.erase(hash[i]);
      });
    };
  }
  return made;
}

inline Candidate line8(const Line8Filter& filter, uint64_t n, double bits_per_key) {
  Candidate made{"line8", "weir", bits_per_key, 0.00422, 0, {}, {}, {}};  // measured with 12 bits a key
  made.insert_ns = timed_ns(n, [&] {
    each_batch(0, n, [&](const uint64_t* hash, unsigned batch) {
      filter.prefetch(hash, batch);
      filter.mark(hash, batch);
    });
  });
  made.count = [&filter](uint64_t first, uint64_t keys) {
    uint64_t found = 0;
    each_batch(first, keys, [&](const uint64_t* hash, unsigned batch) {
      filter.prefetch(hash, batch);
      found += static_cast<uint64_t>(__builtin_popcountll(filter.check(hash, batch)));
    });
    return found;
  };
  return made;
}

}  // namespace weir::reproduce
