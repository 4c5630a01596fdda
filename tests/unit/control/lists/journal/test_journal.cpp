// Entries that are added to lists are there after a restart, whole or not at all.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/control/lists/journal/lists.h"

namespace weir::control {

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
  CHECK(counts->still_held == "10.0.0.9 by list bans: 10.0.0.0/24 (feeds/bans.txt:17)");
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

TEST_CASE("the list may be left out where one list has the action that is meant; others are refused by name") {
  Book book = {dynamic_list("bans"), List(), dynamic_list("allowed")};
  book[1].name = "files";
  book[2].action = WEIR_PASS;
  Change allows;
  allows.action = WEIR_PASS;
  CHECK(*list_of({}, book) == book.data());
  CHECK(*list_of(allows, book) == &book[2]);
  // Nobody is let in because the pass list is the only one.
  const Book one = {book[2]};
  CHECK(list_of({}, one).error() == "no dynamic list has `action: drop`\nhint: name the list with --list: allowed");
  CHECK(list_of(allows, {book[0]}).error().find("no dynamic list has `action: pass`") == 0);
  Change wanted;
  wanted.list = "files";
  CHECK(list_of(wanted, book).error().find("`dynamic: true`") != std::string::npos);
  wanted.list = "nobody";
  CHECK(list_of(wanted, book).error().find("bans") != std::string::npos);
  book.push_back(dynamic_list("others"));
  CHECK(list_of({}, book).error().find("--list: bans, others") != std::string::npos);
}

TEST_CASE("an added entry that passes all the same is told, with the list or own address that lets it through") {
  Book book = {dynamic_list("bans"), List(), List()};
  List &pass = book[1], &watched = book[2];
  pass.name = "partners";
  pass.action = WEIR_PASS;
  pass.feed.path = "feeds/partners.txt";
  ListDraft passes;
  passes.v4.push_back({0x0a000000, 0x0a0000ff, 17, 0, WEIR_AS_SOURCE, 1, kNever});
  passes.v4.push_back({0x0a000100, 0x0a0001ff, 18, 443, WEIR_AS_SOURCE, 1, kNever});
  passes.v4.push_back({0x0a000200, 0x0a0002ff, 19, 0, WEIR_AS_SOURCE, 1, kNow - 1});
  passes.v6.push_back({Ipv6{0x20010db8} << 96, (Ipv6{0x20010db9} << 96) - 1, 20, 0, WEIR_AS_SOURCE, 1, kNever});
  pass.content = make_entries(passes);
  watched = pass;
  watched.name = "watched";
  watched.mode = WEIR_MONITOR;
  auto own = std::make_shared<Own>();
  own->policy_path = "weir.yaml";
  ListDraft addresses;
  addresses.v4.push_back({0xc0000200, 0xc00002ff, 5, 0, kBothDirections, 0, kNever});
  own->entries = make_entries(addresses);
  book[0].own = own;

  const auto told = [&](const std::string& text, Change::Verb verb = Change::Verb::add) {
    ChangeCounts counts;
    look_elsewhere(change(verb, {text}), book[0], book, kNow, counts);
    return counts.still_passes.empty() ? "" : counts.still_passes.front();
  };
  const std::string by_partners = " by list partners: 10.0.0.0/24 (feeds/partners.txt:17)";
  CHECK(told("10.0.0.9") == "10.0.0.9" + by_partners);
  CHECK(told("10.0.0.0/25") == "10.0.0.0/25" + by_partners);
  CHECK(told("10.0.0.9:80") == "10.0.0.9:80" + by_partners);
  CHECK(told("src 10.0.0.9 dport 80") == "src 10.0.0.9 dport 80" + by_partners);
  CHECK(told("2001:db8::7") == "2001:db8::7 by list partners: 2001:db8::/32 (feeds/partners.txt:20)");
  CHECK(told("192.0.2.7") == "192.0.2.7 by policy.own: 192.0.2.0/24 (weir.yaml:5)");
  for (const char* drops :
       {"10.0.0.0/23", "dst 10.0.0.9", "10.0.1.9", "10.0.2.9", "10.0.3.9", "dst 192.0.2.7", "src 192.0.2.7 dport 80"}) {
    INFO(drops);
    CHECK(told(drops).empty());
  }
  CHECK(told("10.0.0.9", Change::Verb::del).empty());
  // A list that is compared with both sides drops the other side's packets.
  book[0].match = kBothDirections;
  CHECK(told("10.0.0.9").empty());
  pass.mode = WEIR_MONITOR;
  CHECK(told("src 10.0.0.9").empty());

  ChangeCounts counts;
  pass.mode = WEIR_ENFORCE;
  book[0].match = WEIR_AS_SOURCE;
  look_elsewhere(
      change(Change::Verb::add, {"10.0.0.1", "10.0.3.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}),
      book[0], book, kNow, counts);
  CHECK(counts.still_passes.size() == kMostTexts);
}

TEST_CASE("a deleted entry that another list holds is told, with that list") {
  Book book = {dynamic_list("bans"), List(), dynamic_list("others"), List()};
  const auto fill = [](List& list, const char* name, uint8_t source) {
    list.name = name;
    list.feed.path = "feeds/x.txt";
    ListDraft held;
    held.v4.push_back({0x0a000000, 0x0a0000ff, source == kJournalSource ? 0u : 17u, 0, WEIR_AS_SOURCE, source, kNever});
    list.content = make_entries(held);
  };
  fill(book[1], "allowed", 1);
  book[1].action = WEIR_PASS;
  fill(book[3], "spamhaus", 1);
  const auto told = [&] {
    ChangeCounts counts;
    look_elsewhere(change(Change::Verb::del, {"10.0.1.1", "10.0.0.9"}), book[0], book, kNow, counts);
    return counts.still_held;
  };
  CHECK(told() == "10.0.0.9 by list spamhaus: 10.0.0.0/24 (feeds/x.txt:17)");
  book[3].mode = WEIR_MONITOR;
  CHECK(told().empty());
  fill(book[2], "others", kJournalSource);
  CHECK(told() == "10.0.0.9 by list others: 10.0.0.0/24 (controlctl add)");
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

}  // namespace weir::control
