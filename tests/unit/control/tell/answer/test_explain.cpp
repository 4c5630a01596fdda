// Explain: why a key or a packet is treated as it is, down to file and line.

#include <algorithm>
#include <set>

#include "control/compile/prove/chance.h"
#include "control/tell/answer/explain.h"
#include "filter/layouts/layout.h"
#include "tests/rounds.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

using Texts = std::vector<std::string>;

constexpr uint64_t kToday = 1'800'000'000;

Policy sample_policy() {
  Policy policy = make_policy({
      make_list("own", WEIR_PASS, kEither, {"192.0.2.128/25"}),
      make_list("nets", WEIR_DROP, kSource, {"192.0.2.0/24", "12.0.0.0/8"}),
      make_list("c2", WEIR_DROP, kDestination, {"203.0.113.7:443", "203.0.113.7", "2001:db8::/32"}),
      make_list("watch", WEIR_DROP, kEither, {"192.0.2.0-192.0.2.200", "[2001:db8::7]:53"}),
  });
  policy.lists[3].mode = WEIR_MONITOR;
  policy.lists[1].feed.path = "feeds/nets.txt";
  edit(policy.lists[1])->v4[0].source = 1;
  return policy;
}

// "c2 weir.yaml:10 203.0.113.7:443 2"
Texts texts(const std::vector<Origin>& matches) {
  Texts texts;
  for (const Origin& match : matches) {
    texts.push_back(match.list + " " + match.file + ":" + std::to_string(match.line) + " " + match.entry + " " +
                    std::to_string(match.directions));
  }
  return texts;
}

}  // namespace

TEST_CASE("explain rows") {
  struct Row {
    const char* key;
    Texts shapes;           // "shape key: lists as source / lists as destination"
    const char* as_source;  // "action reason: matched (monitored)"
    const char* as_destination;
    size_t origins;
  };
  const Row rows[] = {
      {"192.0.2.1",
       {"v4 addr/32 192.0.2.1/32: watch / watch", "v4 addr/24 bitmap 192.0.2.0/24: nets /"},
       "drop nets: nets watch (watch)",
       "pass default: watch (watch)",
       2},
      {"192.0.2.129",
       {"v4 addr/32 192.0.2.129/32: own watch / own watch", "v4 addr/24 bitmap 192.0.2.0/24: nets /"},
       "pass own: own nets watch (watch)",
       "pass own: own watch (watch)",
       3},
      {"203.0.113.7", {"v4 addr/32 203.0.113.7/32: / c2"}, "pass default: ()", "drop c2: c2 ()", 1},
      {"203.0.113.7:443",
       {"v4 addr/32 203.0.113.7/32: / c2", "v4 addr/32 + port 203.0.113.7/32 port 443: / c2"},
       "pass default: ()",
       "drop c2: c2 ()",
       2},
      {"[2001:db8::7]:53",
       {"v6 addr/32 2001:db8::/32: / c2", "v6 addr/128 + port 2001:db8::7/128 port 53: watch / watch"},
       "pass default: watch (watch)",
       "drop c2: c2 watch (watch)",
       2},
      {"8.8.8.8", {}, "pass default: ()", "pass default: ()", 0},
  };
  const auto joined = [](const Texts& texts) {
    std::string text;
    for (const std::string& part : texts) text += (text.empty() ? "" : " ") + part;
    return text;
  };
  const auto verdict_text = [&](const Verdict& verdict) {
    return verdict.action + " " + verdict.reason + ": " + joined(verdict.matched) +
           (verdict.matched.empty() ? "(" : " (") + joined(verdict.monitored) + ")";
  };
  const Policy policy = sample_policy();
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  for (const Row& row : rows) {
    INFO(row.key);
    const auto explanation = explain({snapshot.view(), policy.lists}, row.key, kToday);
    if (!explanation) FAIL(explanation.error());
    Texts found;
    for (const ShapeProbe& probe : explanation->probes) {
      const bool bitmap = probe.shape == "v4 addr/24 bitmap";
      REQUIRE(probe.place.lines.size() == 1);
      CHECK(probe.place.lines[0].line < WEIR_LINES_PER_PAGE);
      CHECK(probe.place.lines[0].bits.size() == (bitmap ? 1 : 8));
      CHECK(probe.layout == (bitmap ? "bitmap" : "line8"));
      CHECK((probe.hash == 0) == bitmap);
      CHECK((probe.rule == 0 || probe.filter_hit));
      if (probe.rule == 0) continue;
      std::string text = probe.shape + " " + probe.key + ":";
      for (const std::string& name : probe.source_lists) text += " " + name;
      text += " /";
      for (const std::string& name : probe.destination_lists) text += " " + name;
      found.push_back(text);
    }
    CHECK(found == row.shapes);
    CHECK(verdict_text(explanation->as_source) == row.as_source);
    CHECK(verdict_text(explanation->as_destination) == row.as_destination);
    CHECK(explanation->origins.size() == row.origins);
    CHECK(explanation->key == row.key);
  }
  // Where a bitmap keeps 192.0.2.0/24: bit 0xc00002 of the universe.
  const auto explanation = explain({snapshot.view(), policy.lists}, "192.0.2.1", kToday);
  const auto bitmap = std::find_if(explanation->probes.begin(), explanation->probes.end(),
                                   [](const ShapeProbe& probe) { return probe.layout == "bitmap"; });
  REQUIRE(bitmap != explanation->probes.end());
  CHECK(bitmap->place.page == 0xc00002 / 512 / 64);
  CHECK(bitmap->place.lines[0].line == 0xc00002 / 512 % 64);
  CHECK(bitmap->place.lines[0].bits[0] == 0xc00002 % 512);
}

