#include "control/base/json/fields.h"

namespace weir::control {

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
