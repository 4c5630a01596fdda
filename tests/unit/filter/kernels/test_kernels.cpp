// Hash and filters by kernels, beside their definition; and which kernels run.
#include <cpuid.h>

#include <cstdlib>
#include <optional>

#include "common/bits.h"
#include "filter/build/ribbon.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"
#include "filter/layouts/line8.h"
#include "tests/unit/filter/kernels/kernels.h"

using namespace weir::filter;
using namespace weir::filter::test;

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
    if (!chosen) REQUIRE_THAT(chosen.error(), Catch::Matchers::ContainsSubstring("lacks the instructions"));
  }
  for (const char* wrong : {"", "avx", "SCALAR", "scalar "}) {
    setenv("WEIR_FORCE_ISA", wrong, 1);
    const auto chosen = choose_kernels();
    REQUIRE_FALSE(chosen);
    REQUIRE_THAT(chosen.error(),
                 Catch::Matchers::ContainsSubstring(std::string("WEIR_FORCE_ISA=") + wrong + ": no such kernels"));
  }
  unsetenv("WEIR_FORCE_ISA");
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
    say_skipped("processors: this one does not tell which registers are in use");
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
      uint64_t packed[kMaxBatch + kPackRoom];
      look("pack", [&] { kernels->pack(words[0], weir::low_bits(n) & 0x5555'5555'5555'5555, n, packed); });
      uint64_t hash[kMaxBatch], behind = 0;
      uint32_t rule[kMaxBatch];
      look("gate", [&] { kernels->gate_v4(bits, 21, words[0], WEIR_SIDE_SOURCE, n); });
      const GateWords gate_words = {bits, 512, 32, 1};
      look("words", [&] { kernels->gate_words_v4(gate_words, words[0], WEIR_SIDE_SOURCE, n); });
      look("words of IPv6", [&] { kernels->gate_words_v6(gate_words, words[0], n); });
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
