#include "control/policy/feeds/statements.h"

namespace weir::control::feeds {

std::string recognise_statements(std::string_view beginning, bool (*is_like)(std::string_view line),
                                 const char* phrase) {
  std::string joined;
  size_t turned = 0;  // lines that were joined to others: empty ones follow, so that numbers stay
  while (!beginning.empty()) {
    const bool is_whole = beginning.find('\n') != std::string_view::npos;
    std::string_view line = next_line(beginning);
    while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
    if (line.ends_with('\\')) {
      joined += line.substr(0, line.size() - 1);
      turned++;
      continue;
    }
    joined += line;
    joined.append(is_whole ? turned + 1 : 0, '\n');
    turned = 0;
  }
  return recognise_lines(joined, is_like, phrase);
}

std::string network_of_octets(std::string_view text) {
  if (text.ends_with(".*")) text.remove_suffix(1);
  if (text.ends_with('.')) text.remove_suffix(1);
  std::string all(text);
  unsigned octets = 0;
  while (true) {
    const size_t end = std::min(text.find('.'), text.size());
    if (!is_number(text.substr(0, end)) || end > 3 || ++octets > 3) return "";
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  for (unsigned i = octets; i < 4; i++) all += ".0";
  return all + "/" + std::to_string(8 * octets);
}

bool is_name(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z') || c == '@' || c == '_'; });
}

}  // namespace weir::control::feeds
