// The exact stage and gates by kernels, beside their definition.
#include "common/bits.h"
#include "filter/build/rehash.h"
#include "filter/format/buckets.h"
#include "filter/format/gate.h"
#include "filter/format/packet.h"
#include "tests/unit/filter/kernels/kernels.h"

using namespace weir::filter;
using namespace weir::filter::test;

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
            expected |= uint64_t{weir_gate_knows(bits, prefix_bits, 0, 0, address)} << i;
          }
          INFO(std::string(kernels->name) << ", /" << prefix_bits << ", " << n << " packets, side " << side);
          REQUIRE(kernels->gate_v4(bits, prefix_bits, addresses, side, n) == expected);
        }
      }
    }
  }
}

TEST_CASE("every kernel set asks words of a gate as the definition") {
  Random random(10);
  for (const uint32_t n_words : {512u, 3 * 512u, 1u << 20}) {
    const Buffer table = random_values<uint64_t>(n_words, random);
    const Buffer v4 = random_values<uint64_t>(kMaxBatch + 8, random),
                 v6 = random_values<uint64_t>(kMaxBatch + 8, random);
    for (const unsigned prefix_bits : {1u, 17u, 31u, 32u, 33u, 48u, 64u}) {
      const GateWords words = {values<uint64_t>(table), n_words, prefix_bits, random.next() | 1};
      const auto knows = [&](uint64_t address) {
        return weir_gate_knows(words.words, prefix_bits, n_words, words.multiplier, address);
      };
      for (const Kernels* kernels : usable_kernels()) {
        for (unsigned n = 0; n <= kMaxBatch; n++) {
          INFO(std::string(kernels->name) << ", /" << prefix_bits << ", " << n << " packets");
          for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
            if (prefix_bits > 32) continue;
            uint64_t expected = 0;
            for (unsigned i = 0; i < n; i++) {
              expected |=
                  uint64_t{knows(weir_gate_address_v4(static_cast<uint32_t>(values<uint64_t>(v4)[i] >> (side * 32))))}
                  << i;
            }
            REQUIRE(kernels->gate_words_v4(words, values<uint64_t>(v4), side, n) == expected);
          }
          uint64_t expected = 0;
          for (unsigned i = 0; i < n; i++) {
            expected |= uint64_t{knows(weir_gate_address_v6(values<uint64_t>(v6)[i]))} << i;
          }
          REQUIRE(kernels->gate_words_v6(words, values<uint64_t>(v6), n) == expected);
        }
      }
    }
  }
}

TEST_CASE("every kernel set packs words as the definition, and reads no word behind the last") {
  Random random(11);
  for (const uint64_t wanted : wanted_masks(random)) {
    for (unsigned n = 0; n <= kMaxBatch; n++) {
      const Buffer column = random_values<uint64_t>(n, random);
      const uint64_t* from = values<uint64_t>(column);
      std::vector<uint64_t> expected;
      for (unsigned i = 0; i < n; i++) {
        if ((wanted >> i & 1) != 0) expected.push_back(from[i]);
      }
      for (const Kernels* kernels : usable_kernels()) {
        std::vector<uint64_t> to(expected.size() + kPackRoom);
        kernels->pack(from, n == kMaxBatch ? wanted : wanted & ((uint64_t{1} << n) - 1), n, to.data());
        to.resize(expected.size());
        INFO(std::string(kernels->name) << ", " << n << " words, mask " << wanted);
        REQUIRE(to == expected);
      }
    }
  }
}
