#include "control/lists/book/overlap.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <span>

#include "common/digest.h"
#include "control/policy/model/flow_condition.h"

namespace weir::control {

namespace {

constexpr unsigned kSides = 2;  // source, destination
constexpr size_t kWords = WEIR_LIST_WORDS;

using Lists = std::array<uint64_t, kWords>;  // a bit each

bool has(const Lists& lists, size_t list) {
  return (lists[list / 64] >> (list % 64) & 1) != 0;
}
void add(Lists& lists, size_t list) {
  lists[list / 64] |= uint64_t{1} << (list % 64);
}
Lists operator&(const Lists& a, const Lists& b) {
  Lists both;
  for (size_t w = 0; w < kWords; w++) both[w] = a[w] & b[w];
  return both;
}
Lists operator|(const Lists& a, const Lists& b) {
  Lists either;
  for (size_t w = 0; w < kWords; w++) either[w] = a[w] | b[w];
  return either;
}
bool is_empty(const Lists& lists) {
  return (lists[0] | lists[1] | lists[2] | lists[3]) == 0;
}
bool has_another(Lists lists, size_t list) {
  lists[list / 64] &= ~(uint64_t{1} << (list % 64));
  return !is_empty(lists);
}
template <class Visit>
void visit_lists(const Lists& lists, Visit visit) {
  for (size_t w = 0; w < kWords; w++) {
    for (uint64_t left = lists[w]; left != 0; left &= left - 1) {
      visit(w * 64 + static_cast<size_t>(__builtin_ctzll(left)));
    }
  }
}
size_t first_of(const Lists& lists) {
  for (size_t w = 0; w < kWords; w++) {
    if (lists[w] != 0) return w * 64 + static_cast<size_t>(__builtin_ctzll(lists[w]));
  }
  return kWords * 64;
}

// A direction mask says of a side whether it is in.
bool asks(uint8_t directions, unsigned side) {
  return (directions & (side == 0 ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION)) != 0;
}

// What stands in for each other: the drop lists that are enforced, and the pass lists.
struct Group {
  Lists members = {};
};

class Groups {
 public:
  explicit Groups(const Book& book) {
    for (size_t l = 0; l < book.size(); l++) {
      of_.push_back(book[l].action == WEIR_PASS ? 1 : 0);
      if (book[l].action == WEIR_PASS || book[l].mode == WEIR_ENFORCE) add(all_[of_.back()].members, l);
    }
  }
  static constexpr size_t kGroups = 2;
  size_t number_of(size_t list) const { return of_[list]; }
  const Lists& members(size_t group) const { return all_[group].members; }
  // Those that would do the same in the place of this list; it itself is among them, unless it is monitored.
  const Lists& beside(size_t list) const { return all_[of_[list]].members; }

 private:
  std::array<Group, kGroups> all_;
  std::vector<uint8_t> of_;
};

// Adjoining addresses that a list holds, up to where the walk is.
template <class Addr>
struct Run {
  Addr first = 0, last = 0;
  bool is_any = false;

  void take(Addr from, Addr to) {
    if (is_any && (from <= last || from - 1 == last)) {
      last = std::max(last, to);
    } else {
      *this = {from, to, true};
    }
  }
  bool holds(Addr from, Addr to) const { return is_any && first <= from && to <= last; }
};

// The last address where something was missing.
template <class Addr>
struct Gap {
  Addr last = 0;
  bool is_any = false;
  bool is_before(Addr from) const { return !is_any || last < from; }
};

// One walk up the addresses of a family: at each, which lists hold it.
template <class Addr>
class Walk {
 public:
  Walk(const Book& book, const Groups& groups, uint64_t now, Overlap& overlap)
      : book_(book), groups_(groups), now_(now), overlap_(overlap), runs_(book.size()), alone_(book.size()) {
    if constexpr (kCountsAddresses) counted_.resize(kCounted);
  }

