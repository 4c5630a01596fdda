#include "tests/agreement/changing_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/policy/model/columns.h"
#include "control/policy/read/policy.h"
#include "tests/agreement/random_policy.h"

namespace weir::agreement {

using control::Entry;
using control::Flow;
using control::kNever;
using control::ListDraft;
using control::Policy;

namespace {

constexpr unsigned kOthersInEach = 60;  // entries that may be added to a list
// A list is not to grow for ever: the reference asks every entry.
constexpr uint64_t kManyEntries = 500;
constexpr unsigned kLongestLife_s = 12;

template <class Visit>
void visit_kinds(ListDraft& draft, Visit visit) {
  visit(draft.v4);
  visit(draft.v6);
  visit(draft.flows);
}

// The same of two.
template <class Visit>
void visit_kinds(ListDraft& a, ListDraft& b, Visit visit) {
  visit(a.v4, b.v4);
  visit(a.v6, b.v6);
  visit(a.flows, b.flows);
}

template <class T>
void take_from(std::vector<T>& these, size_t i, std::vector<T>& taken) {
  taken.push_back(these[i]);
  these.erase(these.begin() + static_cast<ptrdiff_t>(i));
}

uint32_t choose(Choices& choices, size_t n) {
  return choices.below(static_cast<uint32_t>(n));
}

// An entry of the pool as `controlctl add` would write it, or as one of a feed.
template <class T>
T written_anew(Choices& choices, T entry, uint8_t source, uint64_t now) {
  entry.source = source;
  entry.line = source == control::kJournalSource ? 0 : 1 + choices.below(1000);
  const bool ends = source == control::kJournalSource && choices.one_in(3);
  entry.expires = ends ? static_cast<uint32_t>(now + 1 + choices.below(kLongestLife_s)) : kNever;
  return entry;
}

}  // namespace

void Touched::add(const ListDraft& draft) {
  v4.insert(v4.end(), draft.v4.begin(), draft.v4.end());
  v6.insert(v6.end(), draft.v6.begin(), draft.v6.end());
  flows.insert(flows.end(), draft.flows.begin(), draft.flows.end());
}

Changes& Changes::operator+=(const Changes& more) {
  added += more.added;
  deleted += more.deleted;
  expired += more.expired;
  fed += more.fed;
  return *this;
}

Result<ChangingPolicy> ChangingPolicy::make(Choices& choices) {
  const RandomPolicy random = random_policy_and_others(choices, kOthersInEach);
  Diagnostics diagnostics;
  auto policy = control::parse_policy("random.yaml", random.policy, diagnostics, kNow);
  if (!policy) return Error{"the policy is refused: " + format(diagnostics) + random.policy};
  const auto others = control::parse_policy("others.yaml", random.others, diagnostics, kNow);
  if (!others) return Error{"the policy is refused: " + format(diagnostics) + random.others};
  ChangingPolicy changing;
  changing.now_ = kNow - 1;
  for (const control::List& list : policy->lists) changing.rows_.push_back(control::draft_of(*list.as_written()));
  for (const control::List& list : others->lists) changing.pool_.push_back(control::draft_of(*list.as_written()));
  changing.current_ = std::make_shared<Policy>(*policy);
  changing.expected_ = std::make_shared<Policy>(*policy);
  return changing;
}

uint64_t ChangingPolicy::entries() const {
  uint64_t entries = 0;
  for (const ListDraft& list : rows_) entries += list.entries();
  return entries;
}

Step ChangingPolicy::step(Choices& choices) {
  before_ = {current_, expected_, rows_};
  current_ = std::make_shared<Policy>(*current_);
  expected_ = std::make_shared<Policy>(*expected_);
  edits_.assign(rows_.size(), {});
  Step step;
  const unsigned kind = choices.below(10);
  if (kind == 0) {
    feed(choices, step);
  } else if (kind == 1) {
    move_time(choices, step);
  } else {
    // As controld does what waits: in one publication.
    for (unsigned n = choices.one_in(3) ? 1 + choices.below(4) : 1; n > 0; n--) {
      const bool is_full = entries() > kManyEntries;
      if (choices.one_in(12)) {
        sweep(step);
      } else if (is_full || choices.below(5) < 2) {
        remove(choices, step);
      } else {
        add(choices, step);
      }
    }
  }
  for (size_t l = 0; l < rows_.size(); l++) {
    control::List &current = current_->lists[l], &expected = expected_->lists[l];
    current.hold(control::edited(current.as_written(), std::move(edits_[l])));
    if (current.as_written() != before_.current->lists[l].as_written()) expected.hold(control::make_entries(rows_[l]));
  }
  return step;
}

void ChangingPolicy::undo() {
  current_ = std::make_shared<Policy>(*before_.current);
  expected_ = std::make_shared<Policy>(*before_.expected);
  rows_ = before_.rows;
}

void ChangingPolicy::change(size_t list, ListDraft added, ListDraft removed, Step& step) {
  step.touched.add(added);
  step.touched.add(removed);
  visit_kinds(rows_[list], added, [](auto& rows, auto& more) { rows.insert(rows.end(), more.begin(), more.end()); });
  control::EntriesEdit& edit = edits_[list];
  visit_kinds(edit.added, added, [](auto& all, auto& more) { all.insert(all.end(), more.begin(), more.end()); });
  visit_kinds(edit.removed, removed, [](auto& all, auto& more) { all.insert(all.end(), more.begin(), more.end()); });
}

void ChangingPolicy::add(Choices& choices, Step& step) {
  const size_t list = any_list(choices);
  ListDraft added;
  const size_t n_pool = pool_[list].entries();
  for (unsigned n = n_pool == 0 ? 0 : 1 + choices.below(3); n > 0; n--) {
    size_t i = choose(choices, n_pool);
    visit_kinds(pool_[list], added, [&](const auto& pool, auto& to) {
      if (i < pool.size()) to.push_back(written_anew(choices, pool[i], control::kJournalSource, now_));
      i -= pool.size();  // past the last one: wraps, and is in no other kind
    });
  }
  step.what += fmt::format("add {} to list {}; ", added.entries(), list);
  step.changes.added += added.entries();
  change(list, std::move(added), {}, step);
}

void ChangingPolicy::remove(Choices& choices, Step& step) {
  const size_t list = any_list(choices);
  ListDraft removed;
  unsigned n = 1 + choices.below(3);
  if (entries() > kManyEntries) n += 40;
  for (; n > 0; n--) {
    ListDraft& rows = rows_[list];
    // Seldom a flow: each of them takes a new base.
    if (!rows.flows.empty() && choices.one_in(12)) {
      take_from(rows.flows, choose(choices, rows.flows.size()), removed.flows);
    } else if (!rows.v4.empty() && (rows.v6.empty() || choices.below(2) == 0)) {
      take_from(rows.v4, choose(choices, rows.v4.size()), removed.v4);
    } else if (!rows.v6.empty()) {
      take_from(rows.v6, choose(choices, rows.v6.size()), removed.v6);
    }
  }
  step.what += fmt::format("delete {} of list {}; ", removed.entries(), list);
  step.changes.deleted += removed.entries();
  change(list, {}, std::move(removed), step);
}

// Another version of the list's files: some of their entries are gone, others are new. What was added stays.
void ChangingPolicy::feed(Choices& choices, Step& step) {
  const size_t list = any_list(choices);
  ListDraft removed, added, own;
  const unsigned how = choices.below(8);  // 0: all go; 1: none
  const unsigned goes_one_in = 2 + choices.below(8);
  visit_kinds(rows_[list], removed, [&](auto& rows, auto& gone) {
    constexpr bool is_flow = std::is_same_v<std::remove_reference_t<decltype(rows)>, std::vector<Flow>>;
    for (size_t i = 0; i < rows.size();) {
      const bool goes = rows[i].source != control::kJournalSource && how != 1 &&
                        (how == 0 || choices.one_in(goes_one_in)) && (!is_flow || choices.one_in(8));
      if (goes) {
        take_from(rows, i, gone);
      } else {
        i++;
      }
    }
  });
  visit_kinds(pool_[list], added, [&](const auto& pool, auto& more) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(pool)>, std::vector<Flow>>) {
      for (unsigned n = pool.empty() ? 0 : choices.below(20); n > 0; n--) {
        more.push_back(written_anew(choices, pool[choose(choices, pool.size())], 1, now_));
      }
    }
  });
  visit_kinds(rows_[list], added, [](auto& rows, auto& more) { rows.insert(rows.end(), more.begin(), more.end()); });
  visit_kinds(rows_[list], own, [](const auto& rows, auto& of_files) {
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(of_files),
                 [](const auto& row) { return row.source != control::kJournalSource; });
  });
  step.what += fmt::format("feed of list {}: {} gone, {} new; ", list, removed.entries(), added.entries());
  step.changes.fed += removed.entries() + added.entries();
  step.touched.add(removed);
  step.touched.add(added);
  if (removed.entries() + added.entries() == 0) return;
  control::List& fed = current_->lists[list];
  fed.hold(control::with_journal(control::make_entries(std::move(own)), control::journal_part(*fed.as_written())));
}

