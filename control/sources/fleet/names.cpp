#include "control/sources/fleet/names.h"

#include <fmt/format.h>

#include "control/base/json/json.h"

namespace weir::control::fleet {

void members(Fields& f, Added& added) {
  f({"by", "", "who added it"}, added.by);
  f.unless_empty({"node", "", "that shared it"}, added.node);
  f.unless_empty({"comment", "", "of it"}, added.comment);
  f({"ttl_s", "s", "of its lease; 0: it has none"}, added.ttl_s);
  f({"at", "s", "when, Unix time"}, added.at);
}

std::string text_of(const Added& added) {
  return write_json(added).line();
}

Result<Added> read_added(std::string_view text) {
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{document.error()};
  Result<Added> added = read_json<Added>(*document);
  if (added && added->comment.size() > kMostComment) added->comment.resize(kMostComment);
  return added;
}

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= 63 && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::optional<Names::Place> Names::entry_of(std::string_view key) const {
  const std::string prefix = entries();
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  const size_t end = key.find('/');  // names of lists hold none
  if (end == std::string_view::npos || !is_name(key.substr(0, end)) || end + 1 == key.size()) return std::nullopt;
  return Place{std::string(key.substr(0, end)), std::string(key.substr(end + 1))};
}

std::string Names::in_order(uint64_t number) {
  return fmt::format("{:012}", number);
}

}  // namespace weir::control::fleet
