#include <cpuid.h>

#include <cstdlib>
#include <optional>

#include "common/bits.h"
#include "filter/build/rehash.h"
#include "filter/build/ribbon.h"
#include "filter/format/buckets.h"
#include "filter/format/gate.h"
#include "filter/format/packet.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"
#include "filter/layouts/line8.h"
#include "filter/probe/dispatch.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using test::Buffer;
using test::Random;

namespace {

std::vector<const Kernels*> usable_kernels() {
  std::vector<const Kernels*> usable;
  for (const Kernels* kernels : all_kernels()) {
    if (kernels->usable()) {
      usable.push_back(kernels);
    } else {
      WARN("this processor cannot run the kernels " << std::string(kernels->name) << ": not compared");
    }
  }
  return usable;
}

// n random values in memory that ends with the last one.
template <class T>
Buffer random_values(size_t n, Random& random, T mask = static_cast<T>(~T{0})) {
  Buffer buffer(n * sizeof(T));
  auto* values = reinterpret_cast<T*>(buffer.bytes().data());
  for (size_t i = 0; i < n; i++) values[i] = static_cast<T>(random.next()) & mask;
  return buffer;
}

template <class T>
const T* values(const Buffer& buffer) {
  return reinterpret_cast<const T*>(buffer.bytes().data());
}

const Kernels& scalar() {
  return *all_kernels().back();
}

}  // namespace

TEST_CASE("every kernel set hashes as the definition") {
  Random random(2);
  for (const Kernels* kernels : usable_kernels()) {
    for (unsigned n_words = 1; n_words <= WEIR_MAX_KEY_WORDS; n_words++) {
      for (unsigned n = 0; n <= kMaxBatch; n++) {
        const uint64_t secret[2] = {random.next(), random.next()};
        std::vector<Buffer> columns;
        const uint64_t* words[WEIR_MAX_KEY_WORDS] = {};
        for (unsigned w = 0; w < n_words; w++) {
          columns.push_back(random_values<uint64_t>(n, random));
          words[w] = values<uint64_t>(columns.back());
        }
        Buffer hashes(n * sizeof(uint64_t));
        kernels->siphash13(secret, words, n_words, n, reinterpret_cast<uint64_t*>(hashes.bytes().data()));
        for (unsigned i = 0; i < n; i++) {
          uint64_t key[WEIR_MAX_KEY_WORDS] = {};
          for (unsigned w = 0; w < n_words; w++) key[w] = words[w][i];
          INFO(std::string(kernels->name) << ", " << n_words << " words, key " << i << " of " << n);
          REQUIRE(values<uint64_t>(hashes)[i] == weir_siphash13(secret, key, n_words));
        }
      }
    }
  }
}

namespace {

// A filter of one layout, marked by the scalar definition, in memory that ends with its last line.
struct Marked {
  Buffer memory;
  FilterBits bits;
  std::vector<uint64_t> members;
};

Marked marked_filter(const Layout& layout, uint32_t lines, unsigned k, Random& random) {
  Marked marked{Buffer(size_t{lines} * WEIR_LINE_BYTES), {}, {}};
  const FilterWords words = {reinterpret_cast<uint64_t*>(marked.memory.bytes().data()), lines, k};
  marked.bits = {reinterpret_cast<const uint8_t*>(words.words), lines, k};
  for (uint32_t i = 0; i < lines * 40; i++) marked.members.push_back(random.next());
  if (layout.mark != nullptr) {
    for (uint64_t hash : marked.members) layout.mark(words, hash);
    return marked;
  }
  const uint32_t pages = lines / WEIR_LINES_PER_PAGE;
  for (uint32_t page = 0; page < pages; page++) {
    std::vector<uint64_t> hashes;
    for (uint64_t hash : marked.members) {
      if (weir_hash_range(hash, pages) == page) hashes.push_back(hash);
    }
    solve_ribbon_page(hashes, pages, random.next(), words.words + size_t{page} * 512);
  }
  return marked;
}

template <class Work>
void for_every_filter(Work work) {
  for (const Layout& layout : all_layouts()) {
    if (layout.id == WEIR_LAYOUT_BITMAP) continue;
    for (unsigned k = layout.min_k; k <= layout.max_k; k += layout.step_k) {
      for (uint32_t units : {1u, 2u, 15u}) {
        Random random(units + k);
        const uint32_t lines = units * layout.unit_lines;
        work(layout, marked_filter(layout, lines, k, random), random);
      }
    }
  }
}

}  // namespace

