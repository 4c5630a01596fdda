// The journal goes back to what it held when a generation was published, and answers questions about that time.

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "common/peer_number.h"
#include "tests/unit/control/lists/journal/lists.h"

namespace weir::control {
namespace {

// In a transaction: all that changed since then, or but for what changed after `last`.
void go_back(Journal& journal, wire::Generation to, uint64_t last = kMostNumber) {
  const Result<Journal::WayBack> back = journal.find_way_back(to, {}, nullptr);
  REQUIRE(back);
  REQUIRE(journal.go_back(*back, last));
}

}  // namespace

TEST_CASE("entries go back to what they were when a generation was published") {
  const Folder folder;
  Journal journal = open(folder);
  const auto texts = [&] {
    std::vector<std::string> all;
    REQUIRE(journal.visit("bans", [&](const JournalEntry& entry) { all.push_back(entry.text + " " + entry.comment); }));
    return all;
  };
  std::vector<std::vector<std::string>> was = {texts()};
  const auto publish = [&](uint64_t number, const std::function<void()>& work) {
    REQUIRE(journal.begin({7, number}));
    work();
    REQUIRE(journal.generations().add(7, {number, int64_t{1000} + static_cast<int64_t>(number), "add", 42, 1, {}}));
    REQUIRE(journal.commit());
    was.push_back(texts());
  };
  publish(1, [&] { REQUIRE(journal.put("bans", {"10.0.0.1", 1, kNever, 0, "one"})); });
  publish(2, [&] { REQUIRE(journal.put("bans", {"10.0.0.1", 1, kNever, 0, "two"})); });
  publish(3, [&] {
    REQUIRE(journal.erase("bans", "10.0.0.1"));
    REQUIRE(journal.put("bans", {"10.0.0.2"}));
  });
  publish(4, [&] { REQUIRE(journal.put("bans", {"10.0.0.1", 1, kNever, 0, "four"})); });
  // Back and forth: going back is a change as any other.
  uint64_t number = 5;
  for (const uint64_t wanted : {2, 4, 1, 3, 5, 2}) {
    publish(number++, [&] { go_back(journal, {7, wanted}); });
    INFO(wanted);
    CHECK(texts() == was[wanted]);
    CHECK(*journal.count("bans") == was[wanted].size());
  }
  // What is forgotten cannot be gone back to; the rest can.
  REQUIRE(journal.begin({7, 99}));
  REQUIRE(journal.generations().forget_before({7, 4}));
  REQUIRE(journal.commit());
  CHECK_FALSE(*journal.generations().find({7, 3}));
  CHECK(*journal.generations().find({7, 4}));
  CHECK_FALSE(*journal.generations().find({8, 4}));
  publish(number++, [&] { go_back(journal, {7, 4}); });
  CHECK(texts() == was[4]);
}

TEST_CASE("what is kept to go back to is bounded by entries and by time") {
  const Folder folder;
  Journal journal = open(folder);
  Generations& generations = journal.generations();
  constexpr int64_t kMost = 160;
  bool any_forgotten = false;
  const auto publish = [&](uint64_t number, int n, const std::string& comment) {
    REQUIRE(journal.begin({7, number}));
    for (int i = 0; i < n; i++) REQUIRE(journal.put("bans", {std::to_string(i), 1, kNever, 0, comment}));
    REQUIRE(generations.add(7, {number, 1000 + static_cast<int64_t>(number), "add", 42, 1, {}}));
    const Result<bool> forgotten = generations.forget_crowded(7, kMost);
    REQUIRE(forgotten);
    any_forgotten |= *forgotten;
    REQUIRE(journal.commit());
  };
  for (uint64_t number = 1; number <= 100; number++) {
    publish(number, 10, "renewed");  // the same entries again and again
    int64_t kept = 0;
    REQUIRE(generations.visit_changes_after({7, 0}, [&](const Generations::Before&) -> Result<void> {
      kept++;
      return {};
    }));
    CHECK(kept <= kMost + 10);
    CHECK(any_forgotten == (number > 16));
  }
  CHECK_FALSE(*generations.find({7, 80}));
  CHECK(*generations.find({7, 90}));
  publish(101, 1000, "many");
  const auto newest = generations.newest(7, 100);
  REQUIRE((newest && newest->size() == 2));
  REQUIRE(journal.begin({7, 102}));
  go_back(journal, {7, 100});
  CHECK(*journal.count("bans") == 10);
  CHECK((**journal.find("bans", "3")).comment == "renewed");
  REQUIRE(journal.commit());

  CHECK(*generations.oldest_since(7, 1000) == 100);
  CHECK(*generations.oldest_since(7, 1101) == 101);
  CHECK(*generations.oldest_since(7, 1102) == 0);
}

TEST_CASE("going back, and questions, take more rows than a page holds") {
  const Folder folder;
  Journal journal = open(folder);
  Generations& generations = journal.generations();
  constexpr int kMany = 25'000;
  const auto text = [](int i) { return "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250); };
  REQUIRE(journal.begin({7, 1}));
  REQUIRE(journal.put("bans", {"192.0.2.1", 1, kNever, 0, "first"}));
  REQUIRE(generations.add(7, {1, 1001, "add", 42, 1, {}}));
  REQUIRE(journal.commit());
  REQUIRE(journal.begin({7, 2}));
  for (int i = 0; i < kMany; i++) REQUIRE(journal.put("bans", {text(i), 1, kNever, 0, "many"}));
  REQUIRE(generations.add(7, {2, 1002, "add", 42, 1, {}}));
  REQUIRE(journal.commit());
  CHECK(*generations.added_in({7, 2}, "bans", "192.0.2.1") == 1);
  CHECK(*generations.added_in({7, 1}, "bans", text(1)) == 0);
  CHECK(generations.changes_after({7, 0}, {"192.0.2.1", text(kMany - 1)}, false)->size() == 2);
  int visited = 0;
  REQUIRE(journal.visit("bans", [&](const JournalEntry&) { visited++; }));
  CHECK(visited == kMany + 1);
  REQUIRE(journal.begin({7, 3}));
  go_back(journal, {7, 1});
  CHECK(*journal.count("bans") == 1);
  go_back(journal, {7, 2});  // of its own transaction's rows, too
  CHECK(*journal.count("bans") == kMany + 1);
  REQUIRE(journal.commit());
}

TEST_CASE("a way back is found beside changes, which stay, and writes only what is not the same") {
  constexpr unsigned kRounds = 60, kGenerations = 12, kEntries = 20;
  const unsigned seed = GENERATE(1u, 2u, 3u);
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  using Texts = std::map<std::string, std::string>;  // comments, by entry
  for (unsigned round = 0; round < kRounds; round++) {
    INFO("round " << round);
    const Folder folder;
    Journal journal = open(folder);
    Texts now;
    std::vector<Texts> was(1);
    std::vector<std::set<std::string>> changed(1);  // by generation
    const auto publish = [&](const std::function<void(uint64_t)>& work) {
      const uint64_t number = was.size();
      changed.emplace_back();
      REQUIRE(journal.begin({7, number}));
      work(number);
      REQUIRE(journal.generations().add(7, {number, 1000, "add", 42, 1, {}}));
      REQUIRE(journal.commit());
      was.push_back(now);
    };
    const auto change_some = [&](uint64_t number) {
      for (unsigned n = below(8); n > 0; n--) {
        const std::string text = std::to_string(below(kEntries));
        if (below(3) == 0 && now.erase(text) != 0) {
          REQUIRE(journal.erase("bans", text));
        } else {
          now[text] = std::to_string(below(2) * number);
          REQUIRE(journal.put("bans", {text, 1, kNever, 0, now[text]}));
        }
        changed[number].insert(text);
      }
    };
    for (unsigned n = 0; n < kGenerations; n++) publish(change_some);
    const uint64_t to = 1 + below(kGenerations), last = to + below(kGenerations + 1 - static_cast<unsigned>(to));
    const Result<Journal::WayBack> back = journal.find_way_back({7, to}, {}, nullptr);
    REQUIRE(back);
    for (unsigned n = below(4); n > 0; n--) publish(change_some);
    Texts expected = was[to];
    for (uint64_t number = last + 1; number < was.size(); number++) {
      for (const std::string& text : changed[number]) {
        expected.erase(text);
        if (now.contains(text)) expected[text] = now[text];
      }
    }
    unsigned n_differ = 0;
    for (unsigned n = 0; n < kEntries; n++) {
      const std::string text = std::to_string(n);
      n_differ += now.contains(text) != expected.contains(text) || (now.contains(text) && now[text] != expected[text]);
    }
    const uint64_t before = was.size() - 1;
    publish([&](uint64_t) { REQUIRE(journal.go_back(*back, last)); });
    Texts found;
    REQUIRE(journal.visit("bans", [&](const JournalEntry& entry) { found[entry.text] = entry.comment; }));
    CHECK(found == expected);
    unsigned n_written = 0;
    REQUIRE(journal.generations().visit_changes_after({7, before}, [&](const Generations::Before&) {
      n_written++;
      return Result<void>();
    }));
    CHECK(n_written == n_differ);
  }
}

TEST_CASE("a way back is given up, and one whose generation was forgotten is refused") {
  const Folder folder;
  Journal journal = open(folder);
  for (uint64_t number = 1; number <= 3; number++) {
    REQUIRE(journal.begin({7, number}));
    REQUIRE(journal.put("bans", {"10.0.0.1", 1, kNever, 0, std::to_string(number)}));
    REQUIRE(journal.generations().add(7, {number, 1000, "add", 42, 1, {}}));
    REQUIRE(journal.commit());
  }
  CHECK_FALSE(journal.find_way_back(
      {7, 1}, [] { return true; }, nullptr));
  const Result<Journal::WayBack> back = journal.find_way_back({7, 1}, {}, nullptr);
  REQUIRE(back);
  REQUIRE(journal.begin({7, 4}));
  REQUIRE(journal.generations().forget_before({7, 2}));
  CHECK(journal.go_back(*back, 3).error().starts_with("generation 1 was forgotten"));
  journal.roll_back();
}

TEST_CASE("what another epoch changed is forgotten as a whole") {
  const Folder folder;
  Journal journal = open(folder);
  const auto publish = [&](wire::Generation generation) {
    REQUIRE(journal.begin(generation));
    REQUIRE(journal.put("bans", {"10.0.0.1", 1, kNever, 0, std::to_string(generation.number)}));
    REQUIRE(journal.generations().add(generation.epoch, {generation.number, 1000, "add", 42, 1, {}}));
    REQUIRE(journal.commit());
  };
  const auto changes_of = [&](uint64_t epoch) {
    int n = 0;
    REQUIRE(journal.generations().visit_changes_after({epoch, 0}, [&](const Generations::Before&) {
      n++;
      return Result<void>();
    }));
    return n;
  };
  for (const wire::Generation one : {wire::Generation{7, 1}, {7, 2}, {7, 3}, {8, 1}, {8, 2}}) publish(one);
  CHECK(changes_of(7) == 3);
  REQUIRE(journal.begin({8, 2}));
  REQUIRE(journal.generations().forget_before({8, 1}));
  REQUIRE(journal.commit());
  CHECK(changes_of(7) == 0);
  CHECK(changes_of(8) == 1);
}

TEST_CASE("a long question ends with the page after it was given up") {
  const Folder folder;
  Journal journal = open(folder);
  constexpr int kRows = 35'000;
  REQUIRE(journal.begin({7, 1}));
  for (int i = 0; i < kRows; i++) REQUIRE(journal.put("bans", {std::to_string(i), 1, kNever, 0, ""}));
  REQUIRE(journal.generations().add(7, {1, 1000, "add", 42, 1, {}}));
  REQUIRE(journal.commit());
  Generations& generations = journal.generations();
  const auto pages_of = [](const std::function<bool(const GivenUp&)>& is_answered) {
    int pages = 0;
    CHECK_FALSE(is_answered([&] { return ++pages == 3; }));
    return pages;
  };
  CHECK(pages_of([&](const GivenUp& up) { return bool(generations.changes_after({7, 0}, {}, true, up)); }) == 3);
  CHECK(pages_of([&](const GivenUp& up) { return bool(generations.added_in({7, 1}, "bans", "none", up)); }) == 3);
  CHECK(pages_of([&](const GivenUp& up) { return bool(journal.find_way_back({7, 0}, up, nullptr)); }) == 3);
}

TEST_CASE("changes go on while a way back is found") {
  const Folder folder;
  Journal journal = open(folder);
  constexpr int kRows = 60'000, kChanges = 200;
  REQUIRE(journal.begin({7, 1}));
  REQUIRE(journal.put("bans", {"stays", 1, kNever, 0, ""}));
  REQUIRE(journal.generations().add(7, {1, 1000, "add", 42, 1, {}}));
  REQUIRE(journal.commit());
  REQUIRE(journal.begin({7, 2}));
  for (int i = 0; i < kRows; i++) REQUIRE(journal.put("bans", {std::to_string(i), 1, kNever, 0, ""}));
  REQUIRE(journal.generations().add(7, {2, 1000, "add", 42, 1, {}}));
  REQUIRE(journal.commit());
  Result<Journal::WayBack> back = Error{"not found yet"};
  std::thread finds([&] { back = journal.find_way_back({7, 1}, {}, nullptr); });
  for (uint64_t number = 3; number < 3 + kChanges; number++) {
    REQUIRE(journal.begin({7, number}));
    REQUIRE(journal.put("bans", {std::to_string(number), 1, kNever, 0, "later"}));
    REQUIRE(journal.commit());
  }
  finds.join();
  REQUIRE(back);
  REQUIRE(journal.begin({7, 3 + kChanges}));
  REQUIRE(journal.go_back(*back, 2));
  REQUIRE(journal.commit());
  CHECK(*journal.count("bans") == 1 + kChanges);
  CHECK(*journal.find("bans", "stays"));
}

TEST_CASE("a question of another thread sees a change whole, or not at all") {
  const Folder folder;
  Journal journal = open(folder);
  constexpr uint64_t kChanges = 200, kEach = 7;
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> questions = 0, halves = 0;
  std::thread asks([&] {
    while (!is_over || questions == 0) {
      const Result<uint64_t> n = journal.count("bans");
      if (!n || *n % kEach != 0) halves++;
      const Result<std::vector<JournalEntry>> page = journal.page("bans", "", 10'000);
      if (!page || page->size() % kEach != 0) halves++;
      questions++;
    }
  });
  for (uint64_t number = 1; number <= kChanges; number++) {
    CHECK(journal.begin({7, number}));
    for (uint64_t i = 0; i < kEach; i++) CHECK(journal.put("bans", {std::to_string(number * kEach + i)}));
    if (number % 3 == 0) {
      journal.roll_back();
    } else {
      CHECK(journal.commit());
    }
  }
  is_over = true;
  asks.join();
  CHECK(halves == 0);
  CHECK(*journal.count("bans") == (kChanges - kChanges / 3) * kEach);
}

TEST_CASE("what was published is told newest first, with its changes") {
  const Folder folder;
  Journal journal = open(folder);
  Generations& generations = journal.generations();
  REQUIRE(
      generations.add(7, {1, 1000, "asked for", kNobody, 1, {{"files", "new", 3, 3, 0}, {"old", "gone", 0, 0, 9}}}));
  REQUIRE(generations.add(7, {2, 1001, "add", 42, 1, {{"bans", "changed", 1, 1, 0}}}));
  REQUIRE(generations.add(8, {9, 1002, "of another epoch", 42, 9, {}}));
  const auto newest = generations.newest(7, 10);
  REQUIRE((newest && newest->size() == 2));
  CHECK(((*newest)[0].number == 2 && (*newest)[0].uid == 42 && (*newest)[0].base == 1 && (*newest)[0].cause == "add"));
  CHECK(((*newest)[1].cause == "asked for" && (*newest)[1].uid == kNobody));
  REQUIRE((*newest)[1].changes.size() == 2);
  const ListChange& gone = (*newest)[1].changes[1];
  CHECK((gone.name == "old" && gone.state == "gone" && gone.entries == 0 && gone.added == 0 && gone.removed == 9));
  CHECK(generations.newest(7, 1)->size() == 1);
  CHECK(*generations.bases(7) == std::vector<uint64_t>{1});
  REQUIRE(generations.forget_before({7, 1}));
  CHECK(generations.newest(8, 10)->empty());
  CHECK(generations.note("held")->empty());
  REQUIRE(generations.set_note("held", "12"));
  CHECK(*generations.note("held") == "12");
}

}  // namespace weir::control
