#include "common/telemetry.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::wire;

namespace {

Message message_of(const std::vector<std::byte>& body) {
  Message message;
  message.body = body;
  return message;
}

}  // namespace

TEST_CASE("telemetry comes back as it was sent, and only when all of it is there") {
  Telemetry telemetry;
  telemetry.body.worker = 3;
  telemetry.body.burst_sizes[64] = 77;
  telemetry.pass_cycles = {{10, 1}, {20, 2}};
  telemetry.latency_cycles = {{30, 3}};
  telemetry.body.sampled = 900;
  telemetry.queues = {{1, 2, 0, 50}, {1, 3, 0, 60}};
  telemetry.sources = {{0xcb007107, 4, 0, 700}, {0x20010db800000001, 6, 0, 5}};
  std::vector<std::byte> bytes = encode_telemetry(telemetry);
  const std::optional<Telemetry> again = telemetry_from(message_of(bytes));
  REQUIRE(again);
  CHECK(again->body.worker == 3);
  CHECK(again->body.burst_sizes[64] == 77);
  CHECK(again->pass_cycles == telemetry.pass_cycles);
  CHECK(again->latency_cycles == telemetry.latency_cycles);
  CHECK(again->body.sampled == 900);
  REQUIRE(again->queues.size() == 2);
  CHECK(again->queues[1].queue == 3);
  CHECK(again->queues[1].packets == 60);
  REQUIRE(again->sources.size() == 2);
  CHECK(source_text(again->sources[0]) == "203.0.113.7");
  CHECK(again->sources[0].weight == 700);
  CHECK(source_text(again->sources[1]) == "2001:db8:0:1::/64");

  for (size_t length = 0; length < bytes.size(); length++) {
    CHECK_FALSE(telemetry_from(message_of({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)})));
  }
  TelemetryBody lies = telemetry.body;
  lies.n_pass_buckets = UINT32_MAX;
  lies.n_latency_buckets = 4;  // 2^32 + 3: the number of those there, if it wrapped
  memcpy(bytes.data(), &lies, sizeof lies);
  CHECK_FALSE(telemetry_from(message_of(bytes)));
  lies = again->body;
  lies.n_queues = 5;  // as many bytes as are there, where a queue has 16 and a source 24
  lies.n_sources = 0;
  memcpy(bytes.data(), &lies, sizeof lies);
  CHECK(telemetry_from(message_of(bytes)));
  lies.n_queues = UINT32_MAX;
  lies.n_sources = UINT32_MAX;
  memcpy(bytes.data(), &lies, sizeof lies);
  CHECK_FALSE(telemetry_from(message_of(bytes)));
  lies.n_queues = 4;
  lies.n_sources = 0;
  memcpy(bytes.data(), &lies, sizeof lies);
  CHECK_FALSE(telemetry_from(message_of(bytes)));  // more bytes than it says
}

TEST_CASE("a source of no family is not taken") {
  Telemetry telemetry;
  for (const uint32_t family : {0u, 5u, 10u, UINT32_MAX}) {
    telemetry.sources = {{1, 4, 0, 1}, {1, family, 0, 1}};
    CHECK_FALSE(telemetry_from(message_of(encode_telemetry(telemetry))));
  }
  telemetry.sources = {{1, 4, 0, 1}, {1, 6, 0, 1}};
  CHECK(telemetry_from(message_of(encode_telemetry(telemetry))));
}

TEST_CASE("full histograms, and all queues and sources, fit a message") {
  Telemetry telemetry;
  for (uint32_t i = 0; i < kHistogramBuckets; i++) telemetry.pass_cycles.push_back({bucket_upper(i), 1});
  telemetry.latency_cycles = telemetry.pass_cycles;
  telemetry.queues.resize(kMaxQueues);
  telemetry.sources.resize(kMaxSources);
  CHECK(encode_telemetry(telemetry).size() + sizeof(Header) <= kMaxMessageBytes);
}

TEST_CASE("ports come back as they were sent, and only when all of them are there") {
  Ports ports;
  ports.taken_us = 5;
  ports.ports.resize(2);
  ports.ports[1].rx_missed = 9;
  set_text(ports.ports[1].name, "net_null1");
  std::vector<std::byte> bytes = encode_ports(ports);
  const std::optional<Ports> again = ports_from(message_of(bytes));
  REQUIRE(again);
  CHECK(again->taken_us == 5);
  REQUIRE(again->ports.size() == 2);
  CHECK(again->ports[1].rx_missed == 9);
  CHECK(get_text(again->ports[1].name) == "net_null1");
  for (size_t length = 0; length < bytes.size(); length++) {
    CHECK_FALSE(ports_from(message_of({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)})));
  }
}
