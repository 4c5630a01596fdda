// A list that follows a source, whatever the source claims and whatever the list answers.
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

#include "control/sources/followed/followed_list.h"
#include "tests/catch.h"

namespace weir::control {
namespace {

using Phase = FollowedList::Phase;
using Batch = FollowedList::Batch;

constexpr uint64_t kNow = 1'800'000'000;

FollowedList::Claim claim_of(std::vector<std::string> entries, uint64_t expires = kNever) {
  return {std::move(entries), expires, "of the test", false};
}

// "+a", "+a 30" (seconds from kNow), "-a".
std::string text_of(const std::optional<Batch>& batch) {
  std::string text;
  if (!batch) return text;
  for (const FollowedList::Row& row : batch->rows) {
    text += (text.empty() ? "" : ", ") + std::string(batch->is_add ? "+" : "-") + row.entry;
    if (batch->is_add && row.expires != kNever) text += " " + std::to_string(row.expires - kNow);
  }
  return text;
}

// All changes until nothing is left to do, each of which is made.
std::string follow(FollowedList& list, uint64_t now = kNow, const FollowedList::Limits& limits = {}) {
  list.look(now, limits);
  std::string text;
  while (const std::optional<Batch> batch = list.next(now)) {
    text += (text.empty() ? "" : "; ") + text_of(batch);
    list.done(*batch);
  }
  return text;
}

// A list of controld. A batch with an entry that it does not take is refused as a whole.
struct FakeList {
  struct Entry {
    uint64_t ends;
    bool is_ours;
  };

  // Makes a change, or returns the reason why the list refuses it.
  std::string make(const Batch& batch, uint64_t now) {
    std::erase_if(entries, [now](const auto& one) { return one.second.ends <= now; });
    std::map<std::string, Entry> after = entries;
    for (const FollowedList::Row& row : batch.rows) {
      if (wrong.count(row.entry) != 0) return "it is no entry";
      after.erase(row.entry);
      if (batch.is_add) after[row.entry] = {row.expires, true};
    }
    if (after.size() > max_entries) return "the list is full";
    entries = std::move(after);
    return "";
  }
  void tell(FollowedList& list) const {
    list.begin_list();
    for (const auto& [text, entry] : entries) list.has(text, entry.ends, entry.is_ours);
  }

