// What the host needs, and drop lists that would block it.
#include "control/lists/book/claims.h"
#include "control/policy/read/supplies.h"
#include "tests/unit/control/policy/fed_list.h"

namespace weir::control {
namespace {

Supplies some_host() {
  Supplies supplies;
  supplies.v4 = {{*parse_ipv4("198.51.100.1"), "the default gateway"}, {*parse_ipv4("203.0.113.53"), "a resolver"}};
  supplies.v6 = {{*parse_ipv6("2001:db8::1"), "the default gateway"}};
  return supplies;
}

Read read_on(const Supplies& host, const Folder& folder, const Book* before = nullptr) {
  Read read;
  FeedHistory history(before);
  history.is_ours = false;
  history.host_supplies = [&] { return host; };
  read.policy = read_policy(folder / "weir.yaml", read.diagnostics, kNever - 1, history);
  return read;
}

bool holds(const Read& read, const char* text) {
  const auto of = [&](const auto& address) {
    const auto origins = claims_of(read.policy->lists, address, 443).origins;
    return std::any_of(origins.begin(), origins.end(), [](const Origin& origin) { return origin.list == "a"; });
  };
  const auto v4 = parse_ipv4(text);
  return v4 ? of(*v4) : of(*parse_ipv6(text));
}

bool says(const Read& read, const std::string& words) {
  return read.text().find(words) != std::string::npos;
}

const std::string kNets = "198.51.100.0/24\n203.0.113.0-203.0.113.99\n2001:db8::/48\n192.0.2.1\n";

}  // namespace

TEST_CASE("prefixes and ranges lose what the host needs, with a warning that stands") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", kNets);
  const Read taken = read_on(some_host(), folder);
  INFO(taken.text());
  REQUIRE(taken.policy);
  for (const char* out : {"198.51.100.1", "203.0.113.53", "2001:db8::1"}) CHECK_FALSE(holds(taken, out));
  for (const char* in :
       {"198.51.100.0", "198.51.100.2", "198.51.100.255", "203.0.113.52", "203.0.113.54", "203.0.113.0", "203.0.113.99",
        "2001:db8::", "2001:db8::2", "2001:db8:0:ffff::", "192.0.2.1"}) {
    INFO(in);
    CHECK(holds(taken, in));
  }
  REQUIRE(taken.list().feed.notes.size() == 1);
  CHECK(taken.list().feed.notes[0].reason ==
        "blocks addresses that this host or weir needs: 3 entries, the first on line 1: 198.51.100.0/24 holds "
        "198.51.100.1 (the default gateway); these addresses are cut out");
  CHECK(taken.diagnostics.warnings() == 1);
  CHECK(taken.list().feed.entries == 4);  // as the file has them: limits compare these
  const Read again = read_on(some_host(), folder, &taken.policy->lists);
  CHECK(again.text() == taken.text());
  CHECK(again.list().content->digest == taken.list().content->digest);
  // Another host: the same bytes are something else.
  const Read moved = read_on({}, folder, &taken.policy->lists);
  CHECK(moved.text() == "");
  CHECK(holds(moved, "198.51.100.1"));
}

TEST_CASE("an entry of exactly one address that the host needs stays, with a warning") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", "198.51.100.1\n203.0.113.53/32\n[2001:db8::1]:443\n");
  const Read taken = read_on(some_host(), folder);
  INFO(taken.text());
  REQUIRE(taken.policy);
  for (const char* in : {"198.51.100.1", "203.0.113.53", "2001:db8::1"}) CHECK(holds(taken, in));
  CHECK(says(taken, "needs: 3 entries, the first on line 1: 198.51.100.1 (the default gateway); they stay blocked"));
}