TEST_CASE("explain shows what a key's lists depend on, and where it is written") {
  Policy policy = sample_policy();
  edit(policy.lists[1])->v4[1].expires = kToday + 1;  // 192.0.2.0/24, of the feed
  Flow flow;
  flow.family = 4;
  flow.src = {{0x0a000000, 0x0affffff}};
  flow.dst = {{0xcb007107, 0xcb007107}};
  flow.protocol = 6;
  flow.dport = {{8000, 8010}};
  flow.line = 33;
  edit(policy.lists[2])->flows.push_back(flow);
  Flow dns;
  dns.protocol = 17;
  dns.sport = {{53, 53}};
  dns.line = 34;
  edit(policy.lists[3])->flows.push_back(dns);
  const BuiltSnapshot snapshot = build_unproven(policy, 3);

  const auto host = explain({snapshot.view(), policy.lists}, "203.0.113.7", kToday);
  REQUIRE(host);
  CHECK(host->flow_shapes == Texts{"v4 proto + sport"});
  Texts conditions;
  for (const ShapeProbe& probe : host->probes) {
    for (const ShapeCondition& condition : probe.conditions) {
      conditions.push_back(condition.side + ": " + condition.text + ": " + condition.lists[0]);
    }
  }
  CHECK(conditions == Texts{"destination: src 10.0.0.0/8 tcp dport 8000-8010: c2"});
  CHECK(texts(host->origins) == Texts{"c2 weir.yaml:11 203.0.113.7 2",
                                      "c2 weir.yaml:33 src 10.0.0.0/8 dst 203.0.113.7 tcp dport 8000-8010 3",
                                      "watch weir.yaml:34 udp sport 53 0"});

  for (const bool live : {true, false}) {
    const auto network = explain({snapshot.view(), policy.lists}, "192.0.2.1", live ? kToday : kToday + 1);
    REQUIRE(network);
    CHECK(network->as_source.action == (live ? "drop" : "pass"));
    CHECK(network->probes.back().conditions.size() == (live ? 0 : 1));
    if (!live) CHECK(network->probes.back().conditions[0].text == "expires 2027-01-15T08:00:01Z (expired)");
    CHECK(texts(network->origins)[1] == "nets feeds/nets.txt:10 192.0.2.0/24 expires 2027-01-15T08:00:01Z 1");
  }
}

