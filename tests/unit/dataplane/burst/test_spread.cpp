#include <rte_mbuf.h>

#include <array>

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

TEST_CASE("the RSS key repeats 16 bits, so that swapped addresses and ports give the same hash") {
  const std::vector<uint8_t> key = symmetric_rss_key(52);
  REQUIRE(key.size() == 52);
  for (size_t i = 2; i < key.size(); i++) CHECK(key[i] == key[i % 2]);
  CHECK(symmetric_rss_key(52) == key);  // on every port: the two directions of a flow come in by different ones
  CHECK(rss_names(0).empty());
  CHECK(rss_names(wanted_rss()).find("ipv4-tcp") != std::string::npos);
}

TEST_CASE("a pool holds what rings, caches and every worker's flight hold") {
  constexpr uint32_t kCaches = 384;  // rte_mempool flushes a cache of 256 there
  for (const unsigned workers : {1u, 2u, 16u}) {
    CHECK(MbufPools::size_for(4096, workers) >= 4096 + workers * (kMostFramesHeld + kCaches));
  }
}
