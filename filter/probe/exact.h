#pragma once

#include <cstdint>

#include "filter/format/key_shape.h"
#include "filter/kernels/kernels.h"
#include "filter/read/view.h"

// The two stages of a lookup, one call at a time: the filter, and the exact table behind it.
namespace weir::filter {

// The keys' places: what says where to look in the filter and in the exact table. That is the key's hash; in a bitmap,
// which is not hashed, its index. n <= kMaxBatch.
void place_keys(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words, unsigned n,
                uint64_t* place);

// The filter stage, synchronous: n <= kMaxBatch keys of one shape (structure of arrays as in Kernels::siphash13). Bit i
// of the result is 1 when key i may be present. Fills place[i] for exact_find.
uint64_t filter_check(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words, unsigned n,
                      uint64_t* place);

// The exact stage: the rule of the key, 0 when it is not in the table.
uint32_t exact_find(const ShapeView& shape, const Key& key, uint64_t place);

// The same for the keys whose bits are set in `wanted`, of those of filter_check. Bit i of the result is 1 when key i
// has a rule, which then is in rule[i]; where it has none, rule[i] may be anything. rule: room for kMaxBatch.
uint64_t exact_find_batch(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words,
                          const uint64_t* place, uint64_t wanted, uint32_t* rule);

// exact_find_batch in two steps, of a hashed shape, for who has something to do before the second buckets of some keys
// are there: in the keys' own buckets, which leaves those that may lie behind them; and those.
uint64_t exact_find_own(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words,
                        const uint64_t* place, uint64_t wanted, uint32_t* rule, uint64_t& behind);
uint64_t exact_find_behind(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words,
                           const uint64_t* place, uint64_t behind, uint32_t* rule);

// Both stages for one key, scalar: the definition that proofs and `explain` use.
uint32_t find_rule(const ShapeView& shape, const Key& key);

}  // namespace weir::filter
