#include "control/compile/preview/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "control/lists/book/holders.h"
#include "control/policy/model/networks.h"
#include "control/policy/model/range_text.h"

namespace weir::control {

namespace {

constexpr size_t kMostShown = 10;  // of a list's entries
constexpr size_t kMostWide = 10;

const List* find_list(const Book& book, const std::string& name) {
  const auto found = std::find_if(book.begin(), book.end(), [&](const List& list) { return list.name == name; });
  return found == book.end() ? nullptr : &*found;
}

template <class Addr>
PlacedEntry place(const Entry<Addr>& entry, const List& list) {
  return {entry_text(entry, list.match), list.file_of(entry.source), entry.line};
}

template <class Part, class Visit>
void visit_addresses(const Part& part, Visit visit) {
  for (const auto& entry : part.v4) visit(entry);
  for (const auto& entry : part.v6) visit(entry);
}

std::vector<PlacedEntry> first_of(const Difference::Part& part, const List& list) {
  std::vector<PlacedEntry> shown;
  visit_addresses(part, [&](const auto& entry) {
    if (shown.size() < kMostShown) shown.push_back(place(entry, list));
  });
  for (const Flow& flow : part.flows) {
    if (shown.size() < kMostShown) shown.push_back({flow_text(flow), list.file_of(flow.source), flow.line});
  }
  return shown;
}

std::string how_changed(const List& was, const List& will) {
  std::string how;
  const auto name = [](weir_action action) { return action == WEIR_PASS ? "pass" : "drop"; };
  if (was.action != will.action) how = fmt::format("action: {}, was {}", name(will.action), name(was.action));
  const auto text = [](weir_mode mode) { return mode == WEIR_MONITOR ? "monitor" : "enforce"; };
  if (was.mode != will.mode) {
    how += fmt::format("{}mode: {}, was {}", how.empty() ? "" : "; ", text(will.mode), text(was.mode));
  }
  if (was.cut.entries != will.cut.entries) {
    how += fmt::format("{}entries that own is cut out of: {}, was {}", how.empty() ? "" : "; ", will.cut.entries,
                       was.cut.entries);
  }
  return how;
}

// Some entry of the pass list exempts all that this one matches.
template <class Addr>
bool is_passed_by(const List& pass, const Entry<Addr>& entry) {
  return holder_among(rows_of<Addr>(pass), entry, {.on_all_sides = true, .until = entry.expires}).has_value();
}

template <class Addr, class Visit>
void visit_touched(std::span<const NamedRange<Addr>> networks, const Entry<Addr>& entry, Visit visit) {
  auto network = std::lower_bound(networks.begin(), networks.end(), entry.first,
                                  [](const NamedRange<Addr>& range, Addr address) { return range.last < address; });
  for (; network != networks.end() && network->first <= entry.last; ++network) visit(network->what);
}

class Gathering {
 public:
  explicit Gathering(const Book& after) : after_(after) {}

  void add(const List& list, const Difference::Part& added) {
    visit_addresses(added, [&](const auto& entry) { add_entry(list, entry); });
  }

  void finish(ListsPreview& changes) {
    std::stable_sort(wide_.begin(), wide_.end(),
                     [](const WideEntry& a, const WideEntry& b) { return a.addresses > b.addresses; });
    if (wide_.size() > kMostWide) wide_.resize(kMostWide);
    changes.widest = std::move(wide_);
    for (auto& [key, concern] : concerns_) changes.concerns.push_back(std::move(concern));
  }

 private:
  template <class Addr>
  void add_entry(const List& list, const Entry<Addr>& entry) {
    for (const List& pass : after_) {
      if (pass.action == WEIR_PASS && is_passed_by(pass, entry)) note(list, "pass list", pass.name, entry);
    }
    visit_touched(reserved_networks<Addr>(), entry, [&](const char* what) { note(list, "reserved", what, entry); });
    visit_touched(popular_networks<Addr>(), entry, [&](const char* what) { note(list, "popular", what, entry); });
    if (entry.first == entry.last) return;
    const double addresses = static_cast<double>(entry.last - entry.first) + 1;
    if (wide_.size() >= 2 * kMostWide) {
      const auto narrowest = std::min_element(wide_.begin(), wide_.end(),
                                              [](const auto& a, const auto& b) { return a.addresses < b.addresses; });
      if (narrowest->addresses >= addresses) return;
      *narrowest = {list.name, place(entry, list), addresses};
    } else {
      wide_.push_back({list.name, place(entry, list), addresses});
    }
  }

  template <class Addr>
  void note(const List& list, const char* kind, const std::string& what, const Entry<Addr>& entry) {
    Concern& concern = concerns_[{list.name, kind, what}];
    if (concern.entries++ == 0) concern = {list.name, kind, what, 1, place(entry, list)};
  }

  const Book& after_;
  std::vector<WideEntry> wide_;
  std::map<std::tuple<std::string, std::string, std::string>, Concern> concerns_;
};

}  // namespace

ListsPreview preview_lists(const Book& before, const Book& after) {
  static const Entries kNothing;
  ListsPreview changes;
  Gathering gathering(after);
  for (ListChange& change : list_changes(before, after)) {
    const List* was = find_list(before, change.name);
    const List* will = find_list(after, change.name);
    const Difference difference =
        control::difference(was != nullptr ? *was->content : kNothing, will != nullptr ? *will->content : kNothing);
    ListPreview& preview = changes.lists.emplace_back();
    if (will != nullptr) preview.added = first_of(difference.added, *will);
    if (was != nullptr) preview.removed = first_of(difference.removed, *was);
    if (was != nullptr && will != nullptr) preview.how = how_changed(*was, *will);
    if (will != nullptr && will->action == WEIR_DROP) gathering.add(*will, difference.added);
    preview.change = std::move(change);
  }
  gathering.finish(changes);
  return changes;
}

}  // namespace weir::control
