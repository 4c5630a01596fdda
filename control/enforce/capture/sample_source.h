#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "common/result.h"
#include "common/wire.h"

namespace weir::control {

// Fetches the samples of one target, by a connection of its own: what goes wrong here leaves its target link alone.
// Nothing here waits.
class SampleSource {
 public:
  // Makes a connection to the target. Calls back on the loop, at once or later.
  using Connect = std::function<void(std::function<void(Result<Fd>)> done)>;

  // connected: ask() has something to do, or error() something to say. It is not called from within ask().
  SampleSource(std::string target, Connect connect, std::function<void()> connected = {})
      : target_(std::move(target)), connect_(std::move(connect)), connected_(std::move(connected)) {}
  SampleSource(const SampleSource&) = delete;

  void want(const wire::SamplingBody& sampling) { wanted_ = sampling; }
  const wire::SamplingBody& wanted() const { return wanted_; }
  // When ask() has something to do; never while a connection or an answer is awaited, or when all is fetched.
  Clock::time_point due() const { return asked_ || is_connecting_ || is_finished() ? Clock::time_point::max() : due_; }
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
  const std::string& target() const { return target_; }
  const std::string& error() const { return error_; }  // empty: it answers
  bool reached() const { return last_.start_time_unix != 0; }

 private:
  void take_connection(Result<Fd> connection);
  void count(const wire::SamplesBody& now, size_t frames);
  void drop(const std::string& error, Clock::time_point now);

  const std::string target_;
  const Connect connect_;
  const std::function<void()> connected_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>();  // a connection may come when this is gone
  wire::SamplingBody wanted_;
  Fd connection_;
  bool is_asking_ = false, is_connecting_ = false;
  bool asked_ = false;
  bool finishing_ = false;
  bool asked_off_ = false, told_off_ = false;  // a request that ends the sampling was sent, was answered
  Clock::time_point due_;                      // at once
  wire::SamplesBody last_;
  Counts counts_;
  std::string error_;
};

}  // namespace weir::control
