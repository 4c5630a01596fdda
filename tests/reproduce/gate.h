// What docs/develop/gate.md measures: gates as the product builds and asks them, a bitmap of hashes of the same bytes,
// and the lookups behind either, pipelined as a worker of the data plane has them.
#pragma once

#include <bit>
#include <cmath>
#include <memory>
#include <optional>

#include "common/memory.h"
#include "dataplane/burst/gate_watch.h"
#include "filter/build/gates.h"
#include "filter/build/sizing.h"
#include "filter/probe/lookup.h"
#include "tests/reproduce/hashed_bits.h"
#include "tests/reproduce/line8_filter.h"

namespace weir::reproduce {

// Widths of direct tables that are looked at.
constexpr unsigned kMinWidth = 16, kMaxWidth = WEIR_MAX_DIRECT_PREFIX;

// What a list of n entries that lie anywhere lets through of strangers from anywhere, where a bit stands for 2^-bits of
// all addresses: the share of the bits that are set.
inline double random_share(double n, unsigned bits) {
  return -std::expm1(n * std::log1p(-std::ldexp(1, -static_cast<int>(bits))));
}

// The gates of an input and nothing else of its snapshot: build_gates() writes their tables alone, and untouched memory
// is not there.
class Gates {
 public:
  // Nothing when the format cannot hold the choice: short prefixes would fill too much of a table.
  static std::optional<Gates> of(const filter::SnapshotInput& input) {
    const Result<filter::SnapshotPlan> plan = filter::plan_snapshot(input);
    if (!plan) return std::nullopt;
    Gates gates;
    gates.memory_ = map_anonymous(plan->header.total_bytes, 0);
    if (!gates.memory_) give_up("no memory for gates");
    *reinterpret_cast<weir_snapshot_header*>(gates.memory_.bytes().data()) = plan->header;
    filter::build_gates(input, gates.memory_.bytes(), 2);
    return gates;
  }

  const weir_gate& gate(unsigned family, unsigned side) const {
    const auto& header = *reinterpret_cast<const weir_snapshot_header*>(memory_.bytes().data());
    return header.gates[weir_gate_number(family, side)];
  }
  const uint64_t* bits(const weir_gate_table& table) const {
    return reinterpret_cast<const uint64_t*>(memory_.bytes().data() + table.bits.offset);
  }
  filter::GateView view(unsigned family, unsigned side) const {
    const weir_gate& of = gate(family, side);
    filter::GateView view{static_cast<weir_gate_kind>(of.kind), of.n_tables, of.multiplier, {}};
    for (unsigned t = 0; t < of.n_tables; t++) {
      view.table[t] = {bits(of.table[t]), of.table[t].prefix_bits, of.table[t].n_words};
    }
    return view;
  }
  // The share of random addresses that this gate lets through, as its bits say.
  double share(unsigned family, unsigned side) const {
    const weir_gate& of = gate(family, side);
    double none = of.kind == WEIR_GATE_OPEN ? 0 : 1;
    for (const weir_gate_table& table : std::span(of.table, of.n_tables)) {
      const uint64_t words = weir_gate_table_words(table.prefix_bits, table.n_words);
      double share = std::ldexp(static_cast<double>(table.n_set), -6) / static_cast<double>(words);
      if (table.n_words != 0) {
        share = 0;
        for (uint64_t w = 0; w < words; w++) {
          share += std::pow(std::popcount(bits(table)[w]) / 64.0, 3) / static_cast<double>(words);
        }
      }
      none *= 1 - share;
    }
    return 1 - none;
  }

 private:
  Mapping memory_;
};

// One list of hosts, asked about sources, as the compiler of policies makes it.
inline filter::SnapshotInput hosts_input(std::span<const uint32_t> hosts) {
  filter::SnapshotInput input;
  input.epoch = input.number = 1;
  input.secret = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  input.lists = {{"hosts", WEIR_DROP, WEIR_ENFORCE, hosts.size()}};
  input.sets = {{{0}}, {{1}}};
  input.rules = {{0, 0, 0, 0}, {1, 0, 0, 0}};
  filter::KeyTable table;
  table.shape = {4, 32, false};
  table.words[0].reserve(hosts.size());
  for (const uint32_t host : hosts) table.words[0].push_back(__builtin_bswap32(host));
  table.rules.assign(hosts.size(), 1);
  input.tables.push_back(std::move(table));
  return input;
}

inline filter::SnapshotInput with_gate_v4(filter::SnapshotInput input, unsigned prefix_bits) {
  const auto bits = static_cast<uint8_t>(prefix_bits);
  input.gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables = {{bits, 0}};
  return input;
}

// A whole snapshot of an input, in huge pages where there are some, as a data plane holds it.
class Built {
 public:
  explicit Built(const filter::SnapshotInput& input) {
    const Result<filter::SnapshotPlan> plan = filter::plan_snapshot(input);
    if (!plan) give_up(plan.error());
    memory_ = std::make_unique<Words>(plan->header.total_bytes * 8, kHugePage);
    const std::span bytes(reinterpret_cast<std::byte*>(memory_->get()), plan->header.total_bytes);
    if (const auto built = filter::build_snapshot(input, *plan, bytes, 2); !built) give_up(built.error());
    const Result<filter::SnapshotView> view = filter::SnapshotView::open(bytes);
    if (!view) give_up(view.error());
    view_ = *view;
  }

