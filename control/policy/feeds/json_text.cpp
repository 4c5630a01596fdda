#include "control/policy/feeds/json_text.h"

namespace weir::control::feeds {

std::string JsonPlace::path() const {
  constexpr size_t kMostPathBytes = 256;
  if (depth_ == 0) return "";
  const Level& around = at();
  if (around.is_array || around.path.size() > kMostPathBytes) return around.path;
  return around.path.empty() ? key_ : around.path + "." + key_;
}

void JsonPlace::enter(bool is_array) {
  std::string path_of_value = path(), key_of_value(key());
  levels_[depth_++] = {is_array, std::move(key_of_value), std::move(path_of_value)};
}

FeedFault json_fault(const std::string& error) {
  const bool is_cut_off = error.starts_with("ends");
  return {is_cut_off ? error : "is no JSON: " + error, "get the file again: it is broken, or cut off", is_cut_off};
}

}  // namespace weir::control::feeds
