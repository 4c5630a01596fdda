// build_snapshot: writes what plan_snapshot laid out.

#include "filter/build/builder.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <thread>

#include "common/prefetch.h"
#include "filter/build/networks.h"
#include "filter/build/rehash.h"
#include "filter/build/ribbon.h"
#include "filter/format/buckets.h"
#include "filter/kernels/kernels.h"
#include "filter/layouts/layout.h"
#include "filter/probe/dispatch.h"

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

// Fewer keys than this are written before another thread has begun.
constexpr size_t kKeysPerThread = 100'000;

// What one of them throws (there is no memory) is thrown here, once all have ended.
template <class Work>
void on_threads(unsigned threads, Work work) {
  std::vector<std::exception_ptr> failures(threads);
  const auto run = [&](unsigned t) {
    try {
      work(t);
    } catch (...) {
      failures[t] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);
  for (unsigned t = 1; t < threads; t++) {
    try {
      others.emplace_back(run, t);
    } catch (const std::system_error&) {  // no more threads: then by this one
      run(t);
    }
  }
  run(0);
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
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

// Filter and exact stage of one shape, in one pass over its keys. A thread has whole pages of buckets; the filter line
// (or page) at either end of its range may hold a neighbour's keys too, so what falls there is marked afterwards.
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

  Result<void> write(unsigned threads) {
    const uint32_t pages = n_buckets_ / kBucketsPerPage<Bucket>;
    threads =
        std::clamp<unsigned>(static_cast<unsigned>(table_.rules.size() / kKeysPerThread), 1, std::min(threads, pages));
    std::vector<std::string> errors(threads);
    std::vector<std::vector<uint64_t>> later(threads);
    on_threads(threads, [&](unsigned t) {
      const auto border = [&](uint64_t i) { return first_hash_of(pages * i / threads, pages); };
      const HashRange range = {static_cast<uint32_t>(border(t)), static_cast<uint32_t>(border(t + 1) - 1)};
      write_range(range, threads > 1, errors[t], later[t]);
    });
    for (const std::string& error : errors) {
      if (!error.empty()) return Error{error};
    }
    if (layout_ == WEIR_LAYOUT_RIBBON) {
      solve_ribbon(kernels_, secret_, buckets_, n_buckets_, filter_, threads);
    } else {
      for (const std::vector<uint64_t>& hashes : later) mark(hashes.data(), hashes.size());
    }
    return {};
  }

 private:
  uint32_t unit(uint64_t hash) const { return weir_hash_range(hash, units_); }

  void mark(const uint64_t* hash, size_t n) const {
    for (size_t i = 0; i < n; i += kMaxBatch) {
      kernels_.layout[layout_].mark(filter_, hash + i, static_cast<unsigned>(std::min<size_t>(kMaxBatch, n - i)));
    }
  }

  void write_range(HashRange range, bool shared, std::string& error, std::vector<uint64_t>& later) const {
    const uint32_t first_unit = unit(uint64_t{range.first} << 32), last_unit = unit(uint64_t{range.last} << 32);
    const bool marks = layout_ != WEIR_LAYOUT_RIBBON, is_line8 = layout_ == WEIR_LAYOUT_LINE8;
    const auto approach = [&](uint64_t hash) {
      if (is_line8) prefetch_line_to_write(filter_.words + size_t{weir_hash_range(hash, filter_.lines)} * 8);
      prefetch_line_to_write(buckets_ + weir_hash_range(hash, n_buckets_));
    };
    const auto place = [&](const uint64_t* hash, const size_t* index, unsigned n) {
      uint64_t to_mark[kMaxBatch];
      unsigned n_mark = 0;
      for (unsigned i = 0; i < n; i++) {
        Key key;
        for (unsigned w = 0; w < key_words_of<Bucket>(); w++) key.word[w] = table_.words[w][index[i]];
        const Insertion done = insert_into_buckets(buckets_, n_buckets_, key, hash[i], table_.rules[index[i]]);
        if (done != Insertion::done) {
          error = done == Insertion::duplicate ? "build: key " + std::to_string(index[i]) + " of a shape is there twice"
                                               : "build: a page of the exact stage is full; try another secret";
          return false;
        }
        const bool at_border = shared && (unit(hash[i]) == first_unit || unit(hash[i]) == last_unit);
        if (at_border) later.push_back(hash[i]);
        to_mark[n_mark] = hash[i];
        n_mark += !at_border;
      }
      if (marks) mark(to_mark, n_mark);
      return true;
    };
    stream_keys(kernels_, secret_, columns_of(table_), range, approach, place);
  }

  const KeyTable& table_;
  const weir_layout layout_;
  const FilterWords filter_;
  const uint32_t units_;
  Bucket* const buckets_;
  const uint32_t n_buckets_;
  const Kernels& kernels_;
  const uint64_t* const secret_;
};

void write_networks(const std::vector<NetworkRun>& runs, const weir_shape& shape, std::span<std::byte> out) {
  for (const NetworkRun& run : runs) mark_networks(at<uint8_t>(out, shape.filter), run.first, run.last);
  const NetworkRules table = network_rules(runs);
  copy_section(out, shape.exact, table.chunk_of);
  copy_section(out, shape.chunks, table.chunks);
}

}  // namespace

Result<void> build_snapshot(const SnapshotInput& input, const SnapshotPlan& plan, std::span<std::byte> out,
                            unsigned threads) {
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
      return TableWriter<Bucket>(*table, shape, out, **kernels, header.secret).write(threads);
    });
    if (!ok) return ok;
  }
  return {};
}

void build_filter(const Kernels& kernels, const uint64_t secret[2], const KeyColumns& keys, weir_layout layout,
                  const FilterWords& filter, unsigned threads) {
  const LayoutKernels& loops = kernels.layout[layout];
  const uint32_t units = units_of(layout, filter.lines);
  threads = std::clamp<unsigned>(static_cast<unsigned>(keys.n / kKeysPerThread), 1, std::min(threads, units));
  on_threads(threads, [&](unsigned t) {
    const auto border = [&](uint64_t i) { return first_hash_of(units * i / threads, units); };
    const HashRange range = {static_cast<uint32_t>(border(t)), static_cast<uint32_t>(border(t + 1) - 1)};
    const auto approach = [&](uint64_t hash) {
      prefetch_line_to_write(filter.words + size_t{weir_hash_range(hash, filter.lines)} * 8);
    };
    const auto place = [&](const uint64_t* hash, const size_t*, unsigned n) {
      loops.mark(filter, hash, n);
      return true;
    };
    stream_keys(kernels, secret, keys, range, approach, place);
  });
}

}  // namespace weir::filter
