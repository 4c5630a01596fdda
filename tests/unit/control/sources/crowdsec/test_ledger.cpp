#include <algorithm>

#include "control/sources/crowdsec/ledger.h"
#include "tests/catch.h"

namespace weir::control::crowdsec {
namespace {

constexpr uint64_t kNow = 1'800'000'000;
constexpr int64_t kNowMs = kNow * 1000;

Decision ban(uint64_t id, const std::string& value, const std::string& duration, const std::string& origin = "CAPI") {
  return {id, "Ip", value, "ban", duration, origin, "of the test"};
}

using Limits = FollowedList::Limits;

// The changes that are due, in order. Where `is_made`, they are made.
std::vector<FollowedList::Batch> changes_of(Ledger& ledger, uint64_t now, const Limits& limits, bool is_made) {
  ledger.list().look(now, limits);
  std::vector<FollowedList::Batch> changes;
  while (const std::optional<FollowedList::Batch> batch = ledger.list().next(now)) {
    changes.push_back(*batch);
    if (!is_made) break;
    ledger.list().done(*batch);
  }
  return changes;
}

std::string text_of(const std::vector<FollowedList::Batch>& changes) {
  std::vector<std::string> lines;
  for (const FollowedList::Batch& batch : changes) {
    for (const FollowedList::Row& row : batch.rows) {
      lines.push_back(batch.is_add ? "+" + row.entry + " " + std::to_string(row.expires - kNow) : "-" + row.entry);
    }
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : ", ") + line;
  return text;
}

std::string follow(Ledger& ledger, uint64_t now = kNow, const Limits& limits = {}) {
  return text_of(changes_of(ledger, now, limits, true));
}

// As the list tells it: entries of CrowdSec are known by their comments.
void has(Ledger& ledger, const std::string& entry, uint64_t expires, const std::string& comment) {
  ledger.list().has(entry, expires, comment.starts_with(kCommentBegin));
}

}  // namespace

TEST_CASE("decisions appear in the list, and are deleted from it") {
  Ledger ledger({"ban"});
  ledger.take_all({{ban(1, "192.0.2.1", "1h"), ban(2, "192.0.2.2/24", "59m59.001s")}, {}}, kNowMs);
  CHECK(changes_of(ledger, kNow, {}, false)[0].rows[0].comment == "crowdsec: of the test (CAPI)");
  CHECK(follow(ledger) == "+192.0.2.0/24 3600, +192.0.2.1 3600");
  CHECK(follow(ledger).empty());
  ledger.take_news({{ban(3, "2001:db8::1", "30s")}, {ban(1, "192.0.2.1", "-1ms")}}, kNowMs);
  CHECK(follow(ledger) == "+2001:db8::1 30, -192.0.2.1");
  CHECK(ledger.list().counts().claimed == 2);
  // Told once more, as CrowdSec does.
  ledger.take_news({{}, {ban(1, "192.0.2.1", "-10s")}}, kNowMs);
  CHECK(follow(ledger).empty());
}

TEST_CASE("an entry whose decision ends ends by itself") {
  Ledger ledger({"ban"});
  ledger.take_all({{ban(1, "192.0.2.1", "30s")}, {}}, kNowMs);
  CHECK(follow(ledger) == "+192.0.2.1 30");
  CHECK(follow(ledger, kNow + 29).empty());
  CHECK(follow(ledger, kNow + 30).empty());
  CHECK(ledger.list().counts().claimed == 0);
  ledger.take_news({{}, {ban(1, "192.0.2.1", "-1s")}}, kNowMs + 31'000);
  CHECK(follow(ledger, kNow + 31).empty());
}

TEST_CASE("an address of two decisions stays until the last one ends") {
  Ledger ledger({"ban"});
  ledger.take_all({{ban(1, "192.0.2.1", "1h"), ban(2, "192.0.2.1", "4h")}, {}}, kNowMs);
  CHECK(follow(ledger) == "+192.0.2.1 14400");
  SECTION("the longer one is deleted") {
    ledger.take_news({{}, {ban(2, "192.0.2.1", "-1s")}}, kNowMs);
    CHECK(follow(ledger) == "+192.0.2.1 3600");
    ledger.take_news({{}, {ban(1, "192.0.2.1", "-1s")}}, kNowMs);
    CHECK(follow(ledger) == "-192.0.2.1");
  }
  SECTION("the shorter one is deleted") {
    ledger.take_news({{}, {ban(1, "192.0.2.1", "-1s")}}, kNowMs);
    CHECK(follow(ledger).empty());
  }
  SECTION("one that nobody knew is deleted") {
    ledger.take_news({{}, {ban(3, "192.0.2.1", "-1s")}}, kNowMs);
    CHECK(follow(ledger).empty());
    CHECK(ledger.list().counts().claimed == 1);
  }
  SECTION("another one comes while an older one goes") {
    ledger.take_news({{ban(4, "192.0.2.1", "8h")}, {ban(1, "192.0.2.1", "-1s"), ban(2, "192.0.2.1", "-1s")}}, kNowMs);
    CHECK(follow(ledger) == "+192.0.2.1 28800");
  }
}

TEST_CASE("what the list has of decisions that are over is deleted, and what it has of others is kept") {
  Ledger ledger({"ban"});
  ledger.take_all({{ban(1, "192.0.2.1", "1h"), ban(2, "192.0.2.2", "1h"), ban(3, "192.0.2.3", "1h")}, {}}, kNowMs);
  ledger.list().begin_list();
  has(ledger, "192.0.2.1", kNow + 3603, "crowdsec: as it is");
  has(ledger, "192.0.2.2", kNow + 100, "crowdsec: too short");
  has(ledger, "192.0.2.3", kNow + 50, "by hand");
  has(ledger, "192.0.2.8", kNow + 100, "crowdsec: over");
  has(ledger, "192.0.2.9", kNow + 100, "by hand");
  CHECK(follow(ledger) == "+192.0.2.2 3600, -192.0.2.8");
  CHECK(ledger.list().counts().elsewhere == 1);
  // As soon as it ended there.
  CHECK(follow(ledger, kNow + 50) == "+192.0.2.3 3600");
}

TEST_CASE("all that is decided takes the place of what was before") {
  Ledger ledger({"ban"});
  ledger.take_all({{ban(1, "192.0.2.1", "1h"), ban(2, "192.0.2.2", "1h")}, {}}, kNowMs);
  (void)follow(ledger);
  ledger.take_all({{ban(2, "192.0.2.2", "1h"), ban(3, "192.0.2.3", "1h")}, {ban(9, "192.0.2.3", "-5s")}},
                  kNowMs + 2000);
  CHECK(follow(ledger, kNow + 2) == "+192.0.2.3 3602, -192.0.2.1");
}

TEST_CASE("changes that were not made are asked for again") {
  Ledger ledger({"ban"});
  ledger.take_all({{ban(1, "192.0.2.1", "1h")}, {}}, kNowMs);
  CHECK(text_of(changes_of(ledger, kNow, {}, false)) == "+192.0.2.1 3600");
  CHECK(follow(ledger, kNow + 10) == "+192.0.2.1 3600");
}

TEST_CASE("entries last as long as the list lets them, and are renewed in time") {
  Ledger ledger({"ban"});
  const Limits limits = {100, 1000};
  ledger.take_all({{ban(1, "192.0.2.1", "1h")}, {}}, kNowMs);
  CHECK(follow(ledger, kNow, limits) == "+192.0.2.1 1000");
  CHECK(follow(ledger, kNow + 10, limits).empty());
  CHECK(follow(ledger, kNow + 500, limits).empty());
  CHECK(follow(ledger, kNow + 501, limits) == "+192.0.2.1 1501");
  CHECK(follow(ledger, kNow + 1002, limits) == "+192.0.2.1 2002");
  CHECK(follow(ledger, kNow + 2000, limits) == "+192.0.2.1 3000");
  CHECK(follow(ledger, kNow + 2700, limits) == "+192.0.2.1 3600");
  CHECK(follow(ledger, kNow + 3599, limits).empty());
}

TEST_CASE("where the list has no room for all, what was decided here comes first, and deleted ones make room") {
  Ledger ledger({"ban"});
  ledger.list().begin_list();
  has(ledger, "192.0.2.100", kNow + 100, "by hand");
  has(ledger, "192.0.2.101", kNow + 100, "crowdsec: over");
  Decisions decisions;
  for (uint64_t i = 1; i <= 50; i++) decisions.added.push_back(ban(i, "198.51.100." + std::to_string(i), "1h"));
  decisions.added.push_back(ban(51, "192.0.2.1", "10m", "cscli"));
  decisions.added.push_back(ban(52, "192.0.2.2", "10m", "crowdsec"));
  ledger.take_all(decisions, kNowMs);
  const std::vector<FollowedList::Batch> changes = changes_of(ledger, kNow, {4, 0}, true);
  REQUIRE(changes.size() == 2);
  CHECK(text_of({changes[0]}) == "-192.0.2.101");
  REQUIRE(changes[1].rows.size() == 3);
  CHECK(changes[1].rows[0].entry.starts_with("192.0.2."));
  CHECK(changes[1].rows[1].entry.starts_with("192.0.2."));
  const auto no_room = [&] { return ledger.list().counts().no_room; };
  CHECK(no_room() == 49);
  CHECK(follow(ledger, kNow, {4, 0}).empty());
  CHECK(no_room() == 49);
  CHECK(follow(ledger, kNow, {3, 0}).empty());
  CHECK(no_room() == 49);
  CHECK(changes_of(ledger, kNow, {100, 0}, false)[0].rows.size() == 49);
}

TEST_CASE("decisions of other types, scopes and forms are skipped, and counted") {
  Ledger ledger({"ban", "throttle"});
  Decisions decisions = {
      {ban(1, "192.0.2.1", "1h"), ban(2, "192.0.2.2", "1h"), ban(3, "FR", "1h"), ban(4, "192.0.2.4", "soon"),
       ban(5, "192.0.2.5", "1h"), ban(6, "192.0.2.6", "1h"), ban(7, "192.0.2.7", "0s")},
      {}};
  decisions.added[1].type = "captcha";
  decisions.added[2].scope = "Country";
  decisions.added[4].scope = "user\x1bname";
  decisions.added[5].type = "Throttle";
  ledger.take_all(decisions, kNowMs);
  CHECK(follow(ledger) == "+192.0.2.1 3600, +192.0.2.6 3600");
  CHECK(ledger.skipped() ==
        std::map<std::string, uint64_t>{
            {"type captcha", 1}, {"scope Country", 1}, {"bad duration", 1}, {"scope user\x1bname", 1}});
  decisions.added.clear();
  for (uint64_t i = 0; i < 100; i++) {
    decisions.added.push_back(ban(i, "192.0.2.1", "1h"));
    decisions.added.back().type = "type" + std::to_string(i);
  }
  ledger.take_all(decisions, kNowMs);
  CHECK(ledger.skipped().size() <= 17);
  CHECK(ledger.skipped().at("others") == 84);
  // One that is skipped does not end another one about the same address.
  ledger.take_all({{ban(1, "192.0.2.1", "1h")}, {}}, kNowMs);
  Decision captcha = ban(2, "192.0.2.1", "-1s");
  captcha.type = "captcha";
  ledger.take_news({{}, {captcha}}, kNowMs);
  CHECK(ledger.list().counts().claimed == 1);
}

}  // namespace weir::control::crowdsec
