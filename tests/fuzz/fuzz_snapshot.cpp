// Bytes of anybody, as a snapshot: refused, or every lookup stays inside them and ends. As an overlay: it does not
// stand on its base, or its keys are joined to the base's gates within the base's bytes.
//
// The first byte of the input chooses: 0 = the rest is the snapshot; otherwise a good one (Choice below) and a list of
// edits to it, because nobody guesses a good header by chance. Good snapshots are built once; an edit is taken back
// after the execution. None is a ribbon, whose planning takes seconds under the sanitizers: an edit can make one.
//   scripts/fuzz snapshot 60

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "filter/format/residual.h"
#include "filter/probe/dispatch.h"
#include "filter/probe/exact.h"
#include "filter/read/overlay.h"
#include "filter/read/view.h"
#include "tests/fuzz/snapshot_edits.h"
#include "tests/unit/filter/inputs.h"

namespace {

using namespace weir::filter;
using namespace weir::fuzz;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct Memory {
  std::unique_ptr<std::byte, Free> bytes;
  size_t size = 0;

  std::span<const std::byte> first(size_t n) const { return {bytes.get(), n}; }
};

// Exactly `size` bytes, so that AddressSanitizer sees the first one past them.
Memory allocate(size_t size) {
  void* memory = nullptr;
  if (posix_memalign(&memory, WEIR_LINE_BYTES, size) != 0) std::abort();
  return {std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(memory)), size};
}

Memory copy_of(const void* content, size_t size) {
  Memory copy = allocate(size);
  if (size != 0) memcpy(copy.bytes.get(), content, size);
  return copy;
}

// base: null, or what the overlay stands on.
Memory good_snapshot(const SnapshotInput& input, const Memory* base = nullptr) {
  auto plan = plan_snapshot(input);
  if (!plan) std::abort();
  if (base != nullptr) {
    const weir::Digest digest = weir::digest_of(base->first(base->size));
    plan->header.base_number = input.number - 1;
    std::copy(digest.begin(), digest.end(), plan->header.base_digest);
  }
  Memory out = allocate(plan->header.total_bytes);
  memset(static_cast<void*>(out.bytes.get()), 0, out.size);
  if (!build_snapshot(input, *plan, {out.bytes.get(), out.size})) std::abort();
  return out;
}

constexpr size_t kProbes = 4;  // keys for each shape: enough to follow what an edit changed, and quick

// Whatever a validated snapshot offers: keys of its own tables and made-up ones, through both stages and on to rules,
// sets, chains and lists.
uint64_t follow(const SnapshotView& view, test::Random& random) {
  uint64_t seen = 0;
  weir_packet packet = {};
  packet.family = 4;
  packet.has = WEIR_HAS_PORTS | WEIR_HAS_ICMP_TYPE | WEIR_HAS_ICMP_CODE | WEIR_HAS_TCP_FLAGS;
  const auto follow_chain = [&](uint32_t id) {
    const weir_residual* residual = view.chain(id);
    for (unsigned i = 0;; i++) {
      if (i == WEIR_MAX_CHAIN) std::abort();
      if (weir_residual_holds(&residual[i], &packet, 0)) seen += view.set(residual[i].set).lists[0];
      if (residual[i].last) return;
    }
  };
  const auto follow_rule = [&](uint32_t id) {
    const weir_rule& rule = view.rule(id);
    seen += view.set(rule.source_set).lists[0] + view.set(rule.destination_set).lists[WEIR_LIST_WORDS - 1];
    follow_chain(rule.source_chain);
    follow_chain(rule.destination_chain);
  };
  for (const weir_list& list : view.lists()) seen += strlen(list.name) + list.n_entries;
  for (unsigned g = 0; g < WEIR_GATES; g++) {
    const GateView& gate = view.gate(g / 2 == 0 ? 4 : 6, g % 2);
    const GateView& xdp_gate = view.xdp_gate(g / 2 == 0 ? 4 : 6, g % 2);
    for (const uint64_t address : {uint64_t{0}, random.next(), ~uint64_t{0}}) {
      seen += passes_gate(gate, address) + passes_gate(xdp_gate, address);
    }
  }
  const Kernels& kernels = *all_kernels().back();
  for (const ShapeView& shape : view.shapes()) {
    const size_t exact_words = shape.layout == WEIR_LAYOUT_BITMAP ? 65536 / 2 : size_t{shape.exact_buckets} * 8;
    uint64_t column[WEIR_MAX_KEY_WORDS][kProbes];
    const uint64_t* words[WEIR_MAX_KEY_WORDS] = {column[0], column[1], column[2], column[3], column[4]};
    for (auto& word : column) {
      for (uint64_t& value : word) {
        // Half of them are bytes of the table itself: keys, rules, overflow bits at any alignment of 8.
        value = random.next() % 2 == 0 ? random.next() : load_word(shape.exact + random.next() % exact_words * 8);
      }
    }
    uint64_t hash[kProbes] = {};
    seen += filter_check(kernels, shape, words, kProbes, hash);
    for (unsigned i = 0; i < kProbes; i++) {
      const Key key = {{column[0][i], column[1][i], column[2][i], column[3][i], column[4][i]}};
      follow_rule(find_rule(shape, key));
      follow_rule(exact_find(shape, key, hash[i]));
      follow_rule(exact_find(shape, key, random.next()));  // any page, any overflow chain
    }
  }
  return seen;
}

