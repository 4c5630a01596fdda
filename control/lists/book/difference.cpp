#include "control/lists/book/difference.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "control/policy/model/flow_condition.h"

namespace weir::control {
namespace {

// Whether two rows mean the same, and which comes first: < 0, 0, > 0. Nearly always their first addresses tell.
template <class Addr>
int compare(const Rows<Addr>& a, size_t i, const Rows<Addr>& b, size_t j) {
  if (a.first[i] != b.first[j]) return a.first[i] < b.first[j] ? -1 : 1;
  const auto rest = [](const Rows<Addr>& rows, size_t row) {
    return std::make_tuple(rows.last_of(row), rows.port[row], rows.directions[row], rows.expires[row]);
  };
  const auto of_a = rest(a, i), of_b = rest(b, j);
  return of_a == of_b ? 0 : of_a < of_b ? -1 : 1;
}

// The first row behind this one that means something else.
template <class Addr>
size_t next_meaning(const Rows<Addr>& rows, size_t row) {
  size_t next = row + 1;
  while (next < rows.size() && compare(rows, next, rows, row) == 0) next++;
  return next;
}

// add(entry), remove(entry): once for each that only one of them has.
template <class Addr, class Add, class Remove>
void walk(const Rows<Addr>& before, const Rows<Addr>& after, Add add, Remove remove) {
  size_t b = 0, a = 0;
  while (b < before.size() || a < after.size()) {
    const int order = b == before.size() ? 1 : a == after.size() ? -1 : compare(before, b, after, a);
    if (order < 0) remove(before[b]);
    if (order > 0) add(after[a]);
    if (order <= 0) b = next_meaning(before, b);
    if (order >= 0) a = next_meaning(after, a);
  }
}

struct Asked {
  weir_residual condition;
  uint64_t family;
  const Flow* flow;
};

bool asks_less(const Asked& a, const Asked& b) {
  const int order = memcmp(&a.condition, &b.condition, sizeof a.condition);
  return order != 0 ? order < 0 : a.family < b.family;
}

// By what they ask, each once.
std::vector<Asked> sorted(const std::vector<Flow>& flows) {
  std::vector<Asked> asked;
  for (const Flow& flow : flows) asked.push_back({condition_of(flow), flow.family, &flow});
  std::stable_sort(asked.begin(), asked.end(), asks_less);
  const auto same = [](const Asked& a, const Asked& b) { return !asks_less(a, b) && !asks_less(b, a); };
  asked.erase(std::unique(asked.begin(), asked.end(), same), asked.end());
  return asked;
}

std::vector<Flow> only_in(const std::vector<Asked>& these, const std::vector<Asked>& others) {
  std::vector<Asked> left;
  std::set_difference(these.begin(), these.end(), others.begin(), others.end(), std::back_inserter(left), asks_less);
  std::vector<Flow> flows;
  for (const Asked& asked : left) flows.push_back(*asked.flow);
  return flows;
}

}  // namespace

Difference difference(const Entries& before, const Entries& after) {
  Difference difference;
  const auto into = [](auto& entries) { return [&entries](const auto& entry) { entries.push_back(entry); }; };
  walk(before.v4, after.v4, into(difference.added.v4), into(difference.removed.v4));
  walk(before.v6, after.v6, into(difference.added.v6), into(difference.removed.v6));
  const std::vector<Asked> old_flows = sorted(before.flows), new_flows = sorted(after.flows);
  difference.added.flows = only_in(new_flows, old_flows);
  difference.removed.flows = only_in(old_flows, new_flows);
  return difference;
}

DifferenceCount count_difference(const Entries& before, const Entries& after) {
  DifferenceCount count;
  if (before.digest == after.digest) return count;
  const auto add = [&](const auto&) { count.added++; };
  const auto remove = [&](const auto&) { count.removed++; };
  walk(before.v4, after.v4, add, remove);
  walk(before.v6, after.v6, add, remove);
  const std::vector<Asked> old_flows = sorted(before.flows), new_flows = sorted(after.flows);
  count.added += only_in(new_flows, old_flows).size();
  count.removed += only_in(old_flows, new_flows).size();
  return count;
}

std::vector<ListChange> list_changes(const Book& before, const Book& after) {
  const Entries none;
  std::vector<ListChange> changes;
  const auto named = [](const Book& book, const std::string& name) {
    return std::find_if(book.begin(), book.end(), [&](const List& list) { return list.name == name; });
  };
  for (const List& list : after) {
    const auto was = named(before, list.name);
    const bool is_new = was == before.end();
    const DifferenceCount count = count_difference(is_new ? none : *was->content, *list.content);
    const bool same =
        !is_new && count.added == 0 && count.removed == 0 && was->action == list.action && was->mode == list.mode;
    if (same) continue;
    changes.push_back({list.name, is_new ? "new" : "changed", list.entries(), count.added, count.removed});
  }
  for (const List& list : before) {
    if (named(after, list.name) != after.end()) continue;
    changes.push_back({list.name, "gone", 0, 0, count_difference(*list.content, none).removed});
  }
  return changes;
}

}  // namespace weir::control
