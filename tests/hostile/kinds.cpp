#include "tests/hostile/kinds.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "common/digest.h"
#include "filter/build/builder.h"
#include "filter/format/buckets.h"
#include "filter/format/rules.h"
#include "filter/layouts/bitmap.h"
#include "filter/read/overlay.h"
#include "tests/unit/filter/inputs.h"

namespace weir::hostile {

using filter::KeyTable;
using filter::SnapshotInput;

namespace {

// Vectors of bytes begin at 16 bytes, snapshots at 64.
class Aligned {
 public:
  explicit Aligned(const Bytes& bytes)
      : bytes_(static_cast<std::byte*>(
            std::aligned_alloc(WEIR_LINE_BYTES, bytes.size() + WEIR_LINE_BYTES - bytes.size() % WEIR_LINE_BYTES))),
        size_(bytes.size()) {
    memcpy(bytes_.get(), bytes.data(), bytes.size());
  }
  std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_;
};

weir_snapshot_header& header_of(Bytes& bytes) {
  return *reinterpret_cast<weir_snapshot_header*>(bytes.data());
}

template <class T>
T* at(Bytes& bytes, const weir_section& section) {
  return reinterpret_cast<T*>(bytes.data() + section.offset);
}

Bytes build(const SnapshotInput& input, const Bytes* base = nullptr) {
  auto plan = filter::plan_snapshot(input);
  if (!plan) abort();
  if (base != nullptr) {
    plan->header.base_number = input.number - 1;
    const Digest digest = digest_of(*base);
    std::copy(digest.begin(), digest.end(), plan->header.base_digest);
  }
  const Aligned out(Bytes(plan->header.total_bytes));
  if (!filter::build_snapshot(input, *plan, out.bytes())) abort();
  return {out.bytes().begin(), out.bytes().end()};
}

// Keys of IPv6 that differ in their first words.
KeyTable keys_v6(uint8_t bits, size_t n) {
  KeyTable table;
  table.shape = {6, bits};
  for (size_t i = 0; i < n; i++) {
    table.words[0].push_back(__builtin_bswap64(i << 32));
    table.words[1].push_back(0);
    table.rules.push_back(1);
  }
  return table;
}

// Flows of one source, which the key tells so many bits of.
KeyTable flows_v4(uint8_t bits, uint64_t ports) {
  KeyTable table;
  table.shape = {4, bits, false, true, 0, WEIR_FLOW_SPORT};
  for (uint64_t port = 0; port < ports; port++) {
    table.words[0].push_back(0);
    table.words[1].push_back(port);
    table.rules.push_back(1);
  }
  return table;
}

class Maker {
 public:
  Maker(uint64_t epoch, uint64_t number) : epoch_(epoch), number_(number) {}

  SnapshotInput input() {
    SnapshotInput made = filter::test::empty_input();
    made.epoch = epoch_;
    made.number = number_++;
    return made;
  }
  using Damage = std::function<void(Bytes&, weir_snapshot_header&)>;
  void add(std::string name, const SnapshotInput& input, const Damage& damage, bool is_sound = false) {
    Bytes bytes = build(input);
    damage(bytes, header_of(bytes));
    kinds_.push_back({std::move(name), {}, std::move(bytes), is_sound});
  }
  void add_overlay(std::string name, SnapshotInput base, KeyTable keys) {
    Bytes below = build(base);
    SnapshotInput overlay = input();
    keys.asked = WEIR_AS_SOURCE;
    overlay.tables = {std::move(keys)};
    Bytes above = build(overlay, &below);
    kinds_.push_back({std::move(name), std::move(below), std::move(above), false});
  }
  std::vector<Kind> take() { return std::move(kinds_); }

