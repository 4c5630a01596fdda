// Texts of known structures: each is read rightly under its name, or refused by its name. Every text is read at once
// and in parts of every small size, which must not matter.
#include <set>
#include <string>
#include <string_view>

#include "control/policy/feeds/reading.h"
#include "control/policy/feeds/structures.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;
using namespace std::string_literals;

namespace {

constexpr uint32_t kWritten = 1'000'000;

// Which outcome a line has: "FIRST[-LAST][:PORT][@SECONDS] " of each entry, with the time until it expires; then
// "bad LINE ", "skipped LINE " of each sample, and "FAULT".
std::string described(const ListDraft& list) {
  std::string all;
  const auto describe = [&](const auto& entry) {
    all += to_string(entry.first);
    if (entry.last != entry.first) all += "-" + to_string(entry.last);
    if (entry.port != 0) all += ":" + std::to_string(entry.port);
    if (entry.expires != kNever) all += "@" + std::to_string(entry.expires - kWritten);
    all += " ";
  };
  for (const auto& entry : list.v4) describe(entry);
  for (const auto& entry : list.v6) describe(entry);
  for (const LineSample& sample : list.feed.samples) {
    all += std::string(LineSample::kNames[sample.kind]) + " " + std::to_string(sample.line) + " ";
  }
  if (list.fault) all += "FAULT";
  CHECK(list.feed.entries == list.entries());
  return all;
}

struct Row {
  const char* format;  // that `auto` takes, unless `named`
  std::string text;
  const char* expected;
  weir_action action = WEIR_DROP;
  bool is_named = false;
  std::string settings = "";
};

ListDraft read(const Row& row, size_t at_once) {
  feeds::Options options;
  options.written = kWritten;
  options.action = row.action;
  options.settings = row.settings;
  feeds::Reading reading(row.is_named ? feeds::find_format(row.format) : nullptr, options);
  ListDraft list;
  std::string_view text = row.text;
  for (; !text.empty(); text.remove_prefix(std::min(at_once, text.size()))) {
    reading.read(text.substr(0, at_once), false, list);
  }
  reading.read({}, true, list);
  return list;
}

void check(const Row& row) {
  INFO(row.format << (row.is_named ? " by name: " : ": ") << row.text);
  const ListDraft whole = read(row, std::max(row.text.size(), size_t{1}));
  INFO((whole.fault ? whole.fault->reason : ""));
  for (const LineSample& sample : whole.feed.samples) UNSCOPED_INFO(sample.line << ": " << sample.reason);
  CHECK(whole.feed.format == row.format);
  CHECK(described(whole) == row.expected);
  for (size_t at_once = 1; at_once < std::min<size_t>(row.text.size(), 40); at_once++) {
    const ListDraft parts = read(row, at_once);
    if (described(parts) != row.expected || parts.feed != whole.feed) {
      FAIL_CHECK("in parts of " << at_once << ": " << described(parts));
      break;
    }
  }
}

std::string fault_of(const char* format, const std::string& text) {
  const ListDraft list = read({format, text, "", WEIR_DROP, true}, text.size());
  return list.fault ? list.fault->reason + " / " + list.fault->hint : "";
}

}  // namespace

TEST_CASE("statistics of registries") {
  const std::string rows =
      "ripencc|ZZ|ipv4|198.51.100.0|256|20200101|assigned\nripencc|ZZ|ipv4|203.0.113.0|16|20200101|allocated|x\n"
      "ripencc|ZZ|ipv6|2001:db8:40::|42|20200101|allocated\n";
  const char* read =
      "198.51.100.0-198.51.100.255 203.0.113.0-203.0.113.15 2001:db8:40::-2001:db8:7f:ffff:ffff:ffff:ffff:ffff ";
  check({"rir", rows, read});
  check({"rir",
         "# x\n2.3|ripencc|20260101|4|19830705|20260101|+0100\nripencc|*|ipv4|*|2|summary\nripencc|*|ipv6|*|1|summary\n"
         "ripencc|*|asn|*|1|summary\n" +
             rows + "ripencc|ZZ|asn|64500|1|20200101|allocated\n",
         "198.51.100.0-198.51.100.255 203.0.113.0-203.0.113.15 2001:db8:40::-2001:db8:7f:ffff:ffff:ffff:ffff:ffff "
         "skipped 9 "});
  check({"rir",
         "apnic|ZZ|ipv4|192.0.2.0|512|20200101|assigned\napnic||ipv4|198.51.100.0|256||available\n"
         "apnic||ipv4|203.0.113.0|256||reserved\narin|ZZ|ipv4|192.0.2.0|0|20200101|assigned\n"
         "arin|ZZ|ipv4|255.255.255.0|512|20200101|assigned\narin|ZZ|ipv6|2001:db8::|129|20200101|assigned\n"
         "arin|ZZ|ipv4|192.0.2.0|256|20200101|sold\narin|ZZ|ipv4|192.0.2.0\narin|ZZ|ipv4|192.0.2.0/24|1|x|assigned\n",
         "192.0.2.0-192.0.3.255 skipped 2 skipped 3 bad 4 bad 5 bad 6 bad 7 bad 8 "});
  // Each count could be a prefix length, and nothing says what it is.
  const std::string doubtful = "ripencc|ZZ|ipv4|198.51.100.0|24|20200101|assigned\n";
  CHECK(fault_of("rir", doubtful).find("a number of addresses or a prefix length") != std::string::npos);
  CHECK(fault_of("rir", doubtful).find("`format: {rir: {value: count}}`") != std::string::npos);
  check({"rir", doubtful, "198.51.100.0-198.51.100.23 ", WEIR_DROP, true, "value=count"});
  check({"rir", "2|arin|20260101|1|1|20260101|+0100\narin|ZZ|ipv4|192.0.2.8|8|x|assigned\n", "192.0.2.8-192.0.2.15 "});
  // The summary says more rows than there are.
  CHECK(fault_of("rir", "ripencc|*|ipv4|*|2|summary\n" + doubtful).find("rows of IPv4") != std::string::npos);
}

