#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/wire.h"

namespace weir::control {

// Fetches the samples of one data plane, by a connection of its own: what goes wrong here leaves its target link alone.
// Nothing here waits.
class SampleSource {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SampleSource(std::string socket) : socket_(std::move(socket)) {}

  void want(const wire::SamplingBody& sampling) { wanted_ = sampling; }
  // When ask() has something to do; never while an answer is awaited, or when all is fetched.
  Clock::time_point due() const { return asked_ || is_finished() ? Clock::time_point::max() : due_; }
  void ask(Clock::time_point now);  // connects first, when it must
  // An answer, or the end of the connection, is there when this can be read; -1: none is awaited.
  int fd() const { return asked_ ? connection_.get() : -1; }
  std::vector<wire::SampledFrame> take(Clock::time_point now);
  // Ends the sampling; what is left is asked for and taken as before, until is_finished(). One that is not connected
  // has nothing left.
  void finish();
  bool is_finished() const { return finishing_ && (!connection_ || (told_off_ && !asked_ && counts_.waiting == 0)); }

  // Since this object was made: sampled = limited + lost + what take() gave + waiting.
  struct Counts {
    uint64_t sampled = 0, limited = 0, lost = 0, waiting = 0;
  };
  const Counts& counts() const { return counts_; }
  const std::string& socket() const { return socket_; }
  const std::string& error() const { return error_; }  // empty: it answers
  bool reached() const { return last_.start_time_unix != 0; }

 private:
  void count(const wire::SamplesBody& now, size_t frames);
  void drop(const std::string& error, Clock::time_point now);

  const std::string socket_;
  wire::SamplingBody wanted_;
  Fd connection_;
  bool asked_ = false;
  bool finishing_ = false;
  bool asked_off_ = false, told_off_ = false;  // a request that ends the sampling was sent, was answered
  Clock::time_point due_;                      // at once
  wire::SamplesBody last_;
  Counts counts_;
  std::string error_;
};

}  // namespace weir::control
