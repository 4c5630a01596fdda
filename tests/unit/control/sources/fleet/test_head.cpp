// The pointer of a fleet: what each group enforces, and what a rollback goes back to.
#include "common/peer_number.h"
#include "control/sources/fleet/channel.h"
#include "control/sources/fleet/head.h"
#include "control/sources/fleet/names.h"
#include "control/sources/fleet/report.h"
#include "tests/catch.h"

namespace weir::control::fleet {
namespace {

Head at_turn(Head head, uint64_t turn) {
  head.turn = turn;
  head.id = "x";
  return head;
}

}  // namespace

TEST_CASE("groups move one after the other") {
  Head head = at_turn({}, 1);
  move(head, "", 5);
  CHECK(is_everywhere(head, 5));
  CHECK(head.everywhere == 5);
  CHECK(before(head) == 0);  // there was nothing

  head = at_turn(head, 2);
  head.staged = 6;
  move(head, "canary", 6);
  CHECK(at_of(head, "canary").revision == 6);
  CHECK(at_of(head, "canary").since == 2);
  CHECK(at_of(head, "rest").revision == 5);
  CHECK(at_of(head, "rest").since == 1);
  CHECK(head.staged == 6);
  CHECK(before(head) == 5);  // a rollout that stopped goes back to what was everywhere

  head = at_turn(head, 3);
  move(head, "", 6);
  CHECK(is_everywhere(head, 6));
  CHECK(head.staged == 0);
  CHECK(head.everywhere == 6);
  CHECK(before(head) == 5);

  head = at_turn(head, 4);
  move(head, "", 5);  // the rollback
  CHECK(head.everywhere == 5);
  CHECK(before(head) == 6);

  head = at_turn(head, 5);
  move(head, "canary", 5);  // given anew: a node that refused it tries again
  CHECK(at_of(head, "canary").since == 5);
  CHECK(is_everywhere(head, 5));
}

TEST_CASE("a head is read as it was written, or not at all") {
  Head head = at_turn({}, 7);
  head.by = "admin@host";
  head.what = "pushed";
  head.at = 1'700'000'000;
  move(head, "a", 3);
  move(head, "b", 4);
  const Result<Head> read = read_head(text_of(head));
  REQUIRE(read);
  CHECK(text_of(*read) == text_of(head));
  CHECK_FALSE(read_head(""));
  CHECK_FALSE(read_head("{}"));
  CHECK_FALSE(read_head(text_of(at_turn({}, 0))));  // no turn
  head.groups[0].group = "a/b";
  CHECK_FALSE(read_head(text_of(head)));
  head.groups.assign(kMostGroups + 1, {"a", 1, 1});
  CHECK_FALSE(read_head(text_of(head)));
  CHECK_FALSE(read_head(std::string(kMostHead + 1, ' ')));
}

TEST_CASE("a head with a number that no fleet reaches is refused, and can be replaced") {
  Head head = at_turn({}, 7);
  move(head, "", 3);
  move(head, "canary", 4);
  const auto error_of = [](const Head& wrong) {
    const Result<Head> read = read_head(text_of(wrong));
    return read ? std::string() : read.error();
  };
  Head wrong = at_turn(head, UINT64_MAX);
  CHECK(error_of(wrong) ==
        "the head's turn 18446744073709551615 is not possible: `controlctl fleet push` repairs the head");
  const Head kept = repaired_head(text_of(wrong));
  CHECK(kept.turn == 0);
  CHECK(kept.revision == 3);
  CHECK(at_of(kept, "canary").revision == 4);
  for (uint64_t Head::*number :
       {&Head::revision, &Head::since, &Head::staged, &Head::everywhere, &Head::everywhere_before}) {
    wrong = head;
    wrong.*number = UINT64_MAX;
    CHECK(error_of(wrong).find("is not possible") != std::string::npos);
    CHECK(repaired_head(text_of(wrong)).revision == 0);
  }
  wrong = head;
  wrong.groups[0].since = UINT64_MAX;
  CHECK(error_of(wrong).find("the head's since") == 0);
  CHECK(repaired_head("{").turn == 0);
  CHECK(text_of(repaired_head(text_of(head))) == text_of(head));
  // Texts of older versions.
  CHECK(error_of(at_turn(head, 0)).find("has no turn: `controlctl fleet push`") != std::string::npos);
}

TEST_CASE("of two turns that are too far from each other the larger one is not possible") {
  const auto at = [](uint64_t turn) { return at_turn({}, turn); };
  CHECK(follows(at(9), 0, "") == Follows::yes);  // a node that has followed none
  CHECK(follows(at(9), 8, "y") == Follows::yes);
  CHECK(follows(at(9), 9, "x") == Follows::yes);
  CHECK(follows(at(9), 9, "") == Follows::yes);
  CHECK(follows(at(9), 9, "y") == Follows::is_another);
  CHECK(follows(at(9), 10, "y") == Follows::is_older);
  CHECK(follows(at(9 + kMostAhead), 9, "y") == Follows::yes);
  CHECK(follows(at(10 + kMostAhead), 9, "y") == Follows::is_not_possible);
  CHECK(follows(at(9), 9 + kMostAhead, "y") == Follows::is_older);
  CHECK(follows(at(9), 10 + kMostAhead, "y") == Follows::is_beyond);
}

TEST_CASE("what is counted on from is what peers can have reached") {
  CHECK(newest_possible({}) == 0);
  CHECK(newest_possible({0, 5, 3}) == 5);
  CHECK(newest_possible({5, UINT64_MAX, 3, kMostNumber}) == 5);
  CHECK(newest_possible({5, 5 + kMostAhead}) == 5 + kMostAhead);
  CHECK(newest_possible({5, 6 + kMostAhead, 7 + kMostAhead}) == 5);
  CHECK(newest_possible({6 + kMostAhead}) == 6 + kMostAhead);
  CHECK(newest_possible({UINT64_MAX, 0}) == 0);
  CHECK(is_possible(5, UINT64_MAX));
  CHECK_FALSE(is_possible(UINT64_MAX, UINT64_MAX));
  CHECK_FALSE(is_possible(UINT64_MAX, 5));
}

TEST_CASE("names of keys") {
  const Names names("edge");
  CHECK(names.head() == "/weir/edge/live/head");
  CHECK(names.revision(12) == "/weir/edge/revisions/000000000012");
  CHECK(names.blob("ab") == "/weir/edge/blobs/ab");
  CHECK(names.piece("ab") == "/weir/edge/pieces/ab");
  const auto place = names.entry_of(names.entry("jail", "src 192.0.2.0/24 dst 198.51.100.1"));
  REQUIRE(place);
  CHECK(place->list == "jail");
  CHECK(place->text == "src 192.0.2.0/24 dst 198.51.100.1");
  for (const std::string key : {"/weir/edge/live/head", "/weir/edge/live/entries/jail", "/weir/edge/live/entries/jail/",
                                "/weir/edge/live/entries//192.0.2.1", "/weir/other/live/entries/jail/192.0.2.1"}) {
    CHECK_FALSE(names.entry_of(key));
  }
  CHECK(is_name("rack-7.a_b"));
  CHECK(is_name(std::string(63, 'a')));
  for (const std::string& wrong : {std::string(), std::string(64, 'a'), std::string("a/b"), std::string("a b")})
    CHECK_FALSE(is_name(wrong));
}

TEST_CASE("reports, entries and messages are read as they were written") {
  Report report;
  report.node = "n1";
  report.state = "enforcing";
  report.expected_share = 0.25;
  const Result<Report> read = read_report(text_of(report));
  REQUIRE(read);
  CHECK(text_of(*read) == text_of(report));
  CHECK_FALSE(read->expected_high);

  Added added = {"admin", "", std::string(kMostComment + 50, 'c'), 60, 5};
  const Result<Added> entry = read_added(text_of(added));
  REQUIRE(entry);
  CHECK(entry->ttl_s == 60);
  CHECK(entry->comment.size() == kMostComment);
  CHECK_FALSE(read_added("7"));

  News news;
  news.kind = "entries";
  news.entries = {{"jail", "192.0.2.1", false, 7, "why"}, {"jail", "192.0.2.2", true, 0, ""}};
  const Result<News> heard = read_news(text_of(news));
  REQUIRE(heard);
  CHECK(text_of(*heard) == text_of(news));
  CHECK_FALSE(read_news(std::string(kMostMessage + 1, ' ')));
  Order order;
  order.kind = "blob";
  order.text = "101";
  REQUIRE(read_order(text_of(order)));
  CHECK(read_order(text_of(order))->text == "101");
}

}  // namespace weir::control::fleet