TEST_CASE("networks of clouds") {
  const char* two = "203.0.113.0-203.0.113.255 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff ";
  check({"aws",
         "{\"syncToken\":\"1\",\"prefixes\":[{\"ip_prefix\":\"203.0.113.0/24\",\"region\":\"x\"}],\n"
         "\"ipv6_prefixes\":[{\"ipv6_prefix\":\"2001:db8::/32\"}]}",
         two});
  check({"aws",
         "{\"syncToken\":\"1\",\"prefixes\":[{\"ip_prefix\":\"203.0.113.0/"
         "33\"},\n{\"ip_prefix\":1},\n{\"endpoint\":\"192.0.2.1\"}]}",
         "bad 1 bad 2 skipped 3 "});
  check({"gcp",
         "{\"creationTime\":\"x\",\"prefixes\":[{\"ipv4Prefix\":\"203.0.113.0/24\",\"scope\":\"x\"},"
         "{\"ipv6Prefix\":\"2001:db8::/32\"}]}",
         two});
  check({"azure",
         "{\"changeNumber\":1,\"cloud\":\"Public\",\"values\":[{\"name\":\"a\",\"properties\":{\"region\":\"\","
         "\"addressPrefixes\":[\"203.0.113.0/24\",\"2001:db8::/32\"],\"networkFeatures\":[\"API\"]}}]}",
         two});
  check({"cloudflare",
         "{\"result\":{\"ipv4_cidrs\":[\"203.0.113.0/24\"],\"ipv6_cidrs\":[\"2001:db8::/32\"],\"etag\":\"x\"},"
         "\"success\":true,\"errors\":[],\"messages\":[]}",
         two});
  check({"cloudflare", "{\"success\":false,\"errors\":[{\"code\":1}],\"result\":{\"ipv4_cidrs\":[]}}", "FAULT"});
  check({"fastly", "{\"addresses\":[\"203.0.113.0/24\"],\"ipv6_addresses\":[\"2001:db8::/32\"]}", two});
  check({"github",
         "{\"verifiable_password_authentication\":false,\"ssh_keys\":[\"ssh-ed25519 AAAA\"],\n"
         "\"hooks\":[\"203.0.113.0/24\",\"2001:db8::/32\"],\"web\":[],\"git\":[],\"actions_macos\":[\"192.0.2.7\"],\n"
         "\"domains\":{\"website\":[\"*.example.net\"],\"x\":{\"full\":[\"a.example\"]}},\"api\":[\"x\"]}",
         "203.0.113.0-203.0.113.255 192.0.2.7 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff skipped 1 skipped 3 "
         "skipped 3 bad 3 "});
  check({"oracle",
         "{\"last_updated_timestamp\":\"x\",\"regions\":[{\"region\":\"x\",\"cidrs\":[{\"cidr\":\"203.0.113.0/24\","
         "\"tags\":[\"OCI\"]},{\"cidr\":\"2001:db8::/32\"}]}]}",
         two});
  check({"json", "{\"prefixes\":[\"203.0.113.0/24\",\"2001:db8::/32\"]}", two});
}

