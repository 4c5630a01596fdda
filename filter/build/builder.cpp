// build_snapshot: writes what plan_snapshot laid out.

#include "filter/build/builder.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include "common/prefetch.h"
#include "filter/build/gates.h"
#include "filter/build/networks.h"
#include "filter/build/partition.h"
#include "filter/build/rehash.h"
#include "filter/build/ribbon.h"
#include "filter/build/threads.h"
#include "filter/format/buckets.h"
#include "filter/kernels/kernels.h"
#include "filter/layouts/layout.h"
#include "filter/probe/dispatch.h"

namespace weir::filter {
namespace {

// A batch's lines are asked for this many batches before they are written: 192 lines are under way, which is where one
// core's memory parallelism ends (measured with a ring of three batches: 258 against 95 Mkeys/s at 100M keys).
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

// Calls work(t, range) with a part of `whole` for each thread t; `whole`, and so each part, has whole places.
template <class Work>
void on_ranges(HashRange whole, uint32_t places, unsigned threads, Work work) {
  const uint64_t first = weir_hash_range(uint64_t{whole.first} << 32, places);
  const uint64_t n = weir_hash_range(uint64_t{whole.last} << 32, places) - first + 1;
  on_threads(threads, [&](unsigned t) {
    const auto border = [&](uint64_t i) { return first_hash_of(first + n * i / threads, places); };
    if (border(t) == border(t + 1)) return;
    work(t, HashRange{static_cast<uint32_t>(border(t)), static_cast<uint32_t>(border(t + 1) - 1)});
  });
}

// Takes the keys whose hash is in the range, in order. Each is hashed, and approach(hash) asks for the lines that it
// will write; kLookahead batches later place(hashes, indexes, n), n <= kMaxBatch, writes them. Returns when place says
// no.
//
// With several threads, each has a range of the hashes, so a place in memory is only ever written by one. All of them
// hash all keys: that costs less than handing keys over (docs/develop/filter.md).
template <class Approach, class Place>
void stream_keys(const Kernels& kernels, const uint64_t secret[2], const KeyColumns& keys, HashRange range,
                 Approach approach, Place place) {
  constexpr size_t kRoom = 16 * kMaxBatch;
  static_assert(kRoom > (kLookahead + 2) * kMaxBatch);
  uint64_t hashes[kRoom];
  size_t indexes[kRoom];
  size_t head = 0, tail = 0;
  const auto place_next = [&](size_t n) {
    const bool go_on = place(hashes + head, indexes + head, static_cast<unsigned>(n));
    head += n;
    return go_on;
  };
  for (size_t first = 0; first < keys.n; first += kMaxBatch) {
    if (tail + kMaxBatch > kRoom) {
      std::copy(hashes + head, hashes + tail, hashes);
      std::copy(indexes + head, indexes + tail, indexes);
      tail -= head;
      head = 0;
    }
    const auto n = static_cast<unsigned>(std::min<size_t>(kMaxBatch, keys.n - first));
    const uint64_t* words[WEIR_MAX_KEY_WORDS];
    for (unsigned w = 0; w < keys.n_words; w++) words[w] = keys.words[w] + first;
    uint64_t hash[kMaxBatch];
    kernels.siphash13(secret, words, keys.n_words, n, hash);
    const size_t before = tail;
    for (unsigned i = 0; i < n; i++) {  // without a branch: the others' keys come at random
      hashes[tail] = hash[i];
      indexes[tail] = first + i;
      tail += range.holds(hash[i]);
    }
    for (size_t i = before; i < tail; i++) approach(hashes[i]);
    while (tail - head >= (kLookahead + 1) * kMaxBatch) {
      if (!place_next(kMaxBatch)) return;
    }
  }
  while (head != tail) {
    if (!place_next(std::min<size_t>(kMaxBatch, tail - head))) return;
  }
}

// Brings lines first..last into the cache, one behind the other, as memory gives them fastest. By loads: prefetches
// that find no room in the core's miss buffers are lost (a fifth slower builds).
void load_lines(const void* base, uint64_t first, uint64_t last) {
  const auto* words = static_cast<const volatile uint64_t*>(base);
  for (uint64_t line = first; line <= last; line++) static_cast<void>(words[line * (WEIR_LINE_BYTES / 8)]);
}

// The units of a layout: 64-byte lines, or pages of them.
uint32_t units_of(weir_layout layout, uint32_t lines) {
  return lines / layout_of(layout).unit_lines;
}

// A ribbon filter from the finished exact stage, page by page.
template <class Bucket>
void solve_ribbon(const Kernels& kernels, const uint64_t secret[2], const Bucket* buckets, uint32_t n_buckets,
                  const FilterWords& filter, unsigned threads) {
  const uint32_t pages = filter.lines / WEIR_LINES_PER_PAGE;
  on_threads(threads, [&](unsigned t) {
    std::vector<uint64_t> hashes;
    for (uint64_t page = uint64_t{pages} * t / threads; page < uint64_t{pages} * (t + 1) / threads; page++) {
      hashes.clear();
      collect_hashes(kernels, secret, buckets, n_buckets, hashes_of(static_cast<uint32_t>(page), pages), hashes);
      solve_ribbon_page(hashes, pages, secret[0] ^ page, filter.words + page * (WEIR_PAGE_BYTES / 8));
    }
  });
}

// Filter and exact stage of one shape, in one pass over its keys: as they come, or by partitions. What one thread
// writes is the keys of a range of hashes that has whole pages of buckets; the filter line (or page) at either end of
// the range may hold a neighbour's keys too, so what falls there is marked afterwards.
template <class Bucket>
class TableWriter {
 public:
  TableWriter(const KeyTable& table, const weir_shape& shape, std::span<std::byte> out, const Kernels& kernels,
              const uint64_t secret[2])
      : table_(table),
        layout_(static_cast<weir_layout>(shape.layout)),
        filter_{at<uint64_t>(out, shape.filter), shape.filter_lines, shape.k},
        units_(units_of(layout_, shape.filter_lines)),
        buckets_(at<Bucket>(out, shape.exact)),
        n_buckets_(shape.exact_buckets),
        kernels_(kernels),
        secret_(secret) {}