  void go() {
    for (size_t l = 0; l < book_.size(); l++) push(l, 0);
    while (!next_.empty()) {
      const Addr here = next_.front().first;
      take_rows(here);
      const bool is_last = next_.empty();
      walk_to(here, is_last ? static_cast<Addr>(~Addr{0}) : next_.front().first - 1);
    }
    for (Counted& counted : counted_) flush(counted);
  }

 private:
  static constexpr bool kCountsAddresses = sizeof(Addr) == sizeof(Ipv4);

  struct Cursor {
    Addr first;
    uint32_t list;
    size_t row;
    bool operator>(const Cursor& other) const { return first > other.first; }
  };
  struct Claim {  // an entry
    Addr first, last;
    uint32_t list;
    uint16_t port;
    uint8_t directions;
    bool operator>(const Claim& other) const { return last > other.last; }
  };
  struct PortRuns {
    uint32_t list;
    std::array<Run<Addr>, kSides> runs;
  };
  // Addresses that the same lists hold, on the same sides; in pairs they are counted when another such set takes the
  // place.
  struct Counted {
    std::array<Lists, kSides> held = {};
    uint64_t addresses = 0;
  };
  static constexpr size_t kCounted = 4096;

  // The next row of the list that has not ended.
  void push(size_t list, size_t row) {
    const Rows<Addr>& rows = rows_of<Addr>(book_[list]);
    while (row < rows.size() && now_ >= rows.expires[row]) row++;
    if (row == rows.size()) return;
    next_.push_back({rows.first[row], static_cast<uint32_t>(list), row});
    std::push_heap(next_.begin(), next_.end(), std::greater<>());
  }

  // The first of the heap makes room for the next row of its list.
  void advance() {
    Cursor cursor = next_.front();
    const Rows<Addr>& rows = rows_of<Addr>(book_[cursor.list]);
    do {
      cursor.row++;
    } while (cursor.row < rows.size() && now_ >= rows.expires[cursor.row]);
    if (cursor.row == rows.size()) {
      std::pop_heap(next_.begin(), next_.end(), std::greater<>());
      next_.pop_back();
      return;
    }
    cursor.first = rows.first[cursor.row];
    size_t at = 0;
    for (size_t child = 1; child < next_.size(); child = 2 * at + 1) {
      if (child + 1 < next_.size() && next_[child] > next_[child + 1]) child++;
      if (!(cursor > next_[child])) break;
      next_[at] = next_[child];
      at = child;
    }
    next_[at] = cursor;
  }

  // All rows that begin here.
  void take_rows(Addr here) {
    hosts_.clear();
    while (!next_.empty() && next_.front().first == here) {
      const Cursor& cursor = next_.front();
      const Rows<Addr>& rows = rows_of<Addr>(book_[cursor.list]);
      const size_t row = cursor.row;
      const Claim claim = {here, rows.last_of(row), cursor.list, rows.port[row], rows.directions[row]};
      advance();
      for (unsigned side = 0; side < kSides; side++) {
        if (!asks(claim.directions, side)) continue;
        if (claim.port != 0) {
          runs_of_port(claim.port, claim.list)[side].take(claim.first, claim.last);
        } else {
          runs_[claim.list][side].take(claim.first, claim.last);
          add(held_[side], claim.list);
        }
      }
      if (claim.first == claim.last) {
        hosts_.push_back(claim);
      } else {
        open_.push(claim);
      }
    }
  }

  std::array<Run<Addr>, kSides>& runs_of_port(uint16_t port, uint32_t list) {
    if (of_ports_.empty()) of_ports_.resize(65536);
    for (PortRuns& known : of_ports_[port]) {
      if (known.list == list) return known.runs;
    }
    return of_ports_[port].emplace_back(PortRuns{list, {}}).runs;
  }