// What ended goes, in every list.
void ChangingPolicy::sweep(Step& step) {
  uint64_t swept = 0;
  for (size_t l = 0; l < rows_.size(); l++) {
    ListDraft removed;
    visit_kinds(rows_[l], removed, [&](auto& rows, auto& gone) {
      for (size_t i = 0; i < rows.size();) {
        if (rows[i].source == control::kJournalSource && rows[i].expires <= now_) {
          take_from(rows, i, gone);
        } else {
          i++;
        }
      }
    });
    swept += removed.entries();
    change(l, {}, std::move(removed), step);
  }
  step.what += fmt::format("sweep {}; ", swept);
}

// To the moment at which the next entries end, or just before it.
void ChangingPolicy::move_time(Choices& choices, Step& step) {
  uint64_t next = UINT64_MAX;
  const auto visit_all = [&](auto visit) {
    for (ListDraft& list : rows_) {
      visit_kinds(list, [&](auto& rows) {
        for (const auto& row : rows) visit(row);
      });
    }
  };
  visit_all([&](const auto& row) {
    if (row.expires != kNever && row.expires > now_) next = std::min<uint64_t>(next, row.expires);
  });
  const uint64_t before = now_;
  const bool is_just_before = choices.one_in(3);
  if (next == UINT64_MAX) next = now_ + 1;
  now_ = is_just_before && next - 1 > now_ ? next - 1 : next;
  visit_all([&](const auto& row) {
    if (row.expires == kNever || row.expires <= before || row.expires > now_ + 1) return;
    if (row.expires <= now_) step.changes.expired++;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(row)>, Entry<Ipv4>>) {
      step.touched.v4.push_back(row);
    } else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(row)>, Entry<Ipv6>>) {
      step.touched.v6.push_back(row);
    } else {
      step.touched.flows.push_back(row);
    }
  });
  step.is_time = true;
  step.what = fmt::format("{} s later {} end; ", now_ - before, step.changes.expired);
}

}  // namespace weir::agreement