TEST_CASE("an address that only entries with more to ask name is not left unexplained") {
  Policy policy = make_policy({make_list("c2", WEIR_DROP, kDestination, {"203.0.113.8:443", "203.0.113.8:80"})});
  Flow ping;
  ping.family = 4;
  ping.dst = {{0xcb007108, 0xcb007108}};
  ping.protocol = 1;
  ping.icmp_type = 8;
  ping.line = 12;
  edit(policy.lists[0])->flows.push_back(ping);
  const BuiltSnapshot snapshot = build_unproven(policy, 4);
  const auto host = explain({snapshot.view(), policy.lists}, "203.0.113.8", kToday);
  REQUIRE(host);
  CHECK(texts(host->origins) == Texts{"c2 weir.yaml:12 dst 203.0.113.8 icmp icmp-type 8 2"});
  CHECK(texts(host->of_ports) == Texts{"c2 weir.yaml:10 203.0.113.8:443 2", "c2 weir.yaml:11 203.0.113.8:80 2"});
  CHECK(host->n_of_ports == 2);
  CHECK_FALSE((host->origins[0].alone || host->of_ports[0].alone));
  CHECK(host->as_destination.action == "pass");
  const auto with_port = explain({snapshot.view(), policy.lists}, "203.0.113.8:443", kToday);
  REQUIRE(with_port);
  CHECK(with_port->of_ports.empty());
  CHECK(with_port->as_destination.action == "drop");
}

TEST_CASE("explain names the entry that decides") {
  Policy policy = sample_policy();
  edit(policy.lists[1])->v4[1].expires = kToday + 1;  // 192.0.2.0/24, of the feed
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  const auto because = [&](const char* key, uint64_t now, bool as_source) -> std::string {
    const auto explanation = explain({snapshot.view(), policy.lists}, key, now);
    if (!explanation) FAIL(explanation.error());
    const Verdict& verdict = as_source ? explanation->as_source : explanation->as_destination;
    return verdict.because ? texts({*verdict.because})[0] : "";
  };
  CHECK(because("192.0.2.1", kToday, true) == "nets feeds/nets.txt:10 192.0.2.0/24 expires 2027-01-15T08:00:01Z 1");
  CHECK(because("192.0.2.1", kToday + 1, true).empty());
  CHECK(because("192.0.2.1", kToday, false).empty());  // watch only monitors
  CHECK(because("192.0.2.129", kToday, false) == "own weir.yaml:10 192.0.2.128/25 3");
  CHECK(because("203.0.113.7:443", kToday, false) == "c2 weir.yaml:10 203.0.113.7:443 2");

  const auto packet = explain_packet({snapshot.view(), policy.lists}, "src 8.8.8.8 dst 203.0.113.7 proto udp", kToday);
  REQUIRE(packet);
  REQUIRE(packet->verdict.because);
  CHECK(texts({*packet->verdict.because}) == Texts{"c2 weir.yaml:11 203.0.113.7 2"});
}

