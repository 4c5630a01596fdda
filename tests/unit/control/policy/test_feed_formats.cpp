// Every feed format but plain, text by text: what counts, what is skipped, what is bad, and what is no whole feed. Each
// text is read at once and in parts of every small size, which must not matter.
#include <string>
#include <string_view>

#include "control/policy/feeds/reading.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;
using namespace std::string_literals;

namespace {

constexpr uint32_t kWritten = 1'000'000;

// The entries, as "FIRST[-LAST][:PORT][@EXPIRES after it was written] " each; bad and skipped lines as "!LINE ";
// "FAULT".
std::string described(const ListDraft& list) {
  std::string all;
  const auto describe = [&](const auto& entry) {
    all += to_string(entry.first);
    if (entry.last != entry.first) all += "-" + to_string(entry.last);
    if (entry.port != 0) all += ":" + std::to_string(entry.port);
    if (entry.expires != kNever) all += "@" + std::to_string(entry.expires - kWritten);
    all += " ";
    CHECK(entry.line >= 1);
    CHECK(entry.line <= list.feed.lines + (list.fault ? 1 : 0));
  };
  for (const auto& entry : list.v4) describe(entry);
  for (const auto& entry : list.v6) describe(entry);
  for (const LineSample& bad : list.feed.samples) all += "!" + std::to_string(bad.line) + " ";
  if (list.fault) all += "FAULT";
  CHECK(list.feed.entries == list.entries());
  return all;
}

ListDraft read(std::string_view format, std::string_view text, const std::string& settings, size_t at_once) {
  feeds::Options options;
  options.written = kWritten;
  options.settings = settings;
  feeds::Reading reading(format == "auto" ? nullptr : feeds::find_format(format), options);
  ListDraft list;
  for (; !text.empty(); text.remove_prefix(std::min(at_once, text.size()))) {
    reading.read(text.substr(0, at_once), false, list);
  }
  reading.read({}, true, list);
  return list;
}

struct Row {
  const char* format;
  std::string text;
  const char* expected;
  std::string settings = "";
};

void check(const Row& row) {
  INFO(row.format << " (" << row.settings << "): " << row.text);
  const ListDraft whole = read(row.format, row.text, row.settings, std::max(row.text.size(), size_t{1}));
  INFO((whole.fault ? whole.fault->reason : ""));
  for (const LineSample& bad : whole.feed.samples) UNSCOPED_INFO(bad.line << ": " << bad.reason);
  CHECK(described(whole) == row.expected);
  for (size_t at_once = 1; at_once < std::min<size_t>(row.text.size(), 40); at_once++) {
    const ListDraft parts = read(row.format, row.text, row.settings, at_once);
    if (described(parts) != row.expected || parts.feed != whole.feed) {
      FAIL_CHECK("in parts of " << at_once << ": " << described(parts));
      break;
    }
  }
}

}  // namespace

TEST_CASE("skipped lines leave room for samples of bad ones") {
  std::string text = "#fields\tindicator\tindicator_type\n";
  for (int i = 0; i < 7; i++) text += "example" + std::to_string(i) + ".org\tIntel::DOMAIN\n";
  for (int i = 0; i < 7; i++) text += "bad\tIntel::ADDR\n";
  const FeedReport feed = read("zeek", text, "", text.size()).feed;
  CHECK(feed.skipped == 7);
  CHECK(feed.bad == 7);
  REQUIRE(feed.samples.size() == 2 * kSamplesOfAKind);
  CHECK((feed.samples[0].kind == LineSample::skipped && feed.samples[0].line == 2));
  CHECK((feed.samples[4].kind == LineSample::skipped && feed.samples[4].line == 6));
  CHECK((feed.samples[5].kind == LineSample::bad && feed.samples[5].line == 9));
}

