#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct XXH3_state_s;

namespace weir {

// XXH3-128 of bytes: low, high. Integrity, not authentication.
using Digest = std::array<uint64_t, 2>;
Digest digest_of(std::span<const std::byte> bytes);

// The same of bytes that come in parts.
class PartsDigest {
 public:
  PartsDigest();
  void add(std::span<const std::byte> bytes);
  Digest value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace weir
