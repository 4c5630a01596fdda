#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "common/ip.h"
#include "control/policy/model/time_text.h"
#include "filter/format/fields.h"
#include "filter/format/snapshot.h"

// These types hold one entry of a list, and many of them as sorted columns.
namespace weir::control {

// Entry::source of what `controlctl add` put into a list. It has no line: Entry::line is 0.
constexpr uint8_t kJournalSource = 255;
// Entry::directions beside weir_direction: the policy names the entry's side (`src:` or `dst:`). It counts as it is
// written: `policy.own` is not cut out of it.
constexpr uint8_t kNamesSide = 4;
constexpr uint8_t kBothDirections = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;

// One predicate, normalised: an inclusive address range (a host is first == last; a prefix is its range), optionally
// with a port. It matches a packet whose source (address and source port) or destination (address and destination
// port) lies in it, as directions say.
template <class Addr>
struct Entry {
  Addr first;
  Addr last;
  uint32_t line;              // where it was written: 1-based line of the source
  uint16_t port;              // 0 = any
  uint8_t directions;         // mask of weir_direction, and kNamesSide
  uint8_t source;             // 0 = the policy file, 1..254 = the list's feed files, kJournalSource
  uint32_t expires = kNever;  // Unix seconds: live while now < expires

  uint8_t sides() const { return directions & kBothDirections; }  // mask of weir_direction
  bool operator==(const Entry&) const = default;
};

// Inclusive; IPv4 in the low 32 bits.
struct AddressRange {
  Ipv6 first, last;
  bool operator==(const AddressRange&) const = default;
};

using PortRange = weir_range16;

// An entry with named fields that Entry cannot hold: everything that is given must hold, in one layer of a packet.
struct Flow {
  uint8_t family = 0;  // 4 or 6; 0: both, when neither address is given
  std::optional<AddressRange> src, dst;
#define WEIR_FLOW_MEMBER(name, NAME, kind, needs, member, order) std::optional<weir_##kind> name;
  WEIR_FIELDS(WEIR_FLOW_MEMBER)  // protocol, sport, ...: a member for each row of filter/format/fields.h
#undef WEIR_FLOW_MEMBER
  uint32_t expires = kNever;
  uint32_t line = 0;
  uint8_t source = 0;  // as Entry::source: the policy file or the journal; feeds have no flows

  bool operator==(const Flow&) const = default;
};

// One value a row, or one for all of them: most lists have one port (any), one expiry (never), one direction.
template <class T>
struct Column {
  std::vector<T> each;  // empty: every row has `all`
  T all{};

  T operator[](size_t row) const { return each.empty() ? all : each[row]; }
  bool operator==(const Column&) const = default;
};

// The address entries of one list and family, as sorted columns: 8 bytes an IPv4 host of a feed. Ascending by first,
// last, port, directions, expires, source, line; an entry that is written twice has two rows. Made by
// control/policy/model/columns.h, never changed afterwards.
template <class Addr>
struct Rows {
  std::vector<Addr> first;
  std::vector<Addr> last;  // empty: every row is a single address
  Column<uint32_t> line;
  Column<uint16_t> port;
  Column<uint8_t> directions;
  Column<uint8_t> source;
  Column<uint32_t> expires = {{}, kNever};
  // Where `last` is there: [k][i] is the greatest `last` of the kFan^(k+1) rows from i * kFan^(k+1) on. The last level
  // has one value. It makes "which rows hold this address" a search.
  std::vector<std::vector<Addr>> reach;
  static constexpr size_t kFan = 32;

  size_t size() const { return first.size(); }
  bool empty() const { return first.empty(); }
  Addr last_of(size_t row) const { return last.empty() ? first[row] : last[row]; }
  Entry<Addr> operator[](size_t row) const {
    return {first[row], last_of(row), line[row], port[row], directions[row], source[row], expires[row]};
  }
  bool operator==(const Rows&) const = default;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Entry<Addr>;
    using difference_type = ptrdiff_t;
    using pointer = const Entry<Addr>*;
    using reference = Entry<Addr>;

    Iterator(const Rows* rows, size_t row) : rows_(rows), row_(row) {}
    Entry<Addr> operator*() const { return (*rows_)[row_]; }
    Iterator& operator++() { return row_++, *this; }
    Iterator operator++(int) { return {rows_, row_++}; }
    bool operator==(const Iterator& other) const { return row_ == other.row_; }

   private:
    const Rows* rows_;
    size_t row_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }
};

}  // namespace weir::control
