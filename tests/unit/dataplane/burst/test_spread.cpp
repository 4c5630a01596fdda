#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <random>

#include "dataplane/burst/flight.h"
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

TEST_CASE("a pool holds what rings, caches and every worker's flight hold") {
  constexpr uint32_t kCaches = 384;  // rte_mempool flushes a cache of 256 there
  for (const unsigned workers : {1u, 2u, 16u}) {
    CHECK(MbufPools::size_for(4096, workers) >= 4096 + workers * (kMostFramesHeld + kCaches));
  }
}
