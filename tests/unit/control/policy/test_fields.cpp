// The table of match fields (control/policy/model/fields.h): what a row prints, it parses, and a policy file that has
// it means the same.
#include <cstring>
#include <random>

#include "control/policy/model/fields.h"
#include "control/policy/model/flow_condition.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/policy.h"
#include "filter/format/frame_rules.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

std::mt19937 numbers(7);  // NOLINT: the same ones each time

unsigned below(unsigned n) {
  return static_cast<unsigned>(numbers() % n);
}

// What each kind may ask for, edges often. most: the largest value that the field's row takes.
void choose(std::optional<weir_value>& asked) {
  asked = static_cast<weir_value>(below(4) == 0 ? 255 : below(256));
}
void choose(std::optional<weir_range16>& asked) {
  const unsigned first = below(4) == 0 ? 1 : 1 + below(65535);
  asked = weir_range16{static_cast<uint16_t>(first), static_cast<uint16_t>(first + below(65536 - first))};
}
void choose(std::optional<weir_masked>& asked) {
  const auto mask = static_cast<uint8_t>(1 + below(255));
  asked = weir_masked{static_cast<uint8_t>(below(256) & mask), mask};
}

void choose(std::optional<weir_range32>& asked) {
  const uint32_t first = 20 + below(65555), last = first + below(65576 - first);
  asked = weir_range32{first, below(3) == 0 ? UINT32_MAX : last};
}
void choose(std::optional<weir_one_of>& asked) {
  const uint64_t words[] = {1, 2, 4, 6};  // the values of `fragment` that have a word
  asked = weir_one_of{words[below(4)]};
}

// A flow that asks for this field and nothing else.
Flow flow_with(const Field& wanted) {
  Flow flow;
#define WEIR_CHOOSE(name, NAME, kind, needs, member, order) \
  if (wanted.asks == WEIR_ASKS_##NAME) choose(flow.name);
  WEIR_FIELDS(WEIR_CHOOSE)
#undef WEIR_CHOOSE
  if (wanted.asks == WEIR_ASKS_DSCP)
    flow.dscp = weir_one_of{(uint64_t{numbers()} << 32 | numbers()) | uint64_t{1} << below(64)};
  return flow;
}

bool same(const Flow& a, const Flow& b) {
  const weir_residual x = condition_of(a), y = condition_of(b);
  return a.family == b.family && memcmp(&x, &y, sizeof x) == 0;
}

// As a policy file has it.
std::string yaml_text(const Field& field, const Flow& flow) {
  const std::string value = field.print(flow), key(field.key);
  switch (field.form) {
    case FieldForm::number:
      return key + ": {" + std::string(field.inner) + ": " + value + "}";
    case FieldForm::bits: {
      const size_t slash = value.find('/');
      const std::string set = value.substr(0, slash) == "none" ? "" : value.substr(0, slash);
      return key + ": {set: [" + set + "], mask: [" + value.substr(slash + 1) + "]}";
    }
    case FieldForm::list:
      return key + ": [" + value + "]";
    default:
      return key + ": " + value;
  }
}

}  // namespace

TEST_CASE("every row parses what it prints") {
  for (const Field& field : fields()) {
    for (int i = 0; i < 500; i++) {
      const Flow flow = flow_with(field);
      REQUIRE(fields_asked(flow) == field.asks);
      INFO(field.label << " " << field.print(flow));
      Flow read;
      REQUIRE_FALSE(field.parse(field, field.print(flow), read));
      CHECK(same(flow, read));
      CHECK(flow_text(flow) == field_text(field, flow));
      CHECK(same(flow_of(condition_of(flow), 0), flow));
    }
  }
}

TEST_CASE("a policy file that has what a row prints means the same") {
  for (const Field& field : fields()) {
    for (int i = 0; i < 20; i++) {
      const Flow flow = flow_with(field);
      const std::string text = "version: 1\nlists:\n- {name: a, action: drop, allow_any: true, entries: [{" +
                               yaml_text(field, flow) + "}]}\n";
      INFO(text);
      Diagnostics diagnostics;
      const auto policy = parse_policy("a.yaml", text, diagnostics, 0);
      REQUIRE(policy);
      REQUIRE(policy->lists[0].flows().size() == 1);
      CHECK(same(policy->lists[0].flows()[0], flow));
    }
  }
}

TEST_CASE("rows are in the order of the fields, each once, and need what some protocol carries") {
  unsigned seen = 0;
  for (size_t i = 0; i < fields().size(); i++) {
    const Field& field = fields()[i];
    CHECK(unsigned{field.asks} == 8u << i);
    CHECK(find_field(field.key, field.inner) == &field);
    CHECK((seen & field.asks) == 0);
    seen |= field.asks;
    const unsigned needs = needs_of(field.asks);
    bool is_carried = needs == 0;
    for (unsigned protocol = 0; protocol < 256; protocol++) is_carried |= (weir_carries(protocol) & needs) == needs;
    CHECK(is_carried);
    unsigned named = 0;
    for (const Carried& carried : carried()) named |= carried.needs;
    CHECK((needs & ~named) == 0);
  }
  CHECK(find_field("dprot") == nullptr);
  CHECK(find_field("icmp") == nullptr);
}

TEST_CASE("what says nothing is refused") {
  const std::pair<const char*, std::vector<const char*>> rows[] = {
      {"proto", {"", "tpc", "256", "-1", "06", "TCP", "6 "}},
      {"sport", {"", "0", "65536", "1-", "-1", "1-0", "2-1", "1-65536", "01", "1-2-3", "1 - 2", "http"}},
      {"length",
       {"", "0", "19", "65576", "-", "0-", "19-", "-200", "200-100", "200-65576", "200--", "0200", "4294967295"}},
      {"dscp", {"", "64", "-1", "10-", "14-10", "1,", ",1", "1,,2", "1-2-3", "ef", "0x10", "63-64", "01"}},
      {"fragment", {"", "None", "all", "first,later", "1"}},
      {"tcp_flags", {"", "/", "syn/", "/syn", "syn/ack", "none/none", "syn,/syn", "SYN/SYN", "syn/syn/syn"}},
  };
  for (const auto& [key, texts] : rows) {
    const Field* field = find_field(key);
    REQUIRE(field != nullptr);
    for (const char* text : texts) {
      INFO(key << " " << text);
      Flow flow;
      const auto error = field->parse(*field, text, flow);
      REQUIRE(error);
      CHECK_FALSE(error->reason.empty());
      CHECK_FALSE(error->hint.empty());
    }
  }
}
