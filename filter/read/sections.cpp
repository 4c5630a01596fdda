#include "filter/read/sections.h"

#include <algorithm>

namespace weir::filter {

Error broken(const std::string& what) {
  return {"snapshot: " + what};
}

Error bad(const std::string& field, uint64_t value, const std::string& why) {
  return broken(field + " is " + std::to_string(value) + ": " + why);
}

bool all_zero(const void* bytes, size_t n) {
  const auto* byte = static_cast<const uint8_t*>(bytes);
  return std::all_of(byte, byte + n, [](uint8_t b) { return b == 0; });
}

Result<void> Sections::next(const std::string& name, const weir_section& section, uint64_t size_bytes) {
  if (section.offset % WEIR_PAGE_BYTES != 0) return bad(name + ".offset", section.offset, "not a multiple of 4096");
  if (section.offset < end_) {
    return bad(name + ".offset", section.offset, "overlaps what ends at " + std::to_string(end_));
  }
  if (section.offset > bytes_.size()) return bad(name + ".offset", section.offset, "behind the end");
  if (section.size_bytes > bytes_.size() - section.offset) {
    return bad(name + ".size_bytes", section.size_bytes, "reaches behind the end");
  }
  if (section.size_bytes != size_bytes) {
    return bad(name + ".size_bytes", section.size_bytes, "must be " + std::to_string(size_bytes));
  }
  end_ = section.offset + (section.size_bytes + WEIR_PAGE_BYTES - 1) / WEIR_PAGE_BYTES * WEIR_PAGE_BYTES;
  return {};
}

}  // namespace weir::filter