TEST_CASE("supplies: keep, own, pass lists, and policies that nobody enforces") {
  struct Row {
    std::string policy;
    bool is_kept, is_said;
  };
  const Row rows[] = {
      {policy_with(", guard: {supplies: keep}"), true, true},
      {policy_with(", guard: {supplies: cut}"), false, true},
      {policy_with("", "targets: []\n"), true, true},
      {policy_with(", guard: {reserved: keep}", "policy: {own: [198.51.100.0/29, 203.0.113.53, '2001:db8::1']}\n"),
       false, false},  // own addresses are cut out without it
      {"version: 1\nlists: [{name: a, action: pass, file: a.txt}]\n", true, false},
      {policy_with(", mode: monitor"), false, true},
  };
  const Folder folder;
  folder.write("a.txt", kNets);
  for (const Row& row : rows) {
    INFO(row.policy);
    folder.write("weir.yaml", row.policy);
    const Read taken = read_on(some_host(), folder);
    INFO(taken.text());
    REQUIRE(taken.policy);
    CHECK(holds(taken, "198.51.100.1") == row.is_kept);
    CHECK(says(taken, "needs: 3 entries, the first on line 1: 198.51.100.0/24 holds 198.51.100.1") == row.is_said);
    CHECK(says(taken, "they stay blocked") == (row.is_said && row.is_kept));
  }
}

TEST_CASE("a single IPv6 address that becomes a network loses what the host needs in it") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(", ipv6_aggregate: 64"));
  folder.write("a.txt", "2001:db8::7\n");
  const Read taken = read_on(some_host(), folder);
  INFO(taken.text());
  REQUIRE(taken.policy);
  CHECK(holds(taken, "2001:db8::7"));
  CHECK_FALSE(holds(taken, "2001:db8::1"));
  CHECK(says(taken, "2001:db8::/64 holds 2001:db8::1"));
}

TEST_CASE("what a cut leaves behind is no other list: one entry may become three, and change again") {
  const Folder folder;
  folder.write("weir.yaml", policy_with(""));
  folder.write("a.txt", "198.51.100.0/24\n");
  const Read first = read_on(some_host(), folder);
  REQUIRE(first.policy);
  CHECK(first.list().entries() == 2);
  folder.write("a.txt", "198.51.100.0/24\n192.0.2.9\n");
  const Read second = read_on(some_host(), folder, &first.policy->lists);
  CHECK(second.reason() == "");
  CHECK(second.diagnostics.warnings() == 1);
}

TEST_CASE("servers of url, proxy and etcd are needed, too; entries of the policy file are only warned of") {
  const Folder folder;
  folder.write("weir.yaml",
               "version: 1\nfetch: {proxy: 'http://user:word@198.51.100.9:3128'}\nlists:\n"
               "- {name: other, action: drop, url: 'https://[2001:db8::50]:8443/list.txt'}\n"
               "- name: written\n  action: drop\n  entries:\n  - 192.0.2.1\n  - 198.51.100.0/24\n"
               "- {name: a, action: drop, file: a.txt}\n");
  folder.write("a.txt", "2001:db8::/32\n198.51.100.9\n");
  const Read taken = read(folder);  // nothing is known of the host
  INFO(taken.text());
  REQUIRE(taken.policy);
  CHECK(says(taken,
             "weir.yaml:9:5: warning: list `written` blocks what this host or weir needs: 198.51.100.0/24 holds "
             "198.51.100.9 (the proxy of `fetch`)"));
  CHECK(says(taken, "2001:db8::/32 holds 2001:db8::50 (the server of list `other`); these addresses are cut out"));
  CHECK(says(taken, "198.51.100.9 (the proxy of `fetch`); they stay blocked"));
  CHECK_FALSE(holds(taken, "2001:db8::50"));
}

TEST_CASE("addresses of URLs; names are not looked up") {
  const std::pair<const char*, const char*> rows[] = {
      {"http://203.0.113.80/list.txt", "203.0.113.80"},
      {"https://203.0.113.80:8443", "203.0.113.80"},
      {"http://a:b@203.0.113.80?x", "203.0.113.80"},
      {"https://[2001:db8::7]:2379", "2001:db8::7"},
      {"socks5h://[2001:db8::7]", "2001:db8::7"},
      {"https://example.net/203.0.113.80", ""},
      {"http://203.0.113/x", ""},
      {"", ""},
  };
  for (const auto& [url, address] : rows) {
    INFO(url);
    Supplies supplies;
    add_server(url, "x", supplies);
    std::string found;
    for (const auto& supply : supplies.v4) found += to_string(supply.address);
    for (const auto& supply : supplies.v6) found += to_string(supply.address);
    CHECK(found == address);
  }
}

