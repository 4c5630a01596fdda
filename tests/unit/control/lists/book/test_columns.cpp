// Entries, packed and compared: whatever comes in any order, the columns are the same.
#include <map>
#include <set>
#include <tuple>

#include "control/lists/book/difference.h"
#include "control/policy/model/columns.h"
#include "control/policy/model/range_text.h"
#include "tests/unit/control/lists/book/random_lists.h"

namespace weir::control {
namespace {

template <class Addr>
auto meaning(const Entry<Addr>& entry) {
  return std::make_tuple(entry.first, entry.last, entry.port, entry.directions, entry.expires);
}

template <class Addr>
auto everything(const Entry<Addr>& entry) {
  return std::tuple_cat(meaning(entry), std::make_tuple(entry.source, entry.line));
}

template <class Addr>
using Meanings = std::set<decltype(meaning(Entry<Addr>{}))>;

template <class Entries>
auto meanings_of(const Entries& entries) {
  std::set<decltype(meaning(*entries.begin()))> meanings;
  for (const auto entry : entries) meanings.insert(meaning(entry));
  return meanings;
}

std::multiset<std::string> texts_of(const std::vector<Flow>& flows) {
  std::multiset<std::string> texts;
  for (const Flow& flow : flows) texts.insert(flow_text(flow));
  return texts;
}

std::set<std::string> set_of(const std::vector<Flow>& flows) {
  const auto texts = texts_of(flows);
  return {texts.begin(), texts.end()};
}

template <class Set>
Set minus(const Set& these, const Set& others) {
  Set left;
  for (const auto& one : these) {
    if (others.count(one) == 0) left.insert(one);
  }
  return left;
}

}  // namespace

TEST_CASE("rows are the draft's entries, in order, whatever the order of the draft") {
  RandomLists lists{std::mt19937_64(1)};
  for (int round = 0; round < 200; round++) {
    ListDraft draft = lists.draft();
    const auto expect = [](const auto& rows, auto entries) {
      std::sort(entries.begin(), entries.end(),
                [](const auto& a, const auto& b) { return everything(a) < everything(b); });
      REQUIRE(rows.size() == entries.size());
      for (size_t row = 0; row < rows.size(); row++) REQUIRE(everything(rows[row]) == everything(entries[row]));
      CHECK(is_sound(rows));
    };
    const auto entries = make_entries(draft);
    expect(entries->v4, draft.v4);
    expect(entries->v6, draft.v6);
    CHECK(entries->size() == draft.entries());

    std::shuffle(draft.v4.begin(), draft.v4.end(), lists.random);
    std::shuffle(draft.v6.begin(), draft.v6.end(), lists.random);
    std::shuffle(draft.flows.begin(), draft.flows.end(), lists.random);
    const auto shuffled = make_entries(draft);
    CHECK(shuffled->v4 == entries->v4);
    CHECK(shuffled->v6 == entries->v6);
    CHECK(shuffled->digest == entries->digest);
    CHECK(make_entries(draft_of(*entries))->v4 == entries->v4);
  }
}

TEST_CASE("hosts are sorted by all 32 bits") {
  RandomLists lists{std::mt19937_64(2)};
  ListDraft draft;
  for (uint32_t line = 1; line <= 100'000; line++) {
    const auto host = static_cast<Ipv4>(lists.random());
    draft.v4.push_back({host, host, line, 0, 1, 1});
  }
  draft.v4.push_back({0, 0, 1, 0, 1, 1});
  draft.v4.push_back({~Ipv4{0}, ~Ipv4{0}, 1, 0, 1, 1});
  const auto entries = make_entries(std::move(draft));
  CHECK(is_sound(entries->v4));
  CHECK(entries->v4.size() == 100'002);
  // What is the same in all rows takes no room.
  CHECK(entries->v4.last.empty());
  CHECK(entries->v4.port.each.empty());
  CHECK(entries->v4.expires.each.empty());
  CHECK(entries->v4.expires.all == kNever);
}

TEST_CASE("the digest is of what entries match, not of where they are written") {
  ListDraft draft;
  draft.v4 = {{1, 1, 1, 0, 1, 0}, {2, 9, 2, 0, 1, 1}};
  draft.flows = {RandomLists{std::mt19937_64(3)}.flow(7)};
  const auto digest = make_entries(draft)->digest;
  ListDraft elsewhere = draft;
  elsewhere.v4[0].line = 100;
  elsewhere.v4[1].source = 0;
  elsewhere.flows[0].line = 8;
  CHECK(make_entries(elsewhere)->digest == digest);
  const auto changed = [&](auto change) {
    ListDraft other = draft;
    change(other);
    return make_entries(other)->digest != digest;
  };
  CHECK(changed([](ListDraft& d) { d.v4[0].first = 0; }));
  CHECK(changed([](ListDraft& d) { d.v4[1].last = 10; }));
  CHECK(changed([](ListDraft& d) { d.v4[1].port = 53; }));
  CHECK(changed([](ListDraft& d) { d.v4[1].directions = 2; }));
  CHECK(changed([](ListDraft& d) { d.v4[1].expires = 1; }));
  CHECK(changed([](ListDraft& d) { d.v4.pop_back(); }));
  CHECK(changed([](ListDraft& d) { d.v6.push_back({1, 1, 1, 0, 1, 0}); }));
  CHECK(changed([](ListDraft& d) { d.flows[0].protocol = 89; }));
  CHECK(changed([](ListDraft& d) { d.flows.clear(); }));
}

TEST_CASE("a list's own entries are replaced, the feed's stay") {
  RandomLists lists{std::mt19937_64(4)};
  for (int round = 0; round < 100; round++) {
    const ListDraft before = lists.draft(), after = lists.draft();
    const auto of_source = [](const ListDraft& draft, uint8_t source) {
      ListDraft part;
      for (const auto& entry : draft.v4) {
        if (entry.source == source) part.v4.push_back(entry);
      }
      for (const auto& entry : draft.v6) {
        if (entry.source == source) part.v6.push_back(entry);
      }
      if (source == 0) part.flows = draft.flows;
      return part;
    };
    const auto entries = make_entries(before);
    CHECK(replace_own(entries, of_source(before, 0)) == entries);
    ListDraft expected = of_source(before, 1);
    const ListDraft own = of_source(after, 0);
    expected.v4.insert(expected.v4.end(), own.v4.begin(), own.v4.end());
    expected.v6.insert(expected.v6.end(), own.v6.begin(), own.v6.end());
    expected.flows = own.flows;
    const auto replaced = replace_own(entries, own), wanted = make_entries(expected);
    CHECK(replaced->v4 == wanted->v4);
    CHECK(replaced->v6 == wanted->v6);
    CHECK(replaced->flows == wanted->flows);
    CHECK(replaced->digest == wanted->digest);
  }
}

TEST_CASE("the difference is the difference of the sets") {
  RandomLists lists{std::mt19937_64(5)};
  for (int round = 0; round < 200; round++) {
    ListDraft draft = lists.draft();
    const auto before = make_entries(draft);
    // Some go, some come, some move to another line.
    for (const int which : {0, 1}) {
      const ListDraft more = lists.draft();
      if (which == 0 || draft.v4.empty()) draft.v4.insert(draft.v4.end(), more.v4.begin(), more.v4.end());
      if (!draft.v4.empty()) draft.v4.erase(draft.v4.begin() + static_cast<ptrdiff_t>(lists.below(draft.v4.size())));
      if (which == 0) draft.v6 = more.v6;
      draft.flows.insert(draft.flows.end(), more.flows.begin(), more.flows.end());
      if (!draft.flows.empty()) draft.flows.erase(draft.flows.begin());
    }
    for (auto& entry : draft.v4) entry.line += 1000;
    const auto after = make_entries(draft);
    const Difference found = difference(*before, *after);
    CHECK(meanings_of(found.added.v4) == minus(meanings_of(after->v4), meanings_of(before->v4)));
    CHECK(meanings_of(found.removed.v4) == minus(meanings_of(before->v4), meanings_of(after->v4)));
    CHECK(meanings_of(found.added.v6) == minus(meanings_of(after->v6), meanings_of(before->v6)));
    CHECK(meanings_of(found.removed.v6) == minus(meanings_of(before->v6), meanings_of(after->v6)));
    CHECK(found.added.v4.size() == meanings_of(found.added.v4).size());
    const auto added = texts_of(found.added.flows), removed = texts_of(found.removed.flows);
    CHECK(set_of(found.added.flows) == minus(set_of(after->flows), set_of(before->flows)));
    CHECK(set_of(found.removed.flows) == minus(set_of(before->flows), set_of(after->flows)));
    const DifferenceCount count = count_difference(*before, *after);
    CHECK(count.added == found.added.v4.size() + found.added.v6.size() + found.added.flows.size());
    CHECK(count.removed == found.removed.v4.size() + found.removed.v6.size() + found.removed.flows.size());
    const Difference none = difference(*after, *after);
    CHECK((none.added.v4.empty() && none.removed.v4.empty() && none.added.flows.empty() && none.removed.v6.empty()));
  }
}

TEST_CASE("what became of each list") {
  const auto list = [](const char* name, std::vector<Ipv4> hosts) {
    List made;
    made.name = name;
    ListDraft draft;
    for (const Ipv4 host : hosts) draft.v4.push_back({host, host, 1, 0, WEIR_AS_SOURCE, 0});
    made.content = make_entries(std::move(draft));
    return made;
  };
  const Book before = {list("same", {1}), list("more", {1, 2, 3}), list("gone", {1, 2}), list("monitored", {7})};
  Book after = {list("new", {4}), list("same", {1}), list("more", {2, 3, 4, 5}), list("monitored", {7})};
  after[3].mode = WEIR_MONITOR;
  std::vector<std::string> texts;
  for (const ListChange& change : list_changes(before, after)) {
    texts.push_back(change.name + " " + change.state + " " + std::to_string(change.entries) + " +" +
                    std::to_string(change.added) + " -" + std::to_string(change.removed));
  }
  CHECK(texts == std::vector<std::string>{"new new 1 +1 -0", "more changed 4 +2 -1", "monitored changed 1 +0 -0",
                                          "gone gone 0 +0 -2"});
  CHECK(list_changes(after, after).empty());
}

}  // namespace weir::control
