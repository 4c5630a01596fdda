#include "control/policy/read/entry_node.h"

namespace weir::control {

using yaml::Kind;
using yaml::Node;

uint16_t port_of(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return entry.port; });
}

bool is_single(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return entry.first == entry.last; });
}

bool is_any(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return entry.is_any; });
}

std::optional<EntryText> parse_node(const PolicyFile& file, const Node& node) {
  const bool is_empty = node.kind == Kind::null || (node.kind == Kind::scalar && node.text.empty());
  if (is_empty || node.kind != Kind::scalar) {
    file.error(node, is_empty ? "an entry is empty" : "an address must be a text",
               "write an address, a prefix or a range");
    return std::nullopt;
  }
  const EntryText parsed = parse_entry(node.text);
  if (const auto* error = std::get_if<EntryError>(&parsed)) {
    file.error(node, quoted(node.text) + ": " + error->reason, error->hint);
    return std::nullopt;
  }
  visit_parsed(parsed, [&](const auto& entry) {
    if (!entry.host_bits_cleared) return;
    const std::string prefix = to_string(entry.first) + node.text.substr(node.text.find('/'));
    file.warning(node, quoted(node.text) + " has bits set past its prefix: read as " + prefix, "write " + prefix);
  });
  return parsed;
}

std::optional<EntryText> parse_node(const PolicyFile& file, const Node& node, bool allow_any) {
  const auto parsed = parse_node(file, node);
  if (!parsed || !is_any(*parsed) || allow_any) return parsed;
  file.error(node, quoted(node.text) + " matches every address",
             "write `allow_any: true` in the list if that is what you want");
  return std::nullopt;
}

void append(const EntryText& parsed, const EntryTail& tail, ListDraft& list) {
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) {
    list.v4.push_back({v4->first, v4->last, tail.line, tail.port, tail.directions, 0, tail.expires});
  } else if (const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&parsed)) {
    list.v6.push_back({v6->first, v6->last, tail.line, tail.port, tail.directions, 0, tail.expires});
  }
}

}  // namespace weir::control
