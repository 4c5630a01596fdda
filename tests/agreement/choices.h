#pragma once

#include <cstdint>
#include <span>

// Where random policies and frames take their decisions from: a seed, for many; or a tape of numbers, which rapidcheck
// makes and shortens until only what matters is left. A tape that has ended says 0, and 0 is always the plainest
// choice.
namespace weir::agreement {

class Choices {
 public:
  explicit Choices(uint64_t seed) : state_(seed) {}
  explicit Choices(std::span<const uint32_t> tape) : tape_(tape), has_tape_(true) {}

  uint32_t next() {
    if (has_tape_) return at_ < tape_.size() ? tape_[at_++] : 0;
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;  // splitmix64 (Steele, Lea, Flood 2014)
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>((z ^ z >> 31) >> 16);
  }
  uint32_t below(uint32_t n) { return next() % n; }        // 0 .. n - 1
  bool one_in(uint32_t n) { return next() % n == n - 1; }  // false when the tape has ended
  template <class T, size_t N>
  const T& of(const T (&values)[N]) {
    return values[below(N)];
  }

 private:
  uint64_t state_ = 0;
  std::span<const uint32_t> tape_;
  size_t at_ = 0;
  bool has_tape_ = false;
};

}  // namespace weir::agreement