  // From `from`, where rows began, to `to`, behind which the next ones do: stretches that the same lists hold.
  void walk_to(Addr from, Addr to) {
    for (bool is_first = true;; is_first = false) {
      const Addr end = stretch_end(from, to);
      const bool is_held = !is_empty(held_[0]) || !is_empty(held_[1]);
      if (is_held) count_addresses(from, end);
      note_gaps(end);
      if (is_first) {
        for (const Claim& host : hosts_) judge(host, true);
      }
      while (!open_.empty() && open_.top().last <= end) {
        judge(open_.top(), false);
        open_.pop();
      }
      if (end == to) return;
      from = end + 1;
    }
  }

  // Leaves in held_ who holds `from`. Returns how far the same ones go.
  Addr stretch_end(Addr from, Addr to) {
    Addr end = to;
    for (unsigned side = 0; side < kSides; side++) {
      visit_lists(held_[side], [&](size_t list) {
        const Addr last = runs_[list][side].last;
        if (last < from) {
          held_[side][list / 64] &= ~(uint64_t{1} << (list % 64));
        } else {
          end = std::min(end, last);
        }
      });
    }
    return end;
  }

  // Where no list of a group holds an address, and where a single one does.
  void note_gaps(Addr end) {
    for (size_t g = 0; g < Groups::kGroups; g++) {
      for (unsigned side = 0; side < kSides; side++) {
        const Lists holders = held_[side] & groups_.members(g);
        const size_t first = first_of(holders);
        if (first == kWords * 64) {
          nobody_[g][side] = {end, true};
        } else if (!has_another(holders, first)) {
          alone_[first][side] = {end, true};
        }
      }
    }
  }

  void count_addresses(Addr from, Addr end) {
    if constexpr (kCountsAddresses) {
      uint64_t hash = 0;
      for (const Lists& side : held_) {
        for (const uint64_t word : side) hash = (hash ^ word) * 0x9e3779b97f4a7c15;  // Fibonacci hashing, Knuth 6.4
      }
      Counted& counted = counted_[hash >> 52];
      static_assert(kCounted == 1u << (64 - 52));
      if (counted.held != held_) {
        flush(counted);
        counted.held = held_;
      }
      counted.addresses += uint64_t{end} - from + 1;
    }
  }

  void flush(Counted& counted) {
    if (counted.addresses == 0) return;
    const Lists any = counted.held[0] | counted.held[1];
    visit_lists(any, [&](size_t list) {
      Lists holders = any;
      bool is_unique = false;
      for (unsigned side = 0; side < kSides; side++) {
        if (!has(counted.held[side], list)) continue;
        holders = holders & counted.held[side];
        is_unique = is_unique || !has_another(counted.held[side] & groups_.beside(list), list);
      }
      Overlap::Row& row = overlap_.lists[list];
      row.all.addresses += counted.addresses;
      if (is_unique) row.unique.addresses += counted.addresses;
      visit_lists(holders, [&](size_t by) {
        if (by != list) row.held_by[by].addresses += counted.addresses;
      });
    });
    counted.addresses = 0;
  }

  // Who holds all of the entry, when the walk is at its last address. is_host: it has one.
  void judge(const Claim& claim, bool is_host) {
    Overlap::Row& row = overlap_.lists[claim.list];
    Lists holders = {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};
    bool is_unique = false;
    for (unsigned side = 0; side < kSides; side++) {
      if (!asks(claim.directions, side)) continue;
      Lists here = is_host ? held_[side] : holders_of_all(claim, side);
      const Lists with_port = claim.port == 0 ? Lists{} : holders_of_port(claim, side);
      const bool others_hold_it =
          is_host ? has_another(held_[side] & groups_.beside(claim.list), claim.list) : others_hold_all(claim, side);
      is_unique = is_unique || (!others_hold_it && !has_another(with_port & groups_.beside(claim.list), claim.list));
      here = here | with_port;
      holders = holders & here;
    }
    row.all.entries++;
    if (is_unique) row.unique.entries++;
    visit_lists(holders, [&](size_t by) {
      if (by != claim.list) row.held_by[by].entries++;
    });
  }

