#include "common/options/option.h"

#include <fmt/format.h>

namespace weir {

std::string Option::default_text() const {
  if (const auto* text = std::get_if<std::string*>(&target)) return **text;
  if (const auto* number = std::get_if<double*>(&target)) return fmt::format("{}", **number);
  if (const auto* number = std::get_if<unsigned*>(&target)) return std::to_string(**number);
  return "";
}

Option& Options::argument(const char* name, std::string& value, const char* help) {
  return all_.emplace_back(Option{name, "", &value, help});
}

Option& Options::arguments(const char* name, std::vector<std::string>& values, const char* help) {
  return all_.emplace_back(Option{name, "", &values, help});
}

Option& Options::flag(const char* name, bool& value, const char* help) {
  return all_.emplace_back(Option{name, "", &value, help});
}

Option& Options::text(const char* name, const char* value_name, std::string& value, const char* help) {
  return all_.emplace_back(Option{name, value_name, &value, help});
}

Option& Options::number(const char* name, const char* value_name, double& value, const char* help) {
  return all_.emplace_back(Option{name, value_name, &value, help});
}

Option& Options::number(const char* name, const char* value_name, unsigned& value, const char* help) {
  return all_.emplace_back(Option{name, value_name, &value, help});
}

Option& Options::texts(const char* name, const char* value_name, std::vector<std::string>& values, const char* help) {
  return all_.emplace_back(Option{name, value_name, &values, help});
}

}  // namespace weir
