#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <random>

#include "dataplane/burst/spread.h"
#include "dataplane/ports/mbuf_pools.h"
#include "dataplane/ports/rss.h"
#include "tests/catch.h"

using namespace weir::dataplane;

namespace {

constexpr uint16_t kQueues = 4;

using Bytes = std::array<uint8_t, 54>;

uint16_t queue_of(Bytes bytes) {
  rte_mbuf mbuf = {};
  mbuf.buf_addr = bytes.data();
  mbuf.data_len = static_cast<uint16_t>(bytes.size());
  mbuf.pkt_len = mbuf.data_len;
  return spread_queue(mbuf, kQueues);
}

// Ethernet, then IPv4 or IPv6 without a payload. a, b: numbers of the hosts.
Bytes frame(bool v6, uint8_t a, uint8_t b) {
  Bytes bytes = {};
  bytes[12] = v6 ? 0x86 : 0x08;
  bytes[13] = v6 ? 0xdd : 0x00;
  if (v6) {
    bytes[14] = 0x60;
    bytes[20] = 59;  // no next header
    bytes[22] = bytes[38] = 0x20;
    bytes[37] = a;
    bytes[53] = b;
  } else {
    bytes[14] = 0x45;
    bytes[17] = 20;
    bytes[23] = 17;
    bytes[26] = bytes[30] = 10;
    bytes[29] = a;
    bytes[33] = b;
  }
  return bytes;
}

}  // namespace

TEST_CASE("spread: both directions of a pair of hosts have one queue, and all queues are used") {
  for (const bool v6 : {false, true}) {
    std::array<int, kQueues> hits = {};
    for (int a = 0; a < 64; a++) {
      for (int b = 64; b < 128; b++) {
        const auto x = static_cast<uint8_t>(a), y = static_cast<uint8_t>(b);
        const uint16_t queue = queue_of(frame(v6, x, y));
        REQUIRE(queue < kQueues);
        REQUIRE(queue_of(frame(v6, y, x)) == queue);
        hits[queue]++;
      }
    }
    for (const int n : hits) CHECK(n > 4096 / kQueues / 2);
  }
  CHECK(queue_of(Bytes{}) == 0);  // not IP
}

// Of addresses and ports as they stand in an IPv4 header: the Toeplitz hash of RSS, bit by bit.
uint32_t toeplitz(const std::vector<uint8_t>& key, const std::array<uint16_t, 6>& words) {
  const auto key_bit = [&](size_t bit) { return static_cast<uint32_t>(key[bit / 8] >> (7 - bit % 8) & 1); };
  uint32_t hash = 0;
  for (size_t bit = 0; bit < words.size() * 16; bit++) {
    if ((words[bit / 16] >> (15 - bit % 16) & 1) == 0) continue;
    uint32_t window = 0;
    for (size_t i = 0; i < 32; i++) window = window << 1 | key_bit(bit + i);
    hash ^= window;
  }
  return hash;
}

TEST_CASE("whoever chooses addresses and ports cannot choose the queue") {
  constexpr int kKeys = 50, kFlows = 200, kRssQueues = 8;
  std::mt19937 random(1);
  for (int k = 0; k < kKeys; k++) {
    const std::vector<uint8_t> key = random_rss_key(40);
    int in_queue[kRssQueues] = {};
    for (int flow = 0; flow < kFlows; flow++) {
      std::array<uint16_t, 6> words;  // source, destination, ports
      for (uint16_t& word : words) word = static_cast<uint16_t>(random());
      words[4] = words[0] ^ words[1] ^ words[2] ^ words[3] ^ words[5] ^ 0x1234;  // the source port: one XOR for all
      in_queue[toeplitz(key, words) % kRssQueues]++;
    }
    // 25 are expected in each.
    CHECK(*std::max_element(in_queue, in_queue + kRssQueues) < kFlows / 2);
  }
}

// How many values the lowest `bits` of the hash take while word i of the input takes each of the 65,536, and word j the
// same (i may be j), and all others stay.
size_t values_reached(const std::vector<uint8_t>& key, size_t i, size_t j, unsigned bits) {
  uint32_t column[16];  // the hash of each bit of the word alone: the hash of several is their XOR
  for (unsigned bit = 0; bit < 16; bit++) {
    const auto words_hash = [&](size_t word) {
      uint32_t hash = 0;
      for (unsigned k = 0; k < 32; k++) {
        const size_t at = word * 16 + 15 - bit + k;
        hash = hash << 1 | static_cast<uint32_t>(key[at / 8] >> (7 - at % 8) & 1);
      }
      return hash;
    };
    column[bit] = i == j ? words_hash(i) : words_hash(i) ^ words_hash(j);
  }
  std::vector<bool> reached(size_t{1} << bits);
  uint32_t hash = 0;
  for (unsigned n = 1; n <= 65536; n++) {  // a Gray code: one bit changes at a time
    reached[hash & (reached.size() - 1)] = true;
    hash ^= column[static_cast<unsigned>(__builtin_ctz(n)) % 16];
  }
  return static_cast<size_t>(std::count(reached.begin(), reached.end(), true));
}

