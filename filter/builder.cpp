// build_snapshot: writes what plan_snapshot laid out.

#include "filter/builder.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "filter/dispatch.h"
#include "filter/exact.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/networks.h"

namespace weir::filter {
namespace {

// A batch's lines are asked for this many batches before they are written: 192 lines are under way, which is where one
// core's memory parallelism ends (FILTERS 3.3: "ring LA3", 258 against 95 Mkeys/s at 100M keys).
constexpr size_t kLookahead = 3;

template <class T>
T* at(std::span<std::byte> out, const weir_section& section) {
  return reinterpret_cast<T*>(out.data() + section.offset);
}

template <class T>
void copy_section(std::span<std::byte> out, const weir_section& section, const std::vector<T>& items) {
  std::copy(items.begin(), items.end(), at<T>(out, section));
}

void write_lists(const SnapshotInput& input, const weir_section& section, std::span<std::byte> out) {
  weir_list* list = at<weir_list>(out, section);
  for (const ListInfo& info : input.lists) {
    memcpy(list->name, info.name.data(), info.name.size());
    list->action = static_cast<weir_u8>(info.action);
    list->mode = static_cast<weir_u8>(info.mode);
    list->n_entries = info.n_entries;
    list++;
  }
}

// Filter and exact stage of one shape, in one pass over its keys: batch b is hashed and its lines are asked for, then
// batch b - kLookahead is written.
template <class Bucket>
class TableWriter {
 public:
  TableWriter(const KeyTable& table, const weir_shape& shape, std::span<std::byte> out)
      : table_(table),
        shape_(shape),
        n_words_(key_words(table.shape)),
        filter_(at<weir_u64>(out, shape.filter)),
        buckets_(at<Bucket>(out, shape.exact)) {}

  Result<void> write(const Kernels& kernels, const uint64_t secret[2]) {
    const size_t batches = (table_.rules.size() + kMaxBatch - 1) / kMaxBatch;
    for (size_t batch = 0; batch < batches + kLookahead; batch++) {
      if (batch < batches) approach(batch, kernels, secret);
      if (batch >= kLookahead) {
        if (auto ok = place(batch - kLookahead); !ok) return ok;
      }
    }
    return {};
  }

 private:
  size_t keys_in(size_t batch) const { return std::min<size_t>(kMaxBatch, table_.rules.size() - batch * kMaxBatch); }
  uint64_t* hashes(size_t batch) { return ring_[batch % (kLookahead + 1)]; }

  weir_u64* line(uint64_t hash) const { return filter_ + size_t{weir_hash_range(hash, shape_.filter_lines)} * 8; }

  void approach(size_t batch, const Kernels& kernels, const uint64_t secret[2]) {
    const uint64_t* words[WEIR_MAX_KEY_WORDS];
    for (unsigned w = 0; w < n_words_; w++) words[w] = table_.words[w].data() + batch * kMaxBatch;
    const size_t n = keys_in(batch);
    uint64_t* hash = hashes(batch);
    kernels.siphash13(secret, words, n_words_, static_cast<unsigned>(n), hash);
    constexpr int kForWriting = 1;
    for (size_t i = 0; i < n; i++) {
      __builtin_prefetch(line(hash[i]), kForWriting);
      __builtin_prefetch(buckets_ + weir_hash_range(hash[i], shape_.exact_buckets), kForWriting);
    }
  }

  Result<void> place(size_t batch) {
    const uint64_t* hash = hashes(batch);
    for (size_t i = 0; i < keys_in(batch); i++) {
      const size_t k = batch * kMaxBatch + i;
      Key key;
      for (unsigned w = 0; w < n_words_; w++) key.word[w] = table_.words[w][k];
      switch (insert_into_buckets(buckets_, shape_.exact_buckets, key, hash[i], table_.rules[k])) {
        case Insertion::done:
          break;
        case Insertion::duplicate:
          return Error{"build: key " + std::to_string(k) + " of a shape is there twice"};
        case Insertion::page_full:
          return Error{"build: a page of the exact stage is full; try another secret"};
      }
      weir_line8_mark(line(hash[i]), hash[i]);
    }
    return {};
  }

  const KeyTable& table_;
  const weir_shape& shape_;
  unsigned n_words_;
  weir_u64* filter_;
  Bucket* buckets_;
  uint64_t ring_[kLookahead + 1][kMaxBatch];
};

void write_networks(const std::vector<NetworkRun>& runs, const weir_shape& shape, std::span<std::byte> out) {
  for (const NetworkRun& run : runs) mark_networks(at<uint8_t>(out, shape.filter), run.first, run.last);
  const NetworkRules table = network_rules(runs);
  copy_section(out, shape.exact, table.chunk_of);
  copy_section(out, shape.chunks, table.chunks);
}

}  // namespace

Result<void> build_snapshot(const SnapshotInput& input, const SnapshotPlan& plan, std::span<std::byte> out) {
  const weir_snapshot_header& header = plan.header;
  if (out.size() != header.total_bytes || reinterpret_cast<uintptr_t>(out.data()) % WEIR_LINE_BYTES != 0) {
    return Error{"build: the output is not " + std::to_string(header.total_bytes) + " bytes, 64-byte aligned"};
  }
  const auto kernels = choose_kernels();
  if (!kernels) return Error{kernels.error()};

  memcpy(out.data(), &header, sizeof header);
  write_lists(input, header.lists, out);
  copy_section(out, header.sets, input.sets);
  copy_section(out, header.rules, input.rules);
  for (const weir_shape& shape : std::span(header.shapes, header.n_shapes)) {
    if (shape.layout == WEIR_LAYOUT_BITMAP) {
      write_networks(input.networks, shape, out);
      continue;
    }
    const auto table = std::find_if(input.tables.begin(), input.tables.end(),
                                    [&](const KeyTable& t) { return t.shape == shape_of(shape); });
    if (table == input.tables.end() || table->rules.size() != shape.n_keys) {
      return Error{"build: the plan was made for other input"};
    }
    auto ok = with_bucket_type(table->shape, [&]<class Bucket>() {
      return TableWriter<Bucket>(*table, shape, out).write(**kernels, header.secret);
    });
    if (!ok) return ok;
  }
  return {};
}

}  // namespace weir::filter
