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
  std::vector<std::byte> bytes = encode_telemetry(telemetry);
  const std::optional<Telemetry> again = telemetry_from(message_of(bytes));
  REQUIRE(again);
  CHECK(again->body.worker == 3);
  CHECK(again->body.burst_sizes[64] == 77);
  CHECK(again->pass_cycles == telemetry.pass_cycles);
  CHECK(again->latency_cycles == telemetry.latency_cycles);

  for (size_t length = 0; length < bytes.size(); length++) {
    CHECK_FALSE(telemetry_from(message_of({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)})));
  }
  TelemetryBody lies = telemetry.body;
  lies.n_pass_buckets = UINT32_MAX;
  lies.n_latency_buckets = 4;  // 2^32 + 3: the number of those there, if it wrapped
  memcpy(bytes.data(), &lies, sizeof lies);
  CHECK_FALSE(telemetry_from(message_of(bytes)));
}

TEST_CASE("a full histogram fits a message") {
  Telemetry telemetry;
  for (uint32_t i = 0; i < kHistogramBuckets; i++) telemetry.pass_cycles.push_back({bucket_upper(i), 1});
  telemetry.latency_cycles = telemetry.pass_cycles;
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
