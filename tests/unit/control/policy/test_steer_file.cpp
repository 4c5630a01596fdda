#include <cstring>
#include <string>
#include <vector>

#include "control/policy/read/steer_file.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

struct Parsed {
  std::optional<weir_steering> rules;
  Diagnostics diagnostics;
};

Parsed parse(const std::string& text) {
  Parsed parsed;
  parsed.rules = parse_steer_file("s.yaml", text, parsed.diagnostics);
  CHECK(parsed.rules.has_value() == parsed.diagnostics.ok());
  return parsed;
}

std::string rule_file(const std::string& rule) {
  return "version: 1\nrules:\n  - {" + rule + "}\n";
}

weir_steer_rule rule(const std::string& text) {
  const Parsed parsed = parse(rule_file(text));
  INFO(text << "\n" << format(parsed.diagnostics));
  REQUIRE(parsed.rules);
  REQUIRE(parsed.rules->n_rules == 1);
  return parsed.rules->rule[0];
}

// Message of the first diagnostic.
std::string first_of(const Parsed& parsed) {
  return parsed.diagnostics.kept().empty() ? "none" : parsed.diagnostics.kept()[0].message;
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

std::string error_of(const std::string& text) {
  const Parsed parsed = parse(text);
  CHECK_FALSE(parsed.rules);
  return first_of(parsed);
}

}  // namespace

TEST_CASE("steering: a file says no more than it must") {
  const Parsed parsed = parse("version: 1\n");
  REQUIRE(parsed.rules);
  CHECK(parsed.diagnostics.warnings() == 0);
  CHECK(parsed.rules->version == WEIR_STEER_VERSION);
  CHECK(parsed.rules->n_rules == 0);
  CHECK(parsed.rules->default_to == WEIR_TO_KERNEL);
  CHECK(parsed.rules->link_to == WEIR_TO_KERNEL);
}

TEST_CASE("steering: configs/steer.yaml is right, and says the defaults") {
  Diagnostics diagnostics;
  const auto rules = read_steer_file("configs/steer.yaml", diagnostics);
  INFO(format(diagnostics));
  REQUIRE(rules);
  CHECK(diagnostics.warnings() == 0);
  CHECK(rules->n_rules == 6);
  CHECK(rules->default_to == WEIR_TO_KERNEL);
  CHECK(rules->link_to == WEIR_TO_KERNEL);
}

TEST_CASE("steering: rules become what packets are compared with") {
  const weir_steer_rule v4 = rule("to: worker, dst: 203.0.113.0/24, proto: tcp, dport: 80-90, comment: web");
  CHECK(v4.to == WEIR_TO_WORKER);
  CHECK(v4.family == 4);
  CHECK(v4.asks == (WEIR_STEER_BY_PROTOCOL | WEIR_STEER_BY_DESTINATION_PORT));
  CHECK(v4.protocol == 6);
  CHECK(v4.first_port[1] == 80);
  CHECK(v4.last_port[1] == 90);
  const uint8_t address[16] = {203, 0, 113}, mask[16] = {255, 255, 255};
  CHECK(memcmp(v4.address[1], address, sizeof address) == 0);
  CHECK(memcmp(v4.mask[1], mask, sizeof mask) == 0);
  CHECK((v4.mask[0][0] | v4.mask[0][1]) == 0);

  const weir_steer_rule v6 = rule("to: kernel, src: \"2001:db8::/33\", sport: 53");
  CHECK(v6.to == WEIR_TO_KERNEL);
  CHECK(v6.family == 6);
  CHECK(v6.asks == WEIR_STEER_BY_SOURCE_PORT);
  const uint8_t address6[16] = {0x20, 0x01, 0x0d, 0xb8}, mask6[16] = {255, 255, 255, 255, 0x80};
  CHECK(memcmp(v6.address[0], address6, sizeof address6) == 0);
  CHECK(memcmp(v6.mask[0], mask6, sizeof mask6) == 0);

  CHECK(rule("to: worker, family: 6").family == 6);
  CHECK(rule("to: worker, dst: 0.0.0.0/0").family == 4);
  CHECK(rule("to: worker, dst: 192.0.2.0-192.0.2.255").mask[1][0] == v4.mask[1][0]);
}

TEST_CASE("steering: a rule as text") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"dst: 203.0.113.0/24, proto: tcp, dport: 80-90", "dst 203.0.113.0/24 tcp dport 80-90"},
      {"src: 192.0.2.1", "src 192.0.2.1"},
      {"src: \"2001:db8::/33\", sport: 53", "src 2001:db8::/33 sport 53"},
      {"dst: 203.0.113.9, src: 10.0.0.0/8, proto: 17, sport: 1, dport: 65535",
       "src 10.0.0.0/8 dst 203.0.113.9 udp sport 1 dport 65535"},
      {"proto: 200", "proto 200"},
      {"proto: icmpv6", "icmpv6"},
      {"family: 4", "IPv4"},
      {"family: 6, proto: udp", "IPv6 udp"},
  };
  for (const auto& [fields, text] : cases) CHECK(rule_text(rule("to: worker, " + fields)) == text);
}

