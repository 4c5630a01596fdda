#include "control/base/json/fields.h"

namespace weir::control {

void Fields::by_name(const Member& member, std::vector<std::pair<std::string, double>>& values) {
  const size_t n = begin(member, Container::names, values.size(), "number");
  if (values.size() != n) values.resize(n);  // not while it writes
  for (size_t i = 0; i < n; i++) named_real(i, values[i].first, values[i].second);
  if (n != 0) end();
}

void Fields::unless_empty(const Member& member, std::string& value) {
  if (!begin_optional(member.name, !value.empty())) return;
  text(member, value);
  end_optional();
}

void Fields::unless_empty(const Member& member, std::vector<std::string>& values) {
  if (!begin_optional(member.name, !values.empty())) return;
  texts(member, values);
  end_optional();
}

void Fields::unless_empty(const Member& member, std::vector<uint64_t>& values) {
  if (!begin_optional(member.name, !values.empty())) return;
  numbers(member, values);
  end_optional();
}

}  // namespace weir::control