  Result<void> write(unsigned threads, const PartitionLimits& limits) {
    written_ = limits.written;
    threads = std::clamp<unsigned>(static_cast<unsigned>(table_.rules.size() / kKeysPerThread), 1,
                                   std::min(threads, pages()));
    const KeyColumns keys = columns_of(table_);
    const PartitionTask task = {.kernels = kernels_,
                                .secret = secret_,
                                .keys = keys,
                                .rules = table_.rules.data(),
                                .places = pages(),
                                .out_bytes = size_t{filter_.lines} * WEIR_LINE_BYTES + n_buckets_ * sizeof(Bucket)};
    write_in_parts(
        task, limits, threads, [&](HashRange range) { return stream(keys, range, threads); },
        [&](const Partitions& partitions, uint32_t p) { return write_partition(partitions, p); });
    if (failed_) return Error{error_};
    if (layout_ == WEIR_LAYOUT_RIBBON) {
      solve_ribbon(kernels_, secret_, buckets_, n_buckets_, filter_, threads);
    } else {
      mark(later_.data(), later_.size());
    }
    return {};
  }

 private:
  static constexpr unsigned kWords = key_words_of<Bucket>();

  // What writing a range of hashes leaves to do. error: empty when there was none.
  struct Outcome {
    std::string error;
    std::vector<uint64_t> later;  // hashes whose filter line (or page) may be another's, too
  };

  // Lines (or pages) of the filter that another range's keys may write, too.
  struct Borders {
    uint32_t first, last;
  };
  Borders borders_of(HashRange range) const {
    if (range.first == 0 && range.last == UINT32_MAX) return {UINT32_MAX, UINT32_MAX};  // none
    return {unit(uint64_t{range.first} << 32), unit(uint64_t{range.last} << 32)};
  }

  uint32_t pages() const { return n_buckets_ / kBucketsPerPage<Bucket>; }
  uint32_t unit(uint64_t hash) const { return weir_hash_range(hash, units_); }

  void mark(const uint64_t* hash, size_t n) const {
    for (size_t i = 0; i < n; i += kMaxBatch) {
      kernels_.layout[layout_].mark(filter_, hash + i, static_cast<unsigned>(std::min<size_t>(kMaxBatch, n - i)));
    }
  }

  void ask_for(uint64_t hash) const {
    if (layout_ == WEIR_LAYOUT_LINE8) {
      prefetch_line_to_write(filter_.words + size_t{weir_hash_range(hash, filter_.lines)} * 8);
    }
    prefetch_line_to_write(buckets_ + weir_hash_range(hash, n_buckets_));
  }

