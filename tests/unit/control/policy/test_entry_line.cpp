// One line of text is one entry, and the text that comes back says the same.
#include "control/policy/model/time_text.h"
#include "control/policy/read/entry_line.h"
#include "tests/catch.h"

namespace weir::control {
namespace {

std::string canonical(const std::string& text, bool allow_any = false) {
  ListDraft list;
  const Result<std::string> line = read_entry_line(text, allow_any, list);
  if (!line) return "error: " + line.error();
  CHECK(list.entries() == 1);
  for (const auto& entry : list.v4) CHECK(entry.line == 0);  // of no file
  for (const Flow& flow : list.flows) CHECK(flow.line == 0);
  ListDraft again;
  CHECK(*read_entry_line(*line, allow_any, again) == *line);
  CHECK((again.v4 == list.v4 && again.v6 == list.v6 && again.flows == list.flows));
  return *line;
}

bool is_refused(const std::string& text, const std::string& why) {
  const std::string found = canonical(text);
  INFO(found);
  return found.starts_with("error: ") && found.find(why) != std::string::npos;
}

}  // namespace

TEST_CASE("every form of an entry is one line") {
  const std::pair<const char*, const char*> kSame[] = {
      {"203.0.113.7", "203.0.113.7"},
      {"203.0.113.7/32", "203.0.113.7"},
      {"198.51.100.77/24", "198.51.100.0/24"},
      {"203.0.113.10 - 203.0.113.99", "203.0.113.10-203.0.113.99"},
      {"203.0.113.0-203.0.113.255", "203.0.113.0/24"},
      {"203.0.113.7:443", "203.0.113.7:443"},
      {"2001:0db8::0007", "2001:db8::7"},
      {"[2001:db8::7]:443", "[2001:db8::7]:443"},
      {"src 203.0.113.7", "203.0.113.7"},
      {"src 2001:db8::7 sport 443", "[2001:db8::7]:443"},
      {"dst 203.0.113.7", "dst 203.0.113.7"},
      {"dport 443  dst 203.0.113.7", "dst 203.0.113.7 dport 443"},
      {"src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport 8000-8010",
       "src 10.0.0.0/8 dst 203.0.113.9 tcp dport 8000-8010"},
      {"dst 203.0.113.9 tcp tcp-flags syn/syn,ack", "dst 203.0.113.9 tcp tcp-flags syn/syn,ack"},
      {"dst 2001:db8::9 proto icmpv6 icmp-type 128 icmp-code 0", "dst 2001:db8::9 icmpv6 icmp-type 128 icmp-code 0"},
      {"src 192.0.2.0/24 dscp 10-14,46 fragment later", "src 192.0.2.0/24 dscp 10-14,46 fragment later"},
      {"dst 203.0.113.9 proto udp dport 0-1023", "dst 203.0.113.9 udp dport 0-1023"},
      {"dst 203.0.113.9 proto udp sport 123 length 200-", "dst 203.0.113.9 udp sport 123 length 200-"},
  };
  for (const auto& [text, expected] : kSame) CHECK(canonical(text) == expected);
  CHECK(*entry_line_of_map("{src: 203.0.113.7}") == "src 203.0.113.7");  // of whatever list
  CHECK(canonical("proto tcp", true) == "proto tcp");
  CHECK(canonical(" 2", true) == "proto igmp");
}

TEST_CASE("what says nothing is refused with the reason") {
  CHECK(is_refused("", "hint"));
  CHECK(is_refused("203.0.113.400", "203.0.113.400"));
  CHECK(is_refused("0.0.0.0/0", "allow_any"));
  CHECK(is_refused("src 0.0.0.0/0 proto tcp", "allow_any"));
  CHECK(canonical("src 0.0.0.0/0 dst 203.0.113.9") == "src 0.0.0.0/0 dst 203.0.113.9");
  CHECK(is_refused("src 10.0.0.1 colour red", "`colour` is no field"));
  CHECK(is_refused("src 10.0.0.1 src 10.0.0.2", "given twice"));
  CHECK(is_refused("src 10.0.0.1 dport", "no value"));
  CHECK(is_refused("src 10.0.0.1 dst 2001:db8::1", "different families"));
  CHECK(is_refused("proto icmp dport 80", "no ports"));
  CHECK(is_refused("fragment later dst 10.0.0.1 dport 80", "later fragments"));
  CHECK(is_refused("tcp-flags none proto tcp", "nothing to match"));
  CHECK(canonical("0.0.0.0/0", true) == "0.0.0.0/0");
}

TEST_CASE("the map of a policy file becomes the same line") {
  CHECK(*entry_line_of_map("{src: 10.0.0.0/8, dst: 203.0.113.9, proto: tcp, dport: 8000-8010}") ==
        "src 10.0.0.0/8 dst 203.0.113.9 tcp dport 8000-8010");
  CHECK(*entry_line_of_map("{dst: 203.0.113.9, proto: icmp, icmp: {type: 8}}") == "dst 203.0.113.9 icmp icmp-type 8");
  for (const char* wrong : {"{", "[1]", "{dst: 203.0.113.9, expires: 2026-12-01T00:00:00Z}", "{colour: red}", "{}"}) {
    CHECK_FALSE(entry_line_of_map(wrong));
  }
}

TEST_CASE("durations") {
  CHECK(parse_duration("90") == 90u);
  CHECK(parse_duration("90s") == 90u);
  CHECK(parse_duration("10m") == 600u);
  CHECK(parse_duration("1h30m") == 5400u);
  CHECK(parse_duration("7d") == 604800u);
  CHECK(parse_duration("2w") == 1209600u);
  for (const char* wrong : {"", "0", "0s", "m", "1h30", "10 m", "-5s", "1y", "99999999999", "10000w", "1.5h"}) {
    INFO(wrong);
    CHECK_FALSE(parse_duration(wrong));
  }
}

}  // namespace weir::control