  const filter::ShapeView& shape() const { return view_.shapes()[0]; }
  const weir_shape& header() const { return view_.header().shapes[0]; }

 private:
  std::unique_ptr<Words> memory_;
  filter::SnapshotView view_;
};

// The lookups of a list with so many bytes more for their filter, which the product builds: no rate that may be asked
// for takes as many. Borrows the list's exact stage, and the input's keys while it is made.
class LargerFilter {
 public:
  LargerFilter(const Built& usual, const filter::SnapshotInput& input, uint64_t more_bytes)
      : bytes_(usual.header().filter.size_bytes + more_bytes), words_(bytes_ * 8, kHugePage), shape_(usual.shape()) {
    const auto lines = static_cast<uint32_t>(bytes_ / WEIR_LINE_BYTES);
    filter::build_filter(best_kernels(), input.secret.data(), filter::columns_of(input.tables[0]), WEIR_LAYOUT_LINE8,
                         {.words = words_.get(), .lines = lines}, 2);
    shape_.filter = {reinterpret_cast<const uint8_t*>(words_.get()), lines, shape_.filter.k};
    shape_.prefetch = filter::outgrows_l2(bytes_);
    rate_ = filter::line8_fpr(input.tables[0].rules.size(), lines);
  }
  LargerFilter(const LargerFilter&) = delete;

  const filter::ShapeView& shape() const { return shape_; }
  uint64_t bytes() const { return bytes_; }
  double rate() const { return rate_; }

 private:
  uint64_t bytes_;
  Words words_;
  filter::ShapeView shape_;
  double rate_ = 0;
};

// The bits of one IPv4 table of gates, alone in huge pages.
class DirectBits {
 public:
  DirectBits(const filter::SnapshotInput& input, unsigned prefix_bits)
      : prefix_bits_(prefix_bits), words_(uint64_t{1} << prefix_bits, kHugePage) {
    const std::optional<Gates> gates = Gates::of(with_gate_v4(input, prefix_bits));
    if (!gates) give_up("this gate cannot be built");
    const weir_gate_table& table = gates->gate(4, WEIR_SIDE_SOURCE).table[0];
    std::copy_n(gates->bits(table), (uint64_t{1} << prefix_bits) / 64, words_.get());
    n_set_ = table.n_set;
  }

  double set_share() const { return std::ldexp(static_cast<double>(n_set_), -static_cast<int>(prefix_bits_)); }
  // Of a reception: those that go on. addresses: kernels.h says.
  uint64_t ask(const filter::Kernels& kernels, const uint64_t* addresses, unsigned n) const {
    return kernels.gate_v4(words_.get(), prefix_bits_, addresses, WEIR_SIDE_SOURCE, n);
  }

 private:
  unsigned prefix_bits_;
  Words words_;
  uint64_t n_set_ = 0;
};

// Its rival.
class HashedBits {
 public:
  explicit HashedBits(unsigned index_bits, uint32_t multiplier = 0x9e3779b1)
      : index_bits_(index_bits), multiplier_(multiplier), words_(uint64_t{1} << index_bits, kHugePage) {}

  void mark(std::span<const uint32_t> hosts) {
    for (const uint32_t host : hosts) {
      const uint32_t index = hashed_index(host, multiplier_, index_bits_);
      words_.get()[index >> 6] |= uint64_t{1} << (index & 63);
    }
  }
  double set_share() const {
    uint64_t set = 0;
    for (uint64_t w = 0; w < (uint64_t{1} << index_bits_) / 64; w++) set += std::popcount(words_.get()[w]);
    return std::ldexp(static_cast<double>(set), -static_cast<int>(index_bits_));
  }
  uint64_t ask(HashedV4 hashed, const uint64_t* addresses, unsigned n) const {
    return hashed(words_.get(), index_bits_, multiplier_, addresses, n);
  }

