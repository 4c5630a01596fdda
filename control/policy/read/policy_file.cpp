#include "control/policy/read/policy_file.h"

#include <algorithm>

namespace weir::control {

using yaml::Kind;
using yaml::Node;

void PolicyFile::error(const Node& at, std::string message, std::string hint) const {
  diagnostics.add(
      {Severity::error, document.where(at), std::move(message), document.source_line(at.line), std::move(hint)});
}

void PolicyFile::warning(const Node& at, std::string message, std::string hint) const {
  diagnostics.add(
      {Severity::warning, document.where(at), std::move(message), document.source_line(at.line), std::move(hint)});
}

std::string quoted(const std::string& text) {
  return "`" + text + "`";
}

std::optional<uint8_t> read_names(const PolicyFile& file, const Node& sequence, std::span<const NamedBit> names,
                                  const char* what) {
  constexpr uint8_t kEvery = 0xff;
  const size_t errors = file.diagnostics.errors();
  uint8_t mask = 0;
  for (const Node& item : sequence.items) {
    const auto named = std::find_if(names.begin(), names.end(), [&](const NamedBit& n) { return item.text == n.name; });
    if (item.kind != Kind::scalar || named == names.end()) {
      const std::string value = item.kind == Kind::scalar ? quoted(item.text) : "this";
      file.error(item, value + " is not " + what, "choose from: " + bit_names(kEvery, names, ", "));
    } else if ((mask & named->bit) != 0) {
      file.error(item, quoted(item.text) + " is named twice", "name each once");
    } else {
      mask |= named->bit;
    }
  }
  if (file.diagnostics.errors() != errors) return std::nullopt;
  return mask;
}

}  // namespace weir::control
