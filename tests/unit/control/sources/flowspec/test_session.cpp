// A session without sockets and without a clock: how it begins, what it says, when it ends.
#include "control/sources/flowspec/session.h"
#include "tests/catch.h"
#include "tests/unit/control/sources/flowspec/made.h"

namespace weir::control::flowspec {
namespace {

using std::chrono::seconds;

struct Events : SessionEvents {
  std::vector<Update> updates;
  std::string ended_why;
  int began = 0;
  void established(const Open&) override { began++; }
  void updated(const Update& update) override { updates.push_back(update); }
  void ended(const std::string& why) override { ended_why = why; }
};

const RuleKey kRule = key_of(Family::v4, "01 18 c0 00 02 03 81 06 04 81 19");
const RuleKey kOther = key_of(Family::v4, "02 20 c0 00 02 01");
const RuleKey kRule6 = key_of(Family::v6, "01 40 00 20 01 0d b8 00 00 00 00");
const SessionSettings kOurs = {65000, 65001, 1, 90}, kTheirs = {65001, 65000, 2, 30};

// The types of the messages, and forgets them.
std::vector<MessageType> said(Session& session) {
  std::vector<MessageType> types;
  for (BytesView left = session.output(); !left.empty();) {
    const Framed framed = frame(left);
    REQUIRE(framed.message);
    types.push_back(framed.message->type);
    left = left.subspan(framed.bytes);
  }
  session.output().clear();
  return types;
}

struct Pair {
  Clock::time_point now;
  Events our_events, their_events;
  Session ours{kOurs, our_events, now}, theirs{kTheirs, their_events, now};

  // Until neither has anything to say. step: bytes at once.
  void talk(size_t step = 4096) {
    while (!ours.output().empty() || !theirs.output().empty()) {
      hand(ours, theirs, step);
      hand(theirs, ours, step);
    }
  }
  void hand(Session& from, Session& to, size_t step) {
    const Bytes bytes = std::exchange(from.output(), {});
    for (size_t at = 0; at < bytes.size(); at += step) {
      (void)to.receive(BytesView(bytes).subspan(at, std::min(step, bytes.size() - at)), now);
    }
  }
};

}  // namespace

TEST_CASE("two sessions find each other, whatever pieces their bytes come in") {
  for (const size_t step : {size_t{1}, size_t{7}, size_t{4096}}) {
    Pair pair;
    pair.talk(step);
    CHECK((pair.ours.is_established() && pair.theirs.is_established()));
    CHECK((pair.our_events.began == 1 && pair.their_events.began == 1));
    CHECK(pair.ours.carries(Family::v6));

    CHECK(pair.ours.announce({kRule, kRule6}) == 2);
    pair.talk(step);
    REQUIRE(pair.their_events.updates.size() == 4);  // and End-of-RIB of each family
    CHECK(pair.their_events.updates[0].announced == std::vector<RuleKey>{kRule});
    CHECK(pair.their_events.updates[1].ends == std::vector<Family>{Family::v4});
    CHECK(pair.their_events.updates[2].action.is_drop);
    pair.their_events.updates.clear();
    // Differences alone.
    CHECK(pair.ours.announce({kRule6, kOther}) == 2);
    pair.talk(step);
    REQUIRE(pair.their_events.updates.size() == 2);
    CHECK(pair.their_events.updates[0].withdrawn == std::vector<RuleKey>{kRule});
    CHECK(pair.their_events.updates[1].announced == std::vector<RuleKey>{kOther});
    CHECK(pair.ours.announce({kRule6, kOther}) == 2);
    CHECK(pair.ours.output().empty());

    pair.ours.shut_down("enough");
    pair.talk(step);
    CHECK(pair.their_events.ended_why == "the peer says: cease (6/2)");
    CHECK(pair.theirs.is_over());
  }
}

TEST_CASE("the shorter hold time counts for both") {
  Pair pair;
  pair.talk();
  pair.now += seconds(9);
  CHECK(pair.ours.tick(pair.now));
  CHECK(said(pair.ours).empty());
  CHECK(pair.ours.next_tick() == pair.now + seconds(1));
  pair.now += seconds(1);
  CHECK(pair.ours.tick(pair.now));
  CHECK(said(pair.ours) == std::vector{MessageType::keepalive});
  pair.now += seconds(20);
  CHECK_FALSE(pair.ours.tick(pair.now));
  CHECK(said(pair.ours) == std::vector{MessageType::notification});
  CHECK(pair.our_events.ended_why == "nothing was heard of the peer for 30 s");
  CHECK_FALSE(pair.ours.receive(Bytes{0}, pair.now));
}

TEST_CASE("a peer that is another one, or carries no FlowSpec, is refused") {
  const auto refused = [](Open open) {
    Events events;
    Session session(kOurs, events, {});
    (void)said(session);
    CHECK_FALSE(session.receive(encode_open(open), {}));
    CHECK(said(session) == std::vector{MessageType::notification});
    return events.ended_why;
  };
  CHECK(refused({65002, 90, 2, true, true, true}) == "the peer is AS 65002, and should be AS 65001");
  CHECK(refused({65001, 90, 2, false, false, true}).starts_with("the peer carries no FlowSpec"));
  CHECK(refused({65001, 1, 2, true, true, true}) == "OPEN: a hold time of 1 s");
}

TEST_CASE("what comes at the wrong time, or is no BGP, ends the session") {
  for (const Bytes& bytes : {encode_message(MessageType::keepalive, {}), encode_withdrawals(Family::v4, {kRule})[0],
                             bytes_of("47 45 54 20 2f 20 48 54 54 50")}) {
    Events events;
    Session session(kOurs, events, {});
    CHECK_FALSE(session.receive(bytes, {}));
    CHECK_FALSE(events.ended_why.empty());
    CHECK(session.is_over());
  }
}

TEST_CASE("rules of a malformed UPDATE count as withdrawn, and what comes back to us as nothing") {
  Pair pair;
  pair.talk();
  // Without attributes.
  Bytes value = {0, 1, kFlowSpecSafi, 0, 0};
  put_rule(value, kRule);
  Bytes body = {0, 0, 0, static_cast<uint8_t>(value.size() + 3), 0x80, 14, static_cast<uint8_t>(value.size())};
  put_bytes(body, value);
  CHECK(pair.ours.receive(encode_message(MessageType::update, body), pair.now));
  REQUIRE(pair.our_events.updates.size() == 1);
  CHECK(pair.our_events.updates[0].announced.empty());
  CHECK(pair.our_events.updates[0].withdrawn == std::vector<RuleKey>{kRule});
  CHECK(pair.our_events.updates[0].malformed == "it has no ORIGIN");

  CHECK(pair.ours.receive(encode_announcements(Family::v4, {kRule}, {false, kOurs.as, true})[0], pair.now));
  CHECK(pair.our_events.updates.back().announced.empty());
}

}  // namespace weir::control::flowspec