TEST_CASE("indicators of STIX") {
  const auto bundle = [](const std::string& objects) {
    return "{\"type\":\"bundle\",\"id\":\"bundle--1\",\"objects\":[\n" + objects + "]}";
  };
  const auto indicator = [](const std::string& pattern, const std::string& more = "") {
    return "{\"type\":\"indicator\",\"pattern_type\":\"stix\",\"pattern\":\"" + pattern + "\"" + more + "}";
  };
  check({"stix", bundle(indicator("[ipv4-addr:value = '203.0.113.7']")), "203.0.113.7 "});
  check({"stix", "[" + indicator("[ipv6-addr:value='2001:db8::7'] OR [ipv4-addr:value = '203.0.113.0/24']") + "]",
         "203.0.113.0-203.0.113.255 2001:db8::7 "});
  check({"stix",
         "{\"objects\":[" +
             indicator("[(ipv4-addr:value IN ('192.0.2.1', '192.0.2.2')) OR ipv4-addr:value "
                       "ISSUBSET '192.0.2.16/28']") +
             "],\"more\":false}",
         "192.0.2.1 192.0.2.2 192.0.2.16-192.0.2.31 "});
  // Whatever asks for more than addresses is no entry.
  for (const char* pattern :
       {"[ipv4-addr:value = '192.0.2.1' AND network-traffic:dst_port = 22]", "[ipv4-addr:value != '192.0.2.1']",
        "[NOT ipv4-addr:value = '192.0.2.1']", "[ipv4-addr:value LIKE '192.0.2.%']",
        "[ipv4-addr:value NOT IN ('192.0.2.1')]", "[ipv4-addr:value = '192.0.2.1' OR domain-name:value = 'a.example']",
        "[ipv4-addr:value = '192.0.2.1'] FOLLOWEDBY [ipv4-addr:value = '192.0.2.2']",
        "[ipv4-addr:value = '192.0.2.1'] WITHIN 5 SECONDS", "[domain-name:value = 'a.example']"}) {
    check({"stix", bundle(indicator(pattern)), "skipped 2 "});
  }
  for (const char* pattern : {"[ipv4-addr:value = '192.0.2.300']", "[ipv4-addr:value = '192.0.2.1'",
                              "[ipv4-addr:value = '192.0.2.1", "[ipv4-addr:value = ]", "x"}) {
    check({"stix", bundle(indicator(pattern)), "bad 2 "});
  }
  const std::string one = "[ipv4-addr:value = '192.0.2.1']";
  check({"stix", bundle(indicator(one, ",\"revoked\":true")), "skipped 2 "});
  check({"stix", bundle(indicator(one, ",\"revoked\":false,\"valid_until\":\"1970-01-12T13:48:20.5Z\"")),
         "192.0.2.1@100 "});
  check({"stix", bundle(indicator(one, ",\"valid_until\":\"soon\"")), "bad 2 "});
  check({"stix", bundle(indicator(one, ",\"indicator_types\":[\"benign\"]")), "skipped 2 "});
  check({"stix", bundle(indicator(one, ",\"labels\":[\"malicious-activity\",\"benign\"]")), "skipped 2 "});
  check({"stix", bundle(indicator(one, ",\"indicator_types\":[\"malicious-activity\"]")), "192.0.2.1 "});
  check({"stix", bundle(indicator(one, ",\"indicator_types\":[\"malicious-activity\"]")), "skipped 2 ", WEIR_PASS});
  check({"stix", bundle("{\"type\":\"indicator\",\"pattern_type\":\"snort\",\"pattern\":\"alert 192.0.2.1\"}"),
         "skipped 2 "});
  check({"stix",
         bundle("{\"type\":\"ipv4-addr\",\"value\":\"192.0.2.1\"},\n{\"type\":\"malware\",\"name\":\"x\"},\n" +
                indicator(one)),
         "192.0.2.1 skipped 2 "});
  std::string many = "[ipv4-addr:value = '192.0.2.0'";
  for (int i = 1; i < 60; i++) many += " OR ipv4-addr:value = '192.0.2." + std::to_string(i) + "'";
  const std::string text = bundle(indicator(many + "]"));
  CHECK(read({"stix", text, ""}, text.size()).entries() == 60);
}

TEST_CASE("events of MISP") {
  const auto attribute = [](const std::string& type, const std::string& value, const std::string& more = "") {
    return "{\"type\":\"" + type + "\",\"to_ids\":true,\"value\":\"" + value + "\"" + more + "}";
  };
  const auto event = [](const std::string& attributes) {
    return "{\"Event\":{\"info\":\"x\",\"Attribute\":[\n" + attributes + "]}}";
  };
  check({"misp-event", event(attribute("ip-src", "192.0.2.1") + ",\n" + attribute("ip-dst", "2001:db8::/32")),
         "192.0.2.1 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "});
  check({"misp-event",
         event(attribute("ip-dst|port", "192.0.2.1|443") + ",\n" + attribute("ip-src|port", "2001:db8::7|80") + ",\n" +
               attribute("ip-dst|port", "192.0.2.1|x")),
         "192.0.2.1:443 2001:db8::7:80 bad 4 "});
  check({"misp-event",
         event(attribute("domain", "a.example") + ",\n" + attribute("domain|ip", "a.example|192.0.2.1") + ",\n" +
               attribute("ip-src", "192.0.2.2", ",\"deleted\":true") + ",\n" +
               "{\"type\":\"ip-src\",\"to_ids\":false,\"value\":\"192.0.2.3\"},\n" +
               attribute("ip-src", "192.0.2.4", ",\"warnings\":[{\"match\":\"x\"}]")),
         "skipped 2 skipped 3 skipped 4 skipped 5 skipped 6 "});
  check({"misp-event",
         event(attribute("ip-src", "192.0.2.1", ",\"Tag\":[{\"name\":\"false-positive:risk=\\\"high\\\"\"}]") + ",\n" +
               attribute("ip-src", "192.0.2.2", ",\"Tag\":[{\"name\":\"tlp:clear\"}]") + ",\n" +
               attribute("ip-src", "192.0.2.300")),
         "192.0.2.2 skipped 2 bad 4 "});
  check({"misp-event",
         "{\"response\":[{\"Event\":{\"Attribute\":[],\"Object\":[{\"name\":\"x\",\"Attribute\":[" +
             attribute("ip-dst", "192.0.2.1") + "]}]}}]}",
         "192.0.2.1 "});
  check({"misp-event", "{\"response\":{\"Attribute\":[" + attribute("ip-dst", "192.0.2.1") + "]}}", "192.0.2.1 "});
  check({"misp-event", event(attribute("ip-src", "192.0.2.1")), "skipped 2 ", WEIR_PASS});
  check(
      {"misp", "{\"description\":\"x\",\"list\":[\"192.0.2.1\"],\"matching_attributes\":[\"ip-src\"]}", "192.0.2.1 "});
}

