#include "control/enforce/past/added.h"

#include <algorithm>
#include <map>

#include "control/lists/journal/change.h"

namespace weir::control {
namespace {

using Numbered = Generations::Numbered;

// By list and text: its changes, oldest first.
using Candidates = std::map<std::pair<std::string, std::string>, std::vector<Numbered>>;

template <class Addr>
bool hold(const std::vector<Entry<Addr>>& entries, const std::vector<Addr>& addresses) {
  return std::any_of(entries.begin(), entries.end(), [&](const Entry<Addr>& entry) {
    return std::any_of(addresses.begin(), addresses.end(),
                       [&](Addr address) { return entry.first <= address && address <= entry.last; });
  });
}

const List* dynamic_list(const Book& book, const std::string& name) {
  const auto found = std::find_if(book.begin(), book.end(), [&](const List& list) { return list.name == name; });
  return found == book.end() || !found->dynamic ? nullptr : &*found;
}

// Whether the entry is about the addresses, or about more than addresses.
bool is_about(const List& list, const std::string& text, const Addresses& addresses) {
  ListDraft draft;
  if (!append_added(list, text, kNever, draft)) return false;
  return !draft.flows.empty() || hold(draft.v4, addresses.v4) || hold(draft.v6, addresses.v6);
}

// Adds what the lists hold now and the journal has changed in none of the generations.
Result<void> add_unchanged(const Book& runs, const Addresses& addresses, Journal& journal, Candidates& candidates) {
  for (const List& list : part_holding(runs, addresses)) {
    if (!list.dynamic) continue;
    for (const JournalEntry& entry : texts_of_added(list)) candidates[{list.name, entry.text}];
    if (list.ipv6_aggregate == 128 || addresses.v6.empty()) continue;
    // Its addresses are widened, and only the journal knows what was written.
    const Result<void> visited = journal.visit(list.name, [&](const JournalEntry& entry) {
      if (is_about(list, entry.text, addresses)) candidates[{list.name, entry.text}];
    });
    if (!visited) return visited;
  }
  return {};
}

}  // namespace

Result<std::vector<Added>> added_then(wire::Generation then, uint64_t base, const Book& lists, const Book& runs,
                                      const Addresses& addresses, Journal& journal, const GivenUp& is_given_up) {
  std::vector<std::string> v4_texts;
  for (const Ipv4 address : addresses.v4) v4_texts.push_back(to_string(address));
  Result<std::vector<Numbered>> changes =
      journal.generations().changes_after({then.epoch, base}, v4_texts, !addresses.v6.empty(), is_given_up);
  if (!changes) return Error{changes.error()};
  Candidates candidates;
  for (Numbered& change : *changes) {
    const List* list = dynamic_list(lists, change.before.list);
    if (list == nullptr || !is_about(*list, change.before.text, addresses)) continue;
    candidates[{change.before.list, change.before.text}].push_back(std::move(change));
  }
  if (Result<void> added = add_unchanged(runs, addresses, journal, candidates); !added) return Error{added.error()};

  std::vector<Added> found;
  for (const auto& [place, of_it] : candidates) {
    const auto& [name, text] = place;
    const List* list = dynamic_list(lists, name);
    if (list == nullptr) continue;
    Result<std::optional<JournalEntry>> now = journal.find(name, text);
    if (!now) return Error{now.error()};
    const auto after =
        std::find_if(of_it.begin(), of_it.end(), [&](const Numbered& change) { return change.number > then.number; });
    const std::optional<JournalEntry> entry = after == of_it.end() ? *now : entry_before(after->before);
    if (!entry) continue;
    Added added{name, *entry};
    if (!append_added(*list, text, entry->expires, added.content)) continue;
    for (auto change = after; change != of_it.begin() && added.since == 0; --change) {
      if (!std::prev(change)->before.was_there) added.since = std::prev(change)->number;
    }
    if (added.since == 0) {
      const Result<uint64_t> since = journal.generations().added_in({then.epoch, base}, name, text, is_given_up);
      if (!since) return Error{since.error()};
      added.since = *since;
    }
    for (auto change = after; change != of_it.end() && added.until == 0; ++change) {
      const auto next = std::next(change);
      const bool stays = next == of_it.end() ? now->has_value() : next->before.was_there;
      if (!stays) added.until = change->number;
    }
    found.push_back(std::move(added));
  }
  return found;
}

}  // namespace weir::control
