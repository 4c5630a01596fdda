#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace weir {

// One failure, in words for a person: what was tried, on what, why it failed.
struct Error {
  std::string message;
  // The machine refused it, not what was asked for: the same may succeed later. Lost where only the message is passed
  // on.
  bool may_pass = false;
};

// A value or an Error (std::expected is not in g++ 12). Test it before value().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& value() { return assert(*this), std::get<0>(state_); }
  const T& value() const { return assert(*this), std::get<0>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const std::string& error() const { return failure().message; }
  const Error& failure() const { return assert(!*this), std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}

  explicit operator bool() const { return !failed_; }
  const std::string& error() const { return failure().message; }
  const Error& failure() const { return assert(failed_), error_; }

 private:
  bool failed_ = false;
  Error error_;
};

}  // namespace weir