  std::map<std::string, Entry> entries = {};
  std::set<std::string> wrong = {};
  size_t max_entries = SIZE_MAX;
};

// Until nothing is left to do. Returns how many batches it took; false: it gave up.
std::pair<size_t, bool> follow(FollowedList& list, FakeList& fake, uint64_t now = kNow) {
  list.look(now, {});
  size_t n = 0;
  while (const std::optional<Batch> batch = list.next(now)) {
    n++;
    const std::string why = fake.make(*batch, now);
    if (why.empty()) {
      list.done(*batch);
    } else if (!list.refused(*batch, why)) {
      return {n, false};
    }
  }
  return {n, true};
}

std::set<std::string> refused_in(FollowedList& list) {
  std::set<std::string> ids;
  for (const FollowedList::Refusal& one : list.take_refusals()) ids.insert(one.id);
  return ids;
}

}  // namespace

TEST_CASE("claimed entries are added, and released ones are deleted") {
  FollowedList list;
  list.claim("1", claim_of({"b", "a"}));
  list.claim("2", claim_of({"c"}, kNow + 30));
  CHECK(follow(list) == "+b, +a, +c 30");
  CHECK(follow(list).empty());
  list.release("1");
  list.claim("3", claim_of({"d"}));
  CHECK(follow(list) == "-a, -b; +d");
  CHECK(list.counts().claimed == 2);
  CHECK(list.counts().ours == 2);
  list.release_all();
  list.release("1");
  CHECK(follow(list, kNow + 29) == "-d");  // the other one ends by itself
}

TEST_CASE("an entry of several claims stays until the last one ends") {
  FollowedList list;
  list.claim("short", claim_of({"a"}, kNow + 100));
  list.claim("long", claim_of({"a"}, kNow + 200));
  CHECK(follow(list) == "+a 200");
  list.release("long");
  CHECK(follow(list) == "+a 100");
  list.claim("long", claim_of({"a"}, kNow + 300));
  list.release("short");
  CHECK(follow(list) == "+a 300");
  CHECK(follow(list, kNow + 300).empty());
  CHECK(list.counts().claimed == 0);
}

TEST_CASE("an entry that somebody else added is left as it is, until it ends") {
  FollowedList list;
  list.claim("1", claim_of({"a"}));
  list.has("a", kNow + 10, false);
  list.has("b", kNever, false);
  CHECK(follow(list).empty());
  CHECK(list.counts().elsewhere == 1);
  CHECK(list.counts().ours == 0);
  list.release("1");
  CHECK(follow(list).empty());
  list.claim("1", claim_of({"a"}));
  CHECK(follow(list, kNow + 10) == "+a");
}

TEST_CASE("entries that the list may not keep for long are renewed when half of the time is over") {
  FollowedList list;
  const FollowedList::Limits limits = {100, 1000};
  list.claim("1", claim_of({"a"}));
  CHECK(follow(list, kNow, limits) == "+a 1000");
  CHECK(follow(list, kNow + 500, limits).empty());
  CHECK(follow(list, kNow + 501, limits) == "+a 1501");
  CHECK(follow(list, kNow + 1600, limits) == "+a 2600");
  CHECK(follow(list, kNow + 1600) == "+a");  // there is no limit any more
}

TEST_CASE("where the list has no room for all, some come first, and deleted ones make room") {
  FollowedList list;
  list.has("somebody's", kNever, false);
  list.has("old", kNever, true);
  for (const char* id : {"a", "b", "c"}) list.claim(id, claim_of({id}));
  list.claim("z", {{"z"}, kNever, "", true});
  CHECK(follow(list, kNow, {3, 0}) == "-old; +z, +a");
  CHECK(list.counts().no_room == 2);
  CHECK(follow(list, kNow, {4, 0}) == "+b");
  CHECK(list.counts().no_room == 1);
  CHECK(follow(list, kNow, {2, 0}).empty());
}

TEST_CASE("a batch has no more entries than it may, and holds a claim whole") {
  FollowedList list;
  for (const char* id : {"a", "b", "c"}) list.claim(id, claim_of({id}));
  list.claim("d", claim_of({"d", "e", "f"}));
  CHECK(follow(list, kNow, {UINT64_MAX, 0, 2}) == "+a, +b; +c, +d, +e, +f");
}

TEST_CASE("claims that the list does not take are refused, each alone, and are tried again when they are asked for") {
  FollowedList list;
  FakeList fake;
  std::set<std::string> wrong;
  for (int i = 0; i < 300; i++) {
    const std::string id = std::to_string(1000 + i), text = "text " + id;
    list.claim(id, claim_of({text, "shared"}));
    if (i % 20 != 7) continue;
    wrong.insert(id);
    fake.wrong.insert(text);
  }
  const auto [n, is_done] = follow(list, fake);
  CHECK(is_done);
  CHECK(n < 300);
  CHECK(fake.entries.size() == 300 - wrong.size() + 1);
  CHECK(refused_in(list) == wrong);
  CHECK(list.counts().refused == wrong.size());
  CHECK(list.counts().pending == 0);
  fake.wrong.clear();
  CHECK(follow(list, fake).first == 0);
  list.retry();
  CHECK(follow(list, fake).second);
  CHECK(fake.entries.size() == 301);
  CHECK(refused_in(list).empty());
}

TEST_CASE("a claim of which one entry is refused has no entry in the list") {
  FollowedList list;
  FakeList fake;
  fake.wrong = {"b"};
  list.claim("old", claim_of({"a"}));
  follow(list, fake);
  list.release("old");
  list.claim("1", claim_of({"a", "b"}));
  list.claim("2", claim_of({"c"}));
  follow(list, fake);
  CHECK(fake.entries.size() == 1);
  CHECK(fake.entries.count("c") == 1);
  CHECK(refused_in(list) == std::set<std::string>{"1"});
  list.release("1");
  CHECK(list.counts().refused == 0);
}

TEST_CASE("a list that takes nothing refuses no claim for long") {
  FollowedList list;
  FakeList fake;
  fake.max_entries = 0;
  for (int i = 0; i < 1000; i++) list.claim(std::to_string(i), claim_of({std::to_string(i)}));
  const auto [n, is_done] = follow(list, fake);
  CHECK_FALSE(is_done);
  CHECK(n < 40);
  CHECK(list.counts().refused == 0);
  fake.max_entries = 1000;
  CHECK(follow(list, fake) == std::pair<size_t, bool>(1, true));
}

TEST_CASE("an entry that cannot be deleted or renewed stays as it is, until that is tried again") {
  FollowedList list;
  list.claim("1", claim_of({"a"}));
  list.has("a", kNow + 100, true);
  list.has("b", kNever, true);
  list.look(kNow, {});
  const std::optional<Batch> del = list.next(kNow);
  REQUIRE(text_of(del) == "-b");
  CHECK(list.refused(*del, "not now"));
  const std::optional<Batch> renewal = list.next(kNow);
  REQUIRE(text_of(renewal) == "+a");
  CHECK(list.refused(*renewal, "not now"));
  CHECK(text_of(list.next(kNow)).empty());
  CHECK(list.counts().refused == 2);
  CHECK(refused_in(list) == std::set<std::string>{""});
  list.retry();
  CHECK(list.counts().refused == 0);
  CHECK(follow(list) == "-b; +a");
}

TEST_CASE("a claim that is released while its entries are added leaves none behind") {
  FollowedList list;
  list.claim("1", claim_of({"a", "b"}));
  list.look(kNow, {});
  const std::optional<Batch> add = list.next(kNow);
  list.release("1");
  list.done(*add);
  const std::optional<Batch> del = list.next(kNow);
  REQUIRE(text_of(del) == "-a, -b");
  list.claim("2", claim_of({"a"}));  // while they are deleted
  list.done(*del);
  CHECK(text_of(list.next(kNow)) == "+a");
}

TEST_CASE("a claim that is released while it is refused is not refused") {
  FollowedList list;
  list.claim("1", claim_of({"a"}));
  list.look(kNow, {});
  const std::optional<Batch> add = list.next(kNow);
  list.release("1");
  CHECK(list.refused(*add, "it is no entry"));
  CHECK(list.counts().refused == 0);
  CHECK(refused_in(list).empty());
}

TEST_CASE("while the source tells its claims, entries that it may still claim stay") {
  FollowedList list;
  list.set_phase(Phase::filling);
  for (const char* text : {"a", "b"}) list.has(text, kNow + 100, true);
  list.claim("1", claim_of({"a"}));
  list.claim("2", claim_of({"c"}));
  CHECK(follow(list) == "+c");
  list.release("2");
  CHECK(follow(list) == "-c");
  CHECK(list.counts().pending == 0);
  list.set_phase(Phase::whole);
  CHECK(follow(list) == "-b; +a");
}

TEST_CASE("while the source is away, entries end at the time that was told, and none is added") {
  FollowedList list;
  list.claim("1", claim_of({"a"}));
  list.claim("2", claim_of({"b"}, kNow + 50));
  CHECK(follow(list) == "+a, +b 50");
  list.claim("3", claim_of({"c"}));
  list.release("2");
  list.has("somebody's", kNever, false);
  list.has("before", kNever, true);
  list.set_phase(Phase::ending, kNow + 600);
  CHECK(follow(list) == "+a 600, +before 600");
  CHECK(follow(list, kNow + 100).empty());
  list.set_phase(Phase::whole);
  CHECK(follow(list, kNow + 100) == "-before; +a, +c");
}

TEST_CASE("whatever a list answers, it ends with the claimed entries that it takes, and those of others stay") {
  CHECK(rc::check([] {
    FollowedList list;
    FakeList fake;
    uint64_t now = kNow;
    std::map<std::string, FollowedList::Claim> claims;
    std::set<std::string> strangers;
    const auto any_text = [] { return std::string(1, static_cast<char>('a' + *rc::gen::inRange(0, 12))); };
    const FollowedList::Limits limits = {UINT64_MAX, static_cast<uint64_t>(*rc::gen::element(0, 1000)),
                                         static_cast<size_t>(*rc::gen::inRange(1, 5))};
    const auto read = [&] {
      fake.make({}, now);
      fake.tell(list);
      list.look(now, limits);
    };
    for (int i = 0; i < 3; i++) fake.wrong.insert(any_text());
    for (int i = 0; i < 3; i++) {
      const std::string text = any_text();
      const bool is_ours =
          fake.entries.try_emplace(text, FakeList::Entry{kNever, *rc::gen::arbitrary<bool>()}).first->second.is_ours;
      if (!is_ours) strangers.insert(text);
    }
    const auto is_stuck = [&](const std::string& text) {  // it is there, and cannot be changed
      return fake.wrong.count(text) != 0 && fake.entries.count(text) != 0;
    };
    read();
    std::optional<Batch> on_its_way;
    const int n = *rc::gen::inRange(0, 80);
    for (int i = 0; i < n; i++) {
      const std::string id = "claim " + any_text();
      switch (*rc::gen::inRange(0, 8)) {
        case 0:
        case 1: {
          const uint64_t ttl = *rc::gen::element<uint64_t>(kNever, 30, 3000);
          FollowedList::Claim one = claim_of({any_text(), any_text()}, ttl == kNever ? ttl : now + ttl);
          claims[id] = one;
          list.claim(id, std::move(one));
          break;
        }
        case 2:
          claims.erase(id);
          list.release(id);
          break;
        case 3:
        case 4:
          if (!on_its_way) on_its_way = list.next(now);
          break;
        case 5:
          if (on_its_way) {
            const std::string why = fake.make(*on_its_way, now);
            why.empty() ? list.done(*on_its_way) : (void)list.refused(*on_its_way, why);
          }
          on_its_way.reset();
          break;
        case 6:  // the answer is lost
          if (on_its_way && *rc::gen::arbitrary<bool>()) fake.make(*on_its_way, now);
          on_its_way.reset();
          read();
          break;
        default:
          if (!on_its_way) now += static_cast<uint64_t>(*rc::gen::inRange(0, 200));
      }
    }
    list.retry();
    read();
    std::set<std::string> wanted, refused, kept = strangers;
    for (const auto& [text, entry] : fake.entries) {
      if (is_stuck(text)) kept.insert(text);
    }
    for (const auto& [id, claim] : claims) {
      if (claim.expires <= now) continue;
      const bool is_taken = std::none_of(claim.entries.begin(), claim.entries.end(), [&](const std::string& text) {
        return fake.wrong.count(text) != 0 && !is_stuck(text);
      });
      if (!is_taken) {
        refused.insert(id);
      } else {
        wanted.insert(claim.entries.begin(), claim.entries.end());
      }
    }
    (void)list.take_refusals();
    size_t n_batches = 0;
    while (const std::optional<Batch> batch = list.next(now)) {
      RC_ASSERT(++n_batches < 200u);
      for (const FollowedList::Row& row : batch->rows) RC_ASSERT(strangers.count(row.entry) == 0);
      const std::string why = fake.make(*batch, now);
      why.empty() ? list.done(*batch) : (void)list.refused(*batch, why);
    }
    kept.insert(wanted.begin(), wanted.end());
    std::set<std::string> found;
    for (const auto& [text, entry] : fake.entries) found.insert(text);
    RC_ASSERT(found == kept);
    std::set<std::string> told = refused_in(list);
    told.erase("");
    RC_ASSERT(told == refused);
    RC_ASSERT(list.counts().pending == 0u);
  }));
}

TEST_CASE("the rows of a batch as `add` and `del` are told them") {
  struct Order {
    std::vector<std::string> entries;
    std::vector<uint64_t> ttls;
    std::vector<std::string> comments;
  };
  const Batch batch = {true, {{"a", kNever, ""}, {"b", kNow + 30, "of b"}, {"c", kNow, ""}}, {}, 3};
  Order add, short_lived, del;
  add_rows(batch, kNow, 0, add);
  CHECK(add.entries == std::vector<std::string>{"a", "b", "c"});
  CHECK(add.ttls == std::vector<uint64_t>{0, 30, 1});  // what has ended stays for a second: 0 would be for ever
  CHECK(add.comments == std::vector<std::string>{"", "of b", ""});
  add_rows(batch, kNow, 20, short_lived);
  CHECK(short_lived.ttls == std::vector<uint64_t>{0, 20, 1});
  add_rows({false, batch.rows, {}, 3}, kNow, 0, del);
  CHECK(del.entries.size() == 3);
  CHECK((del.ttls.empty() && del.comments.empty()));
}

}  // namespace weir::control
