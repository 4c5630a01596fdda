#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "common/result.h"
#include "filter/build/rehash.h"
#include "filter/format/key_shape.h"
#include "filter/format/snapshot.h"
#include "filter/kernels/kernels.h"

// Small changes to a snapshot that is in use, in place, beside its readers.
//
// Why readers need no lock: a key that stays has its bits set in the old and in the new value of every 64-bit word of
// the filter, so whatever mixture of old and new words a reader sees, it finds the key. In the exact stage a slot is
// free until its rule is stored, last; and a slot that a removal freed is not used again before the readers that may
// still look at it are gone. A key that is being added or removed is there or not, as if before or after.
namespace weir::filter {

struct Change {
  Key key;        // canonical, of the shape
  uint32_t rule;  // 0: remove the key; else add it, or give it this rule
};

class Updater {
 public:
  // bytes: a valid snapshot, 64-byte aligned, which no other Updater changes. Borrows them.
  static Result<Updater> open(std::span<std::byte> bytes, const Kernels& kernels);

  // Makes the changes in their order, of one shape (an index into header.shapes). Removing what is not there does
  // nothing. On an Error those before the one at fault are made, and the rest is not:
  //  - the layout is ribbon, whose pages can only be written whole, or bitmap, whose networks are rules of their own:
  //  build
  //    a new snapshot;
  //  - the rule is not there, or has lists on a side that the shape is not looked up from;
  //  - max_keys are in, or the page of the exact stage is full.
  Result<void> apply(size_t shape, std::span<const Change> changes);

  // The slots that removals freed may be used again. The caller has waited, since the last removal, until every reader
  // has dropped what it read before (a grace period).
  void grace_passed() { freed_.clear(); }
  // Slots that wait for that.
  size_t freed_slots() const { return freed_.size(); }

 private:
  Updater(std::span<std::byte> bytes, const Kernels& kernels) : bytes_(bytes), kernels_(&kernels) {
    freed_.reserve(1024);
    hashes_.reserve(1024);
  }

  weir_snapshot_header& header() const { return *reinterpret_cast<weir_snapshot_header*>(bytes_.data()); }
  template <class Bucket>
  Result<void> apply_to(weir_shape& shape, std::span<const Change> changes);
  template <class Bucket>
  Result<void> add(weir_shape& shape, Bucket* buckets, const Change& change, uint64_t hash);
  template <class Bucket>
  void remove(weir_shape& shape, Bucket* buckets, const Key& key, uint64_t hash);
  template <class Bucket>
  void recompute_unit(const weir_shape& shape, const Bucket* buckets, uint64_t hash);
  void write_unit(const weir_shape& shape, uint64_t hash, std::span<const uint64_t> hashes, bool keep);
  FilterWords filter_of(const weir_shape& shape) const;

  std::span<std::byte> bytes_;
  const Kernels* kernels_;
  std::unordered_set<const uint32_t*> freed_;  // rule fields
  std::vector<uint64_t> hashes_;               // of the unit at hand
};

}  // namespace weir::filter
