#pragma once

#include <memory>
#include <span>
#include <string_view>

namespace weir::control::feeds {

// One way of packing. Bytes go in as they come, and come out as far as there is room.
class Unpacker {
 public:
  // By how a file begins; null: it is not packed in a way that is read here (gzip, xz, zstd).
  static std::unique_ptr<Unpacker> of(std::string_view beginning);
  virtual ~Unpacker() = default;

  // The next bytes, which stay where they are until take() returns 0. is_end: there are no more behind them.
  virtual void give(std::string_view bytes, bool is_end) = 0;
  // Fills `out` from its beginning. Returns how much; less than its size: all that was given is taken, or it is broken.
  virtual size_t take(std::span<char> out) = 0;
  // "gzip"
  virtual const char* name() const = 0;
  // Whether the bytes are none of this kind, or end too early (once is_end was said). Nothing more comes out then.
  virtual bool is_broken() const = 0;
  virtual bool is_whole() const = 0;
};

}  // namespace weir::control::feeds