TEST_CASE("every kernel set checks every layout as the definition") {
  uint64_t hits = 0, misses = 0;
  for_every_filter([&](const Layout& layout, const Marked& filter, Random& random) {
    for (const Kernels* kernels : usable_kernels()) {
      for (unsigned n = 0; n <= kMaxBatch; n++) {
        Buffer hashes = random_values<uint64_t>(n, random);
        auto* hash = reinterpret_cast<uint64_t*>(hashes.bytes().data());
        for (unsigned i = 0; i < n; i += 2) hash[i] = filter.members[random.below(filter.members.size())];
        uint64_t expected = 0;
        for (unsigned i = 0; i < n; i++) expected |= uint64_t{layout.check(filter.bits, hash[i])} << i;
        for (unsigned i = 0; i < n; i += 2) REQUIRE((expected >> i & 1) != 0);
        const LayoutKernels& loops = kernels->layout[layout.id];
        INFO(std::string(kernels->name) << ", " << std::string(layout.name) << ", k " << filter.bits.k << ", "
                                        << filter.bits.lines << " lines, n " << n);
        loops.prefetch(filter.bits, hash, n);
        REQUIRE(loops.check(filter.bits, hash, n) == expected);
        hits += static_cast<uint64_t>(__builtin_popcountll(expected));
        misses += n - static_cast<uint64_t>(__builtin_popcountll(expected));
      }
    }
  });
  REQUIRE(hits > 10'000);  // both answers were compared
  REQUIRE(misses > 10'000);
}

TEST_CASE("every kernel set marks every layout as the definition") {
  for_every_filter([&](const Layout& layout, const Marked& filter, Random&) {
    if (layout.mark == nullptr) return;
    for (const Kernels* kernels : usable_kernels()) {
      Buffer memory(filter.memory.bytes().size());
      const FilterWords words = {reinterpret_cast<uint64_t*>(memory.bytes().data()), filter.bits.lines, filter.bits.k};
      for (size_t at = 0; at < filter.members.size();) {
        const auto n = static_cast<unsigned>(std::min<size_t>(1 + at % kMaxBatch, filter.members.size() - at));
        kernels->layout[layout.id].mark(words, filter.members.data() + at, n);
        at += n;
      }
      INFO(std::string(kernels->name) << ", " << std::string(layout.name) << ", k " << filter.bits.k);
      REQUIRE(std::equal(memory.bytes().begin(), memory.bytes().end(), filter.memory.bytes().begin()));
    }
  });
}

TEST_CASE("a woven step hashes, and tests, as its parts alone") {
  Random random(31);
  const Layout& line8 = layout_of(WEIR_LAYOUT_LINE8);
  const Marked fetched = marked_filter(line8, 77, 8, random), tested = marked_filter(line8, 1000, 8, random);
  for (const Kernels* kernels : usable_kernels()) {
    for (unsigned n_words = 1; n_words <= WEIR_MAX_KEY_WORDS; n_words++) {
      for (int round = 0; round < 400; round++) {
        const uint64_t secret[2] = {random.next(), random.next()};
        uint64_t columns[WEIR_MAX_KEY_WORDS][kMaxBatch], fetch[kMaxBatch], test[kMaxBatch];
        const uint64_t* words[WEIR_MAX_KEY_WORDS];
        for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) {
          words[w] = columns[w];
          for (uint64_t& word : columns[w]) word = random.next();
        }
        for (uint64_t& hash : fetch) hash = random.next();
        for (uint64_t& hash : test) hash = random.below(2) != 0 ? random.next() : tested.members[random.below(1000)];
        // Every combination of missing, short and full batches.
        const auto some = [&] { return static_cast<unsigned>(std::min<uint64_t>(random.below(100), kMaxBatch)); };
        uint64_t hash[kMaxBatch] = {}, expected_hash[kMaxBatch] = {};
        Line8Step step;
        step.n_hash = random.below(4) == 0 ? 0 : some();
        if (step.n_hash != 0) {  // a batch that is missing has no columns either
          step.secret = secret;
          step.words = words;
          step.n_words = n_words;
          step.hash = hash;
        }
        step.n_fetch = random.below(3) == 0 ? 0 : some();
        if (step.n_fetch != 0) {
          step.fetch_filter = fetched.bits;
          step.fetch_hash = fetch;
        }
        step.n_test = random.below(3) == 0 ? 0 : some();
        if (step.n_test != 0) {
          step.test_filter = tested.bits;
          step.test_hash = test;
        }
        const uint64_t hits = kernels->line8_step(step);
        INFO(std::string(kernels->name) << ", words " << n_words << ", hash " << step.n_hash << ", fetch "
                                        << step.n_fetch << ", test " << step.n_test);
        scalar().siphash13(secret, words, n_words, step.n_hash, expected_hash);
        REQUIRE(std::equal(hash, hash + step.n_hash, expected_hash));
        REQUIRE(hits == scalar().layout[WEIR_LAYOUT_LINE8].check(tested.bits, test, step.n_test));
      }
    }
  }
}

TEST_CASE("every kernel set checks bitmaps as the definition") {
  Random random(3);
  Buffer bitmap = random_values<uint64_t>(WEIR_BITMAP_BYTES / 8, random);
  const auto* bits = values<uint8_t>(bitmap);
  for (const Kernels* kernels : usable_kernels()) {
    for (unsigned n = 0; n <= kMaxBatch; n++) {
      Buffer indexes = random_values<uint64_t>(n, random, WEIR_BITMAP_BITS - 1);
      auto* index = reinterpret_cast<uint64_t*>(indexes.bytes().data());
      if (n > 0) index[n - 1] = WEIR_BITMAP_BITS - 1;
      uint64_t expected = 0;
      for (unsigned i = 0; i < n; i++)
        expected |= uint64_t{weir_bitmap_check(bits, static_cast<uint32_t>(index[i]))} << i;
      INFO(std::string(kernels->name) << ", n " << n);
      REQUIRE(kernels->layout[WEIR_LAYOUT_BITMAP].check({bits, WEIR_BITMAP_BYTES / WEIR_LINE_BYTES, 1}, index, n) ==
              expected);
    }
  }
}

namespace {

// Buckets with members in them, and keys to look up: members, strangers, and keys whose bytes a free slot happens to
// have.
struct Table {
  KeyShape shape;
  Buffer memory;
  uint32_t n_buckets;
  std::vector<Key> keys;
  std::vector<uint64_t> hashes;

  const uint8_t* bytes() const { return values<uint8_t>(memory); }
  void add(const Key& key, uint64_t hash) {
    keys.push_back(key);
    hashes.push_back(hash);
  }
};

// One page: so full that many keys lie far behind their own buckets; half full; or of random bytes, which no builder
// writes and a lookup must survive.
enum class Fill { crowded, half, random };

Table make_table(KeyShape shape, Fill fill, Random& random) {
  const uint32_t n_buckets = buckets_per_page(shape);
  Table table = {shape,
                 fill == Fill::random ? random_values<uint64_t>(WEIR_PAGE_BYTES / 8, random) : Buffer(WEIR_PAGE_BYTES),
                 n_buckets,
                 {},
                 {}};
  with_bucket_type(shape, [&]<class Bucket>() {
    auto* buckets = reinterpret_cast<Bucket*>(table.memory.bytes().data());
    const uint32_t slots = n_buckets * kSlots<Bucket>;
    const uint32_t members = fill == Fill::crowded ? slots * 95 / 100 : slots / 2;
    for (uint32_t i = 0; fill != Fill::random && i < members; i++) {
      Key key = random.key(shape);
      if (i == 0) key = {};  // what free slots hold
      const uint64_t hash = random.next();
      if (insert_into_buckets(buckets, n_buckets, key, hash, i + 1) == Insertion::done) table.add(key, hash);
    }
    for (uint32_t i = 0; i < n_buckets * kSlots<Bucket>; i++) {  // as they lie there, and with one word or bit changed
      Key key;
      const Bucket& bucket = buckets[i / kSlots<Bucket>];
      for (unsigned w = 0; w < key_words(shape); w++) key.word[w] = slot_word(bucket, i % kSlots<Bucket>, w);
      const uint64_t own = uint64_t{static_cast<uint32_t>(first_hash_of(i / kSlots<Bucket>, n_buckets))} << 32;
      table.add(key, own | (random.next() & 0xffffffff));
      table.add(key, random.next());
      const unsigned w = static_cast<unsigned>(random.below(key_words(shape)));
      key.word[w] ^= shape.family == 4 && !shape.with_port && !shape.flow ? uint64_t{1} << random.below(32)
                                                                          : uint64_t{1} << random.below(64);
      table.add(key, own | (random.next() & 0xffffffff));
    }
  });
  for (int i = 0; i < 200; i++) table.add(random.key(shape), random.next());
  return table;
}

// Every kind of mask that a lookup is asked with: all of a batch, many of them, one, none.
std::vector<uint64_t> wanted_masks(Random& random) {
  std::vector<uint64_t> masks = {0, 1, uint64_t{1} << 63, ~uint64_t{0}, random.next(), random.next() & random.next()};
  for (unsigned n = 1; n < kMaxBatch; n++) masks.push_back((uint64_t{1} << n) - 1);
  for (int i = 0; i < 4; i++) masks.push_back(uint64_t{1} << random.below(64) | uint64_t{1} << random.below(64));
  return masks;
}

}  // namespace

TEST_CASE("every kernel set finds what the definition finds, in buckets of every type") {
  const std::vector<KeyShape> shapes = {
      {4, 32, false},
      {4, 32, true},
      {6, 128, false},
      {6, 128, true},
      {6, 128, false, true, 128, WEIR_FLOW_PROTOCOL | WEIR_FLOW_SPORT | WEIR_FLOW_DPORT}};
  for (unsigned type = 0; type < kBucketTypes; type++) REQUIRE(bucket_type(shapes[type]) == type);
  for (KeyShape shape : shapes) {
    for (Fill fill : {Fill::crowded, Fill::half, Fill::random}) {
      Random random(51 + bucket_type(shape));
      const Table table = make_table(shape, fill, random);
      uint64_t hits = 0, misses = 0;
      for (uint64_t wanted : wanted_masks(random)) {
        const unsigned n = 64 - static_cast<unsigned>(wanted == 0 ? 64 : __builtin_clzll(wanted));
        std::vector<Buffer> columns;  // memory that ends with the last wanted key
        const uint64_t* words[WEIR_MAX_KEY_WORDS] = {};
        for (unsigned w = 0; w < key_words(shape); w++) {
          columns.emplace_back(n * sizeof(uint64_t));
          words[w] = values<uint64_t>(columns.back());
        }
        Buffer hash_column(n * sizeof(uint64_t));
        auto* hashes = reinterpret_cast<uint64_t*>(hash_column.bytes().data());
        uint32_t expected[kMaxBatch];
        for (unsigned i = 0; i < n; i++) {
          const size_t pick = random.below(table.keys.size());
          for (unsigned w = 0; w < key_words(shape); w++) {
            reinterpret_cast<uint64_t*>(columns[w].bytes().data())[i] = table.keys[pick].word[w];
          }
          hashes[i] = table.hashes[pick];
          expected[i] = with_bucket_type(shape, [&]<class Bucket>() {
            const auto* buckets = reinterpret_cast<const Bucket*>(table.bytes());
            return find_in_buckets(buckets, table.n_buckets, table.keys[pick], table.hashes[pick]);
          });
        }
        for (const Kernels* kernels : usable_kernels()) {
          uint32_t rule[kMaxBatch];
          const BucketKernels& loops = kernels->buckets[bucket_type(shape)];
          uint64_t behind = 0;
          uint64_t found = loops.find(table.bytes(), table.n_buckets, words, hashes, wanted, rule, &behind);
          REQUIRE((behind & (found | ~wanted)) == 0);
          found |= loops.find_behind(table.bytes(), table.n_buckets, words, hashes, behind, rule);
          INFO(std::string(kernels->name) << ", bucket type " << unsigned{bucket_type(shape)} << ", wanted " << wanted);
          REQUIRE((found & ~wanted) == 0);
          for (unsigned i = 0; i < n; i++) {
            if ((wanted >> i & 1) == 0) continue;
            REQUIRE((found >> i & 1) == (expected[i] != 0));
            if (expected[i] != 0) REQUIRE(rule[i] == expected[i]);
            (expected[i] != 0 ? hits : misses)++;
          }
        }
      }
      REQUIRE(hits > 400 * usable_kernels().size());
      REQUIRE(misses > 400 * usable_kernels().size());
    }
  }
}

TEST_CASE("a marked key is found, whatever else is marked") {
  Random random(4);
  uint64_t line[8] = {};
  for (int i = 0; i < 200; i++) {
    const uint64_t hash = random.next();
    weir_line8_mark(line, hash);
    REQUIRE(weir_line8_check(line, hash) == 1);
    unsigned bits = 0;
    uint64_t alone[8] = {};
    weir_line8_mark(alone, hash);
    for (uint64_t word : alone) bits += static_cast<unsigned>(__builtin_popcountll(word));
    REQUIRE(bits == 8);
  }
}

TEST_CASE("WEIR_FORCE_ISA chooses, and refuses what it cannot give") {
  unsetenv("WEIR_FORCE_ISA");
  const auto best = choose_kernels();
  REQUIRE(best);
  REQUIRE((*best)->usable());
  REQUIRE(all_kernels().back()->name == "scalar");
  for (const Kernels* kernels : all_kernels()) {
    setenv("WEIR_FORCE_ISA", std::string(kernels->name).c_str(), 1);
    const auto chosen = choose_kernels();
    REQUIRE(bool(chosen) == kernels->usable());
    if (chosen) REQUIRE(*chosen == kernels);
    if (!chosen) REQUIRE_THAT(chosen.error(), Catch::Matchers::Contains("lacks the instructions"));
  }
  for (const char* wrong : {"", "avx", "SCALAR", "scalar "}) {
    setenv("WEIR_FORCE_ISA", wrong, 1);
    const auto chosen = choose_kernels();
    REQUIRE_FALSE(chosen);
    REQUIRE_THAT(chosen.error(),
                 Catch::Matchers::Contains(std::string("WEIR_FORCE_ISA=") + wrong + ": no such kernels"));
  }
  unsetenv("WEIR_FORCE_ISA");
}

TEST_CASE("every kernel set asks a gate of IPv4 as the definition") {
  Random random(9);
  for (unsigned prefix_bits = 16; prefix_bits <= 28; prefix_bits += 4) {
    const Buffer table = random_values<uint64_t>((size_t{1} << prefix_bits) / 64, random);
    const uint64_t* bits = values<uint64_t>(table);
    const Buffer column = random_values<uint64_t>(kMaxBatch + 8, random);
    const uint64_t* addresses = values<uint64_t>(column);
    for (const Kernels* kernels : usable_kernels()) {
      for (unsigned n = 0; n <= kMaxBatch; n++) {
        for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
          uint64_t expected = 0;
          for (unsigned i = 0; i < n; i++) {
            const uint64_t address = weir_gate_address_v4(static_cast<uint32_t>(addresses[i] >> (side * 32)));
            expected |= uint64_t{weir_gate_bit(bits, weir_gate_index(prefix_bits, prefix_bits, 0, address))} << i;
          }
          INFO(std::string(kernels->name) << ", /" << prefix_bits << ", " << n << " packets, side " << side);
          REQUIRE(kernels->gate_v4(bits, prefix_bits, addresses, side, n) == expected);
        }
      }
    }
  }
}

