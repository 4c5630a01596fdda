// Whole policies that are good. Those that are not are in configs/bad, with their messages.
#include <string>

#include "common/paths.h"
#include "control/lists/book/claims.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/policy.h"
#include "control/policy/read/policy_file.h"
#include "control/policy/read/policy_settings.h"
#include "tests/catch.h"
#include "tests/unit/defaults.h"
#include "tests/unit/folder.h"

using namespace weir;
using namespace weir::control;

namespace {

Policy parse(const std::string& text) {
  Diagnostics diagnostics;
  auto policy = parse_policy("a.yaml", text, diagnostics);
  INFO(text << format(diagnostics));
  REQUIRE(policy);
  CHECK(diagnostics.warnings() == 0);
  return std::move(*policy);
}

constexpr uint8_t kSource = WEIR_AS_SOURCE, kDestination = WEIR_AS_DESTINATION;
constexpr uint8_t kEither = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;

}  // namespace

TEST_CASE("defaults") {
  const Policy policy = parse("version: 1\nlists: [{name: a, action: drop, entries: [192.0.2.1]}]\n");
  CHECK(policy.path == "a.yaml");
  CHECK(policy.state_dir == default_state_dir());
  CHECK(policy.default_action == WEIR_PASS);
  CHECK(policy.unparsed_action == WEIR_PASS);
  CHECK(policy.false_positive_rate == Approx(0.005));
  CHECK(policy.memory_bytes == 512u << 20);
  CHECK_FALSE(policy.layout.has_value());
  CHECK(policy.canaries.empty());
  REQUIRE(policy.targets.size() == 1);
  CHECK(policy.targets[0] == dataplane_target(default_dataplane_socket()));
  REQUIRE(policy.lists.size() == 1);
  const List& list = policy.lists[0];
  CHECK(list.name == "a");
  CHECK(list.action == WEIR_DROP);
  CHECK(list.mode == WEIR_ENFORCE);
  CHECK(list.match == kSource);
  CHECK(list.file == "");
  CHECK(list.feed.path == "");
  REQUIRE(list.v4().size() == 1);
  CHECK(list.v4()[0].line == 2);
  CHECK(list.v4()[0].source == 0);
  CHECK(list.v4()[0].directions == kSource);
}

