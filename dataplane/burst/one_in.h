#pragma once

#include <cstdint>

namespace weir::dataplane {

// Chooses one in N of the frames that come: of every N in a row, which are a run, one at a random place. So the share
// is exact, every frame has the same chance, and traffic with a period cannot fall into step with it.
class OneIn {
 public:
  // 0: no run was begun.
  uint32_t run() const noexcept { return run_; }
  // The next frame is the first of a run of so many. entropy: any number that differs from time to time. Whatever run
  // was under way ends: its frames had the same chance, as long as its sample is not why it ends.
  void begin(uint32_t run, uint64_t entropy) noexcept {
    run_ = run;
    random_ ^= entropy | 1;
    skip_ = place_ = random_below(run_);
  }
  // True: none of the next n frames is chosen, and they have come.
  bool has_none_in(uint32_t n) noexcept {
    if (n > skip_) return false;
    skip_ -= n;
    return true;
  }
  // Frames that come, by slot: take(slot) of those that are chosen; it says how long the run after this one is, at
  // least 1.
  template <class Take>
  void choose(uint64_t frames, Take take) noexcept {
    auto n = static_cast<uint32_t>(__builtin_popcountll(frames));
    while (n > skip_) {
      n -= static_cast<uint32_t>(skip_) + 1;
      for (; skip_ > 0; skip_--) frames &= frames - 1;
      const uint32_t rest = run_ - 1 - place_;
      run_ = take(static_cast<uint32_t>(__builtin_ctzll(frames)));
      frames &= frames - 1;
      place_ = random_below(run_);
      skip_ = uint64_t{rest} + place_;
    }
    skip_ -= n;
  }

 private:
  // xorshift64*: Vigna 2016, arXiv:1402.6246. Nobody gains by foretelling it: what is chosen is judged as all else.
  uint32_t random_below(uint32_t n) noexcept {
    random_ ^= random_ >> 12;
    random_ ^= random_ << 25;
    random_ ^= random_ >> 27;
    return static_cast<uint32_t>(((random_ * 0x2545f4914f6cdd1d) >> 32) * n >> 32);
  }

  uint64_t skip_ = 0;   // frames before the next that is chosen
  uint32_t run_ = 0;    // frames in this run
  uint32_t place_ = 0;  // of the run's sample in it
  uint64_t random_ = 0x9e3779b97f4a7c15;
};

}  // namespace weir::dataplane
