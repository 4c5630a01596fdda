#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/result.h"
#include "filter/format/snapshot.h"

// For the files that validate a snapshot: its sections in the order of the file, and how a refusal is worded.
namespace weir::filter {

Error broken(const std::string& what);
Error bad(const std::string& field, uint64_t value, const std::string& why);
bool all_zero(const void* bytes, size_t n);

class Sections {
 public:
  // bytes: of the whole snapshot, at least a header.
  explicit Sections(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // The next one: page-aligned, behind the section before it, inside the snapshot, and of exactly size_bytes.
  Result<void> next(const std::string& name, const weir_section& section, uint64_t size_bytes);
  // Of the last one, in whole pages.
  uint64_t end() const { return end_; }

  // Only of a section that next() has passed.
  template <class T>
  const T* at(const weir_section& section) const {
    return reinterpret_cast<const T*>(bytes_.data() + section.offset);
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t end_ = sizeof(weir_snapshot_header);
};

}  // namespace weir::filter
