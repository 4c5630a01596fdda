// Entries with named fields, `expires`, `ipv6_aggregate` and `tunnels`. What is refused is in configs/bad.
#include <string>

#include "control/policy/model/field_names.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

using namespace weir;
using namespace weir::control;

namespace {

constexpr uint64_t kNow = 1'780'000'000;  // 2026-05-28T20:26:40Z

std::string policy_text(const std::string& entries, const std::string& settings = "match: either") {
  return "version: 1\nlists:\n- {name: a, action: drop, " + settings + ", entries: [\n  " + entries + "\n]}\n";
}

List parse(const std::string& entries, const std::string& settings = "match: either", size_t warnings = 0) {
  Diagnostics diagnostics;
  auto policy = parse_policy("a.yaml", policy_text(entries, settings), diagnostics, kNow);
  INFO(entries << "\n" << format(diagnostics));
  REQUIRE(policy);
  CHECK(diagnostics.warnings() == warnings);
  return std::move(policy->lists.at(0));
}

// "entry SIDES TEXT", "flow FAMILY TEXT".
std::string described(const List& list) {
  REQUIRE(list.entries() == 1);
  const auto describe = [](const auto& entry) {
    constexpr const char* kSides[] = {"none", "src", "dst", "either"};
    return std::string("entry ") + kSides[entry.sides()] + " " + range_text(entry.first, entry.last, entry.port) +
           expiry_text(entry.expires);
  };
  if (!list.v4().empty()) return describe(list.v4()[0]);
  if (!list.v6().empty()) return describe(list.v6()[0]);
  CHECK(list.flows()[0].line == 4);
  return "flow " + std::to_string(list.flows()[0].family) + " " + flow_text(list.flows()[0]);
}

struct Row {
  const char* text;
  const char* expected;
};

}  // namespace