namespace {

// The processor's list of register states in use (XGETBV with XCR 1): bit 2 are the upper halves of AVX's registers.
// Nothing where it cannot be asked.
std::optional<bool> upper_halves_in_use() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & 4) == 0) return std::nullopt;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) return std::nullopt;
  asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(1));
  return (eax & 4) != 0;
}

}  // namespace

TEST_CASE("no kernel leaves upper halves of vectors in use: SSE, which all other code has, would be slow") {
  if (!upper_halves_in_use()) {
    WARN("this processor does not tell which registers are in use: not looked at");
    return;
  }
  Random random(10);
  const Buffer table = random_values<uint64_t>(1 << 16, random);
  const Buffer column = random_values<uint64_t>(kMaxBatch + 8, random);
  const uint64_t* bits = values<uint64_t>(table);
  const uint64_t* words[WEIR_MAX_KEY_WORDS];
  for (const uint64_t*& word : words) word = values<uint64_t>(column);
  const uint64_t secret[2] = {1, 2};
  const FilterBits filter = {reinterpret_cast<const uint8_t*>(bits), (1 << 19) / WEIR_LINE_BYTES, 8};
  for (const Kernels* kernels : usable_kernels()) {
    const auto look = [&](const char* kernel, const auto& call) {
      asm volatile("vzeroupper");
      call();
      const bool in_use = *upper_halves_in_use();
      asm volatile("vzeroupper");
      INFO(std::string(kernels->name) << ", " << kernel);
      CHECK_FALSE(in_use);
    };
    for (const unsigned n : {1u, 3u, 33u, 64u}) {
      uint64_t hash[kMaxBatch], behind = 0;
      uint32_t rule[kMaxBatch];
      look("gate", [&] { kernels->gate_v4(bits, 21, words[0], WEIR_SIDE_SOURCE, n); });
      for (unsigned n_words = 1; n_words <= WEIR_MAX_KEY_WORDS; n_words++) {
        look("hash", [&] { kernels->siphash13(secret, words, n_words, n, hash); });
        Line8Step step;
        step.words = words;
        step.n_words = n_words;
        step.n_hash = n;
        step.hash = hash;
        step.secret = secret;
        look("step", [&] { kernels->line8_step(step); });
      }
      for (const weir_layout layout : {WEIR_LAYOUT_LINE8, WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_PAGE7, WEIR_LAYOUT_RIBBON}) {
        look("prefetch", [&] { kernels->layout[layout].prefetch(filter, hash, n); });
        look("check", [&] { kernels->layout[layout].check(filter, hash, n); });
      }
      for (const BucketKernels& buckets : kernels->buckets) {
        for (const uint64_t wanted : {weir::low_bits(n), weir::low_bits(n) & 0x5555'5555'5555'5555}) {
          look("find", [&] { buckets.find(filter.bits, 1024, words, hash, wanted, rule, &behind); });
          look("find behind", [&] { buckets.find_behind(filter.bits, 1024, words, hash, wanted, rule); });
        }
      }
    }
  }
}