  // Called by several threads. number: of the range, or partition; the error of the first one counts.
  void done_with(uint32_t number, const Outcome& outcome) {
    const std::lock_guard lock(mutex_);
    later_.insert(later_.end(), outcome.later.begin(), outcome.later.end());
    if (outcome.error.empty() || (failed_ && number > failed_number_)) return;
    error_ = outcome.error;
    failed_number_ = number;
    failed_ = true;
  }

  // Keys of a range of hashes as they come.
  bool stream(const KeyColumns& keys, HashRange whole, unsigned threads) {
    on_ranges(whole, pages(), threads, [&](unsigned t, HashRange range) {
      Outcome outcome;
      const auto place = [&](const uint64_t* hash, const size_t* index, unsigned n) {
        return write_keys(hash, n, borders_of(range), outcome, [&](unsigned i) {
          Entry entry = {{}, table_.rules[index[i]], index[i]};
          for (unsigned w = 0; w < kWords; w++) entry.key.word[w] = table_.words[w][index[i]];
          return entry;
        });
      };
      stream_keys(
          kernels_, secret_, keys, range, [&](uint64_t hash) { ask_for(hash); }, place);
      done_with(t, outcome);
    });
    return !failed_;
  }

  bool write_partition(const Partitions& partitions, uint32_t p) {
    const HashRange range = partitions.plan().hashes_of(p, p + 1);
    Outcome outcome;
    bring_near(range);
    for (unsigned t = 0; t < partitions.plan().threads && outcome.error.empty(); t++) {
      write_records(partitions.records(p, t), borders_of(range), outcome);
    }
    done_with(p, outcome);
    return outcome.error.empty();
  }

  // All lines that keys of the range write.
  void bring_near(HashRange range) const {
    constexpr uint64_t kLines = sizeof(Bucket) / WEIR_LINE_BYTES;
    const uint64_t first = uint64_t{range.first} << 32, last = uint64_t{range.last} << 32;
    load_lines(filter_.words, weir_hash_range(first, filter_.lines), weir_hash_range(last, filter_.lines));
    load_lines(buckets_, weir_hash_range(first, n_buckets_) * kLines,
               (weir_hash_range(last, n_buckets_) + 1) * kLines - 1);
  }

  // Records of partition.h. A batch's lines are asked for one batch before it is written.
  void write_records(std::span<const uint64_t> records, Borders borders, Outcome& outcome) const {
    constexpr unsigned kRecord = kWords + 1;
    struct Columns {
      uint64_t word[kRecord][kMaxBatch], hash[kMaxBatch];
      unsigned n = 0;
    } batches[2];
    const auto fill = [&](Columns& batch, size_t first) {
      batch.n = static_cast<unsigned>(std::min<size_t>(kMaxBatch, records.size() / kRecord - first));
      const uint64_t* words[kWords];
      for (unsigned i = 0; i < batch.n; i++) {
        for (unsigned w = 0; w < kRecord; w++) batch.word[w][i] = records[(first + i) * kRecord + w];
      }
      for (unsigned w = 0; w < kWords; w++) words[w] = batch.word[w];
      kernels_.siphash13(secret_, words, kWords, batch.n, batch.hash);
      for (unsigned i = 0; i < batch.n; i++) ask_for(batch.hash[i]);
    };
    const auto write = [&](const Columns& batch) {
      return write_keys(batch.hash, batch.n, borders, outcome, [&](unsigned i) {
        const uint64_t rest = batch.word[kWords][i];
        Entry entry = {{}, static_cast<uint32_t>(rest), static_cast<size_t>(rest >> 32)};
        for (unsigned w = 0; w < kWords; w++) entry.key.word[w] = batch.word[w][i];
        return entry;
      });
    };
    unsigned newest = 0;
    for (size_t first = 0; first < records.size() / kRecord; first += kMaxBatch) {
      fill(batches[newest], first);
      newest = 1 - newest;
      if (first != 0 && !write(batches[newest])) return;
    }
    if (!records.empty()) write(batches[1 - newest]);
  }

  struct Entry {
    Key key;
    uint32_t rule;
    size_t index;
  };