TEST_CASE("whoever varies one word of a frame, or two alike, reaches every queue") {
  for (const size_t key_bytes : {40u, 52u}) {
    for (int k = 0; k < 2; k++) {
      const std::vector<uint8_t> key = random_rss_key(key_bytes);
      const size_t words = (key_bytes * 8 - 32) / 16;
      for (size_t i = 0; i < words; i++) {
        for (size_t j = 0; j <= i; j++) REQUIRE(values_reached(key, i, j, 9) == 512);
      }
    }
  }
}

TEST_CASE("an RSS key may have any length") {
  for (const size_t key_bytes : {0u, 4u, 5u, 16u, 255u}) CHECK(random_rss_key(key_bytes).size() == key_bytes);
}

TEST_CASE("an RSS key is refused whose bits leave queues out") {
  std::vector<uint8_t> key = random_rss_key(40);
  REQUIRE(has_even_words(key));
  constexpr size_t kSourcePort = 4;  // of IPv4: word 4; the lowest 7 bits of its hash come from key bits 89 to 110
  std::vector<uint8_t> none = key;
  for (size_t bit = 89; bit <= 110; bit++) none[bit / 8] &= static_cast<uint8_t>(~(0x80u >> bit % 8));
  CHECK(values_reached(none, kSourcePort, kSourcePort, 7) == 1);
  CHECK_FALSE(has_even_words(none));
  // Words that have the same part of the key cancel each other where they vary alike. That is what a key does that
  // repeats 16 bits.
  std::vector<uint8_t> repeats(40);
  for (size_t i = 0; i < repeats.size(); i++) repeats[i] = i % 2 == 0 ? 0x6d : 0x5a;
  CHECK(values_reached(repeats, 0, 1, 9) == 1);
  CHECK_FALSE(has_even_words(repeats));
  CHECK_FALSE(has_even_words(std::vector<uint8_t>(40)));
}

TEST_CASE("of random RSS keys one in 1,000 keeps whoever varies the source port from half of 128 queues") {
  std::mt19937 random(1);
  constexpr int kKeys = 100'000;
  int weak = 0;
  for (int k = 0; k < kKeys; k++) {
    std::vector<uint8_t> key(40);
    for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
    // The rows of the lowest 7 bits are dependent when some XOR of them is 0: counted one by one.
    uint32_t rows[7];
    for (unsigned bit = 0; bit < 7; bit++) {
      rows[bit] = 0;
      for (unsigned i = 0; i < 16; i++) {
        const unsigned at = 64 + 31 - bit + i;
        rows[bit] = rows[bit] << 1 | static_cast<uint32_t>(key[at / 8] >> (7 - at % 8) & 1);
      }
    }
    bool dependent = false;
    for (unsigned some = 1; some < 128; some++) {
      uint32_t sum = 0;
      for (unsigned bit = 0; bit < 7; bit++) sum ^= (some >> bit & 1) != 0 ? rows[bit] : 0;
      dependent = dependent || sum == 0;
    }
    weak += dependent ? 1 : 0;
    if (dependent) REQUIRE_FALSE(has_even_words(key));
  }
  CHECK(weak > kKeys / 1024 / 2);  // 2^-(16 - 7 + 1): Daykin, "Distribution of bordered persymmetric matrices", 1960
  CHECK(weak < kKeys / 1024 * 2);
}

TEST_CASE("each RSS key is another one, without a pattern") {
  const std::vector<uint8_t> key = random_rss_key(52);
  REQUIRE(key.size() == 52);
  CHECK(random_rss_key(52) != key);
  bool repeats = true;
  for (size_t i = 2; i < key.size(); i++) repeats = repeats && key[i] == key[i % 2];
  CHECK_FALSE(repeats);
  CHECK(rss_names(0).empty());
  CHECK(rss_names(wanted_rss()).find("ipv4-tcp") != std::string::npos);
}

TEST_CASE("a pool holds what rings, caches and the frames that wait in every worker hold") {
  constexpr uint32_t kCaches = 384;  // rte_mempool flushes a cache of 256 there
  for (const unsigned workers : {1u, 2u, 16u}) {
    CHECK(MbufPools::size_for(4096, workers) >= 4096 + workers * (kMostFramesHeld + kCaches));
  }
}