TEST_CASE("rules of Suricata") {
  check({"suricata",
         "# alert ip [192.0.2.9] any -> any any (sid:1;)\n"
         "alert ip [203.0.113.1,203.0.113.2, 2001:db8::/32] any -> $HOME_NET any (msg:\"a; content\"; sid:2;)\n"
         "drop tcp $HOME_NET any -> 198.51.100.0/24 any (msg:\"x\"; threshold: type limit, track by_src; sid:3;)\n"
         "reject ip 192.0.2.1 any <> any any (sid:4;)\n",
         "203.0.113.1 203.0.113.2 198.51.100.0-198.51.100.255 192.0.2.1 "
         "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "});
  check({"suricata",
         "alert ip [203.0.113.0/24,!203.0.113.9,[192.0.2.1,!192.0.2.2]] any -> any any (sid:1;)\n"
         "alert ip ![192.0.2.1] any -> any any (sid:1;)\nalert ip any any -> any any (sid:1;)\n"
         "pass ip 192.0.2.1 any -> any any (sid:1;)\nalert ip 192.0.2.1 any -> 198.51.100.9 any (sid:1;)\n",
         "203.0.113.0-203.0.113.255 192.0.2.1 skipped 1 skipped 1 skipped 2 skipped 3 skipped 4 "});
  check({"suricata",
         "alert tcp any any -> 192.0.2.1 443 (sid:1;)\nalert tcp any any -> 192.0.2.1 [80,443] (sid:1;)\n"
         "alert tcp any any -> 192.0.2.0/28 443 (sid:1;)\nalert tcp any any -> 192.0.2.1 !22 (sid:1;)\n",
         "192.0.2.1:443 skipped 2 skipped 3 skipped 4 "});
  check(
      {"suricata",
       "alert http any any -> 192.0.2.1 any (sid:1;)\nalert tcp any any -> 192.0.2.1 any (msg:\"x\"; content:\"y\";)\n"
       "alert ip [192.0.2.1,192.0.2.300] any -> any any (sid:1;)\nalert ip [192.0.2.1 any -> any any (sid:1;)\n"
       "alert ip [192.0.2.1,,192.0.2.2] any -> any any (sid:1;)\nalert http (sid:1;)\nnothing\n",
       "192.0.2.1 skipped 1 skipped 2 bad 3 bad 4 bad 5 skipped 6 bad 7 "});
  check({"suricata",
         "alert ip [192.0.2.1, \\\n  192.0.2.2] any -> any any \\\n (sid:1;)\nalert ip 192.0.2.3 any -> any any (x",
         "192.0.2.1 192.0.2.2 bad 4 "});
  check({"suricata", "pass ip 192.0.2.1 any -> any any (sid:1;)\nalert ip 192.0.2.2 any -> any any (sid:1;)\n",
         "192.0.2.1 skipped 2 ", WEIR_PASS});
}

