// Bytes of anybody, as a snapshot: refused, or every lookup stays inside them and ends.
//
// The first byte of the input chooses: 0 = the rest is the snapshot; 1, 2 = the rest is a list of edits to a good one
// (hashed shapes; networks), because nobody guesses a good header by chance.
//   fuzz-snapshot -max_len=65536 -max_total_time=60

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/unit/filter/inputs.h"
#include "tests/unit/filter/lookups.h"

namespace {

using namespace weir::filter;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct Memory {
  std::unique_ptr<std::byte, Free> bytes;
  size_t size = 0;
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

Memory good_snapshot(const SnapshotInput& input) {
  const auto plan = plan_snapshot(input);
  if (!plan) std::abort();
  Memory out = allocate(plan->header.total_bytes);
  memset(static_cast<void*>(out.bytes.get()), 0, out.size);
  if (!build_snapshot(input, *plan, {out.bytes.get(), out.size})) std::abort();
  return out;
}

struct Edit {  // as it lies in the input
  uint32_t offset;
  uint8_t bytes[4];
};

Memory edited(const Memory& good, const uint8_t* edits, size_t size) {
  Memory copy = copy_of(good.bytes.get(), good.size);
  for (Edit edit; size >= sizeof edit; edits += sizeof edit, size -= sizeof edit) {
    memcpy(&edit, edits, sizeof edit);
    memcpy(copy.bytes.get() + edit.offset % (good.size - sizeof edit.bytes), edit.bytes, sizeof edit.bytes);
  }
  return copy;
}

SnapshotInput only_networks() {
  SnapshotInput input = test::full_input(1, 1);
  input.tables.clear();
  return input;
}

SnapshotInput only_tables() {
  SnapshotInput input = test::full_input(20, 1);
  input.networks.clear();
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Memory tables = good_snapshot(only_tables());
  static const Memory networks = good_snapshot(only_networks());
  if (size == 0) return 0;
  const uint8_t* rest = data + 1;
  const Memory snapshot = data[0] % 3 == 0   ? copy_of(rest, size - 1)
                          : data[0] % 3 == 1 ? edited(tables, rest, size - 1)
                                             : edited(networks, rest, size - 1);
  if (const auto view = SnapshotView::open({snapshot.bytes.get(), snapshot.size})) {
    test::Random random(size);
    test::follow_everything(*view, [&] { return random.next(); });
  }
  return 0;
}