void open_and_follow(std::span<const std::byte> bytes, uint64_t seed) {
  const auto view = SnapshotView::open(bytes);
  if (!view) {
    if (view.error().empty()) std::abort();
    return;
  }
  test::Random random(seed);
  static volatile uint64_t sink;  // keeps the compiler from leaving it out
  sink = sink + follow(*view, random);
}

KeyTable table(KeyShape shape, size_t n, weir_layout layout, test::Random& random) {
  KeyTable keys = test::random_table(shape, n, 3, random);
  for (uint32_t& rule : keys.rules) rule = rule == 1 ? 4 : 5;  // on one side only, with chains
  keys.layout = layout;
  return keys;
}

// Three lists, chains of one and of two residuals, and few keys of each kind of bucket.
SnapshotInput small(Choice choice) {
  test::Random random(1);
  SnapshotInput input = test::empty_input();
  const auto residual = [](uint32_t set, uint16_t asks, bool last) {
    weir_residual r = {};
    r.set = set;
    r.asks = asks;
    r.last = last;
    return r;
  };
  input.residuals.push_back(residual(1, WEIR_ASKS_PROTOCOL, true));
  input.residuals.push_back(residual(2, WEIR_ASKS_SPORT | WEIR_ASKS_DPORT | WEIR_ASKS_EXPIRES, false));
  input.residuals.push_back(
      residual(3, WEIR_ASKS_ICMP_TYPE | WEIR_ASKS_ICMP_CODE | WEIR_ASKS_TCP_FLAGS | WEIR_ASKS_SOURCE, true));
  input.rules.push_back({1, 0, 1, 0});
  input.rules.push_back({0, 0, 2, 0});
  input.gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables = {{16, 0}};
  input.gates[weir_gate_number(6, WEIR_SIDE_SOURCE)].tables = {{15, 0}, {64, 512}};
  input.xdp_gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables = {{16, 0}, {32, 512}};
  if (choice == Choice::networks) {
    input.networks = {{5, 5, 1}, {300, 1000, 2}, {0xffff00, 0xffffff, 3}};
    return input;
  }
  const auto add = [&](weir_layout layout, std::initializer_list<KeyShape> shapes) {
    for (const KeyShape& shape : shapes) input.tables.push_back(table(shape, 3, layout, random));
  };
  constexpr KeyShape kV4Port = {4, 32, true}, kV6 = {6, 128, false};
  constexpr KeyShape kV4Flow = {4, 32, false, true, 32, 7}, kV6Flow = {6, 128, false, true, 64, 1};
  if (choice == Choice::overlay) {
    input.number++;
    for (const KeyShape& shape : {KeyShape{4, 32, false}, kV4Port, KeyShape{4, 20, false}, kV4Flow}) {
      input.tables.push_back(table(shape, 3, WEIR_LAYOUT_LINE8, random));
      input.tables.back().asked = shape.flow ? WEIR_AS_SOURCE : WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
    }
  }
  if (choice == Choice::v4) add(WEIR_LAYOUT_LINE8, {{4, 32, false}, kV4Port});
  if (choice == Choice::v6) add(WEIR_LAYOUT_LINE8, {kV6, {6, 64, true}});
  if (choice == Choice::flows) add(WEIR_LAYOUT_LINE8, {kV4Flow, kV6Flow});
  if (choice == Choice::page2) add(WEIR_LAYOUT_PAGE2, {kV4Port});
  if (choice == Choice::page7) add(WEIR_LAYOUT_PAGE7, {kV6});
  return input;
}

