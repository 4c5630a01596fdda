#include "control/policy/model/edit.h"

#include <algorithm>

#include "control/policy/model/columns.h"

namespace weir::control {
namespace {

// Where the new columns differ from the old ones: in front of a row something is added, or the row goes.
template <class Addr>
struct Step {
  size_t row;
  const Entry<Addr>* added;  // null: the row goes
};

template <class Addr>
using Steps = std::vector<Step<Addr>>;

// What stands in both goes from both, once for each.
template <class T, class Less>
void cancel(std::vector<T>& added, std::vector<T>& removed, Less less) {
  std::sort(added.begin(), added.end(), less);
  std::sort(removed.begin(), removed.end(), less);
  std::vector<T> more, fewer;
  std::set_difference(added.begin(), added.end(), removed.begin(), removed.end(), std::back_inserter(more), less);
  std::set_difference(removed.begin(), removed.end(), added.begin(), added.end(), std::back_inserter(fewer), less);
  added = std::move(more);
  removed = std::move(fewer);
}

// The first row that does not come before the entry.
template <class Addr>
size_t place_of(const Rows<Addr>& rows, const Entry<Addr>& entry) {
  size_t low = 0, high = rows.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (comes_before(rows[middle], entry)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class Addr>
Steps<Addr> steps_of(const Rows<Addr>& rows, const std::vector<Entry<Addr>>& added,
                     const std::vector<Entry<Addr>>& removed) {
  Steps<Addr> steps;
  for (const Entry<Addr>& entry : added) steps.push_back({place_of(rows, entry), &entry});
  size_t n_same = 0;
  for (size_t i = 0; i < removed.size(); i++) {
    n_same = i > 0 && removed[i] == removed[i - 1] ? n_same + 1 : 0;
    const size_t row = place_of(rows, removed[i]) + n_same;
    if (row < rows.size() && rows[row] == removed[i]) steps.push_back({row, nullptr});
  }
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
  return steps;
}

// old(from, to) appends values of these rows, value(entry) one of what is added.
template <class Addr, class Old, class Value>
void walk(size_t n_before, const Steps<Addr>& steps, Old old, Value value) {
  size_t row = 0;
  for (const Step<Addr>& step : steps) {
    old(row, step.row);
    row = step.row;
    if (step.added != nullptr) {
      value(*step.added);
    } else {
      row++;
    }
  }
  old(row, n_before);
}

template <class Addr, class T, class Member>
std::vector<T> spliced(const std::vector<T>& before, size_t n_after, const Steps<Addr>& steps, Member member) {
  std::vector<T> after;
  after.reserve(n_after);
  const auto copy = [&](size_t from, size_t to) {
    after.insert(after.end(), before.begin() + static_cast<ptrdiff_t>(from),
                 before.begin() + static_cast<ptrdiff_t>(to));
  };
  walk(before.size(), steps, copy, [&](const Entry<Addr>& entry) { after.push_back(entry.*member); });
  return after;
}

template <class Addr, class T>
Column<T> spliced(const Column<T>& before, size_t n_before, size_t n_after, const Steps<Addr>& steps,
                  T Entry<Addr>::*member) {
  Column<T> after;
  if (n_after == 0) return after;
  if (before.each.empty()) {
    after.all = before.all;
    const auto added = std::find_if(steps.begin(), steps.end(), [](const auto& step) { return step.added != nullptr; });
    if (n_before == 0 && added != steps.end()) after.all = added->added->*member;
    const bool same = std::all_of(steps.begin(), steps.end(), [&](const Step<Addr>& step) {
      return step.added == nullptr || step.added->*member == after.all;
    });
    if (same) return after;
    after.each.reserve(n_after);
    walk(
        n_before, steps, [&](size_t from, size_t to) { after.each.insert(after.each.end(), to - from, before.all); },
        [&](const Entry<Addr>& entry) { after.each.push_back(entry.*member); });
  } else {
    after.each = spliced(before.each, n_after, steps, member);
  }
  after.all = after.each.front();
  const bool same =
      std::all_of(after.each.begin(), after.each.end(), [&](const T& value) { return value == after.all; });
  same ? after.each.clear() : void(after.all = T{});
  return after;
}

template <class Addr>
Rows<Addr> edited(const Rows<Addr>& before, std::vector<Entry<Addr>>& added, std::vector<Entry<Addr>>& removed) {
  cancel(added, removed, comes_before<Addr>);
  const Steps<Addr> steps = steps_of(before, added, removed);
  if (steps.empty()) return before;
  const size_t n_before = before.size();
  const size_t n_after = n_before - (steps.size() - added.size()) + added.size();
  Rows<Addr> after;
  after.first = spliced(before.first, n_after, steps, &Entry<Addr>::first);
  const auto is_single = [](const Entry<Addr>& entry) { return entry.first == entry.last; };
  if (!before.last.empty() || !std::all_of(added.begin(), added.end(), is_single)) {
    after.last = spliced(before.last.empty() ? before.first : before.last, n_after, steps, &Entry<Addr>::last);
    if (after.last == after.first) after.last.clear();
  }
  after.line = spliced(before.line, n_before, n_after, steps, &Entry<Addr>::line);
  after.port = spliced(before.port, n_before, n_after, steps, &Entry<Addr>::port);
  after.directions = spliced(before.directions, n_before, n_after, steps, &Entry<Addr>::directions);
  after.source = spliced(before.source, n_before, n_after, steps, &Entry<Addr>::source);
  if (n_after != 0) after.expires = spliced(before.expires, n_before, n_after, steps, &Entry<Addr>::expires);
  index_ranges(after);
  return after;
}

std::vector<Flow> edited(std::vector<Flow> flows, std::vector<Flow>& added, std::vector<Flow>& removed) {
  const auto take_from = [](std::vector<Flow>& these, const Flow& flow) {
    const auto found = std::find(these.begin(), these.end(), flow);
    if (found == these.end()) return false;
    these.erase(found);
    return true;
  };
  std::erase_if(removed, [&](const Flow& flow) { return take_from(added, flow); });
  for (const Flow& flow : removed) take_from(flows, flow);
  flows.insert(flows.end(), added.begin(), added.end());
  return flows;
}

template <class Addr>
void append_journal(const Rows<Addr>& rows, std::vector<Entry<Addr>>& entries) {
  if (rows.source.each.empty() && rows.source.all != kJournalSource) return;
  for (size_t row = 0; row < rows.size(); row++) {
    if (rows.source[row] == kJournalSource) entries.push_back(rows[row]);
  }
}

}  // namespace

std::shared_ptr<const Entries> edited(std::shared_ptr<const Entries> before, EntriesEdit edit) {
  if (edit.empty()) return before;  // without a copy of ten million rows
  auto after = std::make_shared<Entries>();
  after->v4 = edited(before->v4, edit.added.v4, edit.removed.v4);
  after->v6 = edited(before->v6, edit.added.v6, edit.removed.v6);
  after->flows = edited(before->flows, edit.added.flows, edit.removed.flows);
  if (edit.empty()) return before;  // one cancelled the other
  after->comments = before->comments;
  if (!edit.added.comments.empty()) {
    after->comments.insert(after->comments.end(), edit.added.comments.begin(), edit.added.comments.end());
    sort_by_line(after->comments);
  }
  after->digest = digest_of(*after);
  return after;
}

ListDraft journal_part(const Entries& entries) {
  ListDraft part;
  append_journal(entries.v4, part.v4);
  append_journal(entries.v6, part.v6);
  std::copy_if(entries.flows.begin(), entries.flows.end(), std::back_inserter(part.flows),
               [](const Flow& flow) { return flow.source == kJournalSource; });
  return part;
}

std::shared_ptr<const Entries> with_journal(std::shared_ptr<const Entries> before, ListDraft journal) {
  EntriesEdit edit{std::move(journal), journal_part(*before)};
  return edit.empty() ? before : edited(std::move(before), std::move(edit));
}

}  // namespace weir::control