TEST_CASE("every setting") {
  const Policy policy = parse(R"(version: 1
state_dir: /tmp/state
policy: {default: drop, unparsed: drop, tunnels: [], own: [192.0.2.0/24, "2001:db8::/32", 192.0.2.1-192.0.2.3]}
filter: {false_positive_rate: 0.25, memory: 3GiB, layout: page7, canaries: [192.0.2.9, "2001:db8::9", 192.0.2.10/32]}
targets: [{dataplane: /tmp/a.sock}, {xdp: {interfaces: [eth1, eth0], attach: native}}, {dataplane: /tmp/b.sock}]
lists:
  - {name: partners, action: pass, match: either, entries: [198.51.100.1, 192.0.2.0/24, "2001:db8::/32"]}
  - {name: watch, action: drop, mode: monitor, match: dst, allow_any: true, ipv6_aggregate: 128, entries: [0.0.0.0/0]}
)");
  CHECK(policy.state_dir == "/tmp/state");
  CHECK(policy.default_action == WEIR_DROP);
  CHECK(policy.unparsed_action == WEIR_DROP);
  CHECK(policy.false_positive_rate == Approx(0.25));
  CHECK(policy.memory_bytes == uint64_t{3} << 30);
  CHECK(policy.layout == WEIR_LAYOUT_PAGE7);
  REQUIRE(policy.canaries.size() == 3);
  CHECK(policy.canaries[0].v4 == parse_ipv4("192.0.2.9"));
  CHECK_FALSE(policy.canaries[0].is_v6);
  CHECK(policy.canaries[1].v6 == *parse_ipv6("2001:db8::9"));
  CHECK(policy.canaries[1].is_v6);
  CHECK(policy.canaries[2].text == "192.0.2.10/32");
  REQUIRE(policy.targets.size() == 3);
  CHECK(policy.targets[0].name == "/tmp/a.sock");
  CHECK(policy.targets[1] == xdp_target({"eth1", "eth0"}, Attach::native));
  CHECK(policy.targets[1].name == "xdp:eth1,eth0");
  CHECK(policy.targets[2].name == "/tmp/b.sock");
  REQUIRE(policy.lists.size() == 2);
  CHECK(policy.lists[0].own == nullptr);  // a pass list
  REQUIRE(policy.lists[1].own != nullptr);
  const Entries& own = *policy.lists[1].own->entries;
  CHECK(own.v4.size() == 2);
  CHECK(own.v6.size() == 1);
  CHECK(policy.lists[0].action == WEIR_PASS);
  CHECK(policy.lists[0].match == kEither);
  CHECK(policy.lists[1].mode == WEIR_MONITOR);
  CHECK(policy.lists[1].match == kDestination);
  REQUIRE(policy.lists[1].as_written()->v4.size() == 1);
  CHECK(policy.lists[1].as_written()->v4[0].last == 0xffff'ffff);
  REQUIRE(policy.lists[1].v4().size() == 2);
  CHECK(policy.lists[1].v4()[0].last == parse_ipv4("192.0.1.255"));
  CHECK(policy.lists[1].v4()[1].first == parse_ipv4("192.0.3.0"));
}

TEST_CASE("every kind of entry") {
  struct Row {
    const char* text;
    const char* first;
    const char* last;
    uint16_t port;
    uint8_t directions;  // in a list with match: either
  };
  const Row rows[] = {
      {"203.0.113.7", "203.0.113.7", "203.0.113.7", 0, kEither},
      {"198.51.100.0/24", "198.51.100.0", "198.51.100.255", 0, kEither},
      {"203.0.113.10-203.0.113.99", "203.0.113.10", "203.0.113.99", 0, kEither},
      {"203.0.113.7:443", "203.0.113.7", "203.0.113.7", 443, kEither},
      {"2001:db8::/48", "2001:db8::", "2001:db8:0:ffff:ffff:ffff:ffff:ffff", 0, kEither},
      {"\"[2001:db8::7]:443\"", "2001:db8::7", "2001:db8::7", 443, kEither},
      {"{entry: 203.0.113.7:443}", "203.0.113.7", "203.0.113.7", 443, kEither},
      {"{entry: 203.0.113.0/30, comment: x}", "203.0.113.0", "203.0.113.3", 0, kEither},
      {"{src: 203.0.113.7}", "203.0.113.7", "203.0.113.7", 0, kSource},
      {"{dst: 203.0.113.0/24}", "203.0.113.0", "203.0.113.255", 0, kDestination},
      {"{dst: 203.0.113.1-203.0.113.2, comment: \"two: of them\"}", "203.0.113.1", "203.0.113.2", 0, kDestination},
      {"{src: 203.0.113.7, sport: 53}", "203.0.113.7", "203.0.113.7", 53, kSource},
      {"{dst: 203.0.113.7/32, dport: 53-53}", "203.0.113.7", "203.0.113.7", 53, kDestination},
      {"{dst: \"2001:db8::7\", dport: 65535}", "2001:db8::7", "2001:db8::7", 65535, kDestination},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const Policy policy =
        parse(std::string("version: 1\nlists:\n- name: a\n  action: drop\n  match: either\n  entries:\n  - ") +
              row.text + "\n");
    const List& list = policy.lists.at(0);
    REQUIRE(list.entries() == 1);
    const auto check = [&](const auto& entry) {
      CHECK(to_string(entry.first) == row.first);
      CHECK(to_string(entry.last) == row.last);
      CHECK(entry.port == row.port);
      CHECK(entry.sides() == row.directions);
      CHECK((entry.directions != entry.sides()) == (row.text[0] == '{' && row.text[1] != 'e'));  // it names its side
      CHECK(entry.line == 7);
      CHECK(entry.source == 0);
    };
    list.v4().empty() ? check(list.v6()[0]) : check(list.v4()[0]);
  }
}

TEST_CASE("scalars are text: quoted or not they are the same policy, and a list may be called null") {
  const auto digest_of_text = [](const std::string& text) {
    Diagnostics diagnostics;
    const auto policy = parse_policy("a.yaml", text, diagnostics);
    INFO(format(diagnostics));
    REQUIRE(policy);
    REQUIRE(policy->lists.size() == 2);
    std::string said;
    for (const List& list : policy->lists) {
      said += "; " + list.name + " " + std::to_string(list.ipv6_aggregate) + (list.dynamic ? " dynamic" : "");
      for (const Flow& flow : list.flows()) said += " " + flow_text(flow);
      for (const EntryComment& comment : list.content->comments) said += " #" + comment.text;
    }
    return said + " " + std::to_string(policy->false_positive_rate) + " " + std::to_string(policy->memory_bytes);
  };
  const std::string plain = digest_of_text(
      "version: 1\nfilter: {false_positive_rate: 0.01, memory: 64MiB}\nlists:\n"
      "  - {name: null, action: drop, ipv6_aggregate: 64, dynamic: true,\n"
      "     entries: [{dst: 203.0.113.9, proto: 6, dport: 53, comment: null}]}\n"
      "  - {name: 1, action: pass, entries: [{src: 10.0.0.1, proto: icmp, icmp: {type: 8}}]}\n");
  CHECK(plain.starts_with("; null 64 dynamic dst 203.0.113.9 tcp dport 53 #null; 1 128 "));
  CHECK(plain ==
        digest_of_text(
            "\"version\": \"1\"\nfilter: {false_positive_rate: \"0.01\", memory: '64MiB'}\nlists:\n"
            "  - {name: \"null\", action: \"drop\", ipv6_aggregate: \"64\", dynamic: \"true\",\n"
            "     entries: [{dst: \"203.0.113.9\", proto: \"6\", dport: \"53\", comment: \"null\"}]}\n"
            "  - {name: \"1\", action: 'pass', entries: [{src: 10.0.0.1, proto: icmp, icmp: {type: \"8\"}}]}\n"));
}

TEST_CASE("with default: drop, a pass list has to hold what is in own") {
  const auto warned = [](const std::string& own, const std::string& passed, const std::string& action = "drop") {
    Diagnostics diagnostics;
    REQUIRE(parse_policy("a.yaml",
                         "version: 1\npolicy: {default: " + action + ", own: [" + own +
                             "]}\nlists:\n- {name: a, action: pass, match: either, entries: [" + passed + "]}\n",
                         diagnostics));
    return format(diagnostics).find("packets to and from `own` addresses drop") != std::string::npos;
  };
  CHECK(warned("192.0.2.0/24", "192.0.2.0/25"));
  CHECK(warned("192.0.2.0/24, \"2001:db8::1\"", "192.0.2.0/23"));
  CHECK(warned("192.0.2.1", "\"192.0.2.1:443\""));
  CHECK_FALSE(warned("192.0.2.0/24, \"2001:db8::1\"", "192.0.2.0/23, \"2001:db8::/32\""));
  CHECK_FALSE(warned("192.0.2.0/24", "198.51.100.1", "pass"));
}

TEST_CASE("256 lists are allowed, and `own` is none of them") {
  std::string text = "version: 1\npolicy: {own: [192.0.2.1]}\nlists:\n";
  for (int i = 0; i < 256; i++) text += "- {name: l" + std::to_string(i) + ", action: drop, entries: [192.0.2.2]}\n";
  CHECK(parse(text).lists.size() == 256);
  Diagnostics diagnostics;
  CHECK_FALSE(parse_policy("a.yaml", text + "- {name: one-more, action: drop, entries: [192.0.2.2]}\n", diagnostics));
}

TEST_CASE("a feed is read from the policy's folder, after the inline entries") {
  const Folder folder;
  folder.write("feeds/a.txt", "192.0.2.7\nbad\n192.0.2.8:80\n2001:db8::7\n0.0.0.0/0\n");
  const std::string path = folder.write(
      "weir.yaml",
      "version: 1\nlists:\n- {name: a, action: drop, match: dst, file: feeds/a.txt, entries: [192.0.2.6]}\n"
      "- {name: b, action: pass, allow_any: true, file: " +
          folder.path() + "/feeds/a.txt, format: plain}\n");
  Diagnostics diagnostics;
  const auto policy = read_policy(path, diagnostics);
  INFO(format(diagnostics));
  REQUIRE(policy);
  CHECK(diagnostics.warnings() == 0);
  const List& a = policy->lists.at(0);
  CHECK(a.file == "feeds/a.txt");
  CHECK(a.feed.path == folder.path() + "/feeds/a.txt");
  CHECK(a.feed.lines == 5);
  CHECK(a.feed.entries == 3);
  CHECK(a.feed.bad == 2);
  REQUIRE(a.v4().size() == 3);
  CHECK(a.v4()[0].source == 0);
  CHECK(a.v4()[0].first == parse_ipv4("192.0.2.6"));
  CHECK(a.v4()[1].source == 1);
  CHECK(a.v4()[1].line == 1);
  CHECK(a.v4()[1].directions == kDestination);
  CHECK(a.v4()[2].port == 80);
  CHECK(policy->lists.at(1).feed.bad == 1);
  CHECK(policy->lists.at(1).v4().size() == 3);
}

TEST_CASE("comments stay with their entries, also of one line, and of addresses that are widened") {
  const Folder folder;
  folder.write("feed.txt", "192.0.2.7\n");
  const std::string path = folder.write("weir.yaml", R"(version: 1
lists:
- name: a
  action: drop
  file: feed.txt
  ipv6_aggregate: 64
  entries: [{entry: 192.0.2.1, comment: ticket 1}, {entry: 192.0.2.3}, {entry: "192.0.2.4:80", comment: ticket 4},
    {src: "2001:db8::1", comment: six}, {src: "2001:db8::1", dst: "2001:db8::2", comment: flow}, {src: 192.0.2.5, comment: ""}]
)");
  Diagnostics diagnostics;
  const auto policy = read_policy(path, diagnostics);
  INFO(format(diagnostics));
  REQUIRE(policy);
  const std::vector<EntryComment> wanted = {
      {7, "192.0.2.1", "ticket 1"},
      {7, "192.0.2.4:80", "ticket 4"},
      {8, "2001:db8::/64", "six"},
      {8, "src 2001:db8::/64 dst 2001:db8::/64", "flow"},
  };
  CHECK(policy->lists.at(0).content->comments == wanted);
  const List& list = policy->lists.at(0);
  CHECK(comment_of(list, 7, "192.0.2.4:80") == "ticket 4");
  CHECK(comment_of(list, 7, "192.0.2.3").empty());
  CHECK(comment_of(list, 9, "192.0.2.4:80").empty());
}

TEST_CASE("feeds are not opened by parse_policy") {
  CHECK(parse("version: 1\nlists: [{name: a, action: drop, file: nowhere.txt}]\n").lists.at(0).file == "nowhere.txt");
}

TEST_CASE("a policy that is not there") {
  Diagnostics diagnostics;
  CHECK_FALSE(read_policy("nowhere/weir.yaml", diagnostics));
  CHECK(format(diagnostics) ==
        "nowhere/weir.yaml: error: cannot open nowhere/weir.yaml: No such file or directory\n"
        "hint: name a YAML file that can be read\n");
}

TEST_CASE("the defaults of weir.yaml's rows are those of the program") {
  const yaml::Section& keys = policy_section();
  const yaml::Section& list_keys = tests::section_at(keys, "lists");
  const auto policy_of = [](const std::string& sections, const std::string& list) {
    return parse("version: 1\n" + sections + "lists: [{name: a, action: drop, url: 'https://a/b', dynamic: true, " +
                 list + "}]\n");
  };
  std::string written;
  for (const char* section : {"policy", "filter", "fetch", "capture", "history", "metrics"}) {
    written += std::string(section) + ": " + tests::defaults_of(tests::section_at(keys, section)) + "\n";
  }
  const std::string list_written = tests::defaults_of(list_keys, {"dynamic"});
  INFO(written << list_written);
  const Policy policy = policy_of(written, list_written.substr(1, list_written.size() - 2));
  const Policy defaults = policy_of("capture: {}\n", "comment: ''");
  CHECK(policy.default_action == defaults.default_action);
  CHECK(policy.unparsed_action == defaults.unparsed_action);
  CHECK(policy.tunnels == defaults.tunnels);
  CHECK(policy.false_positive_rate == defaults.false_positive_rate);
  CHECK(policy.memory_bytes == defaults.memory_bytes);
  CHECK(policy.layout == defaults.layout);
  CHECK(policy.fetch == defaults.fetch);
  CHECK(policy.capture == defaults.capture);
  CHECK(policy.metrics == defaults.metrics);
  CHECK(policy.history.keep_s == defaults.history.keep_s);
  CHECK(policy.history.size_bytes == defaults.history.size_bytes);
  const List &list = policy.lists[0], &plain = defaults.lists[0];
  CHECK(list.mode == plain.mode);
  CHECK(list.match == plain.match);
  CHECK(list.ipv6_aggregate == plain.ipv6_aggregate);
  CHECK(list.dynamic == plain.dynamic);
  CHECK(list.every_s == plain.every_s);
  const yaml::Section& guard = tests::section_at(list_keys, "guard");
  Diagnostics diagnostics;
  const auto document = yaml::parse_document("guard", tests::defaults_of(guard), diagnostics);
  REQUIRE(document);
  CHECK(read_guard(yaml::MapReader(*document, &document->root, guard, diagnostics)) == Guard());
  CHECK(diagnostics.ok());
}

TEST_CASE("errors from before do not make a good policy bad") {
  Diagnostics diagnostics;
  diagnostics.add({Severity::error, {}, "of another file", "", ""});
  CHECK(parse_policy("a.yaml", "version: 1\nlists: []\n", diagnostics));
}

TEST_CASE("the sample policy has neither errors nor warnings, and its feeds no bad lines") {
  Diagnostics diagnostics;
  const auto policy = read_policy("configs/weir.yaml", diagnostics);
  CHECK(format(diagnostics) == "");
  REQUIRE(policy);
  CHECK(policy->lists.size() == 5);
  for (const List& list : policy->lists) {
    INFO(list.name);
    CHECK((list.entries() > 0 || list.dynamic));
    CHECK(list.feed.bad == 0);
    CHECK((list.file.empty() || list.feed.entries > 0));
  }
}
