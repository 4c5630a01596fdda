// Any bytes as a rule of FlowSpec: no crash; what is taken comes back from its bytes, and its entries are entries that
// say the same as a rule again. The first byte chooses the family.
#include <cstdlib>

#include "control/policy/model/range_text.h"
#include "control/policy/read/entry_line.h"
#include "control/sources/flowspec/entries.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::flowspec;

namespace {

void require(bool holds) {
  if (!holds) abort();
}

// An entry, and the rules that it is announced by, as entries again.
void require_entry(const Flow& flow) {
  ListDraft list;
  const Result<std::string> line = read_entry_line(flow_line(flow), true, list);
  if (!line) return require(line.error().find("IPv4-mapped") != std::string::npos);
  require(list.entries() == 1);
  const Result<std::vector<Rule>> rules = rules_of(list);
  require(rules && rules->size() == 1);
  const Result<std::vector<Flow>> again = entries_of((*rules)[0]);
  require(again && !again->empty());
  for (const Flow& each : *again) require(each.family == flow.family && each.src == flow.src && each.dst == flow.dst);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Family family = data[0] % 2 == 0 ? Family::v4 : Family::v6;
  const BytesView bytes(data + 1, size - 1);
  if (const Result<std::vector<RuleKey>> keys = split_rules(family, bytes)) {
    Bytes field;
    for (const RuleKey& key : *keys) put_rule(field, key);
    const Result<std::vector<RuleKey>> again = split_rules(family, field);
    require(again && *again == *keys);
  } else {
    require(!keys.error().empty());
  }

  const Result<Rule> rule = parse_rule(family, bytes);
  if (!rule) {
    require(!rule.error().empty());
    return 0;
  }
  const Result<Rule> again = parse_rule(family, encode_rule(*rule));
  require(again && *again == *rule);
  require(!text_of(*rule).empty());
  const Result<std::vector<Flow>> flows = entries_of(*rule);
  if (!flows) {
    require(!flows.error().empty());
    return 0;
  }
  require(!flows->empty() && flows->size() <= kMostEntries);
  size_t n = 0;
  for (const Flow& flow : *flows) {
    require(flow.family == (family == Family::v4 ? 4 : 6));
    if (n++ < 8) require_entry(flow);  // 256 of them take their time
  }
  return 0;
}