  Lists holders_of_all(const Claim& claim, unsigned side) const {
    Lists holders = {};
    visit_lists(held_[side], [&](size_t list) {
      if (runs_[list][side].holds(claim.first, claim.last)) add(holders, list);
    });
    return holders;
  }

  Lists holders_of_port(const Claim& claim, unsigned side) const {
    Lists holders = {};
    for (const PortRuns& known : of_ports_[claim.port]) {
      if (known.runs[side].holds(claim.first, claim.last)) add(holders, known.list);
    }
    return holders;
  }

  // Together; entries of any port.
  bool others_hold_all(const Claim& claim, unsigned side) const {
    if (!nobody_[groups_.number_of(claim.list)][side].is_before(claim.first)) return false;
    return !has(groups_.beside(claim.list), claim.list) || alone_[claim.list][side].is_before(claim.first);
  }

  const Book& book_;
  const Groups& groups_;
  const uint64_t now_;
  Overlap& overlap_;

  std::vector<Cursor> next_;                                                // a heap
  std::vector<Claim> hosts_;                                                // that begin here
  std::priority_queue<Claim, std::vector<Claim>, std::greater<>> open_;     // the others, until their end
  std::vector<std::array<Run<Addr>, kSides>> runs_;                         // by list; entries of any port
  std::vector<std::vector<PortRuns>> of_ports_;                             // by port; empty: none has one
  std::array<Lists, kSides> held_ = {};                                     // by whom, where the walk is
  std::array<std::array<Gap<Addr>, kSides>, Groups::kGroups> nobody_ = {};  // of a group
  std::vector<std::array<Gap<Addr>, kSides>> alone_;                        // by list: where no other one was
  std::vector<Counted> counted_;
};

// Flows are the same when they ask the same of a packet, until when they do left aside.
void compare_flows(const Book& book, const Groups& groups, uint64_t now, Overlap& overlap) {
  const auto key_of = [](Flow flow) {
    flow.expires = kNever;
    struct {
      weir_residual condition;
      uint64_t family;
    } bytes = {condition_of(flow), flow.family};
    return weir::digest_of(std::as_bytes(std::span(&bytes, 1)));
  };
  std::map<std::array<uint64_t, 2>, std::vector<uint64_t>> lists_of;  // how often each list has it
  for (size_t l = 0; l < book.size(); l++) {
    for (const Flow& flow : book[l].flows()) {
      if (now >= flow.expires) continue;
      std::vector<uint64_t>& times = lists_of[key_of(flow)];
      times.resize(book.size());
      times[l]++;
    }
  }
  for (const auto& of_flow : lists_of) {
    const std::vector<uint64_t>& times = of_flow.second;
    Lists holders = {};
    for (size_t l = 0; l < times.size(); l++) {
      if (times[l] != 0) add(holders, l);
    }
    visit_lists(holders, [&](size_t list) {
      Overlap::Row& row = overlap.lists[list];
      row.all.entries += times[list];
      if (!has_another(holders & groups.beside(list), list)) row.unique.entries += times[list];
      visit_lists(holders, [&](size_t by) {
        if (by != list) row.held_by[by].entries += times[list];
      });
    });
  }
}

}  // namespace

Overlap overlap_of(const Book& book, uint64_t now) {
  Overlap overlap;
  overlap.lists.resize(book.size());
  for (Overlap::Row& row : overlap.lists) row.held_by.resize(book.size());
  const Groups groups(book);
  Walk<Ipv4>(book, groups, now, overlap).go();
  Walk<Ipv6>(book, groups, now, overlap).go();
  compare_flows(book, groups, now, overlap);
  return overlap;
}

bool would_stand_in(const List& by, const List& list) {
  return by.action == list.action && (by.action == WEIR_PASS || by.mode == WEIR_ENFORCE);
}

}  // namespace weir::control