 private:
  unsigned index_bits_;
  uint32_t multiplier_;
  Words words_;
};

// Receptions of 32 packets, of which those that go on wait until there are 32, for 8 receptions at most, and are looked
// up together while the next ones come: dataplane/burst/suspects.h with one lookup and without the frames.
class LookupLoop {
 public:
  static constexpr unsigned kReceived = 32, kTurns = 8;

  explicit LookupLoop(const filter::ShapeView& shape) : pipeline_(best_kernels(), 1), batches_(kBatches) {
    lane_.shape = &shape;
    for (filter::Batch& batch : batches_) free_.push_back(&batch);
  }

  struct Count {
    uint64_t went_on = 0, found = 0;
  };

  // sources: as on the wire, a multiple of kReceived of them. ask(addresses, n): bit i: packet i goes on. watch: goes
  // around what asks while it lets nearly all through, as a worker does; null: it is always asked.
  template <class Ask>
  Count run(std::span<const uint32_t> sources, Ask ask, dataplane::GateWatch* watch = nullptr) {
    count_ = {};
    alignas(64) uint64_t addresses[filter::kMaxBatch + 8] = {};
    filter::Batch* open = take();
    unsigned age = 0;
    for (size_t at = 0; at + kReceived <= sources.size(); at += kReceived) {
      for (unsigned i = 0; i < kReceived; i++) addresses[i] = sources[at + i];
      if (watch != nullptr && watch->should_ask_again()) {
        if (open->n != 0) push(open), open = take();
        pipeline_.drain(), pop_all(watch);
        watch->ask_again(), age = 0;
      }
      uint64_t on = watch == nullptr || watch->asks() ? ask(addresses, kReceived) : (uint64_t{1} << kReceived) - 1;
      const auto n_on = static_cast<unsigned>(std::popcount(on));
      if (watch != nullptr) watch->saw(kReceived, n_on);
      count_.went_on += n_on;
      for (; on != 0; on &= on - 1) open->word[0][open->n++] = addresses[std::countr_zero(on)];
      if (open->n != 0 && (open->n >= kReceived || ++age >= kTurns)) {
        push(open);
        open = take(), age = 0;
      } else if (!pipeline_.empty()) {
        pipeline_.tick();
      }
      pop_all(watch);
    }
    if (open->n != 0)
      push(open);
    else
      free_.push_back(open);
    pipeline_.drain();
    pop_all(watch);
    return count_;
  }

 private:
  static constexpr size_t kBatches = filter::LookupPipeline::kMaxInFlight;

  filter::Batch* take() {
    filter::Batch* batch = free_.back();
    free_.pop_back();
    batch->n = 0;
    return batch;
  }
  void push(filter::Batch* batch) {
    batch->lane = &lane_;
    pipeline_.push(batch);
  }
  void pop_all(dataplane::GateWatch* watch) {
    while (filter::Batch* done = pipeline_.pop()) {
      const auto found = static_cast<unsigned>(std::popcount(done->found));
      count_.found += found;
      if (watch != nullptr) watch->judged(done->n, found);
      free_.push_back(done);
    }
  }

  filter::LookupPipeline pipeline_;
  filter::Lane lane_;
  std::vector<filter::Batch> batches_;
  std::vector<filter::Batch*> free_;
  Count count_;
};

// n different hosts anywhere, in order.
inline std::vector<uint32_t> random_hosts(uint64_t n, uint64_t seed) {
  std::vector<uint32_t> hosts;
  for (uint64_t i = 0; hosts.size() < n;) {
    const size_t have = hosts.size();
    for (uint64_t missing = n - have; missing > 0; missing--) {
      hosts.push_back(static_cast<uint32_t>(scatter(scatter(seed) + i++) >> 32));
    }
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  }
  return hosts;
}

// Strangers in networks of so many bits that some listed host, each as likely, lives in too; 0 bits: anywhere. As on
// the wire. hosts: in order.
inline std::vector<uint32_t> strangers_near(std::span<const uint32_t> hosts, unsigned network_bits, size_t n,
                                            uint64_t seed) {
  const uint32_t inside = network_bits == 0 ? ~uint32_t{0} : ~uint32_t{0} >> network_bits;
  std::vector<uint32_t> strangers;
  strangers.reserve(n);
  // A network may be listed as a whole: then there is no stranger in it, and another host is taken.
  for (uint64_t i = 0; strangers.size() < n; i++) {
    const uint64_t random = scatter(scatter(seed) + i);
    const uint32_t host = hosts[reduce(scatter(random), hosts.size())];
    const uint32_t stranger = (host & ~inside) | (static_cast<uint32_t>(random >> 32) & inside);
    if (!std::binary_search(hosts.begin(), hosts.end(), stranger)) strangers.push_back(__builtin_bswap32(stranger));
  }
  return strangers;
}

}  // namespace weir::reproduce
