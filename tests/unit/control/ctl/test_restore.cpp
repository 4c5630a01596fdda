// From what `ipset save` and `nft list ruleset` print to one change a list: nothing is lost without a word.
#include <algorithm>

#include "control/ctl/restore_plan.h"
#include "control/policy/feeds/format.h"
#include "tests/catch.h"

namespace weir::control::ctl {
namespace {

constexpr uint64_t kWritten = 1'800'000'000;

feeds::NamedSets sets_of(const char* format, const std::string& text) {
  feeds::NamedSets sets;
  feeds::Options options;
  options.written = kWritten;
  options.sets = &sets;
  ListDraft list;
  read_text(*feeds::find_format(format), text, options, list);
  CHECK(!list.fault);
  return sets;
}

RestorePlan plan_of(const char* format, const std::string& text, const RestoreOptions& options = {},
                    uint64_t now = kWritten) {
  const feeds::NamedSets sets = sets_of(format, text);
  Result<RestorePlan> plan = plan_restore(sets.all(), options, now);
  REQUIRE(plan);
  return std::move(*plan);
}

// "192.0.2.1 60 why; 192.0.2.2": entry, seconds, comment
std::string text_of(const RestoredList& list) {
  std::string all;
  for (size_t i = 0; i < list.entries.size(); i++) {
    all += (i == 0 ? "" : "; ") + list.entries[i];
    if (!list.ttls.empty() && list.ttls[i] != 0) all += " " + std::to_string(list.ttls[i]);
    if (!list.comments.empty() && !list.comments[i].empty()) all += " " + list.comments[i];
  }
  return all;
}

const RestoredList& list_of(const RestorePlan& plan, const char* name) {
  const auto found =
      std::find_if(plan.lists.begin(), plan.lists.end(), [&](const RestoredList& list) { return list.name == name; });
  REQUIRE(found != plan.lists.end());
  return *found;
}

const RestoredSet& set_of(const RestorePlan& plan, const char* name) {
  const auto found =
      std::find_if(plan.sets.begin(), plan.sets.end(), [&](const RestoredSet& set) { return set.name == name; });
  REQUIRE(found != plan.sets.end());
  return *found;
}

constexpr const char* kIpset = R"(create bans hash:ip family inet hashsize 1024 maxelem 65536 timeout 600 comment
add bans 192.0.2.1 timeout 599 comment "ticket 12: nomatch, timeout 5"
add bans 192.0.2.3 timeout 29 packets 0 bytes 0
add bans 192.0.2.2 timeout 0
create nets hash:net family inet counters comment
add nets 198.51.100.7 nomatch packets 0 bytes 0
add nets 198.51.100.0/24 packets 0 bytes 0 comment "a net"
create masked hash:ip family inet netmask 24
add masked 203.0.113.0
create v6 hash:ip family inet6
add v6 2001:db8::1
create ports bitmap:port range 0-1024
add ports 80
create ipports hash:ip,port family inet
add ipports 192.0.2.9,tcp:443
create all list:set size 8
add all bans
)";

TEST_CASE("sets of ipset become changes, each with its times and comments") {
  const RestorePlan plan = plan_of("ipset", kIpset);
  CHECK(plan.sets.size() == 7);
  CHECK(text_of(list_of(plan, "bans")) == "192.0.2.1 599 ticket 12: nomatch, timeout 5; 192.0.2.2; 192.0.2.3 29");
  CHECK(text_of(list_of(plan, "masked")) == "203.0.113.0/24");
  CHECK(text_of(list_of(plan, "v6")) == "2001:db8::1");
  CHECK(plan.lists.size() == 3);
  CHECK(set_of(plan, "ports").refused.find("ports") != std::string::npos);
  CHECK(set_of(plan, "all").refused.find("other sets") != std::string::npos);
  const RestoredSet& parts = set_of(plan, "ipports");
  REQUIRE(parts.left_out.size() == 1);
  CHECK((parts.left_out[0].n == 1 && parts.left_out[0].first == std::vector<std::string>{"192.0.2.9,tcp:443"}));
}

TEST_CASE("exceptions of a set are not left out without a word") {
  const RestorePlan plan = plan_of("ipset", kIpset);
  const RestoredSet& nets = set_of(plan, "nets");
  CHECK((nets.entries == 0 && nets.refused.find("1 exception ") != std::string::npos));
  CHECK(nets.refused.find("--list PASS_LIST 198.51.100.7") != std::string::npos);
  const RestorePlan forced = plan_of("ipset", kIpset, {"", {"nets"}, true});
  CHECK(text_of(list_of(forced, "nets")) == "198.51.100.0/24 a net");
  CHECK(set_of(forced, "nets").exceptions == std::vector<std::string>{"198.51.100.7"});
}

constexpr const char* kNft = R"(table inet filter {
	set hole {
		type ipv4_addr
		flags interval,timeout
		timeout 1h
		comment "the black hole"
		elements = { 192.0.2.10 timeout 10m expires 9m59s972ms comment "scanner, {x}", 198.51.100.0/25 expires 59m59s972ms,
			     203.0.113.5-203.0.113.9 }
	}
	set svc {
		type inet_service
		elements = { 22, 80 }
	}
	set pair {
		type ipv4_addr . inet_service
		elements = { 192.0.2.20 . 443 }
	}
	set ifn {
		type ifname
		elements = { "eth0" }
	}
	map m {
		type ipv4_addr : verdict
		elements = { 192.0.2.30 : drop }
	}
	chain c {
		ip saddr { 192.0.2.40, 192.0.2.41 } drop
	}
}
table ip other {
	set hole {
		typeof ip saddr
		elements = { 192.0.2.11 comment "other" }
	}
}
define names = { 192.0.2.50 }
add element inet filter later { 192.0.2.60 timeout 5s }
)";

