// A book on disk: it comes back as it was, and damage is noticed or harmless.
#include <cstring>

#include "control/lists/book/claims.h"
#include "control/lists/book/disk.h"
#include "tests/unit/control/compile/make_policy.h"
#include "tests/unit/control/lists/book/random_lists.h"

namespace weir::control {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Book sample_book() {
  Policy policy = make_policy({
      make_list("partners", WEIR_PASS, kEither, {"192.0.2.128/25"}),
      make_list("nets", WEIR_DROP, kSource, {"192.0.2.0/24", "12.0.0.0/8"}),
      make_list("c2", WEIR_DROP, kDestination, {"203.0.113.7:443", "203.0.113.7", "2001:db8::/32"}),
  });
  List& nets = policy.lists[1];
  nets.feed = {"feeds/nets.txt",
               "plain",
               "named",
               9,
               1,
               2,
               3,
               4,
               {{3, "bad", "no address"}, {4, "worse", "no address", LineSample::skipped}},
               {{"has host bits in 4 prefixes", "look at the feed"}}};
  const Guard guard = {9, 0.25, 3, Reserved::cut, 8, 19, OfSupplies::keep};
  nets.feed_state = {{1, 2, 3, 4, 5},
                     true,
                     {6, 7},
                     {"plain", WEIR_PASS, kSource, 64, true, guard, {10, 11}, {14, 15}},
                     8,
                     false,
                     true,
                     12,
                     true};
  nets.refusal = FeedRefusal{"feeds/other.txt", "is gzip data", "unpack it", 13};
  nets.files = {{nets.feed, nets.feed_state, nets.refusal}, {}};
  nets.files[1].feed.path = "feeds/more.txt";
  nets.mode = WEIR_MONITOR;
  edit(nets)->comments = {{3, "12.0.0.0/8", "ticket 12"}, {3, "192.0.2.0/24", "ticket 13"}};
  edit(nets)->v4[0].source = 1;
  edit(policy.lists[2])->flows.push_back(RandomLists{std::mt19937_64(1)}.flow(33));
  const Own own = {make_list("own", WEIR_PASS, kEither, {"12.0.0.1", "2001:db8::/64"}).content, "weir.yaml",
                   "node.yaml"};
  for (List& list : policy.lists) {
    if (list.action == WEIR_DROP) list.own = std::make_shared<const Own>(own);
    list.hold(list.content);
  }
  return policy.lists;
}

}  // namespace

TEST_CASE("a book comes back from disk as it was") {
  RandomLists lists{std::mt19937_64(1)};
  for (int round = 0; round < 50; round++) {
    Book book = sample_book();
    book.push_back(lists.list("random"));
    const std::string bytes = write_book(book);
    const Result<Book> back = read_book(as_bytes(bytes));
    if (!back) FAIL(back.error());
    REQUIRE(back->size() == book.size());
    for (size_t l = 0; l < book.size(); l++) {
      const List &was = book[l], &is = (*back)[l];
      CHECK(is.name == was.name);
      CHECK((is.action == was.action && is.mode == was.mode && is.match == was.match));
      CHECK((is.policy_path == was.policy_path && is.file == was.file));
      CHECK(is.feed == was.feed);
      CHECK(is.feed_state == was.feed_state);
      CHECK(is.refusal == was.refusal);
      CHECK(is.files == was.files);
      CHECK(is.v4() == was.v4());
      CHECK(is.v6() == was.v6());
      CHECK(is.flows() == was.flows());
      CHECK(is.content->comments == was.content->comments);
      CHECK(is.content->digest == was.content->digest);
    }
    CHECK(write_book(*back) == bytes);
  }
  CHECK(read_book(as_bytes(write_book({})))->empty());
}

TEST_CASE("damaged books are refused or harmless") {
  const std::string good = write_book(sample_book());
  for (size_t size = 0; size < good.size(); size++) {
    REQUIRE_FALSE(read_book(as_bytes(good.substr(0, size))));
  }
  REQUIRE_FALSE(read_book(as_bytes(good + "x")));

  const auto error_with = [&](size_t offset, uint64_t value, size_t bytes) {
    std::string damaged = good;
    memcpy(damaged.data() + offset, &value, bytes);
    const auto book = read_book(as_bytes(damaged));
    return book ? "" : book.error();
  };
  CHECK(error_with(0, 1, 8) == "no book (wrong magic number)");
  CHECK(error_with(8, 99, 4).find("a book of version 99.") == 0);
  CHECK(error_with(8, 8, 4).find("a book of version 8.") == 0);  // whose feeds have other members
  CHECK(error_with(8, 99, 4).find("; this program reads version ") != std::string::npos);
  CHECK(error_with(16, 99, 4).find("this program reads version") != std::string::npos);
  CHECK(error_with(20, 257, 4) == "the book is damaged: too many lists");
  CHECK(error_with(20, 2, 4) == "the book is damaged: it goes on after its last list");
  CHECK(error_with(24, ~uint64_t{0}, 8) ==
        "the book is damaged: list 0");  // the length of the policy's path, before `own`
  const std::string name = "partners";
  const size_t first_list = good.find(name) - sizeof(uint64_t);
  CHECK(error_with(first_list, ~uint64_t{0}, 8) == "the book is damaged: list 0");  // the length of a name
  const size_t action = first_list + 2 * sizeof(uint64_t) + name.size();            // behind the name and no comment
  CHECK(error_with(action, 7, 4) == "the book is damaged: list 0");

  // Rows out of order, ranges that end before they begin.
  std::string damaged = good;
  const Ipv4 nets[] = {0x0c000000, 0xc0000200};
  const size_t first = damaged.find(std::string(reinterpret_cast<const char*>(nets), sizeof nets));
  REQUIRE(first != std::string::npos);
  std::swap_ranges(damaged.begin() + static_cast<ptrdiff_t>(first), damaged.begin() + static_cast<ptrdiff_t>(first) + 4,
                   damaged.begin() + static_cast<ptrdiff_t>(first) + 4);
  const auto swapped = read_book(as_bytes(damaged));
  REQUIRE_FALSE(swapped);
  CHECK(swapped.error() == "the book is damaged: list 1");

  // Whatever else is flipped, what opens can be searched (under a sanitizer this is where it would show).
  std::mt19937_64 random(5);
  unsigned opened = 0;
  for (int round = 0; round < 20000; round++) {
    damaged = good;
    for (uint64_t n = 1 + random() % 3; n > 0; n--) damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto book = read_book(as_bytes(damaged));
    if (!book) continue;
    opened++;
    for (const Origin& origin : claims_of(*book, *parse_ipv4("192.0.2.200"), 0).origins) {
      REQUIRE(origin.list.size() + origin.file.size() <= 2 * good.size());
    }
  }
  CHECK(opened > 1000);
}

}  // namespace weir::control
