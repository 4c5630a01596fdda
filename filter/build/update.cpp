#include "filter/build/update.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "common/prefetch.h"
#include "filter/format/buckets.h"
#include "filter/format/rules.h"
#include "filter/format/siphash.h"
#include "filter/layouts/layout.h"

namespace weir::filter {
namespace {

// Changes whose lines are asked for before the first of them is made. A removal reads some 25 lines.
constexpr size_t kLookahead = 4;

constexpr unsigned kPageWords = WEIR_PAGE_BYTES / 8;

// Sets the bits of keys that all belong to one unit (line or page) of a filter in a copy of that unit, `bits`. The
// copy stands where the unit would, seen from a filter that begins so much earlier.
void mark_in_unit(const LayoutKernels& loops, FilterWords filter, uint32_t unit, uint32_t unit_words, uint64_t* bits,
                  std::span<const uint64_t> hashes) {
  const size_t before = size_t{unit} * unit_words * sizeof(uint64_t);
  filter.words = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(bits) - before);
  for (size_t i = 0; i < hashes.size(); i += kMaxBatch) {
    loops.mark(filter, hashes.data() + i, static_cast<unsigned>(std::min<size_t>(kMaxBatch, hashes.size() - i)));
  }
}

// The rule of the slot that holds the key; null when none does.
template <class Bucket>
uint32_t* find_slot(Bucket* buckets, uint32_t n_buckets, const Key& key, uint64_t hash) {
  const BucketPath<Bucket> path(buckets, n_buckets, hash);
  for (uint32_t step = 0; step < kBucketsPerPage<Bucket>; step++) {
    Bucket& bucket = path.at(step);
    for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
      if (bucket.rule[slot] != 0 && slot_holds(bucket, slot, key)) return &bucket.rule[slot];
    }
    if ((bucket.overflow & overflow_bit(hash)) == 0) return nullptr;
  }
  return nullptr;
}

}  // namespace

Result<Updater> Updater::open(std::span<std::byte> bytes, const Kernels& kernels) {
  if (bytes.size() < sizeof(weir_snapshot_header) || reinterpret_cast<uintptr_t>(bytes.data()) % WEIR_LINE_BYTES != 0) {
    return Error{"update: not a snapshot, or not at a multiple of 64"};
  }
  return Updater(bytes, kernels);
}

FilterWords Updater::filter_of(const weir_shape& shape) const {
  return {reinterpret_cast<uint64_t*>(bytes_.data() + shape.filter.offset), shape.filter_lines, shape.k};
}

Result<void> Updater::apply(size_t index, std::span<const Change> changes) {
  if (index >= header().n_shapes) return Error{"update: no shape " + std::to_string(index)};
  weir_shape& shape = header().shapes[index];
  const Layout& layout = layout_of(static_cast<weir_layout>(shape.layout));
  if (layout.mark == nullptr) {
    return Error{"update: a " + std::string(layout.name) + " filter cannot be changed in place: build a new snapshot"};
  }
  return with_bucket_type(shape_of(shape), [&]<class Bucket>() { return apply_to<Bucket>(shape, changes); });
}

template <class Bucket>
Result<void> Updater::apply_to(weir_shape& shape, std::span<const Change> changes) {
  auto* buckets = reinterpret_cast<Bucket*>(bytes_.data() + shape.exact.offset);
  const auto hash_of = [&](const Change& change) {
    return weir_siphash13(header().secret, change.key.word.data(), key_words_of<Bucket>());
  };
  const auto approach = [&](const Change& change) {
    const uint64_t hash = hash_of(change);
    const FilterWords filter = filter_of(shape);
    prefetch_line(filter.words + size_t{weir_hash_range(hash, filter.lines)} * 8);
    if (change.rule != 0 || shape.layout != WEIR_LAYOUT_LINE8) {
      prefetch_line(buckets + weir_hash_range(hash, shape.exact_buckets));
      return;
    }
    const HashRange range = hashes_of(weir_hash_range(hash, shape.filter_lines), shape.filter_lines);
    const uint32_t first = weir_hash_range(uint64_t{range.first} << 32, shape.exact_buckets);
    const uint32_t last = weir_hash_range(uint64_t{range.last} << 32, shape.exact_buckets);
    for (uint32_t b = first; b <= last; b++) prefetch_line(buckets + b);
  };
  for (size_t i = 0; i < std::min(kLookahead, changes.size()); i++) approach(changes[i]);
  for (size_t i = 0; i < changes.size(); i++) {
    if (i + kLookahead < changes.size()) approach(changes[i + kLookahead]);
    const uint64_t hash = hash_of(changes[i]);
    if (changes[i].rule == 0) {
      remove(shape, buckets, changes[i].key, hash);
    } else if (auto ok = add(shape, buckets, changes[i], hash); !ok) {
      return ok;
    }
  }
  return {};
}