 private:
  uint64_t epoch_, number_;
  std::vector<Kind> kinds_;
};

void none(Bytes&, weir_snapshot_header&) {}

// Words of /64 at the gate of IPv6 sources.
SnapshotInput gated_v6(SnapshotInput input, std::vector<KeyTable> tables) {
  input.tables = std::move(tables);
  input.gates[weir_gate_number(6, WEIR_SIDE_SOURCE)].tables = {{64, 16384}};
  return input;
}

SnapshotInput gated_v4(SnapshotInput input, KeyTable table, uint8_t bits) {
  input.tables = {std::move(table)};
  input.gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables = {{bits, 0}};
  return input;
}

void add_short_keys(Maker& maker) {
  maker.add("flows of one /1, as many as may be", gated_v4(maker.input(), flows_v4(1, 32'768), 16), none, true);
  maker.add_overlay("an overlay whose keys fill the base's gate", gated_v6(maker.input(), {keys_v6(64, 1)}),
                    keys_v6(40, 10));
}

void add_tables(Maker& maker) {
  const auto hosts = [&] { return filter::test::full_input(50, 7); };
  const auto with = [&](SnapshotInput input) {
    const SnapshotInput fresh = maker.input();
    input.epoch = fresh.epoch;
    input.number = fresh.number;
    return input;
  };
  using H = weir_snapshot_header&;
  maker.add("a set without lists", with(hosts()), [](Bytes& b, H h) { at<weir_set>(b, h.sets)[2] = {}; });
  maker.add("a list that is not there", with(hosts()), [](Bytes& b, H h) { at<weir_set>(b, h.sets)[2].lists[3] = 1; });
  maker.add("a set that is not there", with(hosts()),
            [](Bytes& b, H h) { at<weir_rule>(b, h.rules)[1].source_set = 9; });
  maker.add("a rule that is not there", with(hosts()),
            [](Bytes& b, H h) { at<weir_bucket_v4>(b, h.shapes[0].exact)[0].rule[0] = UINT32_MAX; });
  maker.add("a chunk that is not there", with(hosts()), [](Bytes& b, H h) {
    for (const weir_shape& shape : std::span(h.shapes, h.n_shapes)) {
      if (shape.layout == WEIR_LAYOUT_BITMAP) at<uint32_t>(b, shape.exact)[0] = UINT32_MAX;
    }
  });
  maker.add("networks that the header does not count", with(hosts()), [](Bytes&, H h) {
    for (weir_shape& shape : h.shapes) {
      if (shape.layout == WEIR_LAYOUT_BITMAP) shape.n_keys = UINT64_MAX;
    }
  });
  maker.add("buckets behind the end", with(hosts()), [](Bytes&, H h) { h.shapes[0].exact_buckets = 0xffffffc0; });
  maker.add("a section of 2^64 bytes", with(hosts()), [](Bytes&, H h) { h.sets.size_bytes = ~h.sets.offset + 1; });
  maker.add("more shapes than there may be", with(hosts()), [](Bytes&, H h) { h.n_shapes = UINT32_MAX; });
  maker.add(
      "every bucket overflows", with(hosts()),
      [](Bytes& b, H h) {
        auto* bucket = at<weir_bucket_v4>(b, h.shapes[0].exact);
        for (uint32_t i = 0; i < h.shapes[0].exact_buckets; i++) bucket[i].overflow = UINT32_MAX;
      },
      true);

  const auto flows = [&] { return filter::test::flow_input(50, 8); };
  const auto residuals = [](Bytes& b, H h) { return at<weir_residual>(b, h.residuals); };
  maker.add("a chain without an end", with(flows()), [=](Bytes& b, H h) { residuals(b, h)[3].last = 0; });
  maker.add("a rule into a chain", with(flows()), [](Bytes& b, H h) { at<weir_rule>(b, h.rules)[2].source_chain = 2; });
  SnapshotInput longest = with(flows());
  longest.residuals.resize(1);
  for (unsigned i = 0; i < WEIR_MAX_CHAIN; i++) {
    longest.residuals.push_back({});
    longest.residuals.back().set = 1;
    longest.residuals.back().last = i + 1 == WEIR_MAX_CHAIN ? 1 : 0;
  }
  longest.residuals.push_back(longest.residuals.back());
  longest.rules = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 1, 0}, {2, 0, 65, 0}};
  maker.add("a chain of 65", longest, [=](Bytes& b, H h) { residuals(b, h)[64].last = 0; });
  maker.add("a gate of 128 MiB in few bytes", gated_v6(maker.input(), {keys_v6(64, 1)}), [](Bytes&, H h) {
    h.gates[weir_gate_number(6, WEIR_SIDE_SOURCE)].table[0].n_words = WEIR_MAX_GATE_PAGES * WEIR_PAGE_BYTES / 8;
  });
  maker.add("a closed gate where keys stand", gated_v6(maker.input(), {keys_v6(64, 1)}), [](Bytes&, H h) {
    h.gates[weir_gate_number(6, WEIR_SIDE_SOURCE)] = {};
    h.gates[weir_gate_number(6, WEIR_SIDE_SOURCE)].kind = WEIR_GATE_CLOSED;
  });
}

uint64_t slots_of(const filter::SnapshotView& view) {
  uint64_t slots = 0;
  for (const filter::ShapeView& shape : view.shapes()) {
    if (shape.layout == WEIR_LAYOUT_BITMAP) {
      slots += WEIR_BITMAP_BYTES / sizeof(uint64_t);
      continue;
    }
    filter::with_bucket_type(shape.shape,
                             [&]<class Bucket>() { slots += shape.exact_buckets * filter::kSlots<Bucket>; });
  }
  return slots;
}

}  // namespace

std::vector<Kind> hand_made(uint64_t epoch, uint64_t first) {
  Maker maker(epoch, first);
  add_short_keys(maker);
  add_tables(maker);
  return maker.take();
}

Work work_of(const Kind& kind) {
  const Aligned bytes(kind.snapshot), base(kind.base);
  const auto view = filter::SnapshotView::open(bytes.bytes());
  if (!view) return {true, view.error(), 0};
  Work work = {false, "", slots_of(*view)};
  if (!kind.base.empty()) {
    const auto below = filter::SnapshotView::open(base.bytes());
    if (!below) return {true, below.error(), 0};
    const Result<void> stands = filter::check_overlay(*below, digest_of(kind.base), *view);
    if (!stands) return {true, stands.error(), 0};
    work.steps += filter::kMostJoined;
    filter::join_gates(*view, base.bytes());
  }
  return work;
}

uint64_t most_steps(const Kind& kind) {
  return filter::kMostJoined + kind.base.size() + kind.snapshot.size();
}

}  // namespace weir::hostile
