#include "control/book/difference.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "control/model/flow_condition.h"

namespace weir::control {
namespace {

template <class Addr>
auto meaning_of(const Entry<Addr>& entry) {
  return std::make_tuple(entry.first, entry.last, entry.port, entry.directions, entry.expires);
}

// The first row from `row` on that means something else.
template <class Addr>
size_t next_meaning(const Rows<Addr>& rows, size_t row) {
  const auto meaning = meaning_of(rows[row]);
  while (row < rows.size() && meaning_of(rows[row]) == meaning) row++;
  return row;
}

template <class Addr>
void walk(const Rows<Addr>& before, const Rows<Addr>& after, std::vector<Entry<Addr>>& added,
          std::vector<Entry<Addr>>& removed) {
  size_t b = 0, a = 0;
  while (b < before.size() || a < after.size()) {
    if (a == after.size() || (b < before.size() && meaning_of(before[b]) < meaning_of(after[a]))) {
      removed.push_back(before[b]);
      b = next_meaning(before, b);
    } else if (b == before.size() || meaning_of(after[a]) < meaning_of(before[b])) {
      added.push_back(after[a]);
      a = next_meaning(after, a);
    } else {
      b = next_meaning(before, b);
      a = next_meaning(after, a);
    }
  }
}

struct Asked {
  weir_residual condition;
  uint64_t family;
  const Flow* flow;
};

bool before(const Asked& a, const Asked& b) {
  const int order = memcmp(&a.condition, &b.condition, sizeof a.condition);
  return order != 0 ? order < 0 : a.family < b.family;
}

// By what they ask, each once.
std::vector<Asked> sorted(const std::vector<Flow>& flows) {
  std::vector<Asked> asked;
  for (const Flow& flow : flows) asked.push_back({condition_of(flow), flow.family, &flow});
  std::stable_sort(asked.begin(), asked.end(), before);
  const auto same = [](const Asked& a, const Asked& b) { return !before(a, b) && !before(b, a); };
  asked.erase(std::unique(asked.begin(), asked.end(), same), asked.end());
  return asked;
}

std::vector<Flow> only_in(const std::vector<Asked>& these, const std::vector<Asked>& others) {
  std::vector<Asked> left;
  std::set_difference(these.begin(), these.end(), others.begin(), others.end(), std::back_inserter(left), before);
  std::vector<Flow> flows;
  for (const Asked& asked : left) flows.push_back(*asked.flow);
  return flows;
}

}  // namespace

Difference difference(const Entries& before, const Entries& after) {
  Difference difference;
  walk(before.v4, after.v4, difference.added.v4, difference.removed.v4);
  walk(before.v6, after.v6, difference.added.v6, difference.removed.v6);
  const std::vector<Asked> old_flows = sorted(before.flows), new_flows = sorted(after.flows);
  difference.added.flows = only_in(new_flows, old_flows);
  difference.removed.flows = only_in(old_flows, new_flows);
  return difference;
}

}  // namespace weir::control
