#pragma once

#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace weir::filter {

// Fewer keys than this are written before another thread has begun.
constexpr size_t kKeysPerThread = 100'000;

// Calls work(t) for t = 0 .. threads - 1, each on a thread of its own, and returns when all have ended. What one of
// them throws (there is no memory) is thrown here.
template <class Work>
void on_threads(unsigned threads, Work work) {
  std::vector<std::exception_ptr> failures(threads);
  const auto run = [&](unsigned t) {
    try {
      work(t);
    } catch (...) {
      failures[t] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);
  for (unsigned t = 1; t < threads; t++) {
    try {
      others.emplace_back(run, t);
    } catch (const std::system_error&) {  // no more threads: then by this one
      run(t);
    }
  }
  run(0);
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace weir::filter