TEST_CASE("sets of nftables become changes, each with its times and comments") {
  const RestorePlan plan = plan_of("nft", kNft);
  CHECK(text_of(list_of(plan, "hole")) ==
        "192.0.2.10 599 scanner, {x}; 192.0.2.11 other; 198.51.100.0/25 3599; 203.0.113.5-203.0.113.9 3600");
  CHECK(text_of(list_of(plan, "names")) == "192.0.2.50");
  CHECK(text_of(list_of(plan, "later")) == "192.0.2.60 5");
  CHECK(plan.lists.size() == 3);
  for (const char* name : {"svc", "ifn"}) CHECK(!set_of(plan, name).refused.empty());
  CHECK(set_of(plan, "pair").left_out.at(0).first == std::vector<std::string>{"192.0.2.20:443"});
  CHECK(set_of(plan, "m").left_out.at(0).why == "an element of a map");
}

TEST_CASE("one list takes several sets in one change, the longest time of each entry") {
  const std::string text =
      "create a hash:ip timeout 60\ncreate b hash:ip\nadd a 192.0.2.1\nadd b 192.0.2.1 comment \"stays\"\nadd a "
      "192.0.2.2 "
      "timeout 5\nadd a 192.0.2.2 timeout 50\n";
  const RestorePlan plan = plan_of("ipset", text, {"bans", {}, false}, kWritten + 10);
  CHECK(plan.lists.size() == 1);
  CHECK(text_of(list_of(plan, "bans")) == "192.0.2.1 stays; 192.0.2.2 40");
  CHECK((set_of(plan, "a").ended == 1 && set_of(plan, "a").entries == 2));
  CHECK(plan_of("ipset", text, {"", {"b"}, false}).sets.size() == 1);
  const feeds::NamedSets sets = sets_of("ipset", text);
  const Result<RestorePlan> other = plan_restore(sets.all(), {"", {"c"}, false}, kWritten);
  REQUIRE(!other);
  CHECK(other.error() == "there is no set c\nhint: there are: a, b");
}

TEST_CASE("what a list cannot be called or take is refused as a whole") {
  CHECK(!plan_of("ipset", "add a/b 192.0.2.1\n").sets.at(0).refused.empty());
  const RestorePlan hostile =
      plan_of("ipset", "create \x1b[31m hash:\x1bip\nadd \x1b[31m 192.0.2.1\nadd \x1b[31m \x1b\n");
  // As they are written: whoever prints them makes them printable.
  CHECK((hostile.sets.at(0).name == "\x1b[31m" && hostile.sets.at(0).type == "hash:\x1bip"));
  CHECK(!hostile.sets.at(0).refused.empty());
  CHECK(hostile.sets.at(0).left_out.at(0).first == std::vector<std::string>{"\x1b"});
  CHECK(plan_of("ipset", "add a 192.0.2.1\nrubbish\n").sets.at(1).refused == "these lines belong to no set");
  std::string many;
  for (int i = 0; i <= 100'000; i++) {
    many += "add a 10." + std::to_string(i >> 16) + "." + std::to_string(i >> 8 & 255) + "." + std::to_string(i & 255) +
            "\n";
  }
  const RestorePlan plan = plan_of("ipset", many);
  CHECK((plan.lists.empty() && plan.sets.at(0).entries == 0));
  CHECK(plan.sets.at(0).refused.find("feed") != std::string::npos);
}

}  // namespace
}  // namespace weir::control::ctl