TEST_CASE("explain takes a whole packet") {
  Policy policy = sample_policy();
  Flow flow;
  flow.family = 4;
  flow.src = {{0x0a000000, 0x0affffff}};
  flow.dst = {{0xcb007109, 0xcb007109}};
  flow.protocol = 6;
  flow.dport = {{8000, 8010}};
  flow.line = 33;
  edit(policy.lists[2])->flows.push_back(flow);
  const BuiltSnapshot snapshot = build_unproven(policy, 3);
  struct Row {
    const char* packet;
    const char* verdict;  // "action reason: matched"
    Texts origins;
  };
  const Row rows[] = {
      {"src 10.0.0.1 dst 203.0.113.9 proto tcp dport 8000",
       "drop c2: c2",
       {"c2 weir.yaml:33 src 10.0.0.0/8 dst 203.0.113.9 tcp dport 8000-8010 3"}},
      {"src 10.0.0.1 dst 203.0.113.9 proto tcp dport 8011", "pass default:", {}},
      {"src 10.0.0.1 dst 203.0.113.9 proto udp dport 8000", "pass default:", {}},
      {"src 203.0.113.9 dst 10.0.0.1 proto tcp dport 8000", "pass default:", {}},
      {"dst 203.0.113.7 src 8.8.8.8 proto tcp sport 1 dport 443",
       "drop c2: c2",
       {"c2 weir.yaml:10 203.0.113.7:443 2", "c2 weir.yaml:11 203.0.113.7 2"}},
      {"src 192.0.2.1 dst 192.0.2.129",  // an allowlist always wins
       "pass own: own nets watch",
       {"own weir.yaml:10 192.0.2.128/25 3", "nets feeds/nets.txt:10 192.0.2.0/24 1",
        "watch weir.yaml:10 192.0.2.0-192.0.2.200 3"}},
      {"src 2001:db8::7 dst 2001:db9:: proto udp sport 53",
       "pass default: watch",
       {"watch weir.yaml:11 [2001:db8::7]:53 3"}},
  };
  for (const Row& row : rows) {
    INFO(row.packet);
    const auto explanation = explain_packet({snapshot.view(), policy.lists}, row.packet, kToday);
    if (!explanation) FAIL(explanation.error());
    std::string verdict = explanation->verdict.action + " " + explanation->verdict.reason + ":";
    for (const std::string& name : explanation->verdict.matched) verdict += " " + name;
    CHECK(verdict == row.verdict);
    CHECK(texts(explanation->origins) == row.origins);
    CHECK(explanation->n_origins == row.origins.size());
  }
}

// The scalar check is the definition: it finds the key, and with any one of the bits turned around it does not.
TEST_CASE("explain names the bits that a lookup reads, in every layout") {
  struct Row {
    weir_layout layout;
    size_t least_lines, most_lines, least_bits, most_bits;
  };
  const Row rows[] = {{WEIR_LAYOUT_LINE8, 1, 1, 8, 8},
                      {WEIR_LAYOUT_PAGE2, 2, 2, 8, 14},
                      {WEIR_LAYOUT_PAGE7, 1, 7, 6, 7},
                      {WEIR_LAYOUT_RIBBON, 1, 2, 10, 60}};
  for (const Row& row : rows) {
    Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, {"2001:db8::7"})});
    ListDraft hosts = draft_of(*policy.lists[0].content);
    for (unsigned i = 0; i < 30000; i++) hosts.v6.push_back({Ipv6{i} << 9, Ipv6{i} << 9, 1, 0, kSource, 0});
    policy.lists[0].content = make_entries(std::move(hosts));
    policy.layout = row.layout;
    const BuiltSnapshot snapshot = build_unproven(policy, 7);
    const filter::Layout& layout = filter::layout_of(row.layout);
    for (unsigned i = 0; i < 200; i++) {
      const std::string text = to_string(Ipv6{i} << 9);
      const auto explanation = explain({snapshot.view(), policy.lists}, text, kToday);
      INFO(std::string(layout.name) << " " << text);
      REQUIRE(explanation);
      REQUIRE(explanation->probes.size() == 1);
      const ShapeProbe& probe = explanation->probes[0];
      REQUIRE(probe.layout == layout.name);
      REQUIRE(probe.filter_hit);
      REQUIRE((probe.place.lines.size() >= row.least_lines && probe.place.lines.size() <= row.most_lines));
      const filter::FilterBits filter = snapshot.view().shapes()[0].filter;
      auto* words = snapshot.at<uint64_t>(snapshot.header().shapes[0].filter.offset);
      size_t bits = 0;
      for (const LineBits& line : probe.place.lines) {
        REQUIRE(line.line < WEIR_LINES_PER_PAGE);
        for (const uint32_t bit : line.bits) {
          bits++;
          uint64_t& word = words[(size_t{probe.place.page} * WEIR_LINES_PER_PAGE + line.line) * 8 + bit / 64];
          if (row.layout != WEIR_LAYOUT_RIBBON) REQUIRE((word >> bit % 64 & 1) == 1);
          word ^= uint64_t{1} << bit % 64;
          REQUIRE_FALSE(layout.check(filter, probe.hash));
          word ^= uint64_t{1} << bit % 64;
        }
      }
      REQUIRE((bits >= row.least_bits && bits <= row.most_bits));
    }
  }
}