const Memory& good(Choice choice) {
  static const Memory snapshots[] = {good_snapshot(small(Choice::v4)),    good_snapshot(small(Choice::v6)),
                                     good_snapshot(small(Choice::flows)), good_snapshot(small(Choice::page2)),
                                     good_snapshot(small(Choice::page7)), good_snapshot(small(Choice::networks))};
  static const Memory overlay = good_snapshot(small(Choice::overlay), &snapshots[0]);
  return choice == Choice::overlay ? overlay : snapshots[static_cast<size_t>(choice) - 1];
}

// Returns whether it stands on its base.
bool join(std::span<const std::byte> overlay_bytes) {
  static const Memory& base = good(Choice::v4);
  static const weir::Digest digest = weir::digest_of(base.first(base.size));
  const auto overlay = SnapshotView::open(overlay_bytes), base_view = SnapshotView::open(base.first(base.size));
  if (!overlay) return false;
  if (!base_view) std::abort();
  if (const auto stands = check_overlay(*base_view, digest, *overlay); !stands) {
    if (stands.error().empty()) std::abort();
    return false;
  }
  const Memory joined = copy_of(base.bytes.get(), base.size);
  join_gates(*overlay, {joined.bytes.get(), joined.size});
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Choice choice = choice_of(data[0]);
  data++, size--;
  if (choice == Choice::raw) {
    const Memory snapshot = copy_of(data, size);
    open_and_follow(snapshot.first(size), size);
    return 0;
  }
  const Memory& memory = good(choice);
  if (choice_cuts(data[-1])) {  // cut off: a copy, so that what is behind the end is poisoned
    uint32_t length = 0;
    memcpy(&length, data, size < sizeof length ? size : sizeof length);
    const Memory cut = copy_of(memory.bytes.get(), place(length, memory.size));
    open_and_follow(cut.first(cut.size), size);
    return 0;
  }
  struct Undo {
    size_t at;
    uint8_t bytes[sizeof Edit::bytes];
  };
  std::vector<Undo> undo;
  const uint64_t seed = size;
  for (Edit edit; size >= sizeof edit; data += sizeof edit, size -= sizeof edit) {
    memcpy(&edit, data, sizeof edit);
    std::byte* const at = memory.bytes.get() + place(edit.offset, memory.size - sizeof edit.bytes);
    undo.push_back({static_cast<size_t>(at - memory.bytes.get()), {}});
    memcpy(undo.back().bytes, at, sizeof edit.bytes);
    memcpy(at, edit.bytes, sizeof edit.bytes);
  }
  open_and_follow(memory.first(memory.size), seed);
  if (choice == Choice::overlay && !join(memory.first(memory.size)) && undo.empty()) std::abort();
  for (size_t i = undo.size(); i-- > 0;) memcpy(memory.bytes.get() + undo[i].at, undo[i].bytes, sizeof undo[i].bytes);
  return 0;
}
