#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// What BGP is written in: numbers in network order, and parts with their lengths in front.
namespace weir::control::flowspec {

using Bytes = std::vector<uint8_t>;
using BytesView = std::span<const uint8_t>;

// Takes from the front of bytes that somebody else has; reads nothing past their end. Where there are too few of them,
// nothing is left: of numbers read in a row the last one tells whether all are there.
class Reader {
 public:
  explicit Reader(BytesView bytes) : left_(bytes) {}

  size_t left() const { return left_.size(); }
  bool is_at_end() const { return left_.empty(); }
  // Empty: fewer are left.
  std::optional<BytesView> take(size_t n) {
    if (left_.size() < n) {
      left_ = {};
      return std::nullopt;
    }
    const BytesView taken = left_.first(n);
    left_ = left_.subspan(n);
    return taken;
  }
  // n <= 8 bytes as a number.
  std::optional<uint64_t> number(size_t n) {
    const std::optional<BytesView> bytes = take(n);
    if (!bytes) return std::nullopt;
    uint64_t value = 0;
    for (const uint8_t byte : *bytes) value = value << 8 | byte;
    return value;
  }
  BytesView rest() { return *take(left()); }

 private:
  BytesView left_;
};

// The low n bytes of value.
inline void put_number(Bytes& bytes, size_t n, uint64_t value) {
  while (n-- > 0) bytes.push_back(static_cast<uint8_t>(value >> (8 * n)));
}
inline void put_bytes(Bytes& bytes, BytesView more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

}  // namespace weir::control::flowspec
