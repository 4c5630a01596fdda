#include <cstdlib>

#include "filter/dispatch.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/siphash.h"
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

TEST_CASE("every kernel set checks line8 as the definition") {
  for (const Kernels* kernels : usable_kernels()) {
    for (uint32_t lines : {1u, 2u, 63u, 64u, 65u, 1000u}) {
      Random random(lines);
      Buffer filter(size_t{lines} * WEIR_LINE_BYTES);
      auto* words = reinterpret_cast<uint64_t*>(filter.bytes().data());
      std::vector<uint64_t> members;
      for (uint32_t i = 0; i < lines * 20; i++) {
        members.push_back(random.next());
        weir_line8_mark(words + size_t{weir_hash_range(members.back(), lines)} * 8, members.back());
      }
      uint64_t hits = 0, misses = 0;
      for (unsigned n = 0; n <= kMaxBatch; n++) {
        Buffer hashes = random_values<uint64_t>(n, random);
        auto* hash = reinterpret_cast<uint64_t*>(hashes.bytes().data());
        for (unsigned i = 0; i < n; i += 2) hash[i] = members[random.below(members.size())];
        uint64_t expected = 0;
        for (unsigned i = 0; i < n; i++) {
          const uint64_t* line = words + size_t{weir_hash_range(hash[i], lines)} * 8;
          expected |= uint64_t{weir_line8_check(line, hash[i])} << i;
        }
        kernels->prefetch(reinterpret_cast<const uint8_t*>(words), lines, hash, n);
        INFO(std::string(kernels->name) << ", " << lines << " lines, n " << n);
        REQUIRE(kernels->line8_check(reinterpret_cast<const uint8_t*>(words), lines, hash, n) == expected);
        hits += static_cast<uint64_t>(__builtin_popcountll(expected));
        misses += n - static_cast<uint64_t>(__builtin_popcountll(expected));
      }
      REQUIRE(hits > 500);  // both answers were compared
      REQUIRE(misses > 500);
    }
  }
}

TEST_CASE("every kernel set checks bitmaps as the definition") {
  Random random(3);
  Buffer bitmap = random_values<uint64_t>(WEIR_BITMAP_BYTES / 8, random);
  const auto* bits = values<uint8_t>(bitmap);
  for (const Kernels* kernels : usable_kernels()) {
    for (unsigned n = 0; n <= kMaxBatch; n++) {
      Buffer indexes = random_values<uint32_t>(n, random, WEIR_BITMAP_BITS - 1);
      auto* index = reinterpret_cast<uint32_t*>(indexes.bytes().data());
      if (n > 0) index[n - 1] = WEIR_BITMAP_BITS - 1;
      uint64_t expected = 0;
      for (unsigned i = 0; i < n; i++) expected |= uint64_t{weir_bitmap_check(bits, index[i])} << i;
      INFO(std::string(kernels->name) << ", n " << n);
      REQUIRE(kernels->bitmap_check(bits, index, n) == expected);
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
