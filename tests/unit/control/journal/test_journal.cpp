// What is added to lists is there after a restart, whole or not at all.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "common/peer_number.h"
#include "control/book/columns.h"
#include "control/journal/change.h"
#include "tests/unit/control/support/support.h"

namespace weir::control {
namespace {

constexpr uint64_t kNow = 1'800'000'000;

List dynamic_list(const std::string& name) {
  List list;
  list.name = name;
  list.policy_path = "weir.yaml";
  list.dynamic = Dynamic{};
  return list;
}

Journal open(const Folder& folder) {
  Result<Journal> journal = Journal::open(folder / "");
  REQUIRE(journal);
  return std::move(*journal);
}

Change change(Change::Verb verb, std::vector<std::string> entries) {
  Change change;
  change.verb = verb;
  change.entries = std::move(entries);
  change.uid = 42;
  change.comment = "ticket 12";
  return change;
}

// In a transaction of its own; the list gets what became of it.
Result<ChangeCounts> make(Journal& journal, List& list, const Change& wanted, uint64_t now = kNow) {
  EntriesEdit edit;
  REQUIRE(journal.begin({7, 1}));
  const Result<ChangeCounts> counts = apply(wanted, list, now, journal, edit);
  if (!counts) {
    journal.roll_back();
    return counts;
  }
  REQUIRE(journal.commit());
  list.content = edited(list.content, std::move(edit));
  // The content is what the journal alone would make of it.
  const Result<ListDraft> kept = journal_of(list, 0, journal);
  REQUIRE(kept);
  const auto alone = make_entries(*kept);
  CHECK(alone->v4 == list.content->v4);
  CHECK(alone->v6 == list.content->v6);
  CHECK(alone->flows.size() == list.content->flows.size());
  return counts;
}

std::string error_of(Journal& journal, List& list, const Change& wanted) {
  const auto counts = make(journal, list, wanted);
  return counts ? "" : counts.error();
}

// In a transaction: all that changed since then, or but for what changed after `last`.
void go_back(Journal& journal, wire::Generation to, uint64_t last = kMostNumber) {
  const Result<Journal::WayBack> back = journal.find_way_back(to, {}, nullptr);
  REQUIRE(back);
  REQUIRE(journal.go_back(*back, last));
}

}  // namespace

TEST_CASE("entries of every form are added, renewed and deleted") {
  const Folder folder;
  Journal journal = open(folder);
  List list = dynamic_list("bans");
  const std::vector<std::string> all = {
      "203.0.113.7",     "198.51.100.0/24", "203.0.113.10-203.0.113.99",
      "203.0.113.7:443", "2001:db8::7",     "src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport 8000-8010"};
  auto counts = make(journal, list, change(Change::Verb::add, all));
  REQUIRE(counts);
  CHECK(counts->added == all.size());
  CHECK(list.entries() == all.size());
  CHECK(list.content->v4.source[0] == kJournalSource);
  counts = make(journal, list, change(Change::Verb::add, all));
  CHECK((counts->added == 0 && counts->renewed == all.size()));
  CHECK(list.entries() == all.size());
  const auto entry = journal.find("bans", "203.0.113.7");
  REQUIRE((entry && *entry));
  CHECK(((*entry)->uid == 42 && (*entry)->comment == "ticket 12" && (*entry)->added_at == int64_t{kNow}));
  counts = make(journal, list, change(Change::Verb::del, {"203.0.113.7/32", "192.0.2.1"}));
  CHECK((counts->deleted == 1 && counts->missing == 1));
  CHECK(list.entries() == all.size() - 1);
  counts = make(journal, list, change(Change::Verb::flush, {}));
  CHECK(counts->deleted == all.size() - 1);
  CHECK(list.entries() == 0);
  CHECK(*journal.count("bans") == 0);
}

TEST_CASE("entries of one change have times and comments of their own") {
  const Folder folder;
  Journal journal = open(folder);
  List list = dynamic_list("bans");
  Change add = change(Change::Verb::add, {"203.0.113.7", "203.0.113.8", "203.0.113.9"});
  add.ttl_s = 60;
  add.ttls = {0, 5, 7};
  add.comments = {"one", "", "three"};
  REQUIRE(make(journal, list, add));
  CHECK(list.v4().expires.each == std::vector<uint32_t>{kNow + 60, kNow + 5, kNow + 7});
  CHECK((*journal.find("bans", "203.0.113.7"))->comment == "one");
  CHECK((*journal.find("bans", "203.0.113.8"))->comment == "ticket 12");
  CHECK((*journal.find("bans", "203.0.113.9"))->comment == "three");

  add.ttls = {0, 5};
  CHECK(error_of(journal, list, add).find("one for each entry, or none") != std::string::npos);
  add.ttls = {0, 5, uint64_t{1} << 32};
  CHECK(error_of(journal, list, add).find("entry 3 of 3: a time to live") == 0);
  list.dynamic->max_ttl_s = 100;
  add.ttls = {0, 101, 0};
  CHECK(error_of(journal, list, add).find("entry 2 of 3: 101 seconds are more") == 0);
  add.ttls = {};
  add.comments[1].assign(501, 'x');
  CHECK(error_of(journal, list, add).find("500 bytes") != std::string::npos);
  CHECK(*journal.count("bans") == 3);
}

TEST_CASE("a time to live ends, is renewed, and is bounded by the list") {
  const Folder folder;
  Journal journal = open(folder);
  List list = dynamic_list("bans");
  Change add = change(Change::Verb::add, {"203.0.113.7"});
  add.ttl_s = 60;
  REQUIRE(make(journal, list, add));
  CHECK(list.v4().expires[0] == kNow + 60);
  REQUIRE(make(journal, list, add, kNow + 30));
  CHECK((list.entries() == 1 && list.v4().expires[0] == kNow + 90));
  CHECK(make(journal, list, add, kNow + 500)->added == 1);  // it had ended
  CHECK(journal_of(list, kNow + 559, journal)->entries() == 1);
  CHECK(journal_of(list, kNow + 560, journal)->entries() == 0);

  list.dynamic->max_ttl_s = 100;
  add.ttl_s = 101;
  CHECK(error_of(journal, list, add).find("max_ttl") != std::string::npos);
  add.ttl_s = std::nullopt;
  REQUIRE(make(journal, list, add));
  CHECK(list.v4().expires[0] == kNow + 100);
  add.ttl_s = 0;
  CHECK_FALSE(error_of(journal, list, add).empty());

  // What ended is swept a minute later, from the journal and from the list.
  const Book book = {list};
  std::vector<EntriesEdit> edits(1);
  REQUIRE(journal.begin({7, 2}));
  REQUIRE(sweep(book, kNow + 100 + 59, journal, edits));
  CHECK(edits[0].empty());
  REQUIRE(sweep(book, kNow + 100 + 60, journal, edits));
  CHECK(edits[0].removed.v4.size() == 1);
  REQUIRE(journal.commit());
  CHECK(edited(list.content, edits[0])->size() == 0);
  CHECK(*journal.count("bans") == 0);
}

TEST_CASE("entries that ended leave their place to others") {
  const Folder folder;
  Journal journal = open(folder);
  List list = dynamic_list("bans");
  list.dynamic->max_entries = 3;
  REQUIRE(make(journal, list, change(Change::Verb::add, {"10.0.0.9"})));
  Change add = change(Change::Verb::add, {"10.0.0.1", "10.0.0.2"});
  add.ttl_s = 1;
  REQUIRE(make(journal, list, add));
  const Change next = change(Change::Verb::add, {"10.0.0.3"});
  CHECK(error_of(journal, list, next).find("max_entries") != std::string::npos);
  REQUIRE(make(journal, list, next, kNow + 1));
  CHECK(list.entries() == 3);
  REQUIRE(make(journal, list, change(Change::Verb::add, {"10.0.0.4"}), kNow + 1));
  CHECK(error_of(journal, list, change(Change::Verb::add, {"10.0.0.5"})).find("would have 4") != std::string::npos);
  CHECK(*journal.count("bans") == 3);
}

TEST_CASE("a change is made whole or not at all") {
  const Folder folder;
  Journal journal = open(folder);
  List list = dynamic_list("bans");
  list.dynamic->max_entries = 2;
  CHECK(error_of(journal, list, change(Change::Verb::add, {"203.0.113.7", "203.0.113.400"})).find("entry 2 of 2") == 0);
  CHECK(*journal.count("bans") == 0);
  CHECK(error_of(journal, list, change(Change::Verb::add, {"10.0.0.1", "10.0.0.2", "10.0.0.3"})).find("max_entries") !=
        std::string::npos);
  CHECK(*journal.count("bans") == 0);
  CHECK_FALSE(error_of(journal, list, change(Change::Verb::add, {})).empty());
  CHECK(error_of(journal, list, change(Change::Verb::add, {"::/0"})).find("allow_any") != std::string::npos);
  Change talkative = change(Change::Verb::add, {"10.0.0.1"});
  talkative.comment.assign(501, 'x');
  CHECK(error_of(journal, list, talkative).find("500 bytes") != std::string::npos);

  // Inside of one transaction, one of two.
  REQUIRE(journal.begin({7, 3}));
  CHECK(journal.all_or_nothing([&] { return journal.put("bans", {"10.0.0.1"}); }));
  CHECK_FALSE(journal.all_or_nothing([&]() -> Result<void> {
    REQUIRE(journal.put("bans", {"10.0.0.2"}));
    return Error{"no"};
  }));
  REQUIRE(journal.commit());
  CHECK(*journal.count("bans") == 1);
}

TEST_CASE("what a file holds is not deleted: the place is told") {
  const Folder folder;
  Journal journal = open(folder);
  List list = dynamic_list("bans");
  list.feed.path = "feeds/bans.txt";
  ListDraft held;
  held.v4.push_back({0x0a000000, 0x0a0000ff, 17, 0, WEIR_AS_SOURCE, 1, kNever});
  held.flows.push_back({});
  held.flows.back().line = 23;
  held.flows.back().protocol = 17;
  list.content = make_entries(held);
  EntriesEdit edit;
  REQUIRE(journal.begin({7, 1}));
  for (const auto& [text, place] :
       {std::pair("10.0.0.0/24", "10.0.0.0/24 (feeds/bans.txt:17)"),
        std::pair("10.0.0.9", "10.0.0.0/24 (feeds/bans.txt:17)"), std::pair("proto udp", "udp (weir.yaml:23)")}) {
    const auto counts = apply(change(Change::Verb::del, {text}), list, kNow, journal, edit);
    REQUIRE_FALSE(counts);
    INFO(counts.error());
    CHECK(counts.error().find(place) != std::string::npos);
    CHECK(counts.error().find("action: pass") != std::string::npos);
  }
  CHECK(apply(change(Change::Verb::del, {"10.0.1.0"}), list, kNow, journal, edit));
  // Also when it was added as well: it matches on.
  REQUIRE(apply(change(Change::Verb::add, {"10.0.0.9", "192.0.2.1"}), list, kNow, journal, edit));
  auto counts = apply(change(Change::Verb::del, {"192.0.2.1"}), list, kNow, journal, edit);
  CHECK((counts && counts->deleted == 1 && counts->still_held.empty()));
  counts = apply(change(Change::Verb::del, {"10.0.0.9"}), list, kNow, journal, edit);
  CHECK((counts && counts->deleted == 1));
  CHECK(counts->still_held == "10.0.0.9 by 10.0.0.0/24 (feeds/bans.txt:17)");
}

TEST_CASE("one meaning is one entry, with its side or without, also of journals that kept the side") {
  const Folder folder;
  Journal journal = open(folder);
  List list = dynamic_list("bans");
  list.match = WEIR_AS_DESTINATION;
  REQUIRE(make(journal, list, change(Change::Verb::add, {"dst 10.9.9.9", "src 10.9.9.9"})));
  CHECK(make(journal, list, change(Change::Verb::add, {"10.9.9.9"}))->renewed == 1);
  CHECK(make(journal, list, change(Change::Verb::del, {"10.9.9.9"}))->deleted == 1);
  CHECK(make(journal, list, change(Change::Verb::del, {"src 10.9.9.9"}))->deleted == 1);
  CHECK(list.entries() == 0);

  for (const Change::Verb verb : {Change::Verb::add, Change::Verb::del}) {
    REQUIRE(journal.begin({7, 1}));
    REQUIRE(journal.put("bans", {"dst 10.9.9.9"}));
    REQUIRE(journal.put("bans", {"dst 2001:db8::9 dport 80"}));
    REQUIRE(journal.commit());
    list.content = make_entries(*journal_of(list, 0, journal));
    Change wanted = change(verb, {"10.9.9.9", "[2001:db8::9]:80"});
    if (verb == Change::Verb::add) wanted.ttl_s = 60;
    const auto counts = make(journal, list, wanted);
    REQUIRE(counts);
    CHECK(counts->renewed + counts->deleted == 2);
    CHECK(list.entries() == (verb == Change::Verb::add ? 2 : 0));
    CHECK(*journal.count("bans") == list.entries());
  }
}

TEST_CASE("IPv6 hosts are widened as the list says, and the journal keeps what was written") {
  const Folder folder;
  Journal journal = open(folder);
  List list = dynamic_list("bans");
  list.ipv6_aggregate = 64;
  const auto counts = make(journal, list, change(Change::Verb::add, {"2001:db8::1", "2001:db8::2", "192.0.2.1"}));
  REQUIRE(counts);
  CHECK(counts->widened == 2);
  REQUIRE(counts->widened_texts.size() == 2);
  CHECK(counts->widened_texts[0] == "2001:db8::1 is enforced as 2001:db8::/64 (ipv6_aggregate: 64)");
  CHECK(enforced_as(list, "[2001:db8::7]:443") == "[2001:db8::/64]:443");
  CHECK(enforced_as(list, "2001:db8::/48").empty());
  CHECK(enforced_as(list, "192.0.2.1").empty());
  REQUIRE(make(journal, list, change(Change::Verb::del, {"192.0.2.1"})));
  CHECK(list.v6().last_of(0) - list.v6().first[0] == ~uint64_t{0});
  REQUIRE(make(journal, list, change(Change::Verb::del, {"2001:db8::1"})));
  CHECK(list.entries() == 1);
}

TEST_CASE("the list may be left out where there is one; others are refused by name") {
  Book book = {dynamic_list("bans"), List()};
  book[1].name = "files";
  CHECK(*list_of({}, book) == book.data());
  Change wanted;
  wanted.list = "files";
  CHECK(list_of(wanted, book).error().find("`dynamic: true`") != std::string::npos);
  wanted.list = "nobody";
  CHECK(list_of(wanted, book).error().find("bans") != std::string::npos);
  book.push_back(dynamic_list("others"));
  CHECK(list_of({}, book).error().find("bans, others") != std::string::npos);
}

TEST_CASE("entries are there after a restart; what was not committed is not") {
  const Folder folder;
  {
    Journal journal = open(folder);
    REQUIRE(journal.begin({7, 1}));
    REQUIRE(journal.put("bans", {"10.0.0.1", 5, 6, 7, "eight"}));
    REQUIRE(journal.commit());
    REQUIRE(journal.begin({7, 2}));
    REQUIRE(journal.put("bans", {"10.0.0.2"}));
  }
  Journal journal = open(folder);
  CHECK(journal.notice().empty());
  CHECK(*journal.count("bans") == 1);
  const auto entry = journal.find("bans", "10.0.0.1");
  REQUIRE((entry && *entry));
  CHECK(((*entry)->added_at == 5 && (*entry)->expires == 6 && (*entry)->uid == 7 && (*entry)->comment == "eight"));
  CHECK(*journal.lists() == std::vector<std::string>{"bans"});
}

TEST_CASE("a damaged journal is kept aside, and what the lists still have is taken over") {
  const Folder folder;
  List list = dynamic_list("bans");
  {
    Journal journal = open(folder);
    std::vector<std::string> many;
    for (int i = 0; i < 2000; i++) many.push_back("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250));
    many.push_back("dst 192.0.2.1 dport 80");
    many.push_back("src 192.0.2.1 proto tcp dport 80");
    REQUIRE(make(journal, list, change(Change::Verb::add, many)));
  }
  for (const bool is_text : {true, false}) {
    {
      std::fstream file(folder / "journal.db", std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(is_text ? 0 : 5000);
      for (int i = 0; i < 2000; i++) file << "damaged!";
    }
    Journal journal = open(folder);
    INFO(journal.notice());
    CHECK(journal.is_reset());
    CHECK(std::filesystem::exists(folder / "journal.db.damaged"));
    CHECK(*journal.count("bans") == 0);
    REQUIRE(journal.begin({7, 9}));
    REQUIRE(restore({list}, kNow, journal));
    REQUIRE(journal.commit());
    const auto restored = make_entries(*journal_of(list, 0, journal));
    CHECK(restored->v4 == list.content->v4);
    CHECK(restored->flows.size() == list.content->flows.size());
  }
}

TEST_CASE("a journal that another program reads is shared with it") {
  const Folder died, folder;
  {
    Journal journal = open(died);
    REQUIRE(journal.begin({7, 1}));
    REQUIRE(journal.put("bans", {"10.0.0.1"}));
    REQUIRE(journal.commit());
    // As a crash leaves them.
    for (const char* name : {"journal.db", "journal.db-wal"}) std::filesystem::copy_file(died / name, folder / name);
  }
  sqlite3* raw = nullptr;
  REQUIRE(sqlite3_open((folder / "journal.db").c_str(), &raw) == SQLITE_OK);
  const Database reader(raw);
  REQUIRE(sqlite3_exec(raw, "BEGIN; SELECT count(*) FROM entries", nullptr, nullptr, nullptr) == SQLITE_OK);
  Journal journal = open(folder);
  INFO(journal.notice());
  CHECK_FALSE(journal.is_reset());
  CHECK(*journal.count("bans") == 1);
  CHECK_FALSE(std::filesystem::exists(folder / "journal.db.damaged"));
  REQUIRE(journal.begin({7, 2}));
  REQUIRE(journal.put("bans", {"10.0.0.2"}));
  REQUIRE(journal.commit());
  CHECK(*journal.count("bans") == 2);
}

TEST_CASE("a journal that cannot be read now stays where it is") {
  const Folder folder;
  {
    Journal journal = open(folder);
    REQUIRE(journal.begin({7, 1}));
    REQUIRE(journal.put("bans", {"10.0.0.1"}));
    REQUIRE(journal.commit());
  }
  rlimit was = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &was) == 0);
  for (const rlim_t more : {rlim_t{0}, rlim_t{1}}) {
    const int lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(lowest >= 0);
    ::close(lowest);
    rlimit few = was;
    few.rlim_cur = static_cast<rlim_t>(lowest) + more;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    const Result<Journal> journal = Journal::open(folder / "");
    REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
    CHECK_FALSE(journal);
    CHECK_FALSE(std::filesystem::exists(folder / "journal.db.damaged"));
  }
  Journal journal = open(folder);
  CHECK_FALSE(journal.is_reset());
  CHECK(*journal.count("bans") == 1);
}

TEST_CASE("each damaged journal is kept, and it is told as long as no other one has begun") {
  const Folder folder;
  const std::string kept[] = {"journal.db.damaged", "journal.db.damaged.2", "journal.db.damaged.3"};
  for (const std::string& name : kept) {
    std::ofstream(folder / "journal.db") << "damaged before " << name;
    CHECK(open(folder).is_reset());
    CHECK_FALSE(open(folder).is_reset());
    std::filesystem::remove(folder / "journal.db");
  }
  for (const std::string& name : kept) {
    std::ifstream file(folder / name);
    std::string text;
    std::getline(file, text);
    CHECK(text == "damaged before " + name);
  }
  // It was put aside, and no other one could begin then.
  CHECK(open(folder).is_reset());
}

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