TEST_CASE("gateways and resolvers, as the kernel and the resolver's file tell them") {
  Supplies supplies;
  add_gateways_v4(
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "eth0\t00000000\t016433C6\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
      "eth0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n"
      "eth1\t006433C6\t026433C6\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0\nnot a line\n\n",
      supplies);
  REQUIRE(supplies.v4.size() == 1);
  CHECK(to_string(supplies.v4[0].address) == "198.51.100.1");
  const std::string zeros(32, '0'), hop = "20010db8000000000000000000000001", near = "fe800000000000000000000000000001";
  const auto line = [&](const std::string& to, const char* bits, const std::string& via) {
    return to + " " + bits + " " + zeros + " 00 " + via + " 00000400 00000001 00000000 00000003 eth0\n";
  };
  add_gateways_v6(line(zeros, "00", hop) + line(zeros, "00", near) + line(zeros, "00", zeros) + line(hop, "40", hop) +
                      line(zeros, "01", hop) + "x\n",
                  supplies);
  REQUIRE(supplies.v6.size() == 1);
  CHECK(to_string(supplies.v6[0].address) == "2001:db8::1");
  supplies = {};
  add_resolvers(
      "# nameserver 192.0.2.1\nnameserver 203.0.113.53\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\n"
      " nameserver\t2001:db8::53\nnameserver\nsearch example.net\nnameserver 203.0.113.53\n",
      supplies);
  order(supplies);
  REQUIRE(supplies.v4.size() == 1);
  CHECK(to_string(supplies.v4[0].address) == "203.0.113.53");
  REQUIRE(supplies.v6.size() == 1);
  CHECK(to_string(supplies.v6[0].address) == "2001:db8::53");
  for (const auto& supply : host_supplies().v4) CHECK(supply.address >> 24 != 127);
}

TEST_CASE("with default drop somebody has to let neighbour discovery through") {
  struct Row {
    const char* lists;
    const char* said;  // empty: nothing
  };
  const char* const kOther = "passes IPv6 without its neighbour discovery";
  const Row rows[] = {
      {"[{name: a, action: pass, entries: [192.0.2.1]}]", "no pass list names an IPv6 address: all IPv6 ends"},
      {"[{name: a, action: pass, entries: ['2001:db8::/48']}]", kOther},
      {"[{name: a, action: drop, entries: ['fe80::/10', 'ff02::/16']}]", "no pass list names an IPv6 address"},
      {"[{name: a, action: pass, match: either, entries: ['2001:db8::/48', 'fe80::/10', 'ff02::/16']}]", ""},
      {"[{name: a, action: pass, match: src, entries: ['fe80::/10']}, {name: b, action: pass, match: dst, entries: "
       "['ff00::/8']}]",
       ""},
      {"[{name: a, action: pass, match: src, entries: ['fe80::/10', 'ff02::/16']}]", kOther},
      {"[{name: a, action: pass, match: either, entries: ['fe80::/64', 'ff02::/16']}]", kOther},
      {"[{name: a, action: pass, match: either, entries: ['fe80::/11', 'fea0::-ff02:ffff::']}]", kOther},
      {"[{name: a, action: pass, match: either, entries: ['fe80::/11', 'fea0::-ff03::']}]", ""},
      {"[{name: a, action: pass, allow_any: true, match: either, entries: ['::/0']}]", ""},
      {"[{name: a, action: pass, entries: [{dst: '2001:db8::1', dport: 22}, {proto: icmpv6, icmp: {type: 135}}]}]", ""},
  };
  const Folder folder;
  for (const Row& row : rows) {
    INFO(row.lists);
    folder.write("weir.yaml", std::string("version: 1\npolicy: {default: drop}\nlists: ") + row.lists + "\n");
    const Read found = read(folder);
    INFO(found.text());
    REQUIRE(found.policy);
    CHECK(found.diagnostics.warnings() == (*row.said == 0 ? 0 : 1));
    CHECK(says(found, row.said));
    folder.write("weir.yaml", std::string("version: 1\nlists: ") + row.lists + "\n");
    CHECK(read(folder).text() == "");
  }
}

}  // namespace weir::control