  // n <= kMaxBatch keys; entry_of(i) is key i's. False after an error.
  template <class EntryOf>
  bool write_keys(const uint64_t* hash, unsigned n, Borders borders, Outcome& outcome, EntryOf entry_of) const {
    uint64_t to_mark[kMaxBatch];
    unsigned n_mark = 0;
    for (unsigned i = 0; i < n; i++) {
      const Entry entry = entry_of(i);
      const Insertion done = insert_into_buckets(buckets_, n_buckets_, entry.key, hash[i], entry.rule);
      if (done != Insertion::done) {
        outcome.error = done == Insertion::duplicate
                            ? "build: key " + std::to_string(entry.index) + " of a shape is there twice"
                            : "build: a page of the exact stage is full; try another secret";
        return false;
      }
      const uint32_t own_unit = unit(hash[i]);
      const bool at_border = own_unit == borders.first || own_unit == borders.last;
      if (at_border) outcome.later.push_back(hash[i]);
      to_mark[n_mark] = hash[i];
      n_mark += !at_border;
    }
    if (layout_ != WEIR_LAYOUT_RIBBON) mark(to_mark, n_mark);
    if (written_ != nullptr) written_->fetch_add(n, std::memory_order_relaxed);
    return true;
  }

  const KeyTable& table_;
  const weir_layout layout_;
  const FilterWords filter_;
  const uint32_t units_;
  Bucket* const buckets_;
  const uint32_t n_buckets_;
  const Kernels& kernels_;
  const uint64_t* const secret_;

  std::atomic<uint64_t>* written_ = nullptr;
  std::mutex mutex_;  // of what follows
  std::vector<uint64_t> later_;
  std::string error_;
  uint32_t failed_number_ = 0;
  std::atomic<bool> failed_ = false;
};

void write_networks(const std::vector<NetworkRun>& runs, const weir_shape& shape, std::span<std::byte> out) {
  for (const NetworkRun& run : runs) mark_networks(at<uint8_t>(out, shape.filter), run.first, run.last);
  const NetworkRules table = network_rules(runs);
  copy_section(out, shape.exact, table.chunk_of);
  copy_section(out, shape.chunks, table.chunks);
}

}  // namespace

Result<void> build_snapshot(const SnapshotInput& input, const SnapshotPlan& plan, std::span<std::byte> out,
                            unsigned threads, const PartitionLimits& limits) {
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
  copy_section(out, header.residuals, input.residuals);
  build_gates(input, out, threads);
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
      return TableWriter<Bucket>(*table, shape, out, **kernels, header.secret).write(threads, limits);
    });
    if (!ok) return ok;
  }
  return {};
}

void build_filter(const Kernels& kernels, const uint64_t secret[2], const KeyColumns& keys, weir_layout layout,
                  const FilterWords& filter, unsigned threads, const PartitionLimits& limits) {
  const uint32_t units = units_of(layout, filter.lines);
  threads = std::clamp<unsigned>(static_cast<unsigned>(keys.n / kKeysPerThread), 1, std::min(threads, units));
  const auto mark = [&](const uint64_t* hash, size_t n) {
    for (size_t i = 0; i < n; i += kMaxBatch) {
      kernels.layout[layout].mark(filter, hash + i, static_cast<unsigned>(std::min<size_t>(kMaxBatch, n - i)));
    }
  };
  const PartitionTask task = {.kernels = kernels,
                              .secret = secret,
                              .keys = keys,
                              .places = units,
                              .out_bytes = size_t{filter.lines} * WEIR_LINE_BYTES};
  const auto stream = [&](HashRange whole) {
    on_ranges(whole, units, threads, [&](unsigned, HashRange range) {
      const auto approach = [&](uint64_t hash) {
        prefetch_line_to_write(filter.words + size_t{weir_hash_range(hash, filter.lines)} * 8);
      };
      stream_keys(kernels, secret, keys, range, approach, [&](const uint64_t* hash, const size_t*, unsigned n) {
        mark(hash, n);
        return true;
      });
    });
    return true;
  };
  write_in_parts(task, limits, threads, stream, [&](const Partitions& partitions, uint32_t p) {
    const HashRange range = partitions.plan().hashes_of(p, p + 1);
    load_lines(filter.words, weir_hash_range(uint64_t{range.first} << 32, filter.lines),
               weir_hash_range(uint64_t{range.last} << 32, filter.lines));
    for (unsigned t = 0; t < partitions.plan().threads; t++) {
      const std::span<const uint64_t> hashes = partitions.records(p, t);
      mark(hashes.data(), hashes.size());
    }
    return true;
  });
}

}  // namespace weir::filter