TEST_CASE("formats of lines") {
  const Row rows[] = {
      {"p2p", "# x\nname:192.0.2.1-192.0.2.9\nA: b-c:192.0.2.0-192.0.2.255\r\n\nx:001.002.003.004-001.002.003.010\n",
       "192.0.2.1-192.0.2.9 192.0.2.0-192.0.2.255 1.2.3.4-1.2.3.10 "},
      {"p2p", "net:2001:db8::1-2001:db8::9\nname:192.0.2.7\n", "192.0.2.7 2001:db8::1-2001:db8::9 "},
      {"p2p", "x:192.0.2.9-192.0.2.1\nx:192.0.2.1-\nnothing\nx:0.0.0.0-255.255.255.255\nx::ffff:192.0.2.1\n",
       "!1 !2 !3 !4 !5 "},
      {"p2p", "\xe2\x80\xa2 name\0:192.0.2.1-192.0.2.2"s, "192.0.2.1-192.0.2.2 "},
      {"p2p", "name:010.000.000.001\nname:192.0.2.0/28\nname:192.0.2.300\n", "10.0.0.1 192.0.2.0-192.0.2.15 !3 "},
      {"dat", "001.002.004.000 - 001.002.004.255 , 000 , name\n192.0.2.1-192.0.2.9,127,a,b\n# x\n// x\n",
       "1.2.4.0-1.2.4.255 192.0.2.1-192.0.2.9 "},
      {"dat", "192.0.2.1 - 192.0.2.9 , 128 , let through\n192.0.2.1 - 192.0.2.9 , x , y\n192.0.2.1\n", "!1 !2 !3 "},
      {"dat", "010.020.030.040 - 010.020.030.050\n", "10.20.30.40-10.20.30.50 "},
      {"ipset",
       "create bad hash:net family inet hashsize 1024 maxelem 2302\nadd bad 192.0.2.0/24\nadd bad 192.0.2.7\n"
       "add bad 192.0.2.1-192.0.2.9\n-A bad 192.0.2.8\nadd -exist bad 2001:db8::/32\nCOMMIT\n",
       "192.0.2.0-192.0.2.255 192.0.2.7 192.0.2.1-192.0.2.9 192.0.2.8 "
       "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"ipset",
       "create a hash:ip timeout 300\nadd a 192.0.2.1 timeout 60\nadd a 192.0.2.2\nadd a 192.0.2.3 timeout 0\n"
       "add b 192.0.2.4 packets 0 bytes 0 timeout 7 comment \"x nomatch\"\nadd a 192.0.2.5 timeout x\n",
       "192.0.2.1@60 192.0.2.2@300 192.0.2.3 192.0.2.4@7 !6 "},
      {"ipset", "add a 192.0.2.0/28 nomatch\nadd a 192.0.2.1,tcp:80\nadd a 00:11:22:33:44:55\nadd a\n", "!1 !2 !3 !4 "},
      // What takes entries away again is not carried out.
      {"ipset", "flush a\nadd a 192.0.2.1\ndel a 192.0.2.1\n", "192.0.2.1 !3 FAULT"},
      {"ipset", "add a 192.0.2.1\nflush a\n", "192.0.2.1 !2 FAULT"},
      // Names of sets.
      {"ipset", "add whitelist 192.0.2.1\nadd not_trusted 192.0.2.2\n", "192.0.2.2 !1 "},
      // What iptables-save prints are no entries, whatever their target is.
      {"ipset",
       "-A INPUT -s 192.0.2.10/32 -p tcp -j ACCEPT\n-A INPUT ! -s 192.0.2.128/25 -j DROP\n-A x 192.0.2.1 -j y\n",
       "!1 !2 !3 "},
      {"nginx",
       "# deny 192.0.2.1;\ndeny 192.0.2.0/28;\n  deny\t2001:db8::/32 ;\r\ndeny 192.0.2.1; deny 192.0.2.2; # x\n",
       "192.0.2.0-192.0.2.15 192.0.2.1 192.0.2.2 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"nginx", "allow 192.0.2.1;\ndeny all;\ndeny 192.0.2.2\ndeny unix:;\nserver_name x;\n", "!1 !2 !3 !4 !5 "},
      {"iproute",
       "ip route replace 192.0.2.0/28 via 127.0.0.1 dev lo onlink\nip -6 route add blackhole 2001:db8::/32\n"
       "route append unreachable 192.0.2.16/28\nprohibit 192.0.2.32/28 proto static\n192.0.2.48/28 dev lo\n192.0.2.7\n",
       "192.0.2.0-192.0.2.15 192.0.2.16-192.0.2.31 192.0.2.32-192.0.2.47 192.0.2.48-192.0.2.63 192.0.2.7 "
       "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"iproute",
       "ip route del 192.0.2.0/28\nip route add default via 192.0.2.1\nip route add 192.0.2.1:80\necho 1\n\n",
       "!1 !2 !3 !4 "},
      // What `ip route show` prints of the machine's own networks is no entry.
      {"iproute",
       "local 127.0.0.0/8 dev lo table local proto kernel scope host src 127.0.0.1\nanycast 2001:db8:: dev eth0\n"
       "10.1.0.0/16 dev eth1 proto kernel scope link src 10.1.0.1\nthrow 192.0.2.0/24\n"
       "\tnexthop via 192.0.2.1 dev eth0 weight 1\nblackhole 203.0.113.0/24\n198.19.0.0/16 via 192.0.2.1 proto "
       "static\n",
       "203.0.113.0-203.0.113.255 !1 !2 !3 !4 !5 "},
      {"iproute", "broadcast 127.255.255.255 dev lo\nmulticast 224.0.0.0/4 dev lo\n2001:db8::/64 dev eth0 proto ra\n",
       "!1 !2 !3 "},
      // Netmasks of Cisco, Windows and route(8).
      {"iproute",
       "ip route 203.0.113.0 255.255.255.0 Null0\nroute -p ADD 198.51.100.0 MASK 255.255.255.128 0.0.0.0\n"
       "route add -net 192.0.2.0 netmask 255.255.255.240 reject\nroute add -host 192.0.2.99 reject\n",
       "203.0.113.0-203.0.113.255 198.51.100.0-198.51.100.127 192.0.2.0-192.0.2.15 192.0.2.99 "},
      {"iproute",
       "ip route 203.0.113.0 0.0.0.255 Null0\nroute add 203.0.113.0 mask\nroute add -net 203.0.113.0 reject\n"
       "route add 203.0.113.0 10.0.0.1\nip route 0.0.0.0 0.0.0.0 192.0.2.1\n",
       "!1 !2 !3 !4 !5 "},
      {"zeek",
       "#fields\tindicator\tindicator_type\tmeta.source\tmeta.do_notice\n192.0.2.1\tIntel::ADDR\tSANS\tF\n"
       "192.0.2.0/28\tIntel::SUBNET\tx\tF\nx.cz\tIntel::DOMAIN\tx 192.0.2.2\tF\nx\n",
       "192.0.2.1 192.0.2.0-192.0.2.15 !4 !5 "},
      {"zeek", "#fields\tmeta.source\tindicator_type\tindicator\n192.0.2.9\tIntel::ADDR\t2001:db8::1\n",
       "2001:db8::1 "},
      {"jsonl",
       "{\"dst_ip\": \"192.0.2.1\", \"dst_port\": 80}\n{\"ip\": \"192.0.2.2\"\n\n[\"192.0.2.3\"]\n"
       "{\"ip\":\"192.0.2.4\",\"seen\":[{\"ip\":\"192.0.2.9\"}]}\n{\"name\":\"192.0.2.9\"}",
       "192.0.2.1:80 192.0.2.4 !2 !4 !6 "},
      {"spamhaus",
       "{\"cidr\":\"192.0.2.0/28\",\"sblid\":\"SBL1\",\"rir\":\"apnic\"}\n{\"cidr\":\"2001:db8::/32\",\"rir\":\"x\"}\n"
       "{\"type\":\"metadata\",\"timestamp\":1,\"size\":9,\"records\":2,\"terms\":\"192.0.2.9\"}\n",
       "192.0.2.0-192.0.2.15 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"spamhaus", "{\"cidr\":\"192.0.2.0/28\",\"rir\":\"apnic\"}\n{\"type\":\"metadata\",\"records\":3}\n",
       "192.0.2.0-192.0.2.15 FAULT"},
      {"spamhaus", "{\"asn\":932,\"rir\":\"arin\"}\n{\"cidr\":5}\n{\"type\":\"metadata\",\"records\":2}\n", "!1 !2 "},
      // Cut at the end of a line; a blank line; two lists in one.
      {"spamhaus", "{\"cidr\":\"192.0.2.1/32\"}\n{\"cidr\":\"192.0.2.2/32\"}\n", "192.0.2.1 192.0.2.2 FAULT"},
      {"spamhaus", "{\"cidr\":\"192.0.2.1/32\"}\n\n{\"type\":\"metadata\",\"records\":1}\n", "192.0.2.1 "},
      {"spamhaus",
       "{\"cidr\":\"192.0.2.1/32\"}\n{\"type\":\"metadata\",\"records\":1}\n{\"cidr\":\"192.0.2.2/32\"}\n"
       "{\"type\":\"metadata\",\"records\":1}\n",
       "192.0.2.1 192.0.2.2 "},
      {"spamhaus", "{\"cidr\":\"192.0.2.1/32\"}\n{\"type\":\"metadata\",\"records\":1}\n{\"cidr\":\"192.0.2.2/32\"}\n",
       "192.0.2.1 192.0.2.2 FAULT"},
      {"spamhaus", "", ""},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("sets of nftables") {
  const Row rows[] = {
      {"nft",
       "# x {\ntable inet filter {\n set a {\n  type ipv4_addr\n  flags interval\n  elements = {\n   192.0.2.0/28,\n"
       "   192.0.2.64-192.0.2.70, 192.0.2.80 - 192.0.2.81,\n   # 192.0.2.9,\n   2001:db8::7 } }\n"
       " chain c { type filter hook input priority 0; policy accept; ip saddr 192.0.2.99 drop }\n}",
       "192.0.2.0-192.0.2.15 192.0.2.64-192.0.2.70 192.0.2.80-192.0.2.81 2001:db8::7 !11 "},
      {"nft",
       "define bad = { 192.0.2.1,192.0.2.2 }\nadd element inet t s { 192.0.2.3 }\n"
       "delete element inet t s { 192.0.2.4 }\nnft add element ip t s { 192.0.2.5, }\nadd rule ip t c ip saddr { "
       "192.0.2.6 } drop\n",
       "192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.5 !3 !5 FAULT"},
      {"nft",
       "elements = { 192.0.2.1 timeout 1h30m expires 10m5s, 192.0.2.2 timeout 1d comment \"192.0.2.9, } {\", "
       "192.0.2.3 counter packets 1 bytes 2, 192.0.2.4 . 443, 192.0.2.5 . tcp . 443, $x, 192.0.2.6 : accept, "
       "192.0.2.7 timeout x, }\n",
       "192.0.2.1@605 192.0.2.2@86400 192.0.2.3 192.0.2.4:443 !1 !1 !1 !1 "},
      // What nft prints of an element beside its times, in front of them.
      {"nft",
       "elements = { 192.0.2.7 counter packets 0 bytes 0 timeout 1h expires 59m59s996ms, 192.0.2.8 limit rate over "
       "10/minute burst 5 packets expires 4m10s, 192.0.2.9 ct count over 20 expires 10s, 192.0.2.10 counter packets 1 "
       "bytes 2 comment \"x\" : accept, 192.0.2.11 quota 25 mbytes used 0 bytes last used 1m30s timeout never }\n",
       "192.0.2.7@3599 192.0.2.8@250 192.0.2.9@10 192.0.2.11 !1 "},
      // A set's own timeout is that of its elements.
      {"nft",
       "set a {\n type ipv4_addr\n timeout 2h\n elements = { 192.0.2.8, 192.0.2.9 timeout 5m }\n}\n"
       "set b { timeout 1m; elements = { 192.0.2.10, 192.0.2.11 timeout never } }\n"
       "set c {\n elements = { 192.0.2.12 }\n}\n",
       "192.0.2.8@7200 192.0.2.9@300 192.0.2.10@60 192.0.2.11 192.0.2.12 "},
      {"nft",
       "define one = 192.0.2.1\ndefine bad={ 192.0.2.3, 192.0.2.4 }\nset s {\n elements={ 192.0.2.5 }\n}\n"
       "define range =\n 192.0.2.6-192.0.2.7; define lan = eth0\ntable t { chain c { ip saddr != { 192.0.2.8 } drop; } "
       "}\n"
       "define last=2001:db8::1",
       "192.0.2.1 192.0.2.3 192.0.2.4 192.0.2.5 192.0.2.6-192.0.2.7 2001:db8::1 !7 !8 "},
      {"nft", "define bad = { \\\n 192.0.2.1, \\\n 192.0.2.2 \\\n}\ndefine \\\n one = 192.0.2.3\n",
       "192.0.2.1 192.0.2.2 192.0.2.3 "},
      {"nft", "define bad = { \\\n 192.0.2.1, \\\n x \\\n}\n", "192.0.2.1 !3 "},
      {"nft", "table ip t {\n set s {\n  elements = { 192.0.2.1,\n   192.0.2.2", "192.0.2.1 FAULT"},
      {"nft", "table ip t {\n set s {\n  elements = { 192.0.2.1 }", "192.0.2.1 FAULT"},
      {"nft", "elements = { x, 192.0.2.1/33, 0.0.0.0/0, 192.0.2.9-192.0.2.1 }", "!1 !1 !1 !1 "},
      {"nft", "", ""},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("columns") {
  const Row rows[] = {
      {"csv", "# x\n\"first_seen_utc\",\"dst_ip\",\"dst_port\"\n\"2023-05-23\",\"192.0.2.1\",\"1194\"\n# END 1",
       "192.0.2.1:1194 "},
      {"csv", "ip,category,detail\n192.0.2.1,abuse,198.51.100.9\n192.0.2.2,,\n,x,198.51.100.9\n",
       "192.0.2.1 192.0.2.2 !4 "},
      {"csv", "Country,IP,PrefixLength,Version\r\nAD,2001:db8::,32,ipv6\r\nAD,192.0.2.0,\"28\",ipv4\r\n",
       "192.0.2.0-192.0.2.15 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"csv", "\"192.0.2.1\",\"4,19\",\"2025\",\"DDoS (3.01 RPS), http://192.0.2.9, 192.0.2.8\"\n\"x\",\"192.0.2.7\"\n",
       "FAULT"},
      {"csv", "\"192.0.2.1\",\"two\nlines, 192.0.2.9\n192.0.2.8,x\"\n192.0.2.2,\"a \"\"b\"\" 192.0.2.7\"\n",
       "192.0.2.1 192.0.2.2 ", "address=1"},
      {"csv", "192.0.2.1,x\n192.0.2.2,\"open\n192.0.2.9,x\n", "192.0.2.1 FAULT"},
      {"csv", "198.51.100.0,198.51.100.255,Amazon AWS,http://x\n", "FAULT"},
      {"csv", "198.51.100.0,198.51.100.255,Amazon AWS,http://x\n", "198.51.100.0-198.51.100.255 ", "address=1,last=2"},
      {"csv", "ip_from,ip_to,name\n198.51.100.0,198.51.100.7,x\n", "198.51.100.0-198.51.100.7 "},
      {"csv", "AD,2001:db8::,32,ipv6\n", "2001:db8:: FAULT"},
      {"csv", "AD,2001:db8::,32,ipv6\n", "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff ", "address=2,length=3"},
      {"csv", "src_ip,dst_ip\n192.0.2.1,192.0.2.2\n", "FAULT"},
      {"csv", "src_ip,dst_ip\n192.0.2.1,192.0.2.2\n", "192.0.2.1 ", "address=src_ip"},
      {"csv", "time,ip,port\n1,192.0.2.1,80\n", "192.0.2.1 ", "port=none"},
      {"csv", "a,b\n1,192.0.2.1\n", "FAULT", "address=c"},
      {"csv", "a\tb\n\t192.0.2.1\n1\t192.0.2.2:443\n", "192.0.2.1 192.0.2.2:443 ", "address=b"},
      {"csv", "x;192.0.2.1;1.5\nx;192.0.2.2;1.5\n", "192.0.2.1 192.0.2.2 "},
      {"csv", "x,192.0.2.1\n", "192.0.2.1 ", "address=2,separator=comma"},
      {"csv", "192.0.2.1|http://192.0.2.9\nhttp://192.0.2.9|192.0.2.9\n", "FAULT"},
      {"csv", "dst_ip,port\n192.0.2.1,66086\n192.0.2.2,0\n192.0.2.3,\n2001:db8::1,443\n192.0.2.0/24,80\n",
       "192.0.2.3 2001:db8::1:443 !2 !3 !6 "},
      {"csv", "junk\nip,x\n192.0.2.1,y\n", "192.0.2.1 !1 "},
      {"csv", "\"ip\"\n\"192.0.2.1\"\n", "192.0.2.1 "},
      // A range without an end is an address; zeros before octets are nobody's.
      {"csv", "start,end\n192.0.2.1,\n192.0.2.2,192.0.2.3\n", "192.0.2.1 192.0.2.2-192.0.2.3 "},
      {"csv", "start,end\n010.000.000.001,010.000.000.009\n", "!2 "},
      // Names in the last comment before the rows.
      {"csv", "####\n# abuse.ch\n#\n# Firstseen,DstIP,DstPort\n#\n2024,192.0.2.1,443\n", "192.0.2.1:443 "},
      {"csv", "# when,who,port\n1,192.0.2.1,80\n", "192.0.2.1:80 ", "address=who,port=port"},
      {"csv", "# dstip,port\nDstIP,Port\n192.0.2.1,80\n", "192.0.2.1:80 "},
      {"csv", "# ip,port\n192.0.2.1,80,x\n", "FAULT"},
      {"csv", "# type,value\nhost,evil.example\nip,192.0.2.1\n", "192.0.2.1 !2 "},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("a prefix length beside the address is read, or refuses the feed") {
  const Row rows[] = {
      {"csv", "192.0.2.7,32,DE\n198.51.100.0,24,FR\n", "192.0.2.7 198.51.100.0 FAULT"},
      {"csv", "192.0.2.0/28,x\n2001:db8::,48\n", "192.0.2.0-192.0.2.15 2001:db8:: FAULT"},
      {"csv", "network,cidr,country\n192.0.2.0,28,DE\n192.0.2.16/28,28,DE\n192.0.2.32,x,DE\n",
       "192.0.2.0-192.0.2.15 192.0.2.16-192.0.2.31 192.0.2.32 "},
      {"csv", "ip,cidr\n192.0.2.7,192.0.2.0/24\n", "FAULT"},
      {"csv", "ip,prefix\n192.0.2.0,/28\n", "192.0.2.0-192.0.2.15 "},
      {"csv", "prefix,length\n192.0.2.0,28\n192.0.2.16/28,16\n", "192.0.2.0-192.0.2.15 192.0.2.16-192.0.2.31 "},
      {"csv", "dst_ip,port,cidr\n192.0.2.7,80,32\n", "192.0.2.7:80 "},
      {"csv", "ip,\n198.51.100.0,24\n", "198.51.100.0 FAULT"},
      {"csv", "ip,nm\n198.51.100.0,24\n", "198.51.100.0 FAULT"},
      {"csv", "ip,score\n198.51.100.0,24\n", "198.51.100.0 "},
      {"csv", "198.51.100.0,24\n", "198.51.100.0 ", "address=1"},
      // Ports, and scores of which one fits its address by chance.
      {"csv", "192.0.2.0,443\n192.0.2.2,80\n", "FAULT"},
      {"csv", "192.0.2.0,24\n192.0.2.1,7\n192.0.2.3,9\n", "192.0.2.0 192.0.2.1 192.0.2.3 "},
      {"csv", "192.0.2.0,8\n192.0.2.0,33\n192.0.2.0,32\n192.0.2.0,4294967320\n",
       "192.0.2.0 192.0.2.0 192.0.2.0 192.0.2.0 "},
      {"json", "[{\"network\":\"192.0.2.0\",\"cidr\":\"28\"},{\"cidr\":\"28\",\"network\":\"192.0.2.16\"}]",
       "192.0.2.0-192.0.2.15 192.0.2.16-192.0.2.31 "},
      {"json",
       "[{\"ip\":\"192.0.2.0\",\"prefix\":28},{\"network\":\"192.0.2.0\",\"length\":29},{\"addr\":\"192.0.2.0\","
       "\"len\":30},{\"prefix\":\"192.0.2.0/28\",\"length\":16}]",
       "192.0.2.0-192.0.2.15 192.0.2.0-192.0.2.7 192.0.2.0-192.0.2.3 192.0.2.0-192.0.2.15 "},
      {"json", "[{\"network\":\"192.0.2.0\",\"cidr\":28}]", "192.0.2.0-192.0.2.15 ", "address=network"},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("a stray quote costs its own row") {
  std::string text = "ip,note\n192.0.2.1,\"19 inch rack\n";
  for (int i = 2; i < 200; i++) text += "192.0.2." + std::to_string(i) + (i == 100 ? ",\"x\n" : ",x\n");
  for (const size_t at_once : {size_t{1}, size_t{100}, text.size()}) {
    const ListDraft list = read("csv", text, "", at_once);
    CHECK_FALSE(list.fault);
    CHECK(list.feed.bad == 2);
    CHECK(list.feed.entries == 197);
    REQUIRE(list.v4.size() == 197);
    CHECK(list.v4[0].line == 3);
    CHECK(list.v4.back().line == 200);
    REQUIRE(list.feed.samples.size() == 2);
    CHECK(list.feed.samples[1].line == 101);
  }
}

TEST_CASE("JSON documents") {
  const std::string objects =
      "[\n{\"Country\": \"US\", \"IP\": \"2001:db8::\", \"PrefixLength\": \"32\"},\n{\"ip\": \"192.0.2.0\", "
      "\"prefix_length\": "
      "28}]";
  const Row rows[] = {
      {"json", "[\n\"192.0.2.1\",\n\"2001:db8::\\u0031\",\"x\", 5, null]\n", "192.0.2.1 2001:db8::1 !3 !3 !3 "},
      {"json", objects, "192.0.2.0-192.0.2.15 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"json",
       "[{\"host\":\"192.0.2.1\",\"port\":80,\"protocol\":\"socks5\",\"exit_ip\":\"192.0.2.9\",\"geo\":{\"ip\":\"192.0."
       "2.9\"}}]",
       "192.0.2.1:80 "},
      {"json",
       "{\"meta\":[\"192.0.2.9\"],\"prefixes\":[{\"ipv4Prefix\":\"192.0.2.0/28\"},{\"ipv6Prefix\":\"2001:db8::/32\"}]}",
       "192.0.2.0-192.0.2.15 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff !1 "},
      {"json", "{\"hooks\":[\"192.0.2.1\"],\"web\":[\"192.0.2.2\"],\"ssh\":[\"192.0.2.9\"]}", "192.0.2.1 192.0.2.2 ",
       "path=hooks|web"},
      {"json", "{\"values\":[{\"p\":{\"addressPrefixes\":[\"192.0.2.0/28\"]}},{\"p\":{\"x\":1}}]}",
       "192.0.2.0-192.0.2.15 ", "path=values.p.addressPrefixes"},
      {"json", "[{\"who\":\"192.0.2.1\",\"ip\":\"192.0.2.9\"},{\"ip\":\"192.0.2.9\"}]", "192.0.2.1 !1 ", "address=who"},
      {"json", "[{\"start_ip\":\"192.0.2.1\",\"end_ip\":\"192.0.2.5\"},{\"network\":\"192.0.2.0\",\"cidr\":28}]",
       "192.0.2.1-192.0.2.5 192.0.2.0-192.0.2.15 "},
      {"json", "[{\"text\":\"192.0.2.9\"}]", "!1 FAULT"},
      {"json", "[\"192.0.2.1\",\"192.0.2.2\"", "192.0.2.1 192.0.2.2 FAULT"},
      {"json", "[\"192.0.2.1\",\"192.0", "192.0.2.1 FAULT"},
      {"json", "[\"192.0.2.1\" \"192.0.2.2\"]", "192.0.2.1 FAULT"},
      {"json", "[\"192.0.2.1\",]", "192.0.2.1 FAULT"},
      {"json", "[nul]", "FAULT"},
      {"json", "[\"192.0.2.1\n\"]", "FAULT"},
      {"json", std::string(65, '['), "FAULT"},
      {"json", "[\" 192.0.2.1\",\"192.0.2.2 \"]", "192.0.2.1 192.0.2.2 "},
      {"json", "[{\"dst_ip\":\" 192.0.2.1 \",\"port\":\" 80\"}]", "192.0.2.1:80 "},
      {"json", "[{\"start\":\"192.0.2.1\",\"end\":\"\"},{\"start\":\"010.0.0.1\",\"end\":\"010.0.0.9\"}]",
       "192.0.2.1 !1 "},
      {"json", "{\"addresses\":[\"192.0.2.1\"],\"ipv6_addresses\":[\"2001:db8::7\"]}", "192.0.2.1 2001:db8::7 "},
      // Lists that nobody knows; what is allowed beside what is blocked.
      {"json", "{\"hooks\":[\"192.0.2.1\",\"x\"],\"web\":[\"192.0.2.2\"]}", "!1 !1 "},
      {"json", "{\"allow\":{\"ips\":[\"192.0.2.1\"]},\"block\":{\"ips\":[\"192.0.2.2\"]}}", "192.0.2.2 !1 "},
      {"json", "{\"allow\":{\"ips\":[\"192.0.2.1\"]},\"block\":{\"ips\":[\"192.0.2.2\"]}}", "192.0.2.2 ",
       "path=block.ips"},
      {"json", "{\"allowed\":[{\"ip\":\"192.0.2.1\"}],\"blocked\":[{\"ip\":\"192.0.2.2\"}]}", "192.0.2.2 !1 "},
      {"json", "{\"allowed\":[],\"blocked\":[{\"ip\":\"192.0.2.2\"}],\"drop\":{\"ips\":[\"192.0.2.3\"]}}",
       "192.0.2.2 192.0.2.3 "},
      {"json",
       "{\"prefixes\":[{\"ip_prefix\":\"192.0.2.1/32\"}],\"ipv6_prefixes\":[{\"ipv6_prefix\":\"2001:db8::/128\"}]}",
       "192.0.2.1 2001:db8:: "},
      {"json", "{}", ""},
      {"json", "", ""},
      {"misp", "{\"description\":\"x\",\"list\":[\" 192.0.2.1 \"]}", "192.0.2.1 "},
      {"misp",
       "{\"description\":\"192.0.2.9\",\"list\":[\"192.0.2.1\",\"192.0.2.0/28\"],\"matching_attributes\":[\"ip-src\"]}",
       "192.0.2.1 192.0.2.0-192.0.2.15 "},
      {"crowdsec",
       "[{\"id\":1,\"decisions\":[{\"duration\":\"1h0m5.5s\",\"scope\":\"Ip\",\"type\":\"ban\",\"value\":\"192.0.2.1\"}"
       "],"
       "\"source\":{\"ip\":\"192.0.2.9\",\"scope\":\"Ip\",\"value\":\"192.0.2.9\"}}]",
       "192.0.2.1@3605 "},
      {"crowdsec",
       "{\"new\":[{\"duration\":\"10s\",\"scope\":\"Range\",\"type\":\"ban\",\"value\":\"192.0.2.0/28\"},"
       "{\"duration\":\"10s\",\"scope\":\"Ip\",\"type\":\"captcha\",\"value\":\"192.0.2.9\"},"
       "{\"duration\":\"10s\",\"scope\":\"Country\",\"type\":\"ban\",\"value\":\"DE\"},"
       "{\"duration\":\"-10s\",\"scope\":\"Ip\",\"type\":\"ban\",\"value\":\"192.0.2.9\"}],"
       "\"deleted\":[{\"duration\":\"10s\",\"scope\":\"Ip\",\"type\":\"ban\",\"value\":\"192.0.2.8\"}]}",
       "192.0.2.0-192.0.2.15@10 !1 !1 !1 !1 "},
      {"crowdsec", "[{\"until\":\"1970-01-13T00:00:00Z\",\"scope\":\"Ip\",\"value\":\"192.0.2.1\"}]",
       "192.0.2.1@36800 "},
  };
  for (const Row& row : rows) check(row);
}

TEST_CASE("`auto` takes what a feed looks like, and says why") {
  const struct {
    const char* format;
    std::string text;
  } rows[] = {
      {"plain", ""},
      {"plain", "192.0.2.1\n192.0.2.2 80\n"},
      {"plain", "77.90.185.20\t10\n"},
      {"csv", "176.123.5.126;65\n"},
      {"plain", "junk\n"},
      {"plain", "[2001:db8::7]:443\n"},
      {"plain", "2001:418::/32\n192.0.2.1:443\nx.example\n"},
      {"p2p", "# x\nname:192.0.2.1-192.0.2.9\n"},
      {"dat", "001.002.004.000 - 001.002.004.255 , 000 , name\n"},
      {"dat", "1.2.4.0 - 1.2.4.255 , 100 , name\n"},
      {"ipset", "# x\n\ncreate a hash:net family inet\nadd a 192.0.2.1\n"},
      {"ipset", "add a 192.0.2.1\n"},
      {"nft", "#!/usr/sbin/nft -f\ntable inet filter {\n set a {\n"},
      {"nft", "add table inet x\nadd element inet x y { 192.0.2.1 }\n"},
      {"nft", "define bad = { 192.0.2.1 }\n"},
      {"nft", "define bad={ 192.0.2.1 }\n"},
      {"nft", "define one = 192.0.2.1\n"},
      {"nft", "elements={ 192.0.2.1 }\n"},
      {"nginx", "# x\ndeny 192.0.2.0/28;\n"},
      {"iproute", "default via 192.0.2.1 dev eth0\n192.0.2.0/24 dev eth0\n10.0.0.0/8 dev eth1\n"},
      {"iproute", "10.1.0.0/16 dev eth1 proto kernel scope link src 10.1.0.1\n"},
      {"iproute", "10.1.0.0/16 dev eth1\n10.2.0.0/16 dev eth2\nblackhole 203.0.113.0/24\n"},
      {"plain", "10.1.0.0/16\nblackhole x\ndefault x\n"},
      {"plain",
       "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 192.0.2.10/32 -j ACCEPT\n-A INPUT ! -s 192.0.2.7/32 -j DROP\n"},
      {"iproute", "#!/bin/sh\nip route add 192.0.2.0/28 via 127.0.0.1\n"},
      {"zeek", "#fields\tindicator\tindicator_type\nx.cz\tIntel::DOMAIN\n192.0.2.1\tIntel::ADDR\n"},
      {"csv", "\"first\",\"dst_ip\",\"dst_port\"\n\"1\",\"192.0.2.1\",\"1\"\n"},
      {"csv", "3.0.0.0,3.1.255.255,Amazon AWS,http://www.amazon.com/aws/\n"},
      {"zeek", "#fields\tindicator_type\tindicator\nIntel::ADDR\t192.0.2.1\n"},
      {"csv", "AD,2a01:fb00::,29,ipv6\n"},
      {"csv", "\"ip\"\n\"192.0.2.1\"\n"},
      {"csv", "#\n# DShield\nStart\tEnd\tNetmask\tAttacks\n192.0.2.0\t192.0.2.255\t24\t4017\n"},
      {"csv", "ip;port;type\n192.0.2.1;443;c2\n192.0.2.2;80;c2\n"},
      {"csv", "ip\tport\n192.0.2.1\t443\n192.0.2.2\t443\n"},
      {"csv", "# Firstseen,DstIP,DstPort\n2024-01-01,192.0.2.1,443\n"},
      {"plain", "# IP\tnumber of (black)lists\n#\n192.0.2.1\t10\n192.0.2.2\t9\n"},
      {"plain", "ip addresses; daily\n192.0.2.1;x\n192.0.2.2;x\n"},
      {"json", "[\n\"192.0.2.1\"]"},
      {"json", "{\"prefixes\": []}\n"},
      {"jsonl", "{\"ip\": \"192.0.2.1\"}\n{\"ip\": \"192.0.2.2\"}\n"},
      {"jsonl", "{\"ip\": \"192.0.2.1\", \"port\": 443}\n"},
      {"jsonl", "{\"ip\": \"192.0.2.1\"}"},
      {"json", "{\"ip\": \"192.0.2.1\", \"ips\": [\"192.0.2.2\"]}\n"},
      {"json", "{\"ip\": \"x\"}\n"},
      {"spamhaus", "{\"cidr\":\"192.0.2.0/24\",\"sblid\":\"SBL1\",\"rir\":\"apnic\"}\n{"},
      {"misp", "{\n  \"description\": \"x\",\n  \"list\": [\n \"192.0.2.1\""},
      {"crowdsec", "[{\"duration\":\"1h\",\"scope\":\"Ip\",\"value\":\"192.0.2.1\"}]"},
  };
  for (const auto& row : rows) {
    INFO(row.text);
    const feeds::Recognised recognised = feeds::recognise(row.text);
    CHECK(recognised.format->name == std::string(row.format));
    CHECK(recognised.why.empty() == recognised.fault.has_value());  // a fault says itself what it is
  }
}

TEST_CASE("what is plainly something else is no feed of any format") {
  for (const std::string& text :
       {"<!DOCTYPE html>\n<html>192.0.2.1</html>"s, "PK\x03\x04 192.0.2.1"s, std::string(100, '\0')}) {
    for (const feeds::Format* format : feeds::formats()) {
      const ListDraft list = read(format->name, text, "", 1000);
      CHECK(list.fault);
      CHECK(list.entries() == 0);
    }
  }
  for (const feeds::Format* format : feeds::formats()) {
    INFO(format->name);
    CHECK(read(format->name, "[\"192.0.2.1\"]", "", 1000).fault.has_value() != format->is_json);
  }
}

TEST_CASE("a line end behind gzip data is no part of it") {
  const std::string packed =
      "\x1f\x8b\x08\0\0\0\0\0\0\x03\x33\xb4\x34\xd2\x33\xd0\x33\xd2\x33\xe4\x02\0\x9c\xc2\xb1\x8a\x0a\0\0\0"s;
  for (const std::string& end : {""s, "\n"s, "\r\n\0\0\n"s, "\n" + packed}) {
    const ListDraft list = read("plain", packed + end, "", 1000);
    CHECK(described(list).starts_with("192.0.2.1 "));
    CHECK(!list.fault);
  }
  for (const std::string& end : {"x"s, "\n\x1f"s}) CHECK(read("plain", packed + end, "", 1000).fault);
}
