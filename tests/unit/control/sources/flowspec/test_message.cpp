// Messages of BGP and their bytes; errors get the treatment of RFC 7606.
#include "control/sources/flowspec/message.h"
#include "tests/catch.h"
#include "tests/unit/control/sources/flowspec/made.h"

namespace weir::control::flowspec {
namespace {

const RuleKey kRule = key_of(Family::v4, "01 18 c0 00 02 03 81 06 04 81 19");
const RuleKey kRule6 = key_of(Family::v6, "01 40 00 20 01 0d b8 00 00 00 00");

BytesView body_of(const Bytes& message) {
  const Framed framed = frame(message);
  REQUIRE(framed.message);
  REQUIRE(framed.bytes == message.size());
  return framed.message->body;
}

Bytes attribute(uint8_t flags, uint8_t type, const Bytes& value) {
  Bytes bytes = {flags, type, static_cast<uint8_t>(value.size())};
  put_bytes(bytes, value);
  return bytes;
}
const Bytes kOriginIgp = attribute(0x40, 1, {0}), kNoPath = attribute(0x40, 2, {});

Bytes reach(const RuleKey& key) {
  Bytes value = {0, static_cast<uint8_t>(key.family), kFlowSpecSafi, 0, 0};
  put_rule(value, key);
  return attribute(0x80, 14, value);
}

ParsedUpdate update_of(std::initializer_list<Bytes> attributes, bool has_as4 = true) {
  Bytes all;
  for (const Bytes& each : attributes) put_bytes(all, each);
  Bytes body;
  put_number(body, 2, 0);
  put_number(body, 2, all.size());
  put_bytes(body, all);
  return parse_update(body, has_as4);
}

Bytes communities(const char* hex) {
  return attribute(0xc0, 16, bytes_of(hex));
}

}  // namespace

TEST_CASE("a message is framed when all of it is there") {
  const Bytes keepalive = encode_message(MessageType::keepalive, {});
  for (size_t n = 0; n < keepalive.size(); n++) {
    const Framed framed = frame(BytesView(keepalive).first(n));
    CHECK((!framed.message && !framed.fault));
  }
  CHECK(frame(keepalive).message->type == MessageType::keepalive);

  const auto fault = [&](size_t at, uint8_t byte) {
    Bytes wrong = keepalive;
    wrong[at] = byte;
    const Framed framed = frame(wrong);
    return framed.fault ? framed.fault->code * 100 + framed.fault->subcode : 0;
  };
  CHECK(fault(3, 0) == 101);    // the marker
  CHECK(fault(17, 18) == 102);  // shorter than a header
  CHECK(fault(17, 20) == 102);  // a KEEPALIVE has no body
  CHECK(fault(16, 0x20) == 102);
  CHECK(fault(18, 9) == 103);
  CHECK(fault(18, 1) == 102);  // too short for an OPEN
}

TEST_CASE("an OPEN comes back from its bytes") {
  const Open open = {4'200'000'000, 90, 0x0a000001, true, true, true};
  const Bytes message = encode_open(open);
  const BytesView body = body_of(message);
  const ParsedOpen parsed = parse_open(body);
  REQUIRE(!parsed.fault);
  CHECK(parsed.open.as == open.as);
  CHECK((body[1] == 0x5b && body[2] == 0xa0));  // AS_TRANS
  CHECK((parsed.open.hold_s == 90 && parsed.open.id == open.id));
  CHECK((parsed.open.has_flowspec_v4 && parsed.open.has_flowspec_v6 && parsed.open.has_as4));
  for (size_t n = 0; n < body.size(); n++) {
    INFO(n);
    CHECK(parse_open(body.first(n)).fault);
  }

  const auto subcode = [&](size_t at, uint8_t byte) {
    Bytes wrong(body.begin(), body.end());
    wrong[at] = byte;
    const ParsedOpen again = parse_open(wrong);
    return again.fault ? again.fault->code * 100 + again.fault->subcode : 0;
  };
  CHECK(subcode(0, 3) == 201);
  CHECK(subcode(4, 2) == 206);                                                // a hold time of 2 s
  CHECK(subcode(10, 1) == 204);                                               // no capabilities
  CHECK(parse_open(bytes_of("04 00 01 00 5a 0a 00 00 01 00")).open.as == 1);  // an old one has none
}

TEST_CASE("rules are announced as dropped, and read so") {
  for (const bool is_internal : {true, false}) {
    for (const bool has_as4 : {true, false}) {
      const std::vector<Bytes> messages =
          encode_announcements(Family::v4, {kRule}, {is_internal, is_internal ? 65000u : 4'200'000'000u, has_as4});
      REQUIRE(messages.size() == 1);
      const ParsedUpdate parsed = parse_update(body_of(messages[0]), has_as4);
      REQUIRE(!parsed.fault);
      CHECK(parsed.update.malformed.empty());
      CHECK(parsed.update.announced == std::vector<RuleKey>{kRule});
      CHECK(parsed.update.action.is_drop);
      CHECK(parsed.update.as_path.size() == (is_internal ? 0 : 1));
      if (!is_internal) CHECK(parsed.update.as_path[0] == (has_as4 ? 4'200'000'000u : kAsTrans));
    }
  }
  const ParsedUpdate gone = parse_update(body_of(encode_withdrawals(Family::v6, {kRule6})[0]), true);
  CHECK((gone.update.withdrawn == std::vector<RuleKey>{kRule6} && gone.update.announced.empty()));
  const ParsedUpdate end = parse_update(body_of(encode_end_of_rib(Family::v6)), true);
  CHECK((end.update.ends == std::vector<Family>{Family::v6} && end.update.withdrawn.empty()));
}

TEST_CASE("as many rules as you like go into messages that are no longer than they may be") {
  std::vector<RuleKey> rules;
  for (unsigned i = 0; i < 3000; i++) {
    Bytes bytes = {1, 32};
    put_number(bytes, 4, i);
    rules.push_back({Family::v4, std::string(bytes.begin(), bytes.end())});
  }
  for (const bool announces : {true, false}) {
    const std::vector<Bytes> messages = announces ? encode_announcements(Family::v4, rules, {false, 65000, true})
                                                  : encode_withdrawals(Family::v4, rules);
    std::vector<RuleKey> found;
    for (const Bytes& message : messages) {
      CHECK(message.size() <= kMostMessageBytes);
      const ParsedUpdate parsed = parse_update(body_of(message), true);
      const auto& keys = announces ? parsed.update.announced : parsed.update.withdrawn;
      found.insert(found.end(), keys.begin(), keys.end());
    }
    CHECK(found == rules);
  }
}

TEST_CASE("rules drop with a rate of 0 alone") {
  const auto action = [](const char* hex) {
    return update_of({kOriginIgp, kNoPath, reach(kRule), communities(hex)}).update.action;
  };
  CHECK(action("80 06 fd e8 00 00 00 00").is_drop);
  CHECK(action("80 0c fd e8 00 00 00 00").is_drop);
  CHECK(action("80 06 00 00 bf 80 00 00").is_drop);  // negative ones count as 0
  CHECK(action("80 07 00 00 00 00 00 03 80 06 00 00 00 00 00 00").is_drop);
  CHECK(action("80 06 fd e8 44 7a 00 00").otherwise == "traffic-rate 1000 bytes/s");
  CHECK(action("80 0c fd e8 44 7a 00 00").otherwise == "traffic-rate 1000 packets/s");
  CHECK_FALSE(action("80 06 fd e8 7f c0 00 00").is_drop);  // not a number
  CHECK(action("80 08 fd e8 00 00 00 01").otherwise == "redirect");
  CHECK(action("80 09 00 00 00 00 00 0a").otherwise == "traffic-marking");
  CHECK(action("00 02 fd e8 00 00 00 01").otherwise == "no action");  // a route target
  CHECK(update_of({kOriginIgp, kNoPath, reach(kRule)}).update.action.otherwise == "no action");
}

TEST_CASE("attributes that are wrong take their rules back, and leave the session") {
  const auto malformed = [](std::initializer_list<Bytes> attributes, bool has_as4 = true) {
    const ParsedUpdate parsed = update_of(attributes, has_as4);
    CHECK(!parsed.fault);
    CHECK(parsed.update.announced == std::vector<RuleKey>{kRule});
    return parsed.update.malformed;
  };
  CHECK(malformed({kOriginIgp, kNoPath, reach(kRule)}) == "");
  CHECK(malformed({kNoPath, reach(kRule)}) == "it has no ORIGIN");
  CHECK(malformed({kOriginIgp, reach(kRule)}) == "it has no AS_PATH");
  CHECK(malformed({attribute(0x40, 1, {3}), kNoPath, reach(kRule)}) == "ORIGIN");
  CHECK(malformed({attribute(0xc0, 1, {0}), kNoPath, reach(kRule)}) == "flags of an attribute");
  CHECK(malformed({kOriginIgp, attribute(0x40, 2, {2, 2, 0, 0, 0, 1}), reach(kRule)}) == "AS_PATH");
  CHECK(malformed({kOriginIgp, attribute(0x40, 2, {2, 1, 0, 1}), reach(kRule)}) == "AS_PATH");
  CHECK(malformed({kOriginIgp, attribute(0x40, 2, {2, 1, 0, 1}), reach(kRule)}, false) == "");
  CHECK(malformed({kOriginIgp, kNoPath, attribute(0x40, 5, {0}), reach(kRule)}) == "LOCAL_PREF");
  CHECK(malformed({kOriginIgp, kNoPath, communities("80 06 00"), reach(kRule)}) == "EXTENDED_COMMUNITIES");
  CHECK(malformed({reach(kRule), kOriginIgp, kNoPath, {0x40, 4, 200, 1}}) ==
        "an attribute is longer than what is left");
  CHECK(malformed({kOriginIgp, attribute(0x40, 1, {9}), kNoPath, reach(kRule)}) == "");  // the first one counts
}

TEST_CASE("an UPDATE whose rules cannot be found ends the session") {
  const auto fault = [](const ParsedUpdate& parsed) {
    return parsed.fault ? parsed.fault->code * 100 + parsed.fault->subcode : 0;
  };
  CHECK(fault(update_of({kOriginIgp, kNoPath, reach(kRule), reach(kRule)})) == 301);
  CHECK(fault(update_of({kOriginIgp, {0x40, 4, 200, 1}})) == 301);
  CHECK(fault(update_of({attribute(0x80, 14, {0, 1, kFlowSpecSafi, 0, 0, 9, 1, 2})})) == 309);  // a rule of 9 bytes
  CHECK(fault(update_of({attribute(0x80, 14, {0, 1, kFlowSpecSafi})})) == 309);
  CHECK(fault(update_of({attribute(0x80, 15, {0, 1})})) == 309);
  CHECK(fault(parse_update(bytes_of("00 05 00 00"), true)) == 301);
  CHECK(fault(parse_update(bytes_of("00 00 00 09 40"), true)) == 301);
  const std::vector<Bytes> whole = encode_announcements(Family::v4, {kRule}, {true, 1, true});
  const BytesView body = body_of(whole[0]);
  for (size_t n = 0; n < body.size(); n++) CHECK(parse_update(body.first(n), true).fault);
  // Families that nobody asked for.
  CHECK(update_of({attribute(0x80, 14, {0, 1, 1, 4, 1, 2, 3, 4, 0, 24, 10, 0, 0}), kOriginIgp, kNoPath})
            .update.announced.empty());
}

TEST_CASE("a NOTIFICATION in words") {
  const auto said = [](const char* hex) { return parse_notification(bytes_of(hex)).what; };
  CHECK(said("06 02 04 62 79 65 21") == "cease (6/2): bye!");
  CHECK(said("06 02 09 62") == "cease (6/2)");
  CHECK(said("04 00") == "hold timer expired (4/0)");
  CHECK(said("63 01") == "error (99/1)");
  CHECK(said("") == "error (0/0)");
}

}  // namespace weir::control::flowspec
