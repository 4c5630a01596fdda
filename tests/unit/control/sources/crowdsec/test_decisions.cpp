#include "control/sources/crowdsec/decisions.h"
#include "tests/catch.h"

namespace weir::control::crowdsec {

TEST_CASE("an answer of CrowdSec's local API is read as it is written") {
  // As 1.4.6 wrote it.
  const Result<Decisions> decisions = read_decisions(
      R"({"deleted":[{"duration":"-10.898208ms","id":1,"origin":"cscli","scenario":"manual 'ban' from 't'","scope":"Ip",)"
      R"("type":"ban","value":"192.0.2.1"}],"new":[{"duration":"59m58.991870262s","id":2,"origin":"cscli","scenario":)"
      R"("manual 'captcha' from 't'","scope":"Range","type":"captcha","value":"198.51.100.0/24","uuid":"later"}]})");
  REQUIRE(decisions);
  REQUIRE(decisions->added.size() == 1);
  REQUIRE(decisions->deleted.size() == 1);
  const Decision& added = decisions->added[0];
  CHECK(added.id == 2);
  CHECK(added.scope == "Range");
  CHECK(added.value == "198.51.100.0/24");
  CHECK(added.type == "captcha");
  CHECK(added.duration == "59m58.991870262s");
  CHECK(added.origin == "cscli");
  CHECK(added.scenario == "manual 'captcha' from 't'");
  CHECK(decisions->deleted[0].value == "192.0.2.1");
}

TEST_CASE("null is no decision, and an answer that tells of none at all is none") {
  for (const char* text : {R"({"new":null,"deleted":null})", R"({"new":[],"deleted":[]})", R"({"new":null})"}) {
    INFO(text);
    const Result<Decisions> decisions = read_decisions(text);
    REQUIRE(decisions);
    CHECK(decisions->added.empty());
    CHECK(decisions->deleted.empty());
  }
  for (const char* text : {"", "null", "[]", "{}", "<html>", R"({"message":"access forbidden"})", R"({"new":{}})",
                           R"({"new":[1]})", R"({"new":[{"id":1}]})", R"({"new":null,"deleted":7})",
                           R"({"new":[{"id":-1,"scope":"Ip","value":"192.0.2.1","type":"ban","duration":"1h"}]})"}) {
    INFO(text);
    CHECK_FALSE(read_decisions(text));
  }
}

TEST_CASE("durations are Go's") {
  struct Row {
    const char* text;
    int64_t ms;
  };
  for (const Row& row :
       {Row{"3h59m58.123s", 14398123}, Row{"1h", 3'600'000}, Row{"0s", 0}, Row{"0", 0}, Row{"-10.898208ms", -10},
        Row{"1.5h", 5'400'000}, Row{"250us", 0}, Row{"1500\xc2\xb5s", 1}, Row{"1500\xce\xbcs", 1}, Row{"2000000ns", 2},
        Row{"-1h2m3s", -3'723'000}, Row{"167h59m59.9s", 604'799'900}, Row{"+5s", 5000}, Row{".5s", 500},
        Row{"9000000h", kMostMs}, Row{"-9000000h", -kMostMs}}) {
    INFO(row.text);
    CHECK(duration_ms(row.text) == row.ms);
  }
  for (const char* text : {"", "-", "h", "1", "1x", "1h ", " 1h", "1..5s", "1h-2m", "1e3s", "infs", "1d", "."}) {
    INFO(text);
    CHECK_FALSE(duration_ms(text));
  }
  CHECK(duration_ms(std::string(400, '9') + "s") == kMostMs);
}

TEST_CASE("values are addresses and prefixes, as weir writes them") {
  struct Row {
    const char *value, *entry;
  };
  for (const Row& row :
       {Row{"192.0.2.1", "192.0.2.1"}, Row{"192.0.2.1/32", "192.0.2.1"}, Row{"10.1.2.3/8", "10.0.0.0/8"},
        Row{"2001:DB8:0::1", "2001:db8::1"}, Row{"2001:db8::1/32", "2001:db8::/32"},
        Row{"::ffff:192.0.2.1", "192.0.2.1"}, Row{"::ffff:192.0.2.1/120", "192.0.2.0/24"}}) {
    INFO(row.value);
    CHECK(entry_of(row.value) == row.entry);
  }
  for (const char* value :
       {"", "FR", "192.0.2.1:80", "192.0.2.1-192.0.2.9", "src 192.0.2.1", "192.0.2.1 ", "192.0.2.1/", "192.0.2.1/33",
        "192.0.2.1/-1", "192.0.2.1/8/8", "0.0.0.0/0", "::/0", "10.0.0.0/7", "2000::/15", "::ffff:10.0.0.0/103",
        "2001:db8::/129", "::ffff:0:0/96", "fe80::1%eth0"}) {
    INFO(value);
    CHECK_FALSE(entry_of(value));
  }
}

TEST_CASE("a comment says why and who, at bounded length") {
  Decision decision;
  decision.scenario = "crowdsecurity/ssh-bf";
  decision.origin = "crowdsec";
  CHECK(comment_of(decision) == "crowdsec: crowdsecurity/ssh-bf (crowdsec)");
  decision.scenario = "a\nb\x7f";
  decision.origin.clear();
  CHECK(comment_of(decision) == "crowdsec: a\nb\x7f");
  decision.scenario.clear();
  CHECK(comment_of(decision) == "crowdsec: no scenario");
  for (size_t n = 180; n < 200; n++) {
    decision.scenario = std::string(n, 'x') + "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac";
    const std::string comment = comment_of(decision);
    CHECK(comment.size() <= 200);
    const std::string before = comment.substr(0, comment.size() - 3);
    CHECK((before.back() == 'x' || before.ends_with("\xe2\x82\xac")));
  }
}

}  // namespace weir::control::crowdsec