TEST_CASE("address lists of RouterOS") {
  check({"mikrotik",
         "# by RouterOS 7.1\n/ip firewall address-list\nadd address=192.0.2.1 list=bad\n"
         "add comment=\"a; b } address=9.9.9.9\" address=192.0.2.0/28 list=\"bad\" timeout=1d2h\n"
         "/ipv6 firewall address-list\nadd address=2001:db8::/32 list=bad timeout=00:30:00\n",
         "192.0.2.1 192.0.2.0-192.0.2.15@93600 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff@1800 "});
  check({"mikrotik",
         "/ip firewall address-list add list=blacklist address=203.0.113.7\n"
         ":do { add address=198.51.100.0/24 list=blacklist } on-error={}\n"
         "/ip/firewall/address-list/add list=a address=192.0.2.1-192.0.2.9 timeout=\"1d 00:00:10\"\n",
         "203.0.113.7 198.51.100.0-198.51.100.255 192.0.2.1-192.0.2.9@86410 "});
  check({"mikrotik", "add list=a address=192.0.2.1\nadd list=a address=192.0.2.2\n", "192.0.2.1 192.0.2.2 "});
  check({"mikrotik", "/ip firewall address-list\nadd address=192.0.2.1 list=\\\n    blacklist\n", "192.0.2.1 "});
  check({"mikrotik",
         "/ip firewall address-list\nadd list=whitelist address=192.0.2.1\nadd list=a address=192.0.2.2 disabled=yes\n"
         "remove [find where list=a]\nadd list=a address=bad.example\n/ip firewall filter\n"
         "add chain=input src-address=192.0.2.3 action=drop\n",
         "skipped 2 skipped 3 skipped 4 skipped 5 skipped 7 "});
  check({"mikrotik",
         "/ip firewall address-list\nadd list=a address=192.0.2.300\nadd list=a\nadd address=192.0.2.1\n"
         "add list=a address=192.0.2.1 timeout=x\nnothing\n",
         "bad 2 bad 3 bad 4 bad 5 bad 6 "});
  check({"mikrotik", "/ip firewall address-list\nadd list=whitelist address=192.0.2.1\n", "192.0.2.1 ", WEIR_PASS});
  // What `ipset` prints stays what it is.
  check({"ipset", "add list 192.0.2.1\nadd address 192.0.2.2\n", "192.0.2.1 192.0.2.2 "});
}

TEST_CASE("hosts.deny") {
  check({"hosts-deny",
         "# x\nALL: 203.0.113.7, 203.0.113.8\nsshd: 198.51.100.0/255.255.255.0\nALL: 192.0.2.\nsshd : [2001:db8::]/32 "
         ": deny\n"
         "ALL: 2001:db9::7\nALL:192.0.2.200\n",
         "203.0.113.7 203.0.113.8 198.51.100.0-198.51.100.255 192.0.2.0-192.0.2.255 192.0.2.200 "
         "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 2001:db9::7 "});
  check({"hosts-deny",
         "ALL: 203.0.113.0/24 EXCEPT 203.0.113.9\nALL: 192.0.2.1 : allow\nALL: ALL\nALL: .example.net, *.a.example\n"
         "sshd: LOCAL, PARANOID\n",
         "203.0.113.0-203.0.113.255 skipped 1 skipped 2 skipped 3 skipped 4 skipped 4 "});
  check({"hosts-deny", "ALL: 192.0.2.1\nALL: 192.0.2.300\nnothing\nALL:\nALL: 192.0.2.1/33 192.0.2.2\n",
         "192.0.2.1 192.0.2.2 bad 2 bad 3 bad 4 bad 5 "});
  check({"hosts-deny", "ALL: 192.0.2.1, \\\n  192.0.2.2\n# ALL: 192.0.2.3, \\\n 192.0.2.4\n", "192.0.2.1 192.0.2.2 "});
  check({"hosts-deny", "ALL: 192.0.2.1 : allow\nALL: 192.0.2.2 : deny\n", "192.0.2.1 skipped 2 ", WEIR_PASS});
  check({"hosts-deny", "in.telnetd: 203.0.113.*\n", "203.0.113.0-203.0.113.255 "});
  check(
      {"p2p", "all:192.0.2.1-192.0.2.9\nsshd x:192.0.2.20-192.0.2.29\n", "192.0.2.1-192.0.2.9 192.0.2.20-192.0.2.29 "});
}

TEST_CASE("tables of access") {
  check({"access", "203.0.113.7\tREJECT\n203.0.113.8\t550 go away\n198.51.100.9\tOK\n198.51.100.10\tRELAY\n",
         "203.0.113.7 203.0.113.8 skipped 3 skipped 4 "});
  check({"access", "203.0.113.0/24 block\n198.51.100.9 allow\n2001:db8::/32 1\n2001:db8:1::/48 0\n",
         "203.0.113.0-203.0.113.255 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff skipped 2 skipped 4 "});
  check(
      {"access",
       "192.0.2.0/28 REJECT text\n192.0.2.16/28 DUNNO\nConnect:192.0.2.1 ERROR:5.7.1:550 no\nIPv6:2001:db8::1 REJECT\n"
       "198.51.100 REJECT\nspam.example REJECT\n192.0.2.2 HOLD\n192.0.2.3 whatever\n192.0.2.300 REJECT\n192.0.2.4\n",
       "192.0.2.0-192.0.2.15 192.0.2.1 198.51.100.0-198.51.100.255 2001:db8::1 skipped 2 skipped 6 skipped 7 bad 8 "
       "bad 9 bad 10 ",
       WEIR_DROP, true});
  check({"access", "192.0.2.1 REJECT\n192.0.2.2 OK\n", "192.0.2.2 skipped 1 ", WEIR_PASS});
  check({"access", "if 192.0.2.0/24\n192.0.2.1 OK\n192.0.2.0/24 REJECT\nendif\n", "bad 1 FAULT"});
  check({"access", "192.0.2.1 0\n192.0.2.2 1\n", "bad 1 bad 2 ", WEIR_DROP, true});
  // Remarks of plain lists are no verdicts.
  check({"plain", "192.0.2.1 spam\n192.0.2.2 scan\n192.0.2.3 evil host\n", "192.0.2.1 192.0.2.2 192.0.2.3 "});
  check({"plain", "192.0.2.1\t450\n192.0.2.2\t550\n", "192.0.2.1 192.0.2.2 "});
}

