#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/fd.h"
#include "common/result.h"
#include "control/policy/model/feed.h"

namespace weir::control {

// A feed's file, read in parts: however large it is, reading takes less than a megabyte.
class FeedParts {
 public:
  static constexpr uint64_t kMaxBytes = 0xffff'ffff;  // line numbers fit 32 bits
  static constexpr size_t kPartBytes = size_t{256} << 10;

  // Error: there is no such file, it cannot be read, is no regular file, or too large.
  static Result<FeedParts> open(const std::string& path);

  const FileIdentity& file() const { return file_; }  // when it was opened
  bool settled() const { return settled_; }           // so long unchanged by then that the identity says all

  struct Scan {
    std::array<uint64_t, 2> digest = {};  // XXH3-128 (low, high) of all bytes
    uint64_t size_bytes = 0;
    uint64_t newlines = 0;
    uint64_t empty_lines = 0;  // LF behind LF
    bool ends_in_newline = true;
    bool is_packed = false;  // control/policy/feeds/unpack.h
    uint64_t lines() const { return newlines + (ends_in_newline ? 0 : 1); }
  };
  Result<Scan> scan();

  // From the beginning: visit(bytes), parts of kPartBytes at most, until it says false. Returns the digest of all that
  // was read.
  Result<std::array<uint64_t, 2>> visit(const std::function<bool(std::string_view)>& visit);

  // So many bytes from this place on, fewer at the end. False: it cannot be read.
  bool read_at(uint64_t at, size_t n, std::string& bytes) const;

 private:
  Result<void> read(const std::function<bool(std::string_view)>& visit);

  std::string path_;
  Fd fd_;
  FileIdentity file_;
  bool settled_ = false;
};

// Empty: there is no such file; whoever opens it learns why.
std::optional<FileIdentity> identity_of(const std::string& path);

}  // namespace weir::control
