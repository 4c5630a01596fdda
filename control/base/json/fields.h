#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/histogram.h"

// One description of an answer's JSON, for writing, for reading and for the table of docs/use/api.md:
//
//   void members(Fields& f, Memory& memory) {
//     f({"rss_bytes", "bytes", "resident now"}, memory.rss_bytes);
//     f({"peak_bytes", "bytes", "the most so far"}, memory.peak_bytes);
//   }
//
// No JSON library is included here: its header takes seconds to compile. json.h writes and reads, table.h lists.
namespace weir::control {

struct Member {
  const char* name;
  const char* unit;     // empty: none
  const char* meaning;  // one line for people
};

// What visits the members of one object. A description calls it once a member, in the order in which they are written.
// While it writes, a description changes nothing: several threads may write one answer.
class Fields {
 public:
  virtual ~Fields() = default;

  virtual bool reading() const = 0;  // values come from JSON; false: they are written, or only listed

  void operator()(const Member& member, bool& value) { flag(member, value); }
  void operator()(const Member& member, std::string& value) { text(member, value); }
  void operator()(const Member& member, double& value) { real(member, value); }
  template <std::integral Integer>
  void operator()(const Member& member, Integer& value);
  // Null when there is none.
  virtual void or_null(const Member& member, std::optional<double>& value) = 0;
  // 16 hexadecimal digits, because JSON readers keep 53 bits of a number.
  virtual void hex(const Member& member, uint64_t& value) = 0;
  virtual void texts(const Member& member, std::vector<std::string>& values) = 0;
  virtual void numbers(const Member& member, std::vector<uint64_t>& values) = 0;
  // type: the name of what T is, for the table.
  template <class T>
  void object(const Member& member, T& value, const char* type);
  template <class T>
  void array(const Member& member, std::vector<T>& values, const char* type);
  // An object with a member for each name.
  template <class T>
  void by_name(const Member& member, std::vector<std::pair<std::string, T>>& values, const char* type);
  // An object of numbers: each row is the name and the value of one.
  template <class Row>
  void by_name(const Member& member, std::vector<Row>& rows, std::string Row::*name, double Row::*value);
  // [[upper end, count], ...]
  virtual void buckets(const Member& member, std::vector<Bucket>& values) = 0;

  // A member that may be missing.
  template <class T>
  void maybe(const Member& member, std::optional<T>& value);
  void unless_empty(const Member& member, std::string& value);
  void unless_empty(const Member& member, std::vector<std::string>& values);
  void unless_empty(const Member& member, std::vector<uint64_t>& values);
  template <class T>
  void maybe_object(const Member& member, std::optional<T>& value, const char* type);
  template <class T>
  void maybe_array(const Member& member, std::optional<std::vector<T>>& values, const char* type);
  // Members of this object that are there together, or not at all; `first` is one of them.
  template <class T>
  void group(const char* first, std::optional<T>& values);

 protected:
  enum class Container { object, array, names };
  virtual void flag(const Member& member, bool& value) = 0;
  virtual void text(const Member& member, std::string& value) = 0;
  virtual void real(const Member& member, double& value) = 0;
  virtual void whole(const Member& member, uint64_t& value, uint64_t most) = 0;
  virtual void whole(const Member& member, int64_t& value) = 0;
  // Returns how many elements follow: writing, `count`; reading, as many as there are; 0 when they are not wanted.
  virtual size_t begin(const Member& member, Container container, size_t count, const char* type) = 0;
  virtual void begin_element(size_t index) = 0;
  virtual void begin_named(size_t index, std::string& name) = 0;  // reading: fills the name
  virtual void named_real(size_t index, std::string& name, double& value) = 0;
  virtual void end() = 0;  // of an element, or of what begin() began, unless it returned 0
  // Whether members that may be missing follow. Reading: whether `name` is there.
  virtual bool begin_optional(const char* name, bool has_value) = 0;
  virtual void end_optional() = 0;  // when it returned true
};

template <std::integral Integer>
void Fields::operator()(const Member& member, Integer& value) {
  if constexpr (std::is_signed_v<Integer>) {
    int64_t number = value;
    whole(member, number);
    if (reading()) value = static_cast<Integer>(number);
  } else {
    uint64_t number = value;
    whole(member, number, std::numeric_limits<Integer>::max());
    if (reading()) value = static_cast<Integer>(number);
  }
}

template <class T>
void Fields::object(const Member& member, T& value, const char* type) {
  if (begin(member, Container::object, 1, type) == 0) return;
  members(*this, value);
  end();
}

template <class T>
void Fields::array(const Member& member, std::vector<T>& values, const char* type) {
  const size_t n = begin(member, Container::array, values.size(), type);
  if (values.size() != n) values.resize(n);  // not while it writes
  for (size_t i = 0; i < n; i++) {
    begin_element(i);
    members(*this, values[i]);
    end();
  }
  if (n != 0) end();
}

template <class T>
void Fields::by_name(const Member& member, std::vector<std::pair<std::string, T>>& values, const char* type) {
  const size_t n = begin(member, Container::names, values.size(), type);
  if (values.size() != n) values.resize(n);  // not while it writes
  for (size_t i = 0; i < n; i++) {
    begin_named(i, values[i].first);
    members(*this, values[i].second);
    end();
  }
  if (n != 0) end();
}

template <class Row>
void Fields::by_name(const Member& member, std::vector<Row>& rows, std::string Row::*name, double Row::*value) {
  const size_t n = begin(member, Container::names, rows.size(), "number");
  if (rows.size() != n) rows.resize(n);  // not while it writes
  for (size_t i = 0; i < n; i++) named_real(i, rows[i].*name, rows[i].*value);
  if (n != 0) end();
}

template <class T>
void Fields::maybe(const Member& member, std::optional<T>& value) {
  if (!begin_optional(member.name, value.has_value())) return;
  if (!value) value.emplace();
  (*this)(member, *value);
  end_optional();
}

template <class T>
void Fields::maybe_object(const Member& member, std::optional<T>& value, const char* type) {
  if (!begin_optional(member.name, value.has_value())) return;
  if (!value) value.emplace();
  object(member, *value, type);
  end_optional();
}

template <class T>
void Fields::maybe_array(const Member& member, std::optional<std::vector<T>>& values, const char* type) {
  if (!begin_optional(member.name, values.has_value())) return;
  if (!values) values.emplace();
  array(member, *values, type);
  end_optional();
}

template <class T>
void Fields::group(const char* first, std::optional<T>& values) {
  if (!begin_optional(first, values.has_value())) return;
  if (!values) values = T{};
  members(*this, *values);
  end_optional();
}

}  // namespace weir::control