TEST_CASE("what an Entry can hold stays one") {
  const Row rows[] = {
      {"{src: 203.0.113.7}", "entry src 203.0.113.7"},
      {"{dst: 203.0.113.0/24}", "entry dst 203.0.113.0/24"},
      {"{src: 203.0.113.1-203.0.113.9}", "entry src 203.0.113.1-203.0.113.9"},
      {"{dst: \"2001:db8::/32\"}", "entry dst 2001:db8::/32"},
      {"{src: 203.0.113.7, sport: 53}", "entry src 203.0.113.7:53"},
      {"{dst: 203.0.113.0/24, dport: 443}", "flow 4 dst 203.0.113.0/24 dport 443"},
      {"{dst: \"2001:db8::7\", dport: 443-443}", "entry dst [2001:db8::7]:443"},
      {"{src: 203.0.113.7, expires: 2026-12-01T00:00:00Z}", "entry src 203.0.113.7 expires 2026-12-01T00:00:00Z"},
      {"{src: 203.0.113.7, sport: 53, expires: 2026-12-01T00:00:00Z, comment: x}",
       "entry src 203.0.113.7:53 expires 2026-12-01T00:00:00Z"},
      {"{entry: 203.0.113.7, expires: 2026-12-01T00:00:00Z}", "entry either 203.0.113.7 expires 2026-12-01T00:00:00Z"},
      {"{entry: 203.0.113.7:443, expires: 2026-12-01T00:00:00Z, comment: x}",
       "entry either 203.0.113.7:443 expires 2026-12-01T00:00:00Z"},
      {"{entry: 203.0.113.1-203.0.113.9, comment: x}", "entry either 203.0.113.1-203.0.113.9"},
      {"{entry: \"[2001:db8::7]:443\", expires: 2026-12-01T00:00:00Z}",
       "entry either [2001:db8::7]:443 expires 2026-12-01T00:00:00Z"},
      {"{src: 203.0.113.7, comment: }", "entry src 203.0.113.7"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(described(parse(row.text)) == row.expected);
  }
}

TEST_CASE("all else is a flow, and its text says what is asked") {
  const Row rows[] = {
      {"{src: 10.0.0.0/8, dst: 203.0.113.9, proto: tcp, dport: 8000-8010, expires: 2026-12-01T00:00:00Z, comment: x}",
       "flow 4 src 10.0.0.0/8 dst 203.0.113.9 tcp dport 8000-8010 expires 2026-12-01T00:00:00Z"},
      {"{src: 198.51.100.9, dst: 203.0.113.1-203.0.113.9}", "flow 4 src 198.51.100.9 dst 203.0.113.1-203.0.113.9"},
      {"{src: \"2001:db8::/32\", dst: \"2001:db8::9\", sport: 1-1023, dport: 53}",
       "flow 6 src 2001:db8::/32 dst 2001:db8::9 sport 1-1023 dport 53"},
      {"{dst: 203.0.113.9, dport: 8000-8010}", "flow 4 dst 203.0.113.9 dport 8000-8010"},
      {"{src: 203.0.113.9, dport: 53}", "flow 4 src 203.0.113.9 dport 53"},
      {"{src: 203.0.113.9, sport: 53, dport: 53}", "flow 4 src 203.0.113.9 sport 53 dport 53"},
      {"{dst: 203.0.113.9, proto: udp}", "flow 4 dst 203.0.113.9 udp"},
      {"{dst: 203.0.113.9, proto: udp, dport: 53}", "flow 4 dst 203.0.113.9 udp dport 53"},
      {"{dport: 53}", "flow 0 dport 53"},
      {"{sport: 1-65535}", "flow 0 sport 1-65535"},
      {"{dst: 203.0.113.9, proto: icmp, icmp: {type: 8}}", "flow 4 dst 203.0.113.9 icmp icmp-type 8"},
      {"{src: \"2001:db8::9\", proto: icmpv6, icmp: {type: 128, code: 0}}",
       "flow 6 src 2001:db8::9 icmpv6 icmp-type 128 icmp-code 0"},
      {"{icmp: {code: 255}}", "flow 0 icmp-code 255"},
      {"{src: 203.0.113.9, icmp: {type: 0}}", "flow 4 src 203.0.113.9 icmp-type 0"},
      {"{dst: 203.0.113.9, proto: tcp, tcp_flags: {set: [syn], mask: [syn, ack]}}",
       "flow 4 dst 203.0.113.9 tcp tcp-flags syn/syn,ack"},
      {"{dst: 203.0.113.9, tcp_flags: {set: [ack, syn]}}", "flow 4 dst 203.0.113.9 tcp-flags syn,ack/syn,ack"},
      {"{tcp_flags: {mask: [fin, syn, rst, psh, ack, urg, ece, cwr]}}",
       "flow 0 tcp-flags none/fin,syn,rst,psh,ack,urg,ece,cwr"},
      {"{tcp_flags: {set: [], mask: [rst]}, dport: 22}", "flow 0 dport 22 tcp-flags none/rst"},
      {"{dst: 203.0.113.9, proto: udp, sport: 123, length: 200-}", "flow 4 dst 203.0.113.9 udp sport 123 length 200-"},
      {"{src: 192.0.2.0/24, dscp: [46, 10-14], fragment: later}",
       "flow 4 src 192.0.2.0/24 dscp 10-14,46 fragment later"},
      {"{dscp: [10, 11, 12, 63, 12], length: 64-64}", "flow 0 length 64 dscp 10-12,63"},
      {"{fragment: any, length: 64-128}", "flow 0 length 64-128 fragment any"},
      {"{expires: 2026-12-01T00:00:00Z, proto: tcp, dport: 22}", "flow 0 tcp dport 22 expires 2026-12-01T00:00:00Z"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(described(parse(row.text)) == row.expected);
  }
}

TEST_CASE("a flow's fields, as numbers") {
  const List list =
      parse("{src: 10.0.0.0/8, dst: 203.0.113.9, sport: 1-2, dport: 3, tcp_flags: {set: [syn], mask: [syn, cwr]}}");
  REQUIRE(list.flows().size() == 1);
  const Flow& flow = list.flows()[0];
  CHECK(flow.src == AddressRange{0x0a00'0000, 0x0aff'ffff});
  CHECK(flow.dst == AddressRange{*parse_ipv4("203.0.113.9"), *parse_ipv4("203.0.113.9")});
  CHECK_FALSE(flow.protocol);
  CHECK(flow.sport == PortRange{1, 2});
  CHECK(flow.dport == PortRange{3, 3});
  CHECK(flow.tcp_flags == weir_masked{0x02, 0x82});
  CHECK(flow.expires == kNever);
}

TEST_CASE("a protocol alone needs allow_any") {
  const Row rows[] = {{"{proto: gre}", "flow 0 gre"},
                      {"{proto: 0}", "flow 0 proto 0"},
                      {"{proto: 255}", "flow 0 proto 255"},
                      {"{proto: \"6\"}", "flow 0 tcp"}};
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(described(parse(row.text, "allow_any: true")) == row.expected);
    Diagnostics diagnostics;
    CHECK_FALSE(parse_policy("a.yaml", policy_text(row.text), diagnostics, kNow));
    CHECK(format(diagnostics).find("matches every packet with `proto ") != std::string::npos);
  }
}

TEST_CASE("every address on one side of a flow is fine when the other side names some, else it needs allow_any") {
  CHECK(described(parse("{src: 0.0.0.0/0, dst: 203.0.113.9, proto: tcp, dport: 443}")) ==
        "flow 4 src 0.0.0.0/0 dst 203.0.113.9 tcp dport 443");
  CHECK(described(parse("{src: \"2001:db8::/32\", dst: \"::/0\"}")) == "flow 6 src 2001:db8::/32 dst ::/0");
  CHECK(described(parse("{src: 0.0.0.0/0, dst: 0.0.0.0/0}", "allow_any: true")) ==
        "flow 4 src 0.0.0.0/0 dst 0.0.0.0/0");
  CHECK(described(parse("{src: 0.0.0.0/0, dst: 203.0.113.9}", "allow_any: true")) ==
        "flow 4 src 0.0.0.0/0 dst 203.0.113.9");
  CHECK(described(parse("{dst: \"::/0\", dport: 22-23}", "allow_any: true")) == "flow 6 dst ::/0 dport 22-23");
}

TEST_CASE("names of protocols and their numbers") {
  const std::pair<const char*, int> rows[] = {
      {"tcp", 6},     {"udp", 17},       {"sctp", 132}, {"dccp", 33},  {"udplite", 136}, {"icmp", 1},
      {"icmpv6", 58}, {"gre", 47},       {"esp", 50},   {"ah", 51},    {"ipip", 4},      {"ipv6", 41},
      {"igmp", 2},    {"ospf", 89},      {"pim", 103},  {"vrrp", 112}, {"l2tp", 115},    {"udp-lite", 136},
      {"icmp6", 58},  {"ipv6-icmp", 58}, {"0", 0},      {"6", 6},      {"99", 99},       {"255", 255},
      {"256", -1},    {"", -1},          {"00", -1},    {"06", -1},    {"TCP", -1},      {"+6", -1},
      {"6 ", -1},     {"-1", -1},        {"tcpp", -1},
  };
  for (const auto& [text, number] : rows) {
    INFO(text);
    const auto protocol = parse_protocol(text);
    CHECK((protocol ? int{*protocol} : -1) == number);
  }
  for (int number = 0; number < 256; number++) {
    const bool expected = number == 6 || number == 17 || number == 33 || number == 132 || number == 136;
    CHECK(has_ports(static_cast<uint8_t>(number)) == expected);
  }
  // A name that a text shows reads back.
  for (int number = 0; number < 256; number++) {
    const std::string name(protocol_name(static_cast<uint8_t>(number)));
    if (!name.empty()) CHECK(parse_protocol(name) == number);
  }
}

TEST_CASE("times of RFC 3339") {
  const std::pair<const char*, int64_t> rows[] = {
      {"1970-01-01T00:00:00Z", 0},
      {"1970-01-01T00:00:01Z", 1},
      {"2026-12-01T00:00:00Z", 1'796'083'200},
      {"2026-12-01t00:00:00z", 1'796'083'200},
      {"2026-12-01T01:00:00+01:00", 1'796'083'200},
      {"2026-11-30T18:30:00-05:30", 1'796'083'200},
      {"2026-12-01T00:00:00-00:00", 1'796'083'200},
      {"2026-12-01T00:00:00.999999999999Z", 1'796'083'200},
      {"2026-12-01T01:00:00.5+01:00", 1'796'083'200},
      {"2028-02-29T00:00:00Z", 1'835'395'200},
      {"2000-02-29T00:00:00Z", 951'782'400},
      {"2016-12-31T23:59:60Z", 1'483'228'800},  // a leap second
      {"2017-01-01T00:59:60+01:00", 1'483'228'800},
      {"2106-02-07T06:28:14Z", int64_t{kNever} - 1},
      {"2106-02-07T06:28:15Z", kNever},
      {"2106-02-07T06:28:16Z", kNever},
      {"9999-12-31T23:59:59Z", kNever},
      {"1969-12-31T23:59:59Z", 0},
      {"0000-01-01T00:00:00Z", 0},
      {"1970-01-01T00:00:00+01:00", 0},
      {"", -1},
      {"2026-12-01", -1},
      {"2026-12-01T00:00Z", -1},
      {"2026-12-01T00:00:00", -1},
      {"2026-12-01 00:00:00Z", -1},
      {" 2026-12-01T00:00:00Z", -1},
      {"2026-12-01T00:00:00Z ", -1},
      {"2026-12-01T00:00:00.Z", -1},
      {"2026-12-01T00:00:00,5Z", -1},
      {"2026-12-01T00:00:00+01", -1},
      {"2026-12-01T00:00:00+0100", -1},
      {"2026-12-01T00:00:00+24:00", -1},
      {"2026-12-01T00:00:00+01:60", -1},
      {"2026-12-01T00:00:00ZZ", -1},
      {"2026-12-01T24:00:00Z", -1},
      {"2026-12-01T00:60:00Z", -1},
      {"2026-12-01T00:00:61Z", -1},
      {"2026-12-01T00:00:60Z", -1},
      {"2026-00-01T00:00:00Z", -1},
      {"2026-13-01T00:00:00Z", -1},
      {"2026-12-00T00:00:00Z", -1},
      {"2026-11-31T00:00:00Z", -1},
      {"2026-02-29T00:00:00Z", -1},
      {"2100-02-29T00:00:00Z", -1},
      {"26-12-01T00:00:00Z", -1},
      {"+2026-12-01T00:00:00Z", -1},
      {"2026-1-01T00:00:00Z", -1},
      {"1796083200", -1},
      {"never", -1},
  };
  for (const auto& [text, expected] : rows) {
    INFO(text);
    const auto time = parse_time(text);
    CHECK((time ? int64_t{*time} : -1) == expected);
    if (time && *time != kNever) CHECK(parse_time(time_text(*time)) == time);
  }
  CHECK(time_text(0) == "1970-01-01T00:00:00Z");
  CHECK(time_text(1'796'083'199) == "2026-11-30T23:59:59Z");
}

TEST_CASE("an entry that has expired is a warning and stays") {
  const std::string live = "{entry: 203.0.113.7, expires: 2026-05-28T20:26:41Z}";       // now + 1 s
  const std::string over = "{entry: 203.0.113.7, expires: 2026-05-28T22:26:40+02:00}";  // now
  const std::string flow = "{proto: gre, expires: 1960-01-01T00:00:00Z}";
  const std::string never = "{proto: gre, expires: 2999-01-01T00:00:00Z}";
  CHECK(described(parse(live)) == "entry either 203.0.113.7 expires 2026-05-28T20:26:41Z");
  CHECK(described(parse(over, "match: either", 1)) == "entry either 203.0.113.7 expires 2026-05-28T20:26:40Z");
  CHECK(described(parse(flow, "match: either, allow_any: true", 1)) == "flow 0 gre expires 1970-01-01T00:00:00Z");
  CHECK(described(parse(never, "match: either, allow_any: true")) == "flow 0 gre");
  Diagnostics diagnostics;
  CHECK(parse_policy("a.yaml", policy_text(over), diagnostics, kNow));
  CHECK(format(diagnostics) ==
        "a.yaml:4:33: warning: the entry has expired (`2026-05-28T22:26:40+02:00`): it matches nothing\n"
        "    4 |   " +
            over + "\nhint: take it out, or give it a later time\n");
}

TEST_CASE("the other family's ICMP is a warning and stays") {
  const Row rows[] = {
      {"{dst: \"2001:db8::9\", proto: icmp}", "flow 6 dst 2001:db8::9 icmp"},
      {"{src: \"2001:db8::9\", proto: 1, icmp: {type: 8}}", "flow 6 src 2001:db8::9 icmp icmp-type 8"},
      {"{dst: 203.0.113.9, proto: ipv6-icmp, icmp: {type: 128}}", "flow 4 dst 203.0.113.9 icmpv6 icmp-type 128"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(described(parse(row.text, "match: either", 1)) == row.expected);
  }
}

TEST_CASE("flows and entries of one list are counted together") {
  const List list = parse("{proto: gre},\n  203.0.113.7,\n  {src: 203.0.113.8},\n  {dport: 22},\n  2001:db8::7",
                          "match: either, allow_any: true");
  CHECK(list.v4().size() == 2);
  CHECK(list.v6().size() == 1);
  REQUIRE(list.flows().size() == 2);
  CHECK(list.flows()[1].line == 7);
  CHECK(list.entries() == 5);
}

TEST_CASE("ipv6_aggregate widens single IPv6 addresses, and nothing else") {
  const Row rows[] = {
      {"\"2001:db8:1:2:3::7\"", "entry either 2001:db8:1::/48"},
      {"\"2001:db8:1:2::7/128\"", "entry either 2001:db8:1::/48"},
      {"\"[2001:db8:1:2::7]:443\"", "entry either [2001:db8:1::/48]:443"},
      {"{src: \"2001:db8:1:2::7\", sport: 53}", "entry src [2001:db8:1::/48]:53"},
      {"{entry: \"2001:db8:1:2::7\", expires: 2026-12-01T00:00:00Z}",
       "entry either 2001:db8:1::/48 expires 2026-12-01T00:00:00Z"},
      {"{src: \"2001:db8:1:2::7\", proto: udp}", "flow 6 src 2001:db8:1::/48 udp"},
      {"{dst: \"2001:db8:1:2::7\", proto: udp}", "flow 6 dst 2001:db8:1::/48 udp"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const List list = parse(row.text, "ipv6_aggregate: 48, match: either");
    CHECK(described(list) == row.expected);
    CHECK(list.ipv6_widened == 1);
  }
  const Row others[] = {
      {"\"2001:db8:1:2::/64\"", "entry either 2001:db8:1:2::/64"},
      {"\"2001:db8:1:2::7-2001:db8:1:2::8\"", "entry either 2001:db8:1:2::7-2001:db8:1:2::8"},
      {"203.0.113.7", "entry either 203.0.113.7"},
      {"{src: 203.0.113.7, dst: 203.0.113.8}", "flow 4 src 203.0.113.7 dst 203.0.113.8"},
      {"{dport: 53}", "flow 0 dport 53"},
  };
  for (const Row& row : others) {
    INFO(row.text);
    const List list = parse(row.text, "ipv6_aggregate: 48, match: either");
    CHECK(described(list) == row.expected);
    CHECK(list.ipv6_widened == 0);
  }
  const List both = parse("{src: \"2001:db8::1\", dst: \"2001:db8::2\"}", "ipv6_aggregate: 64");
  CHECK(described(both) == "flow 6 src 2001:db8::/64 dst 2001:db8::/64");
  CHECK(both.ipv6_widened == 2);
  const List all = parse("\"2001:db8::1\"", "ipv6_aggregate: 0, allow_any: true, match: either");
  CHECK(described(all) == "entry either ::/0");
  const List as_they_are = parse("\"2001:db8::1\"", "ipv6_aggregate: 128, match: either");
  CHECK(described(as_they_are) == "entry either 2001:db8::1");
  CHECK(as_they_are.ipv6_widened == 0);
  const List upper = parse("\"2001:db8::3\"", "ipv6_aggregate: 127, match: either");
  CHECK(described(upper) == "entry either 2001:db8::2/127");
  CHECK(upper.ipv6_aggregate == 127);
}

TEST_CASE("ipv6_aggregate widens the hosts of feeds, and no other list's") {
  const Folder folder;
  folder.write("feed.txt", "2001:db8:1::7\n2001:db8:1::8\n[2001:db8:2::7]:80\n2001:db8:3::/48\n192.0.2.1\n");
  folder.write("weir.yaml",
               "version: 1\nlists:\n"
               "- {name: a, action: drop, file: feed.txt, ipv6_aggregate: 64}\n"
               "- {name: b, action: drop, file: feed.txt}\n");
  Diagnostics diagnostics;
  const auto policy = read_policy(folder / "weir.yaml", diagnostics);
  REQUIRE(policy);
  const List& a = policy->lists[0];
  REQUIRE(a.v6().size() == 4);
  CHECK(a.ipv6_widened == 3);
  CHECK(range_text(a.v6()[0].first, a.v6()[0].last, a.v6()[0].port) == "2001:db8:1::/64");
  CHECK(range_text(a.v6()[2].first, a.v6()[2].last, a.v6()[2].port) == "[2001:db8:2::/64]:80");
  CHECK(range_text(a.v6()[3].first, a.v6()[3].last, a.v6()[3].port) == "2001:db8:3::/48");
  CHECK(policy->lists[1].ipv6_widened == 0);
  CHECK(policy->lists[1].v6()[0].first == policy->lists[1].v6()[0].last);
}

TEST_CASE("tunnels") {
  const std::pair<const char*, int> rows[] = {
      {"[]", 0},
      {"", 0},
      {"[ipip]", WEIR_TUNNEL_IPIP},
      {"[6in4]", WEIR_TUNNEL_6IN4},
      {"[gre]", WEIR_TUNNEL_GRE},
      {"[vxlan]", WEIR_TUNNEL_VXLAN},
      {"[geneve]", WEIR_TUNNEL_GENEVE},
      {"[gtpu]", WEIR_TUNNEL_GTPU},
      {"[teredo]", WEIR_TUNNEL_TEREDO},
      {"[teredo, ipip, gtpu]", WEIR_TUNNEL_TEREDO | WEIR_TUNNEL_IPIP | WEIR_TUNNEL_GTPU},
      {"[ipip, 6in4, gre, vxlan, geneve, gtpu, teredo]", WEIR_TUNNELS},
  };
  for (const auto& [text, tunnels] : rows) {
    INFO(text);
    Diagnostics diagnostics;
    const auto policy =
        parse_policy("a.yaml", std::string("version: 1\npolicy: {tunnels: ") + text + "}\n", diagnostics);
    REQUIRE(policy);
    CHECK(policy->tunnels == tunnels);
  }
}

TEST_CASE("canonical texts of ranges") {
  CHECK(range_text(0, 0xffff'ffff, 0) == "0.0.0.0/0");
  CHECK(range_text(Ipv4{1}, Ipv4{2}, 0) == "0.0.0.1-0.0.0.2");
  CHECK(range_text(Ipv4{2}, Ipv4{3}, 0) == "0.0.0.2/31");
  CHECK(range_text(Ipv4{0}, Ipv4{2}, 0) == "0.0.0.0-0.0.0.2");
  CHECK(range_text(Ipv4{1}, Ipv4{4}, 0) == "0.0.0.1-0.0.0.4");
  CHECK(range_text(0x8000'0000, 0xffff'ffff, 0) == "128.0.0.0/1");
  CHECK(range_text(Ipv6{0}, ~Ipv6{0}, 0) == "::/0");
  CHECK(range_text(Ipv6{0}, ~Ipv6{0} - 1, 0) == "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe");
  CHECK(range_text(Ipv6{7}, Ipv6{7}, 53) == "[::7]:53");
}
