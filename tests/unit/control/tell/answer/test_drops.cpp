// A line of the log of drops: what it says of a packet, as JSON for programs, and that it is read again as it was
// written.
#include <net/if.h>

#include <cstring>

#include "control/base/json/json.h"
#include "control/tell/answer/drops.h"
#include "control/tell/answer/text.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

Drop drop_of(const std::string& packet, wire::DroppedBy by = wire::DroppedBy::list) {
  Drop drop;
  wire::Sample& sample = drop.frame.sample;
  sample.generation = {0xabc, 7};
  sample.time_unix_ns = 1'764'547'200'000'001'999;  // 2025-12-01T00:00:00Z and 1999 ns
  sample.dropped_by = by;
  sample.port = 3;
  sample.queue = 1;
  sample.frame_bytes = 74;
  sample.one_in = 10;
  if (by == wire::DroppedBy::list) wire::set_text(sample.list, "c2");
  if (!packet.empty()) {
    const Result<weir_packet> parsed = parse_packet(packet);
    if (!parsed) FAIL(parsed.error());
    memcpy(sample.packet, &*parsed, sizeof *parsed);
  }
  drop.target = "dp.sock";
  return drop;
}

std::string json_of(const Drop& drop) {
  const std::string text = write_json(line_of(drop)).line();
  const Result<Document> document = Document::parse(text);
  REQUIRE(document);
  std::vector<std::string> unknown;
  const Result<DropLine> read = read_json<DropLine>(*document, &unknown);
  if (!read) FAIL(read.error());
  CHECK(unknown.empty());
  CHECK(write_json(*read).line() == text);
  return text;
}

bool has(const std::string& json, const std::string& member) {
  return json.find(member) != std::string::npos;
}

}  // namespace

TEST_CASE("a line names list, entry and place, and the packet by its fields") {
  Drop drop = drop_of(
      "src 203.0.113.7 dst 192.0.2.10 proto tcp sport 51234 dport 22 tcp-flags syn,ack length 60 dscp 46 fragment "
      "none");
  drop.entry = Origin{"c2", "feeds/c2.txt", 17, "203.0.113.0/24", 1, true, "ticket 12"};
  drop.frame.sample.layer = 1;
  const std::string json = json_of(drop);
  INFO(json);
  CHECK(has(json, R"("time":"2025-12-01T00:00:00.000001Z")"));
  CHECK(has(json, R"("generation":{"epoch":"0000000000000abc","number":7})"));
  CHECK(has(json, R"("target":"dp.sock")"));
  CHECK(has(json, R"("port":3)"));
  CHECK(has(json, R"("reason":"list")"));
  CHECK(has(json, R"("list":"c2")"));
  CHECK(has(json, R"("entry":"203.0.113.0/24")"));
  CHECK(has(json, R"("file":"feeds/c2.txt")"));
  CHECK(has(json, R"("line":17)"));
  CHECK(has(json, R"("comment":"ticket 12")"));
  CHECK(has(json, R"("src":"203.0.113.7")"));
  CHECK(has(json, R"("proto":"tcp")"));
  CHECK(has(json, R"("sport":51234)"));
  CHECK(has(json, R"("dport":22)"));
  CHECK(has(json, R"("tcp_flags":"syn,ack")"));
  CHECK(has(json, R"("length":60)"));
  CHECK(has(json, R"("dscp":46)"));
  CHECK(has(json, R"("fragment":"none")"));
  CHECK(has(json, R"("layer":2)"));
  CHECK(has(json, R"("one_in":10)"));
  CHECK_FALSE(has(json, "icmp"));
  CHECK_FALSE(has(json, "interface"));
}

TEST_CASE("a packet has what it has: the text of a line is a packet again") {
  const std::string icmp =
      json_of(drop_of("src 2001:db8::1 dst 2001:db8::9 proto icmpv6 icmp-type 128 icmp-code 0 length 84"));
  INFO(icmp);
  CHECK(has(icmp, R"("icmp_type":128)"));
  CHECK(has(icmp, R"("icmp_code":0)"));
  CHECK_FALSE(has(icmp, "port\":0"));
  CHECK_FALSE(has(icmp, "dport"));
  CHECK_FALSE(has(icmp, R"("entry")"));
  CHECK_FALSE(has(icmp, R"("line")"));
  const DropLine line = line_of(drop_of("src 10.0.0.1 dst 203.0.113.9 proto udp sport 53 dport 9000 length 100"));
  const Result<weir_packet> again = parse_packet(line.packet.value().text);
  if (!again) FAIL(again.error());
}

TEST_CASE("what no list drops has its reason; what is no packet has none") {
  CHECK(has(json_of(drop_of("src 1.2.3.4 dst 5.6.7.8 proto udp", wire::DroppedBy::default_action)),
            R"("reason":"default")"));
  const std::string unparsed = json_of(drop_of("", wire::DroppedBy::unparsed));
  CHECK(has(unparsed, R"("reason":"unparsed")"));
  for (const char* member : {"\"src\"", "\"packet\"", "\"layer\"", "\"list\"", "\"length\""})
    CHECK_FALSE(has(unparsed, member));
  CHECK(has(json_of(drop_of("", wire::DroppedBy::no_snapshot)), R"("reason":"no_snapshot")"));
}

TEST_CASE("an interface has its name as long as it is there") {
  Drop drop = drop_of("src 1.2.3.4 dst 5.6.7.8 proto udp");
  drop.has_interfaces = true;
  drop.frame.sample.port = if_nametoindex("lo");
  CHECK(line_of(drop).interface == "lo");
  drop.frame.sample.port = 0x7fffffff;
  CHECK(line_of(drop).interface.empty());
}
