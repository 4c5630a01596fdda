// Rules become entries that match the same packets, and entries rules; what cannot be said is refused with the reason.
#include <algorithm>

#include "control/policy/model/range_text.h"
#include "control/policy/read/entry_line.h"
#include "control/sources/flowspec/entries.h"
#include "filter/format/packet.h"
#include "tests/catch.h"
#include "tests/unit/control/sources/flowspec/made.h"

namespace weir::control::flowspec {
namespace {

// Their texts, with commas between them; or why there are none.
std::string entries(Family family, std::string_view hex) {
  const Result<Rule> rule = parse_rule(family, bytes_of(hex));
  if (!rule) return "malformed: " + rule.error();
  const Result<std::vector<Flow>> flows = entries_of(*rule);
  if (!flows) return "refused: " + flows.error();
  std::string texts;
  for (const Flow& flow : *flows) {
    ListDraft list;
    const Result<std::string> line = read_entry_line(flow_line(flow), true, list);
    CHECK((line || flow_line(flow) == line.error()));
    texts += (texts.empty() ? "" : "; ") + flow_line(flow);
  }
  return texts;
}
std::string v4(std::string_view hex) {
  return entries(Family::v4, hex);
}
std::string v6(std::string_view hex) {
  return entries(Family::v6, hex);
}

constexpr const char* kNothing = "refused: no packet can match it";

}  // namespace

TEST_CASE("the examples of the RFCs as entries") {
  CHECK(v4("01 18 c0 00 02 03 81 06 04 81 19") == "dst 192.0.2.0/24 tcp sport 25; dst 192.0.2.0/24 tcp dport 25");
  CHECK(v4("01 18 c0 00 02 02 18 cb 00 71 04 03 89 45 8b 91 1f 90") ==
        "src 203.0.113.0/24 dst 192.0.2.0/24 tcp sport 137-139; src 203.0.113.0/24 dst 192.0.2.0/24 tcp sport 8080; "
        "src 203.0.113.0/24 dst 192.0.2.0/24 tcp dport 137-139; src 203.0.113.0/24 dst 192.0.2.0/24 tcp dport 8080; "
        "src 203.0.113.0/24 dst 192.0.2.0/24 udp sport 137-139; src 203.0.113.0/24 dst 192.0.2.0/24 udp sport 8080; "
        "src 203.0.113.0/24 dst 192.0.2.0/24 udp dport 137-139; src 203.0.113.0/24 dst 192.0.2.0/24 udp dport 8080");
  CHECK(v4("01 20 c0 00 02 01 0c 80 05").starts_with("refused: component fragment asks for the last fragment or for"));
  CHECK(v6("01 20 00 20 01 0d b8 02 68 40 12 34 56 78 9a 03 81 06") ==
        "refused: component src begins at bit 64: weir's prefixes begin at bit 0");
}

TEST_CASE("every component is some of weir's fields") {
  CHECK(v4("01 18 c0 00 02") == "dst 192.0.2.0/24");
  CHECK(v4("02 20 c0 00 02 01") == "src 192.0.2.1");
  CHECK(v6("01 40 00 20 01 0d b8 00 00 00 00") == "dst 2001:db8::/64");
  // Of one family, whatever they ask.
  CHECK(v4("03 81 2f") == "dst 0.0.0.0/0 gre");
  CHECK(v6("03 81 2f") == "dst ::/0 gre");
  CHECK(v4("01 20 01 02 03 04 03 01 06 81 11") == "dst 1.2.3.4 tcp; dst 1.2.3.4 udp");
  CHECK(v4("01 20 01 02 03 04 03 83 00") == "dst 1.2.3.4");  // every protocol
  CHECK(v4("01 20 01 02 03 04 05 95 03 ff") == "dst 1.2.3.4 tcp dport 0-1023; dst 1.2.3.4 udp dport 0-1023");
  CHECK(v4("03 81 11 05 81 35 06 92 ff fe") == "dst 0.0.0.0/0 udp sport 65535 dport 53");
  CHECK(v4("07 81 08 08 81 00") == "dst 0.0.0.0/0 icmp icmp-type 8 icmp-code 0");
  CHECK(v6("07 01 80 81 81") == "dst ::/0 icmpv6 icmp-type 128; dst ::/0 icmpv6 icmp-type 129");
  CHECK(v4("09 01 02 c2 10") == "dst 0.0.0.0/0 tcp tcp-flags syn/syn,ack");
  CHECK(v4("09 80 03") == "dst 0.0.0.0/0 tcp tcp-flags fin/fin; dst 0.0.0.0/0 tcp tcp-flags syn/syn");
  CHECK(v4("09 81 00") == "dst 0.0.0.0/0 tcp tcp-flags none/fin; dst 0.0.0.0/0 tcp tcp-flags fin/fin");  // any of them
  CHECK(v4("0a 03 64 d5 00 c8") == "dst 0.0.0.0/0 length 100-200");
  CHECK(v4("0a 92 03 e8") == "dst 0.0.0.0/0 length 1001-");
  CHECK(v4("0a 84 3c") == "dst 0.0.0.0/0 length 20-59");
  CHECK(v4("0b 01 2e 03 0a c5 0e") == "dst 0.0.0.0/0 dscp 10-14,46");
  CHECK(v4("0c 80 02") == "dst 0.0.0.0/0 fragment later");
  CHECK(v4("0c 81 04") == "dst 0.0.0.0/0 fragment first");
  CHECK(v4("0c 80 06") == "dst 0.0.0.0/0 fragment any");
  CHECK(v4("0c 82 06") == "dst 0.0.0.0/0 fragment none");
  CHECK(v4("0c 82 02") == "dst 0.0.0.0/0 fragment none; dst 0.0.0.0/0 fragment first");
  CHECK(v6("0c 80 0a") == "dst ::/0 fragment later");  // last ones are later ones
}

TEST_CASE("what weir has no entry for is refused, and what no packet can match") {
  CHECK(v6("0d 81 07") == "refused: component flow-label: weir does not look at flow labels");
  CHECK(v4("0c 80 08").starts_with("refused: component fragment"));
  CHECK(v4("0c 80 01").starts_with("refused: component fragment"));
  CHECK(v4("09 90 01 02") == "refused: component tcp-flags asks for bits 0x100: weir looks at the lower eight flags");
  CHECK(v4("05 81 00") == "refused: ports: weir has no entry for port 0 alone");
  CHECK(v4("03 01 06 81 11 05 12 00 01 d6 ff 00 07 83 00") == kNothing);  // ICMP has no ports
  CHECK(v4("03 81 01 05 81 35") == kNothing);
  CHECK(v4("03 81 3a 07 81 80") == kNothing);  // ICMP of the other family
  CHECK(v4("05 02 10 c4 08") == kNothing);     // > 16 and < 8
  CHECK(v4("03 80 00") == kNothing);           // false
  CHECK(v4("05 81 35 0c 80 02") == kNothing);  // later fragments have no ports
  CHECK(v4("0a 84 14") == kNothing);           // shorter than any header
  CHECK(v4("01 18 c0 00 02 03 86 06 0c 82 02") == "refused: it would be 510 entries: a rule may become 256");
}

TEST_CASE("numbers that operators take are those that each of them takes") {
  CHECK(rc::check([] {
    std::vector<Operator> operators;
    const int n = *rc::gen::inRange(1, 7);
    for (int i = 0; i < n; i++) {
      operators.push_back({*rc::gen::arbitrary<bool>() && i != 0, static_cast<uint8_t>(*rc::gen::inRange(0, 8)), 2,
                           static_cast<uint64_t>(*rc::gen::inRange(0, 300))});
    }
    const ValueRanges ranges = numbers_of(operators, 255);
    for (uint64_t value = 0; value <= 255; value++) {
      bool found = false, all = true;
      for (size_t i = 0; i < operators.size(); i++) {
        const auto& [is_and, asks, bytes, wanted] = operators[i];
        if (!is_and && i != 0) found = found || all, all = true;
        all = all && (((asks & kLess) != 0 && value < wanted) || ((asks & kGreater) != 0 && value > wanted) ||
                      ((asks & kEqual) != 0 && value == wanted));
      }
      found = found || all;
      const bool is_in = std::any_of(ranges.begin(), ranges.end(),
                                     [&](const auto& range) { return value >= range.first && value <= range.last; });
      RC_ASSERT(is_in == found);
    }
    for (size_t i = 1; i < ranges.size(); i++) RC_ASSERT(ranges[i].first > ranges[i - 1].last + 1);
  }));
}

TEST_CASE("patterns have the bytes that they are made of, and no others") {
  CHECK(rc::check([] {
    std::bitset<256> bytes;
    const auto n = *rc::gen::inRange(1, 5);
    for (int i = 0; i < n; i++) {
      const auto set = *rc::gen::arbitrary<uint8_t>(), mask = *rc::gen::arbitrary<uint8_t>();
      for (unsigned byte = 0; byte < 256; byte++) bytes[byte] = bytes[byte] || (byte & mask) == (set & mask);
    }
    const std::vector<BitPattern> patterns = patterns_of(bytes);
    for (unsigned byte = 0; byte < 256; byte++) {
      const bool is_in = std::any_of(patterns.begin(), patterns.end(),
                                     [&](const auto& pattern) { return (byte & pattern.mask) == pattern.set; });
      RC_ASSERT(is_in == bytes[byte]);
    }
  }));
}

namespace {

std::string rules(const char* entry, uint8_t match = WEIR_AS_SOURCE) {
  ListDraft list;
  list.match = match;
  const Result<std::string> line = read_entry_line(entry, true, list);
  REQUIRE(line);
  const Result<std::vector<Rule>> rules = rules_of(list);
  if (!rules) return "refused: " + rules.error();
  std::string texts;
  for (const Rule& rule : *rules) texts += (texts.empty() ? "" : "; ") + text_of(rule);
  return texts;
}

}  // namespace

TEST_CASE("entries as rules") {
  CHECK(rules("192.0.2.7") == "src 192.0.2.7/32");
  CHECK(rules("192.0.2.7", WEIR_AS_SOURCE | WEIR_AS_DESTINATION) == "src 192.0.2.7/32; dst 192.0.2.7/32");
  CHECK(rules("2001:db8::/32", WEIR_AS_DESTINATION) == "dst 2001:db8::/32");
  CHECK(rules("[2001:db8::7]:443") == "src 2001:db8::7/128 sport 443");
  CHECK(rules("192.0.2.1-192.0.2.6") == "src 192.0.2.1/32; src 192.0.2.2/31; src 192.0.2.4/31; src 192.0.2.6/32");
  CHECK(rules("0.0.0.0/0") == "src 0.0.0.0/0");
  CHECK(rules("::/0") == "src ::/0");
  CHECK(rules("::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").starts_with("src ::1/128; src ::2/127; "));
  CHECK(rules("proto udp") == "proto 17; proto 17");  // of either family
  CHECK(
      rules("src 10.0.0.0/8 dst 203.0.113.9 proto tcp sport 1-9 dport 8000-8010 tcp-flags syn/syn,ack length 40-60") ==
      "dst 203.0.113.9/32 src 10.0.0.0/8 proto 6 dport 8000-8010 sport 1-9 tcp-flags =0x2&!0x10 length 40-60");
  CHECK(rules("dst 203.0.113.9 tcp-flags none/fin,syn") == "dst 203.0.113.9/32 tcp-flags !0x3");
  CHECK(rules("dst 203.0.113.9 proto icmp icmp-type 8 icmp-code 0") ==
        "dst 203.0.113.9/32 proto 1 icmp-type 8 icmp-code 0");
  CHECK(rules("dst 203.0.113.9 length 1000- dscp 10-14,46 fragment any") ==
        "dst 203.0.113.9/32 length >=1000 dscp 10-14,46 fragment =0x4,=0x2");
  CHECK(rules("dst 203.0.113.9 fragment none") == "dst 203.0.113.9/32 fragment !0x6");
}

TEST_CASE("what an entry says comes back from its rules") {
  for (const char* entry :
       {"dst 203.0.113.0/24", "dst 203.0.113.9 udp sport 123 length 200-",
        "src 10.0.0.0/8 dst 203.0.113.9 tcp dport 8000-8010", "dst 203.0.113.9 tcp tcp-flags syn/syn,ack",
        "dst 2001:db8::9 icmpv6 icmp-type 128 icmp-code 0", "src 192.0.2.0/24 dscp 10-14,46 fragment later",
        "src 192.0.2.0/24 fragment none", "src 192.0.2.0/24 fragment any"}) {
    ListDraft list;
    list.match = 0;
    REQUIRE(read_entry_line(entry, true, list));
    const Result<std::vector<Rule>> rules = rules_of(list);
    REQUIRE((rules && rules->size() == 1));
    const Result<std::vector<Flow>> flows = entries_of((*rules)[0]);
    REQUIRE((flows && flows->size() == 1));
    CHECK(flow_line((*flows)[0]) == entry);
  }
}

}  // namespace weir::control::flowspec
