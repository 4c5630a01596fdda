#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "control/policy/model/entry.h"

namespace weir::control {

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
