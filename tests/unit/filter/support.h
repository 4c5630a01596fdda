#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "filter/build/builder.h"
#include "filter/probe/exact.h"
#include "filter/read/view.h"
#include "tests/catch.h"
#include "tests/unit/filter/inputs.h"

namespace weir::filter::test {

// Zeroed heap memory of exactly this size, 64-byte aligned: AddressSanitizer sees a read of the first byte past it.
class Buffer {
 public:
  explicit Buffer(size_t size) : size_(size) {
    void* memory = nullptr;
    REQUIRE(posix_memalign(&memory, WEIR_LINE_BYTES, size == 0 ? 1 : size) == 0);
    bytes_.reset(static_cast<std::byte*>(memory));
    memset(memory, 0, size);
  }
  explicit Buffer(std::span<const std::byte> content) : Buffer(content.size()) {
    if (size_ != 0) memcpy(bytes_.get(), content.data(), size_);
  }
  std::span<std::byte> bytes() { return {bytes_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }
  weir_snapshot_header& header() { return *reinterpret_cast<weir_snapshot_header*>(bytes_.get()); }
  template <class T>
  T* at(const weir_section& section) {
    return reinterpret_cast<T*>(bytes_.get() + section.offset);
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  size_t size_;
  std::unique_ptr<std::byte, Free> bytes_;
};

inline Buffer build(const SnapshotInput& input) {
  const auto plan = plan_snapshot(input);
  INFO((plan ? "" : plan.error()));
  REQUIRE(plan);
  Buffer out(plan->header.total_bytes);
  const auto built = build_snapshot(input, *plan, out.bytes());
  INFO((built ? "" : built.error()));
  REQUIRE(built);
  return out;
}

inline SnapshotView open(const Buffer& buffer) {
  auto view = SnapshotView::open(buffer.bytes());
  INFO((view ? "" : view.error()));
  REQUIRE(view);
  return *view;
}

inline const ShapeView& shape_view(const SnapshotView& view, KeyShape shape) {
  for (const ShapeView& candidate : view.shapes()) {
    if (candidate.shape == shape) return candidate;
  }
  FAIL("no such shape");
  std::abort();
}

}  // namespace weir::filter::test