TEST_CASE("steering: what is wrong is told, with the value") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"to: nowhere, proto: tcp", "`to`"},
      {"proto: tcp", "`to`"},
      {"to: worker", "names nothing to match"},
      {"to: worker, comment: all", "names nothing to match"},
      {"to: worker, dst: 203.0.113.0/33", "203.0.113.0/33"},
      {"to: worker, dst: 010.0.0.1", "010.0.0.1"},
      {"to: worker, dst: \"203.0.113.7:443\"", "takes no port"},
      {"to: worker, dst: 203.0.113.1-203.0.113.4", "no single prefix"},
      {"to: worker, dst: 203.0.113.0-203.0.113.2", "no single prefix"},
      {"to: worker, src: 192.0.2.1, dst: \"2001:db8::1\"", "cannot match"},
      {"to: worker, family: 4, dst: \"2001:db8::1\"", "cannot match"},
      {"to: worker, family: 5", "`family`"},
      {"to: worker, proto: tpc", "`proto` is `tpc`"},
      {"to: worker, proto: 256", "`proto` is `256`"},
      {"to: worker, dport: 0", "`dport` is `0`"},
      {"to: worker, dport: 65536", "`dport` is `65536`"},
      {"to: worker, dport: 080", "`dport` is `080`"},
      {"to: worker, dport: 90-80", "ends before it begins"},
      {"to: worker, dport: -", "`dport` is `-`"},
      {"to: worker, dport: 1-2-3", "`dport` is `1-2-3`"},
      {"to: worker, proto: icmp, sport: 7", "have no ports"},
      {"to: worker, dst:", "`dst` has no value"},
      {"to: worker, port: 80", "unknown key `port`"},
  };
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK(has(error_of(rule_file(text)), expected));
  }
  CHECK(has(error_of(""), "empty"));
  CHECK(has(error_of("rules: []"), "version"));
  CHECK(has(error_of("version: 2"), "version `2` is not known"));
  CHECK(has(error_of("version: 1\ndefault: drop"), "`default`"));
  CHECK(has(error_of("version: 1\nrules: {to: worker}"), "`rules`"));
  CHECK(has(error_of("version: 1\nrules: [worker]"), "the rule"));
}

TEST_CASE("steering: there may be 64 rules") {
  std::string text = "version: 1\nrules:\n";
  for (int i = 0; i < 64; i++) text += "  - {to: worker, dst: 10.0.0." + std::to_string(i) + "}\n";
  CHECK(parse(text).rules->n_rules == 64);
  CHECK(has(error_of(text + "  - {to: worker, dst: 10.0.1.0}\n"), "65 rules"));
}

TEST_CASE("steering: warnings of what nobody wants") {
  const auto warning = [](const std::string& rules, const std::string& more = "") {
    const Parsed parsed = parse("version: 1\n" + more + "rules:\n" + rules);
    REQUIRE(parsed.rules);
    return first_of(parsed);
  };
  const std::string wide = "  - {to: worker, dst: 10.0.0.0/8}\n";
  CHECK(has(warning(wide + "  - {to: kernel, dst: 10.1.0.0/16, proto: tcp, dport: 22}\n"),
            "takes nothing: the one in line 3"));
  CHECK(warning("  - {to: kernel, dst: 10.1.0.0/16, proto: tcp, dport: 22}\n" + wide) == "none");
  CHECK(warning(wide + "  - {to: kernel, dst: 11.1.0.0/16}\n") == "none");
  CHECK(warning(wide + "  - {to: kernel, src: 10.1.0.0/16}\n") == "none");
  CHECK(warning(wide + "  - {to: kernel, dst: 0.0.0.0/0}\n") == "none");
  CHECK(has(warning("  - {to: worker, dport: 1-100}\n  - {to: kernel, proto: tcp, dport: 22}\n"), "takes nothing"));
  CHECK(warning("  - {to: worker, dport: 23-100}\n  - {to: kernel, proto: tcp, dport: 22-30}\n") == "none");
  CHECK(warning("  - {to: worker, proto: tcp, dport: 22}\n  - {to: kernel, dport: 22}\n") == "none");
  CHECK(has(warning(wide, "default: worker\n"), "a login over this interface is lost"));
  CHECK(warning("  - {to: kernel, proto: tcp, dport: 22}\n", "default: worker\n") == "none");
}
