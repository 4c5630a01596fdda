// Rules of FlowSpec and their bytes: the RFCs' examples, there and back, cut off at every byte.
#include "control/sources/flowspec/nlri.h"
#include "tests/catch.h"
#include "tests/unit/control/sources/flowspec/made.h"

namespace weir::control::flowspec {
namespace {

Result<Rule> parse(Family family, std::string_view hex) {
  return parse_rule(family, bytes_of(hex));
}
std::string shown(Family family, std::string_view hex) {
  const Result<Rule> rule = parse(family, hex);
  return rule ? text_of(*rule) : "error: " + rule.error();
}

struct Example {
  Family family;
  const char* bytes;  // without the length in front
  const char* text;
};
constexpr Example kExamples[] = {
    // RFC 8955, section 4.3.
    {Family::v4, "01 18 c0 00 02 03 81 06 04 81 19", "dst 192.0.2.0/24 proto 6 port 25"},
    {Family::v4, "01 18 c0 00 02 02 18 cb 00 71 04 03 89 45 8b 91 1f 90",
     "dst 192.0.2.0/24 src 203.0.113.0/24 port 137-139,8080"},
    {Family::v4, "01 20 c0 00 02 01 0c 80 05", "dst 192.0.2.1/32 fragment 0x5"},
    // RFC 8956, section 3.8.
    {Family::v6, "01 20 00 20 01 0d b8 02 68 40 12 34 56 78 9a 03 81 06",
     "dst 2001:db8::/32 src ::1234:5678:9a00:0/104 from bit 64 on proto 6"},
    {Family::v6, "01 20 00 20 01 0d b8 02 68 41 24 68 ac f1 34",
     "dst 2001:db8::/32 src ::1234:5678:9a00:0/104 from bit 65 on"},
    // Of every kind.
    {Family::v4, "01 00 02 20 01 02 03 04", "dst 0.0.0.0/0 src 1.2.3.4/32"},
    {Family::v4, "05 02 10 44 20 86 30", "dport >16&<32,!=48"},
    {Family::v4, "09 00 02 41 10 83 01", "tcp-flags 0x2&=0x10,!=0x1"},
    {Family::v6, "0d 81 07", "flow-label 7"},
};

}  // namespace

TEST_CASE("the examples of the RFCs are read as they say, and written as they are") {
  for (const Example& example : kExamples) {
    INFO(example.bytes);
    CHECK(shown(example.family, example.bytes) == example.text);
    const Result<Rule> rule = parse(example.family, example.bytes);
    REQUIRE(rule);
    CHECK(encode_rule(*rule) == bytes_of(example.bytes));
  }
}

TEST_CASE("a rule that is cut off is none, wherever it is cut") {
  for (const Example& example : kExamples) {
    const Bytes whole = bytes_of(example.bytes);
    size_t n_read = 0;
    for (size_t n = 0; n < whole.size(); n++) {
      const Result<Rule> rule = parse_rule(example.family, BytesView(whole).first(n));
      if (!rule) {
        CHECK_FALSE(rule.error().empty());
        continue;
      }
      n_read++;  // between two components
      CHECK(encode_rule(*rule) == Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)));
    }
    CHECK(n_read == parse_rule(example.family, whole)->components.size() - 1);
  }
}

TEST_CASE("what the RFCs forbid is refused") {
  CHECK(shown(Family::v4, "") == "error: the rule has no component");
  CHECK(shown(Family::v4, "0d 81 07") == "error: component type 13 is not known");
  CHECK(shown(Family::v6, "0e 81 07") == "error: component type 14 is not known");
  CHECK(shown(Family::v4, "00 81 07") == "error: component type 0 is not known");
  CHECK(shown(Family::v4, "03 81 06 03 81 11") == "error: component type 3 stands behind 3");
  CHECK(shown(Family::v4, "04 81 19 03 81 06") == "error: component type 3 stands behind 4");
  CHECK(shown(Family::v4, "01 21 c0 00 02 01 00") == "error: component dst has a prefix of /33");
  CHECK(shown(Family::v6, "01 20 20") == "error: component dst begins at bit 32 and ends at 32");
  CHECK(shown(Family::v6, "01 00 01") == "error: component dst begins at bit 1 and ends at 0");
  CHECK(shown(Family::v4, "0b 91 00 0a") == "error: component dscp has a value of 2 bytes");
  CHECK(shown(Family::v4, "0c 90 00 01") == "error: component fragment has a value of 2 bytes");
  CHECK(shown(Family::v4, "09 a0 00 00 00 01") == "error: component tcp-flags has a value of 4 bytes");
}

TEST_CASE("bits that count not do not count") {
  CHECK(shown(Family::v4, "01 14 c0 00 ff") == "dst 192.0.240.0/20");  // behind the prefix
  CHECK(shown(Family::v4, "03 c1 06") == "proto 6");                   // "and" of the first operator
  CHECK(shown(Family::v4, "03 89 06") == "proto 6");                   // reserved ones
}

TEST_CASE("any rule comes back from its bytes") {
  CHECK(rc::check([] {
    const Rule rule = any_rule();
    const Result<Rule> again = parse_rule(rule.family, encode_rule(rule));
    RC_ASSERT(static_cast<bool>(again));
    RC_ASSERT(*again == rule);
    RC_ASSERT(!text_of(rule).empty());
  }));
}

TEST_CASE("rules stand one behind the other, each with its length") {
  const RuleKey small{Family::v4, std::string(239, 'a')}, large{Family::v4, std::string(240, 'b')},
      longest{Family::v4, std::string(kMostRuleBytes, 'c')};
  Bytes field;
  for (const RuleKey& key : {small, large, longest}) put_rule(field, key);
  CHECK((field[0] == 239 && field[240] == 0xf0 && field[241] == 240));
  const Result<std::vector<RuleKey>> keys = split_rules(Family::v4, field);
  REQUIRE(keys);
  CHECK(*keys == std::vector<RuleKey>{small, large, longest});
  for (size_t n = 0; n < field.size(); n++) {
    const bool is_between = n == 0 || n == 240 || n == 482;
    CHECK(static_cast<bool>(split_rules(Family::v4, BytesView(field).first(n))) == is_between);
  }
}

}  // namespace weir::control::flowspec
