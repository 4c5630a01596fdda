// merge: entries -> prefixes with the rules of all lists that hold them.

#include "control/compile/merge/merge.h"

#include <string>
#include <utility>

#include "control/compile/prove/chance.h"
#include "control/policy/model/range_text.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

template <class Addr>
std::vector<std::string> split(Addr first, Addr last) {
  std::vector<std::string> prefixes;
  split_range(first, last, [&](Addr address, unsigned bits) {
    prefixes.push_back(to_string(address) + "/" + std::to_string(bits));
  });
  return prefixes;
}

using Texts = std::vector<std::string>;

Ipv4 v4(const char* text) {
  return parse_ipv4(text).value();
}

Ipv6 v6(const char* text) {
  return parse_ipv6(text).value();
}

// "192.0.2.0/24:443 src=a,b dst=c" for every prefix, shortest first.
template <class Addr>
void describe(const Policy& policy, const RuleBook& book, const PrefixesByLength<Addr>& prefixes, Texts& texts) {
  const auto names = [&](uint32_t id) {
    std::string text;
    for (unsigned l = 0; l < policy.lists.size(); l++) {
      if (has_list(book.sets()[id], l)) text += (text.empty() ? "" : ",") + policy.lists[l].name;
    }
    return text;
  };
  for (size_t bits = 0; bits < prefixes.size(); bits++) {
    for (const RuledPrefix<Addr>& prefix : prefixes[bits]) {
      const weir_rule& rule = book.rules()[prefix.rule];
      texts.push_back(to_string(prefix.address) + "/" + std::to_string(bits) +
                      (prefix.port != 0 ? ":" + std::to_string(prefix.port) : "") + " src=" + names(rule.source_set) +
                      " dst=" + names(rule.destination_set));
    }
  }
}

Texts merged(const Policy& policy) {
  const Merged merged = merge(policy);
  Texts texts;
  describe(policy, merged.book, merged.v4.any_port, texts);
  describe(policy, merged.book, merged.v4.one_port, texts);
  describe(policy, merged.book, merged.v6.any_port, texts);
  describe(policy, merged.book, merged.v6.one_port, texts);
  return texts;
}

}  // namespace

