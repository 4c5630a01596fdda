#pragma once

#include <string>
#include <vector>

#include "control/policy/model/list.h"
#include "control/sources/flowspec/nlri.h"

// Rules of FlowSpec as weir's entries, and weir's entries as rules. docs/operate/flowspec.md has the table.
namespace weir::control::flowspec {

constexpr size_t kMostEntries = 256;  // of one rule
constexpr size_t kMostRules = 256;    // of one entry

// Together they match the packets that the rule matches, and no other. Error: which component weir has no entry for,
// and why; or that there would be too many.
Result<std::vector<Flow>> entries_of(const Rule& rule);

// The rules that match what the entries of the draft match, as far as FlowSpec can say it: ports are those of TCP and
// UDP there. Error: what it cannot say.
Result<std::vector<Rule>> rules_of(const ListDraft& entries);

}  // namespace weir::control::flowspec