TEST_CASE("reputation of Suricata, by name") {
  check({"iprep", "203.0.113.7,1,127\n198.51.100.0/24, 2, 1\n# x\n203.0.113.8,1,0\n",
         "203.0.113.7 198.51.100.0-198.51.100.255 skipped 4 ", WEIR_DROP, true});
  check({"iprep", "203.0.113.7,1,128\n203.0.113.7,x,1\n203.0.113.300,1,1\n203.0.113.7\n203.0.113.7,1\n",
         "bad 1 bad 2 bad 3 bad 4 bad 5 ", WEIR_DROP, true});
}

TEST_CASE("zones of rbldnsd") {
  check({"rbldnsd",
         ":127.0.0.2:Listed\n203.0.113.0/25\n203.0.113.200-210\n!203.0.113.9\n192.0.2.7 :127.0.0.3:spam\n198.51.100\n"
         "192.0.2.8:2:x\n",
         "203.0.113.0-203.0.113.127 203.0.113.200-203.0.113.210 192.0.2.7 198.51.100.0-198.51.100.255 192.0.2.8 "
         "skipped 4 "});
  check(
      {"rbldnsd",
       "$SOA 3600 ns.example admin.example 0 1h 1h 1h 1h\n$NS 3600 ns.example\n192.0.2.0-192.0.3.255\n192.0.2.250-3.5\n"
       "bad.example\n192.0.2.9-1\n2001:db8::/32 x\n10/8\n",
       "192.0.2.0-192.0.3.255 192.0.2.250-192.0.3.5 10.0.0.0-10.255.255.255 "
       "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "
       "skipped 5 bad 6 "});
}

