#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "control/compile/merge/merge.h"
#include "control/compile/plan/flow_index.h"
#include "control/compile/plan/plan.h"
#include "filter/read/view.h"
#include "tests/catch.h"

namespace weir::control {

// A policy's snapshot in ordinary memory, not proven and not sealed: quick, and a test may damage it.
class BuiltSnapshot {
 public:
  explicit BuiltSnapshot(size_t size_bytes)
      : bytes_(static_cast<std::byte*>(aligned_alloc(WEIR_PAGE_BYTES, size_bytes))), size_(size_bytes) {
    memset(bytes_.get(), 0, size_);
  }

  std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }
  weir_snapshot_header& header() const { return *reinterpret_cast<weir_snapshot_header*>(bytes_.get()); }
  template <class T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(bytes_.get() + offset);
  }
  filter::SnapshotView view() const {
    const auto view = filter::SnapshotView::open(bytes());
    if (!view) FAIL(view.error());
    return *view;
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_;
};

inline BuiltSnapshot build_unproven(const Policy& policy, uint64_t secret) {
  Merged merged = merge(policy);
  if (auto indexed = index_flows(policy, merged); !indexed) FAIL(indexed.error());
  Result<Planned> planned = plan(merged, policy);
  if (!planned) FAIL(planned.error());
  planned->layout.header.secret[0] = secret;
  BuiltSnapshot snapshot(planned->layout.header.total_bytes);
  const auto built = filter::build_snapshot(planned->input, planned->layout, snapshot.bytes());
  if (!built) FAIL(built.error());
  return snapshot;
}

}  // namespace weir::control