TEST_CASE("keys that explain refuses") {
  const Policy policy = sample_policy();
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  for (const char* key : {"", "example.org", "192.0.2.0/24", "192.0.2.1-192.0.2.2", "192.0.2.1:0", "192.0.2.1 "}) {
    INFO(key);
    const auto explanation = explain({snapshot.view(), policy.lists}, key, kToday);
    REQUIRE_FALSE(explanation);
    CHECK(explanation.error().find("hint: give ") != std::string::npos);
  }
}

TEST_CASE("lists alone say of a key and of a packet what their snapshot says") {
  const Policy policy = [] {
    Policy made = sample_policy();
    Flow flow;  // of lists that match more of a packet
    flow.family = 4;
    flow.src = {{0xc0000200, 0xc00002ff}};
    flow.protocol = 6;
    flow.dport = PortRange{80, 443};
    flow.expires = static_cast<uint32_t>(kToday + 1);
    edit(made.lists[2])->flows.push_back(flow);
    edit(made.lists[1])->v4[1].expires = static_cast<uint32_t>(kToday + 1);
    return made;
  }();
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  const Judge lists(policy.lists, policy.default_action, policy.unparsed_action, policy.tunnels);
  const auto verdict_text = [](const Verdict& verdict) {
    std::string text = verdict.action + " " + verdict.reason;
    if (verdict.because) text += " " + verdict.because->entry + ":" + std::to_string(verdict.because->line);
    for (const std::string& list : verdict.matched) text += " " + list;
    text += ";";
    for (const std::string& list : verdict.monitored) text += " " + list;
    return text;
  };
  SplitMix random{11};
  std::set<std::string> verdicts;
  const char* nets[] = {"192.0.2.", "203.0.113.", "12.1.1."};
  for (int round = 0; round < rounds(3000); round++) {
    const uint64_t now = kToday + random.next() % 3;
    const auto address = [&] {
      return nets[random.next() % 3] + std::to_string(random.next() % 12 + (random.next() % 2) * 190);
    };
    const std::string key = address() + (random.next() % 3 == 0 ? ":443" : "");
    const auto by_snapshot = explain({snapshot.view(), policy.lists}, key, now), by_lists = explain(lists, key, now);
    REQUIRE((by_snapshot && by_lists));
    INFO(key << " at " << now - kToday);
    for (const auto side : {&Explanation::as_source, &Explanation::as_destination}) {
      CHECK(verdict_text((*by_lists).*side) == verdict_text((*by_snapshot).*side));
      verdicts.insert(verdict_text((*by_lists).*side));
    }
    CHECK(texts(by_lists->origins) == texts(by_snapshot->origins));
    CHECK(by_lists->probes.empty());
    const std::string packet = "src " + address() + " dst " + address() + " proto tcp dport 443";
    const auto packet_by_snapshot = explain_packet({snapshot.view(), policy.lists}, packet, now),
               packet_by_lists = explain_packet(lists, packet, now);
    REQUIRE((packet_by_snapshot && packet_by_lists));
    INFO(packet);
    CHECK(verdict_text(packet_by_lists->verdict) == verdict_text(packet_by_snapshot->verdict));
    verdicts.insert(verdict_text(packet_by_lists->verdict));
  }
  CHECK(verdicts.size() >= 10);
}

}  // namespace weir::control
