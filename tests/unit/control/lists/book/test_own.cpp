// `policy.own` is cut out of drop lists: no entry without named fields matches its addresses, and nothing else changes.
#include "control/lists/book/claims.h"
#include "control/lists/book/disk.h"
#include "control/lists/book/stored.h"
#include "control/policy/model/edit.h"
#include "tests/unit/control/compile/make_policy.h"
#include "tests/unit/control/lists/book/random_lists.h"

namespace weir::control {
namespace {

std::shared_ptr<const Own> own_of(ListDraft draft) {
  return std::make_shared<const Own>(Own{make_entries(std::move(draft)), "weir.yaml", "node.yaml"});
}

ListDraft random_own(RandomLists& lists) {
  ListDraft own;
  for (uint64_t i = lists.below(5); i > 0; i--) {
    const Ipv4 first = lists.address(), last = lists.below(2) == 0 ? first : std::max(first, lists.address());
    own.v4.push_back({first, last, static_cast<uint32_t>(i), 0, kBothDirections, static_cast<uint8_t>(i % 2)});
    if (lists.below(3) == 0) own.v6.push_back({first, last, 9, 0, kBothDirections, 0});
  }
  return own;
}

// The definition: every entry is asked.
template <class Addr>
bool matches(const Rows<Addr>& rows, const Rows<Addr>* own, Addr address, uint8_t direction, uint16_t port) {
  const auto holds = [&](const Entry<Addr>& entry) { return entry.first <= address && address <= entry.last; };
  const bool is_own = own != nullptr && std::any_of(own->begin(), own->end(), holds);
  return std::any_of(rows.begin(), rows.end(), [&](const Entry<Addr>& entry) {
    if (is_own && (entry.directions & kNamesSide) == 0) return false;
    return holds(entry) && (entry.sides() & direction) != 0 && (entry.port == 0 || entry.port == port);
  });
}

template <class Addr>
void check_addresses(const Rows<Addr>& written, const Rows<Addr>& own, const Rows<Addr>& content) {
  for (Addr address = 0x0a000000 - 1; address < 0x0a000000 + 66; address++) {
    for (const uint8_t direction : {WEIR_AS_SOURCE, WEIR_AS_DESTINATION}) {
      for (const uint16_t port : {uint16_t{0}, uint16_t{443}}) {
        REQUIRE(matches<Addr>(content, nullptr, address, direction, port) ==
                matches(written, &own, address, direction, port));
      }
    }
  }
}

void check_same(const List& a, const List& b) {
  CHECK(a.content->v4 == b.content->v4);
  CHECK(a.content->v6 == b.content->v6);
  CHECK(a.content->digest == b.content->digest);
  CHECK((a.written == nullptr) == (b.written == nullptr));
  CHECK(a.as_written()->digest == b.as_written()->digest);
  CHECK(a.cut.entries == b.cut.entries);
}

}  // namespace

TEST_CASE("a list matches what is written, but for own addresses") {
  RandomLists lists{std::mt19937_64(7)};
  uint64_t n_cut = 0, n_whole = 0;
  for (int round = 0; round < 400; round++) {
    List list = lists.list("random");
    list.action = WEIR_DROP;
    ListDraft draft = draft_of(*list.content);
    for (auto& entry : draft.v4) {
      if (lists.below(4) == 0) entry.directions = static_cast<uint8_t>(entry.directions | kNamesSide);
    }
    list.own = own_of(random_own(lists));
    const auto written = make_entries(draft);
    list.hold(written);
    CHECK(list.as_written() == written);
    CHECK((list.cut.entries == 0) == (list.content == written));
    (list.cut.entries == 0 ? n_whole : n_cut)++;
    CHECK(is_sound(list.v4()));
    CHECK(is_sound(list.v6()));
    CHECK(list.flows() == written->flows);
    check_addresses(written->v4, list.own->entries->v4, list.v4());
    check_addresses(written->v6, list.own->entries->v6, list.v6());

    // It comes back from disk, whole and in parts.
    const std::string bytes = write_book({list});
    const Result<Book> back = read_book(std::as_bytes(std::span(bytes)));
    REQUIRE(back);
    check_same(back->at(0), list);
    const Result<StoredBook> stored = StoredBook::open(std::as_bytes(std::span(bytes)));
    REQUIRE(stored);
    const Addresses addresses = {{lists.address()}, {}};
    const Book part = stored->holding(addresses);
    check_same(part.at(0), part_holding({list}, addresses).at(0));
    for (const uint8_t direction : {WEIR_AS_SOURCE, WEIR_AS_DESTINATION}) {
      CHECK(matches<Ipv4>(part[0].v4(), nullptr, addresses.v4[0], direction, 443) ==
            matches<Ipv4>(list.v4(), nullptr, addresses.v4[0], direction, 443));
    }

    // Without `own` it is as it was written.
    list.own = nullptr;
    list.hold(list.as_written());
    CHECK(list.content == written);
    CHECK(list.cut.entries == 0);
  }
  CHECK(n_cut > 100);
  CHECK(n_whole > 50);
}

TEST_CASE("what own is cut out of is counted, and explained") {
  const auto make_book = [](std::vector<std::string> own) {
    Policy policy = make_policy({
        make_list("nets", WEIR_DROP, kSource, {"192.0.2.0/24", "192.0.2.7", "198.51.100.0/24"}),
        make_list("ports", WEIR_DROP, kDestination, {"192.0.2.7:443", "2001:db8::/32"}),
        make_list("partners", WEIR_PASS, kEither, {"192.0.2.0/24"}),
    });
    edit(policy.lists[0])->comments = {{10, "192.0.2.0/24", "ticket 12"}};
    const List of_own = make_list("own", WEIR_PASS, kEither, own);
    for (List& list : policy.lists) {
      if (list.action == WEIR_DROP) list.own = std::make_shared<const Own>(Own{of_own.content, "weir.yaml", ""});
      list.hold(list.content);
    }
    return policy.lists;
  };
  const Book book = make_book({"192.0.2.6-192.0.2.7", "2001:db8::7"});
  CHECK(book[0].cut.entries == 2);
  CHECK(book[0].cut.first == "192.0.2.0/24");
  CHECK(book[0].cut.line == 10);
  CHECK(book[0].v4().size() == 3);
  CHECK(book[1].cut.entries == 2);
  CHECK(book[1].v4().empty());
  CHECK(book[1].v6().size() == 2);
  CHECK(book[2].cut.entries == 0);
  CHECK(comment_of(book[0], 10, "192.0.2.8-192.0.2.255") == "ticket 12");

  const Ipv4 own = *parse_ipv4("192.0.2.7"), other = *parse_ipv4("192.0.2.8");
  CHECK(claims_of(book, own, 0).origins.size() == 1);  // the pass list
  CHECK(claims_of(book, other, 0).origins.size() == 2);
  const OwnClaims claims = own_claims_of(book, own, kBothDirections);
  REQUIRE(claims.own.size() == 1);
  CHECK(claims.own[0].file == "weir.yaml");
  CHECK(claims.own[0].entry == "192.0.2.6/31");
  REQUIRE(claims.cut.size() == 3);
  CHECK(claims.cut[0].entry == "192.0.2.0/24");
  CHECK(claims.cut[1].entry == "192.0.2.7");
  CHECK(claims.cut[2].entry == "192.0.2.7:443");
  CHECK(own_claims_of(book, own, WEIR_AS_DESTINATION).cut.size() == 1);
  CHECK(own_claims_of(book, other, kBothDirections).own.empty());
  CHECK(own_claims_of(book, other, kBothDirections).cut.empty());

  weir_packet packet = {};
  packet.family = 4;
  packet.address[0][0] = __builtin_bswap32(other);
  packet.address[1][0] = __builtin_bswap32(own);
  const OwnClaims of_packet = own_claims_of(book, packet);
  CHECK(of_packet.own.size() == 1);
  REQUIRE(of_packet.cut.size() == 1);
  CHECK(of_packet.cut[0].list == "ports");
}

}  // namespace weir::control