TEST_CASE("structures that no format reads are refused by their names") {
  const struct {
    const char* name;
    std::string text;
  } rows[] = {
      {"rules of iptables", "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 203.0.113.7/32 -j DROP\nCOMMIT\n"},
      {"rules of iptables", "iptables -A INPUT -s 203.0.113.1,203.0.113.2 -j DROP\n"},
      {"rules of iptables", "#!/bin/sh\nsudo /sbin/ip6tables -I INPUT -s 2001:db8::7 -j DROP\n"},
      {"commands of firewalld", "firewall-cmd --ipset=bad --add-entry=203.0.113.7\n"},
      {"rules of ufw", "ufw deny from 203.0.113.7\nufw insert 1 deny from 198.51.100.0/24\n"},
      {"rules of ufw", "Anywhere                   DENY IN     203.0.113.7\n"},
      {"rules of csf", "tcp|in|d=22|s=198.51.100.9\nudp|in|d=53|s=203.0.113.0/24\n"},
      {"rules of Shorewall", "DROP net:203.0.113.7 all\nWHITELIST net:198.51.100.9 all\n"},
      {"a log of fail2ban", "2026-11-27 08:00:00,1 fail2ban.actions [1]: NOTICE [sshd] Ban 203.0.113.7\n"},
      {"a CDB list of Wazuh", "203.0.113.7:blocked\n203.0.113.8:blocked\n198.51.100.9:trusted\n"},
      {"a CDB list of Wazuh", "203.0.113.:\n198.51.100.9:\n"},
      {"a hosts file", "127.0.0.1 localhost\n0.0.0.0 ads.example\n:: ads.example\n"},
      {"rules of pf", "table <bad> persist { 203.0.113.0/24, !203.0.113.9, 198.51.100.9 }\n"},
      {"rules of pf", "block drop in quick on em0 from 203.0.113.7 to any\npass in all\n"},
      {"rules of ipfw", "ipfw table 1 add 203.0.113.0/24\nipfw add 100 deny ip from 203.0.113.7 to any\n"},
      {"rules of ipfw", "add 100 deny ip from 203.0.113.7 to any\nadd allow ip from 198.51.100.9 to any\n"},
      {"commands of netsh",
       "netsh advfirewall firewall add rule name=\"bad\" dir=in action=block remoteip=203.0.113.7,198.51.100.9\n"},
      {"commands of PowerShell", "New-NetFirewallRule -DisplayName x -RemoteAddress 203.0.113.7 -Action Block\n"},
      {"an access list of Cisco",
       "ip access-list extended BAD\n 10 deny ip 203.0.113.0 0.0.0.255 any\n 30 permit ip any any\n"},
      {"an access list of Cisco", "access-list 10 deny 192.0.2.0 0.0.0.255\n"},
      {"a prefix list of a router", "ip prefix-list BAD seq 5 permit 203.0.113.0/24\n"},
      {"an object group of Cisco ASA",
       "object-group network BAD\n network-object host 203.0.113.7\n network-object 198.51.100.0 255.255.255.0\n"},
      {"an access list of Huawei or H3C", "rule 5 deny source 203.0.113.0 0.0.0.255\n"},
      {"commands of VyOS", "set firewall group address-group BAD address 203.0.113.7\n"},
      {"commands of Junos",
       "set policy-options prefix-list BAD 203.0.113.0/24\ndelete policy-options prefix-list BAD 192.0.2.0/24\n"},
      {"commands of Junos", "set security address-book global address x 203.0.113.0/24\n"},
      {"a configuration in braces, as Junos has it",
       "policy-options {\n  prefix-list BAD {\n    203.0.113.0/24;\n    198.51.100.9/32 except;\n  }\n}\n"},
      {"a configuration in braces, as Junos has it",
       "group {\n  address-group BAD {\n   address 203.0.113.7\n   address 203.0.113.8\n }\n}\n"},
      {"commands of Palo Alto", "set address bad1 ip-netmask 203.0.113.7\nset address-group bad static [ bad1 ]\n"},
      {"a configuration of Fortinet",
       "config firewall address\n edit \"bad1\"\n set subnet 203.0.113.0 255.255.255.0\n next\nend\n"},
      {"commands of Check Point", "mgmt_cli add host name bad1 ip-address 203.0.113.7\n"},
      {"commands of Check Point", "add host name bad1 ip-address 203.0.113.7\n"},
      {"objects of SonicWall", "address-object ipv4 \"bad1\" host 203.0.113.7 zone WAN\n"},
      {"commands of ExaBGP", "announce route 203.0.113.0/24 next-hop 192.0.2.1\n"},
      {"an acl of BIND", "acl bad { 203.0.113.7; 203.0.113.8; };\n"},
      {"an acl of BIND", "acl \"bad\" {\n  203.0.113.0/24;\n  !203.0.113.9;\n};\n"},
      {"a response policy zone", "24.0.113.0.203.rpz-ip CNAME .\n32.7.100.51.198.rpz-ip CNAME rpz-passthru.\n"},
      {"a DNS zone", "bad IN A 203.0.113.7\nworse IN AAAA 2001:db8::7\n"},
      {"a configuration of unbound",
       "server:\n access-control: 203.0.113.0/24 refuse\n access-control: 192.0.2.0/24 allow\n"},
      {"a configuration of dnsmasq", "address=/ads.example/0.0.0.0\nbogus-nxdomain=203.0.113.7\n"},
      {"rules of an ad blocker", "[Adblock Plus 2.0]\n! title\n||ads.example^\n||203.0.113.7^\n"},
      {"access rules of Apache", "Order Allow,Deny\nDeny from 203.0.113.7 198.51.100.0/24\nAllow from all\n"},
      {"access rules of Apache", "Require all granted\nRequire not ip 203.0.113.0/24\n"},
      {"rules of ModSecurity", "SecRule REMOTE_ADDR \"@ipMatch 203.0.113.0/24\" \"id:1,deny\"\n"},
      {"a geo or map block of nginx", "geo $bad {\n  default 0;\n  203.0.113.0/24 1;\n  198.51.100.9 0;\n}\n"},
      {"a geo or map block of nginx", "map $remote_addr $bad {\n  203.0.113.7 deny;\n  198.51.100.9 allow;\n}\n"},
      {"a configuration of HAProxy", "acl bad src 203.0.113.0/24 198.51.100.9\nhttp-request deny if bad\n"},
      {"access rules of squid", "acl bad src 203.0.113.0/24\nhttp_access deny bad\n"},
      {"a configuration of Terraform", "cidr_blocks = [\"203.0.113.0/24\", \"198.51.100.0/24\", \"192.0.2.0/24\"]\n"},
      {"a configuration of Terraform",
       "variable \"bad\" {\n  default = [\n    \"203.0.113.0/24\",\n    \"198.51.100.0/24\",\n  ]\n}\n"},
      {"a network policy of Kubernetes", "- ipBlock:\n    cidr: 203.0.113.0/24\n    except:\n    - 203.0.113.9/32\n"},
      {"objects of whois",
       "inetnum:        203.0.113.0 - 203.0.113.255\nnetname:        EXAMPLE\nroute:  198.51.100.0/24\n"},
      {"YAML", "blocklist:\n  - 203.0.113.7\n  - 198.51.100.0/24\n"},
      {"a list of YAML", "- 203.0.113.7\n- '198.51.100.0/24'\n"},
      {"SQL", "INSERT INTO bans (ip) VALUES ('203.0.113.7');\n"},
      {"an assignment of a configuration or a script", "blocked=203.0.113.7,203.0.113.8\n"},
      {"an assignment of a configuration or a script", "export BAD=\"203.0.113.7 203.0.113.8\"\n"},
      {"a file of sections", "[whitelist]\n198.51.100.9\n203.0.113.8\n"},
      {"a file of sections", "[v4]\n198.51.100.9\n203.0.113.8\n192.0.2.1\n[v6]\n2001:db8::1\n"},
  };
  std::set<std::string> named;
  for (const auto& row : rows) {
    INFO(row.text);
    named.insert(row.name);
    const feeds::Recognised recognised = feeds::recognise(row.text);
    CHECK(recognised.format == &feeds::plain_format());
    REQUIRE(recognised.fault);
    CHECK(recognised.fault->reason.starts_with("is "s + row.name + ": line "));
    CHECK(!recognised.fault->hint.empty());
    const ListDraft list = read({"plain", row.text, ""}, row.text.size());
    CHECK(list.fault);
    CHECK(list.entries() == 0);
  }
  for (const feeds::Structure& structure : feeds::structures()) {
    INFO(structure.name);
    CHECK(named.contains(structure.name));
  }
}

