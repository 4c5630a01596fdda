// What lists hold of each other: the walk, and every address asked one by one.
#include <tuple>

#include "control/lists/book/overlap.h"
#include "control/policy/model/flow_condition.h"
#include "tests/rounds.h"
#include "tests/unit/control/lists/book/random_lists.h"

namespace weir::control {
namespace {

constexpr uint8_t kSides[] = {WEIR_AS_SOURCE, WEIR_AS_DESTINATION};

template <class Addr>
std::vector<Entry<Addr>> live(const List& list) {
  std::vector<Entry<Addr>> entries;
  for (const Entry<Addr> entry : rows_of<Addr>(list)) {
    if (kNow < entry.expires) entries.push_back(entry);
  }
  return entries;
}

// Whether an entry of the list without a port (port 0), or with this one, holds the address on this side.
template <class Addr>
bool holds(const List& list, Addr address, uint16_t port, uint8_t side) {
  for (const Entry<Addr>& entry : live<Addr>(list)) {
    if (entry.first <= address && address <= entry.last && entry.port == port && (entry.directions & side) != 0) {
      return true;
    }
  }
  return false;
}

template <class Addr, class Says>
bool every_address(const Entry<Addr>& entry, Says says) {
  for (Addr address = entry.first;; address++) {
    if (!says(address)) return false;
    if (address == entry.last) return true;
  }
}

template <class Addr>
void add_entries(const Book& book, size_t l, Overlap::Row& row) {
  for (const Entry<Addr>& entry : live<Addr>(book[l])) {
    row.all.entries++;
    bool is_unique = false;
    std::vector<bool> is_held(book.size(), true);
    for (const uint8_t side : kSides) {
      if ((entry.directions & side) == 0) continue;
      const auto all_by = [&](size_t by, uint16_t port) {
        return every_address(entry, [&](Addr address) { return holds(book[by], address, port, side); });
      };
      const auto beside = [&](size_t by) { return by != l && would_stand_in(book[by], book[l]); };
      bool others = every_address(entry, [&](Addr address) {
        for (size_t by = 0; by < book.size(); by++) {
          if (beside(by) && holds(book[by], address, 0, side)) return true;
        }
        return false;
      });
      for (size_t by = 0; by < book.size(); by++) {
        const bool by_port = entry.port != 0 && all_by(by, entry.port);
        others = others || (beside(by) && by_port);
        is_held[by] = is_held[by] && (by_port || all_by(by, 0));
      }
      is_unique = is_unique || !others;
    }
    if (is_unique) row.unique.entries++;
    for (size_t by = 0; by < book.size(); by++) {
      if (by != l && is_held[by]) row.held_by[by].entries++;
    }
  }
}

void add_addresses(const Book& book, size_t l, Ipv4 base, Overlap::Row& row) {
  for (uint64_t address = base; address < uint64_t{base} + 64; address++) {
    const auto held = [&](size_t by, uint8_t side) { return holds(book[by], static_cast<Ipv4>(address), 0, side); };
    if (!held(l, kSides[0]) && !held(l, kSides[1])) continue;
    row.all.addresses++;
    bool is_unique = false;
    std::vector<bool> is_held(book.size(), true);
    for (const uint8_t side : kSides) {
      if (!held(l, side)) continue;
      bool others = false;
      for (size_t by = 0; by < book.size(); by++) {
        is_held[by] = is_held[by] && held(by, side);
        others = others || (by != l && would_stand_in(book[by], book[l]) && held(by, side));
      }
      is_unique = is_unique || !others;
    }
    if (is_unique) row.unique.addresses++;
    for (size_t by = 0; by < book.size(); by++) {
      if (by != l && is_held[by]) row.held_by[by].addresses++;
    }
  }
}

bool is_same(Flow a, Flow b) {
  a.line = b.line = a.source = b.source = 0;
  a.expires = b.expires = kNever;
  return a == b;
}

void add_flows(const Book& book, size_t l, Overlap::Row& row) {
  for (const Flow& flow : book[l].flows()) {
    if (kNow >= flow.expires) continue;
    row.all.entries++;
    bool others = false;
    for (size_t by = 0; by < book.size(); by++) {
      const std::vector<Flow>& flows = book[by].flows();
      const bool has = std::any_of(flows.begin(), flows.end(),
                                   [&](const Flow& other) { return kNow < other.expires && is_same(flow, other); });
      if (by == l || !has) continue;
      row.held_by[by].entries++;
      others = others || would_stand_in(book[by], book[l]);
    }
    if (!others) row.unique.entries++;
  }
}

Overlap by_every_address(const Book& book, Ipv4 base) {
  Overlap overlap;
  for (size_t l = 0; l < book.size(); l++) {
    Overlap::Row row;
    row.held_by.resize(book.size());
    add_entries<Ipv4>(book, l, row);
    add_entries<Ipv6>(book, l, row);
    add_addresses(book, l, base, row);
    add_flows(book, l, row);
    overlap.lists.push_back(row);
  }
  return overlap;
}

List list_of(const char* name, std::vector<Entry<Ipv4>> entries) {
  List list;
  list.name = name;
  ListDraft draft;
  draft.v4 = std::move(entries);
  list.content = make_entries(std::move(draft));
  return list;
}

Entry<Ipv4> entry(Ipv4 first, Ipv4 last, uint16_t port = 0, uint8_t directions = WEIR_AS_SOURCE) {
  return {first, last, 1, port, directions, 0, kNever};
}

void check_same(const Overlap& found, const Overlap& expected) {
  REQUIRE(found.lists.size() == expected.lists.size());
  for (size_t l = 0; l < found.lists.size(); l++) {
    INFO("list " << l);
    CHECK(found.lists[l].all.entries == expected.lists[l].all.entries);
    CHECK(found.lists[l].all.addresses == expected.lists[l].all.addresses);
    CHECK(found.lists[l].unique.entries == expected.lists[l].unique.entries);
    CHECK(found.lists[l].unique.addresses == expected.lists[l].unique.addresses);
    for (size_t by = 0; by < found.lists.size(); by++) {
      INFO("by " << by);
      CHECK(found.lists[l].held_by[by].entries == expected.lists[l].held_by[by].entries);
      CHECK(found.lists[l].held_by[by].addresses == expected.lists[l].held_by[by].addresses);
    }
  }
}

}  // namespace

TEST_CASE("the walk finds what every address says, also at both ends of the address space") {
  RandomLists lists{std::mt19937_64(31)};
  for (int round = 0; round < rounds(300); round++) {
    INFO("round " << round);
    const Ipv4 base = std::array<Ipv4, 3>{0, 0x0a000000, 0xffffffc0}[lists.below(3)];
    Book book;
    for (size_t n = 1 + lists.below(7); n > 0; n--) {
      List list;
      ListDraft draft = lists.draft();
      for (Entry<Ipv4>& entry : draft.v4) {
        entry.first = entry.first - 0x0a000000 + base;
        entry.last = entry.last - 0x0a000000 + base;
        if (entry.port != 0 && lists.below(2) == 0) entry.port = 80;
      }
      list.action = lists.below(4) == 0 ? WEIR_PASS : WEIR_DROP;
      list.mode = list.action == WEIR_DROP && lists.below(4) == 0 ? WEIR_MONITOR : WEIR_ENFORCE;
      list.content = make_entries(std::move(draft));
      book.push_back(std::move(list));
    }
    check_same(overlap_of(book, kNow), by_every_address(book, base));
  }
}

TEST_CASE("several entries together hold one that none of them holds alone") {
  const Book book = {list_of("network", {entry(0x0a000000, 0x0a0000ff)}),
                     list_of("halves", {entry(0x0a000000, 0x0a00007f), entry(0x0a000080, 0x0a0000ff)}),
                     list_of("hosts", {entry(0x0a000007, 0x0a000007), entry(0x0b000000, 0x0b000000)})};
  const Overlap overlap = overlap_of(book, kNow);
  CHECK(overlap.lists[0].held_by[1] == Overlap::Share{1, 256});
  CHECK(overlap.lists[0].held_by[2] == Overlap::Share{0, 1});
  CHECK(overlap.lists[1].held_by[0] == Overlap::Share{2, 256});
  CHECK(overlap.lists[2].held_by[0] == Overlap::Share{1, 1});
  CHECK(overlap.lists[2].unique == Overlap::Share{1, 1});
  CHECK(overlap.lists[0].unique == Overlap::Share{0, 0});
}

TEST_CASE("the last list of 256 is counted as the first one") {
  Book book;
  for (Ipv4 l = 0; l < WEIR_MAX_LISTS; l++) book.push_back(list_of("list", {entry(l, l + 1)}));
  const Overlap overlap = overlap_of(book, kNow);
  CHECK(overlap.lists[255].held_by[254] == Overlap::Share{0, 1});
  CHECK(overlap.lists[255].unique == Overlap::Share{1, 1});
  CHECK(overlap.lists[128].unique == Overlap::Share{0, 0});
}

TEST_CASE("a book of nothing has no overlap") {
  CHECK(overlap_of({}, kNow).lists.empty());
  CHECK(overlap_of({list_of("empty", {})}, kNow).lists[0].all == Overlap::Share{});
}

}  // namespace weir::control
