// Entries more and fewer: the columns are those that a sort of all would have made.
#include "control/policy/model/edit.h"
#include "tests/unit/control/lists/book/random_lists.h"

namespace weir::control {
namespace {

void append(ListDraft& to, const ListDraft& more) {
  to.v4.insert(to.v4.end(), more.v4.begin(), more.v4.end());
  to.v6.insert(to.v6.end(), more.v6.begin(), more.v6.end());
  to.flows.insert(to.flows.end(), more.flows.begin(), more.flows.end());
}

void check_same(const Entries& found, const Entries& expected) {
  CHECK(found.v4 == expected.v4);
  CHECK(found.v6 == expected.v6);
  CHECK(found.flows.size() == expected.flows.size());
  CHECK(found.digest == expected.digest);
  CHECK(is_sound(found.v4));
  CHECK(is_sound(found.v6));
}

ListDraft marked(ListDraft draft) {
  for (auto& entry : draft.v4) entry.source = kJournalSource;
  for (auto& entry : draft.v6) entry.source = kJournalSource;
  for (Flow& flow : draft.flows) flow.source = kJournalSource;
  return draft;
}

}  // namespace

TEST_CASE("what is added and removed is there, and gone, as if all had been sorted") {
  RandomLists lists{std::mt19937_64(11)};
  for (int round = 0; round < 500; round++) {
    const ListDraft stays = lists.draft(), goes = lists.draft(), comes = lists.draft();
    ListDraft before = stays, after = stays;
    append(before, goes);
    append(after, comes);
    check_same(*edited(make_entries(before), {comes, goes}), *make_entries(after));
  }
}

TEST_CASE("one that is added and removed at once changes nothing, nor does one that is not there") {
  RandomLists lists{std::mt19937_64(12)};
  const auto before = make_entries(lists.draft());
  ListDraft some;
  while (some.v4.empty() || some.flows.empty()) some = lists.draft();
  CHECK(edited(before, {some, some}) == before);
  ListDraft elsewhere;
  elsewhere.v4.push_back({1, 1, 0, 0, WEIR_AS_SOURCE, kJournalSource, kNever});
  check_same(*edited(before, {{}, elsewhere}), *before);
}

TEST_CASE("of equal entries one goes for each that is removed") {
  ListDraft three, one, none;
  for (int i = 0; i < 3; i++) three.v4.push_back({7, 7, 0, 0, WEIR_AS_SOURCE, kJournalSource, kNever});
  one.v4 = {three.v4.front()};
  ListDraft two = one;
  append(two, one);
  check_same(*edited(make_entries(three), {{}, two}), *make_entries(one));
  check_same(*edited(make_entries(three), {{}, three}), *make_entries(none));
}

TEST_CASE("the journal's part is put in place of the one that was there") {
  RandomLists lists{std::mt19937_64(13)};
  for (int round = 0; round < 200; round++) {
    const ListDraft files = lists.draft(), was = marked(lists.draft()), is = marked(lists.draft());
    ListDraft before = files, after = files;
    append(before, was);
    append(after, is);
    const auto content = with_journal(make_entries(before), is);
    check_same(*content, *make_entries(after));
    CHECK(with_journal(content, is) == content);
    check_same(*with_journal(content, {}), *make_entries(files));
    CHECK(journal_part(*content).entries() == is.entries());
  }
}

}  // namespace weir::control