TEST_CASE("ranges become the fewest prefixes") {
  CHECK(split(v4("10.0.0.0"), v4("10.0.0.255")) == Texts{"10.0.0.0/24"});
  CHECK(split(v4("10.0.0.7"), v4("10.0.0.7")) == Texts{"10.0.0.7/32"});
  CHECK(split(v4("0.0.0.0"), v4("255.255.255.255")) == Texts{"0.0.0.0/0"});
  CHECK(split(v4("255.255.255.255"), v4("255.255.255.255")) == Texts{"255.255.255.255/32"});
  CHECK(split(v4("0.0.0.0"), v4("0.0.0.0")) == Texts{"0.0.0.0/32"});
  CHECK(split(v4("203.0.113.10"), v4("203.0.113.17")) ==
        Texts{"203.0.113.10/31", "203.0.113.12/30", "203.0.113.16/31"});
  CHECK(split(v4("10.0.0.255"), v4("10.0.1.0")) == Texts{"10.0.0.255/32", "10.0.1.0/32"});
  CHECK(split(v4("0.0.0.1"), v4("255.255.255.254")).size() == 62);
  CHECK(split(v6("::"), v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")) == Texts{"::/0"});
  CHECK(split(v6("::1"), v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe")).size() == 254);
  CHECK(split(v6("2001:db8::ffff:ffff:ffff:ffff"), v6("2001:db8:0:1::")) ==
        Texts{"2001:db8::ffff:ffff:ffff:ffff/128", "2001:db8:0:1::/128"});
}

TEST_CASE("random ranges are covered exactly, in order, without neighbours that could be one") {
  SplitMix random{7};
  for (int round = 0; round < 2000; round++) {
    const auto shift = static_cast<unsigned>(random.next() % 33);
    auto first = static_cast<Ipv4>(random.next()), last = static_cast<Ipv4>(first + (random.next() >> 32 >> shift));
    if (first > last) std::swap(first, last);
    Ipv4 expected = first;
    unsigned previous_bits = 99;
    Ipv4 previous = 0;
    split_range(first, last, [&](Ipv4 address, unsigned bits) {
      REQUIRE(address == expected);
      REQUIRE((address & ~prefix_mask<Ipv4>(bits)) == 0);
      // Two halves of one block would mean that the shorter prefix was missed.
      REQUIRE_FALSE((bits == previous_bits && (previous ^ address) == (Ipv4{1} << (32 - bits))));
      previous = address;
      previous_bits = bits;
      expected = static_cast<Ipv4>(address + low_bits<Ipv4>(32 - bits) + 1);
    });
    REQUIRE(static_cast<Ipv4>(expected - 1) == last);
  }
}

TEST_CASE("merge rows") {
  struct Row {
    const char* what;
    std::vector<List> lists;
    Texts expected;
  };
  const Row rows[] = {
      {"nothing", {}, {}},
      {"one entry twice in one list",
       {make_list("a", WEIR_DROP, kSource, {"192.0.2.1", "192.0.2.1/32"})},
       {"192.0.2.1/32 src=a dst="}},
      {"the same entry in several lists, on different sides",
       {make_list("a", WEIR_DROP, kSource, {"192.0.2.1"}), make_list("b", WEIR_PASS, kDestination, {"192.0.2.1"}),
        make_list("c", WEIR_DROP, kEither, {"192.0.2.1"})},
       {"192.0.2.1/32 src=a,c dst=b,c"}},
      {"nested prefixes stay apart: a lookup unites them",
       {make_list("a", WEIR_DROP, kSource, {"192.0.2.0/24"}), make_list("b", WEIR_DROP, kSource, {"192.0.2.128/25"})},
       {"192.0.2.0/24 src=a dst=", "192.0.2.128/25 src=b dst="}},
      {"overlapping ranges",
       {make_list("a", WEIR_DROP, kSource, {"10.0.0.0-10.0.0.3"}),
        make_list("b", WEIR_DROP, kSource, {"10.0.0.2-10.0.0.5"})},
       {"10.0.0.0/30 src=a dst=", "10.0.0.2/31 src=b dst=", "10.0.0.4/31 src=b dst="}},
      {"ports are keys of their own",
       {make_list("a", WEIR_DROP, kSource, {"192.0.2.1:80", "192.0.2.1:443", "192.0.2.1"}),
        make_list("b", WEIR_DROP, kDestination, {"192.0.2.1:443"})},
       {"192.0.2.1/32 src=a dst=", "192.0.2.1/32:80 src=a dst=", "192.0.2.1/32:443 src=a dst=b"}},
      {"both families",
       {make_list("a", WEIR_DROP, kSource, {"2001:db8::/32", "[2001:db8::7]:443", "0.0.0.0-255.255.255.255"})},
       {"0.0.0.0/0 src=a dst=", "2001:db8::/32 src=a dst=", "2001:db8::7/128:443 src=a dst="}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(merged(make_policy(row.lists)) == row.expected);
  }
}

TEST_CASE("256 lists are told apart, and sets are interned") {
  std::vector<List> lists;
  for (int l = 0; l < 256; l++) {
    lists.push_back(make_list("l" + std::to_string(l), WEIR_DROP, kSource, {"192.0.2.1", "192.0.2.2"}));
  }
  edit(lists[255])->v4.pop_back();
  const Merged result = merge(make_policy(lists));
  const auto& hosts = result.v4.any_port[32];
  REQUIRE(hosts.size() == 2);
  for (unsigned l = 0; l < 256; l++) {
    CHECK(has_list(result.book.sets()[result.book.rules()[hosts[0].rule].source_set], l));
    CHECK(has_list(result.book.sets()[result.book.rules()[hosts[1].rule].source_set], l) == (l != 255));
  }
  CHECK(result.book.sets().size() == 3);  // the empty one, all, all but the last
  CHECK(result.book.rules().size() == 3);
}

TEST_CASE("uniting rules") {
  RuleBook book;
  weir_set a = {}, b = {};
  add_list(a, 0);
  add_list(b, 200);
  const uint32_t source_a = book.rule(a, {}), destination_b = book.rule({}, b);
  CHECK(book.unite(source_a, 0) == source_a);
  CHECK(book.unite(0, source_a) == source_a);
  CHECK(book.unite(source_a, source_a) == source_a);
  CHECK(book.unite(source_a, destination_b) == book.rule(a, b));
  CHECK(book.unite(destination_b, source_a) == book.rule(a, b));
}

TEST_CASE("entries as text") {
  CHECK(range_text(v4("192.0.2.1"), v4("192.0.2.1"), 0) == "192.0.2.1");
  CHECK(range_text(v4("192.0.2.1"), v4("192.0.2.1"), 443) == "192.0.2.1:443");
  CHECK(range_text(v4("192.0.2.0"), v4("192.0.2.255"), 0) == "192.0.2.0/24");
  CHECK(range_text(v4("192.0.2.1"), v4("192.0.2.2"), 0) == "192.0.2.1-192.0.2.2");
  CHECK(range_text(v4("0.0.0.0"), v4("255.255.255.255"), 0) == "0.0.0.0/0");
  CHECK(range_text(v6("2001:db8::"), v6("2001:db8::"), 443) == "[2001:db8::]:443");
  CHECK(range_text(v6("::"), v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), 0) == "::/0");
  CHECK(range_text(v6("2001:db8::"), v6("2001:db8::1"), 0) == "2001:db8::/127");
  CHECK(range_text(v6("2001:db8::1"), v6("2001:db8::2"), 0) == "2001:db8::1-2001:db8::2");
}

}  // namespace weir::control