// Slot, then filter: whoever meets the bits finds the rule. Past a full bucket its overflow bit is set before the key
// can be found behind it.
template <class Bucket>
Result<void> Updater::add(weir_shape& shape, Bucket* buckets, const Change& change, uint64_t hash) {
  if (change.rule >= header().n_rules) return Error{"update: rule " + std::to_string(change.rule) + " is not there"};
  const auto* rules = reinterpret_cast<const weir_rule*>(bytes_.data() + header().rules.offset);
  if ((sides_of(rules[change.rule]) & ~shape.directions) != 0) {
    return Error{"update: rule " + std::to_string(change.rule) +
                 " has lists on a side that this shape is not asked for"};
  }
  if (uint32_t* rule = find_slot(buckets, shape.exact_buckets, change.key, hash)) {
    __atomic_store_n(rule, change.rule, __ATOMIC_RELEASE);
    return {};
  }
  if (shape.n_keys >= shape.max_keys) {
    return Error{"update: the shape is full with " + std::to_string(shape.max_keys) + " keys: build a new snapshot"};
  }
  const BucketPath<Bucket> path(buckets, shape.exact_buckets, hash);
  for (uint32_t step = 0; step < kBucketsPerPage<Bucket>; step++) {
    Bucket& bucket = path.at(step);
    for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
      if (bucket.rule[slot] != 0 || freed_.count(&bucket.rule[slot]) != 0) continue;
      store_key(bucket, slot, change.key);
      store_rule(bucket, slot, change.rule);
      __atomic_store_n(&shape.n_keys, shape.n_keys + 1, __ATOMIC_RELAXED);
      write_unit(shape, hash, {&hash, 1}, true);
      return {};
    }
    __atomic_store_n(&bucket.overflow, bucket.overflow | overflow_bit(hash), __ATOMIC_RELEASE);
  }
  return Error{"update: a page of the exact stage is full: build a new snapshot"};
}

template <class Bucket>
void Updater::remove(weir_shape& shape, Bucket* buckets, const Key& key, uint64_t hash) {
  uint32_t* rule = find_slot(buckets, shape.exact_buckets, key, hash);
  if (rule == nullptr) return;
  __atomic_store_n(rule, 0u, __ATOMIC_RELEASE);
  freed_.insert(rule);
  __atomic_store_n(&shape.n_keys, shape.n_keys - 1, __ATOMIC_RELAXED);
  recompute_unit(shape, buckets, hash);
}

// The line or page of the hash again, from the keys that are left in it.
template <class Bucket>
void Updater::recompute_unit(const weir_shape& shape, const Bucket* buckets, uint64_t hash) {
  const uint32_t units = shape.filter_lines / layout_of(static_cast<weir_layout>(shape.layout)).unit_lines;
  const HashRange range = hashes_of(weir_hash_range(hash, units), units);
  hashes_.clear();
  collect_hashes(*kernels_, header().secret, buckets, shape.exact_buckets, range, hashes_);
  write_unit(shape, hash, hashes_, false);
}

// keep: the bits that are there stay.
void Updater::write_unit(const weir_shape& shape, uint64_t hash, std::span<const uint64_t> hashes, bool keep) {
  const auto layout = static_cast<weir_layout>(shape.layout);
  const uint32_t unit_lines = layout_of(layout).unit_lines, unit_words = unit_lines * (WEIR_LINE_BYTES / 8);
  const uint32_t unit = weir_hash_range(hash, shape.filter_lines / unit_lines);
  const FilterWords filter = filter_of(shape);
  uint64_t* words = filter.words + size_t{unit} * unit_words;
  uint64_t bits[kPageWords];
  if (keep) {
    std::copy_n(words, unit_words, bits);
  } else {
    std::fill_n(bits, unit_words, 0);
  }
  mark_in_unit(kernels_->layout[layout], filter, unit, unit_words, bits, hashes);
  for (uint32_t w = 0; w < unit_words; w++) {
    if (words[w] != bits[w]) __atomic_store_n(words + w, bits[w], __ATOMIC_RELAXED);
  }
}

}  // namespace weir::filter
