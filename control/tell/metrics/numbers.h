#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/base/json/fields.h"

namespace weir::control::metrics {

struct Number {
  Member member;
  double value;
};

// The numbers of a description (control/base/json/fields.h) themselves, nothing of what is inside its members: a
// counter that is added there is a metric, too.
template <class Answer>
std::vector<Number> numbers_of(const Answer& answer);

// Visits for numbers_of().
class Numbers : public Fields {
 public:
  using Fields::numbers;
  std::vector<Number> found;

  bool reading() const override { return false; }
  void or_null(const Member&, std::optional<double>&) override {}
  void hex(const Member&, uint64_t&) override {}
  void texts(const Member&, std::vector<std::string>&) override {}
  void numbers(const Member&, std::vector<uint64_t>&) override {}
  void buckets(const Member&, std::vector<Bucket>&) override {}

 protected:
  void flag(const Member&, bool&) override {}
  void text(const Member&, std::string&) override {}
  void real(const Member& member, double& value) override { found.push_back({member, value}); }
  void whole(const Member& member, uint64_t& value, uint64_t) override {
    found.push_back({member, static_cast<double>(value)});
  }
  void whole(const Member& member, int64_t& value) override { found.push_back({member, static_cast<double>(value)}); }
  size_t begin(const Member&, Container, size_t, const char*) override { return 0; }
  void begin_element(size_t) override {}
  void begin_named(size_t, std::string&) override {}
  void named_real(size_t, std::string&, double&) override {}
  void end() override {}
  bool begin_optional(const char*, bool) override { return false; }
  void end_optional() override {}
};

template <class Answer>
std::vector<Number> numbers_of(const Answer& answer) {
  Answer copy = answer;
  Numbers visitor;
  members(visitor, copy);
  return std::move(visitor.found);
}

}  // namespace weir::control::metrics
