// A book that is searched on disk says of an address what the same book says in memory.
#include "control/lists/book/claims.h"
#include "control/lists/book/disk.h"
#include "control/lists/book/stored.h"
#include "control/policy/model/range_text.h"
#include "tests/unit/control/lists/book/random_lists.h"

namespace weir::control {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::string> told(const AddressClaims& claims) {
  std::vector<std::string> all;
  for (const auto* part : {&claims.origins, &claims.of_ports}) {
    for (const Origin& origin : *part) {
      all.push_back(origin.list + " " + origin.file + ":" + std::to_string(origin.line) + " " + origin.entry + " " +
                    std::to_string(origin.directions) + (origin.alone ? " alone " : " ") + origin.comment);
    }
    all.emplace_back();
  }
  return all;
}

}  // namespace

TEST_CASE("a stored book knows the same entries of an address as the book in memory") {
  RandomLists lists{std::mt19937_64(7)};
  size_t found = 0;
  for (int round = 0; round < 200; round++) {
    Book book;
    for (uint64_t l = lists.below(4); l > 0; l--) {
      List list = lists.list("list" + std::to_string(l));
      ListDraft draft = draft_of(*list.content);
      if (!draft.v4.empty()) draft.comments.push_back({draft.v4[0].line, shown_text(draft.v4[0]), "ticket 12"});
      list.content = make_entries(std::move(draft));
      book.push_back(std::move(list));
    }
    const std::string bytes = write_book(book);
    const Result<StoredBook> stored = StoredBook::open(bytes_of(bytes));
    if (!stored) FAIL(stored.error());
    for (int asked = 0; asked < 20; asked++) {
      const Ipv4 address = lists.address(), other = lists.address();
      const uint16_t port = lists.below(2) == 0 ? 443 : 0;
      const Book part = stored->holding({{address, other}, {Ipv6{address}}});
      const AddressClaims v4 = claims_of(book, address, port, kNow), v6 = claims_of(book, Ipv6{address}, port, kNow);
      found += v4.origins.size() + v6.origins.size();
      CHECK(told(claims_of(part, address, port, kNow)) == told(v4));
      CHECK(told(claims_of(part, other, port, kNow)) == told(claims_of(book, other, port, kNow)));
      CHECK(told(claims_of(part, Ipv6{address}, port, kNow)) == told(v6));
      for (size_t l = 0; l < book.size(); l++) {
        for (const Entry<Ipv4> entry : part[l].v4()) {
          const auto holds = [&](Ipv4 wanted) { return entry.first <= wanted && wanted <= entry.last; };
          REQUIRE((holds(address) || holds(other)));
        }
      }
    }
  }
  CHECK(found > 1000);
}

TEST_CASE("the first and the last addresses of all are found") {
  List list;
  ListDraft draft;
  for (const Ipv4 address : {Ipv4{0}, Ipv4{1}, ~Ipv4{0}}) draft.v4.push_back({address, address, 1, 0, 1, 0});
  draft.v6.push_back({0, ~Ipv6{0}, 2, 0, 1, 0});
  list.content = make_entries(std::move(draft));
  const std::string bytes = write_book({list});
  const Result<StoredBook> stored = StoredBook::open(bytes_of(bytes));
  if (!stored) FAIL(stored.error());
  CHECK(stored->holding({{0}, {}})[0].entries() == 1);
  CHECK(stored->holding({{~Ipv4{0}}, {0, ~Ipv6{0}}})[0].entries() == 2);
  CHECK(stored->holding({{2}, {}})[0].entries() == 0);
  CHECK(stored->holding(Addresses{})[0].entries() == 0);
  for (size_t size = 0; size < bytes.size(); size++) {
    REQUIRE_FALSE(StoredBook::open(bytes_of(bytes.substr(0, size))));
  }
}

}  // namespace weir::control