TEST_CASE("the message of a structure names the line") {
  const auto fault = feeds::recognise("# x\n\niptables -A INPUT -s 203.0.113.7 -j DROP # \x1b[2J\n").fault;
  REQUIRE(fault);
  CHECK(fault->reason == "is rules of iptables: line 3: iptables -A INPUT -s 203.0.113.7 -j DROP # \x1b[2J");
}

TEST_CASE("odd lines among others make no structure") {
  const std::string plain = "203.0.113.7\n203.0.113.8\n198.51.100.0/24\n192.0.2.1 remark\n";
  for (const char* line : {"*filter",
                           "-A INPUT -s 203.0.113.7 -j DROP",
                           "geo $bad {",
                           "acl bad {",
                           "policy-options {",
                           "- 203.0.113.9",
                           "[blocked]",
                           "set address x 203.0.113.9",
                           "blocked=203.0.113.9",
                           "0.0.0.0 ads.example",
                           "||203.0.113.9^",
                           "resource \"a\" \"b\" {",
                           "203.0.113.9:blocked",
                           "tcp|in|d=22|s=198.51.100.9",
                           "access-list 1 deny 192.0.2.9",
                           "name:",
                           "inetnum: 192.0.2.0 - 192.0.2.9",
                           "0.0.0.0",
                           "not 203.0.113.9",
                           "INSERT INTO x",
                           "ufw deny from 192.0.2.1",
                           "ALL: 192.0.2.9",
                           "alert ip 192.0.2.9 any -> any any (sid:1;)",
                           "arin|ZZ|ipv4|192.0.2.0|256|x|assigned"}) {
    for (const std::string& text : {plain + line + "\n", line + "\n"s + plain}) {
      INFO(text);
      const feeds::Recognised recognised = feeds::recognise(text);
      CHECK(recognised.format->name == "plain"s);
      CHECK(!recognised.fault);
    }
  }
  // Texts that formats read.
  const struct {
    const char* format;
    std::string text;
  } rows[] = {
      {"csv", "ip,category,detail\n203.0.113.7,abuse,x\n203.0.113.8,c2,y\n"},
      {"csv", "\"203.0.113.1\",\n\"203.0.113.2\"\n"},
      {"p2p", "block in:203.0.113.64-203.0.113.79\nset address x:203.0.113.80-203.0.113.90\n"},
      {"dat", "203.000.113.000 - 203.000.113.255 , 000 , table <bad>\n"},
      {"ipset", "create a hash:ip\nadd a 203.0.113.7\nadd host 203.0.113.8\n"},
      {"nft", "table inet filter {\n set s {\n  elements = { 203.0.113.0/24 }\n }\n}\n"},
      {"nginx", "deny 203.0.113.0/24;\nallow 203.0.113.9;\n"},
      {"zeek", "#fields\tindicator\tindicator_type\n203.0.113.7\tIntel::ADDR\n"},
      {"iproute", "ip route 203.0.113.0 255.255.255.0 Null0\n"},
      {"plain", "203.0.113.7 - - [27/Nov/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 404 1\n203.0.113.8 - - [x]\n"},
      {"plain", "203.0.113.0/24\nnot 203.0.113.9\n~203.0.113.10\n-203.0.113.11\n- 203.0.113.12\n+203.0.113.13\n"},
      {"plain",
       "203.0.113.7 # lfd: (sshd) Failed login\ntcp|in|d=22|s=198.51.100.9\n198.51.100.0/24 # x\nInclude /etc/x\n"},
      {"plain", "203.0.113.7 host7.example.net\n203.0.113.8 host8.example.net\n"},
      {"plain", "203.0.113.7:443\n[2001:db8::7]:443\n203.0.113.8:0080\n"},
      {"plain", "203.0.113.1,203.0.113.2;\n203.0.113.7;\n203.0.113.8;\n"},
  };
  for (const auto& row : rows) {
    INFO(row.text);
    const feeds::Recognised recognised = feeds::recognise(row.text);
    INFO((recognised.fault ? recognised.fault->reason : ""));
    CHECK(!recognised.fault);
    CHECK(recognised.format->name == std::string(row.format));
  }
}
