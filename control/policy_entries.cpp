#include "control/policy_entries.h"

#include <charconv>
#include <optional>

#include "control/entry_text.h"

namespace weir::control {
namespace {

using yaml::Kind;
using yaml::Node;

std::string quoted(const std::string& text) {
  return "`" + text + "`";
}

// Applies f to the ParsedEntry of either family.
template <class F>
auto visit_parsed(const EntryText& parsed, F&& f) {
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) return f(*v4);
  return f(std::get<ParsedEntry<Ipv6>>(parsed));
}

bool has_port(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return entry.port != 0; });
}
bool is_single(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return entry.first == entry.last; });
}
bool is_any(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return entry.is_any; });
}

// What the text of one node says; every reason why it says nothing is reported.
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

void append(const EntryText& parsed, uint32_t line, uint16_t port, uint8_t directions, List& list) {
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) {
    list.v4.push_back({v4->first, v4->last, line, port, directions, 0});
  } else if (const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&parsed)) {
    list.v6.push_back({v6->first, v6->last, line, port, directions, 0});
  }
}

uint16_t port_of(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return entry.port; });
}

struct Side {
  const char* name;  // of the field with the address
  const char* port_name;
  uint8_t direction;
};
constexpr Side kSides[2] = {{"src", "sport", WEIR_AS_SOURCE}, {"dst", "dport", WEIR_AS_DESTINATION}};

// A port, or a range of them.
struct Ports {
  uint16_t first, last;
};

std::optional<Ports> parse_ports(const std::string& text) {
  const auto port = [](std::string_view digits) -> uint16_t {  // 0 = none
    uint16_t value = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = failure == std::errc{} && end == digits.data() + digits.size() && digits[0] != '0';
    return whole ? value : uint16_t{0};
  };
  const size_t hyphen = text.find('-');
  const Ports ports{port(std::string_view(text).substr(0, hyphen)),
                    port(hyphen == std::string::npos ? text : std::string_view(text).substr(hyphen + 1))};
  if (ports.first == 0 || ports.last < ports.first) return std::nullopt;
  return ports;
}

class EntryReader {
 public:
  EntryReader(const PolicyFile& file, bool allow_any, List& list) : file_(file), allow_any_(allow_any), list_(list) {}

  void read(const Node& node) {
    if (node.kind == Kind::map) {
      read_map(node);
    } else if (const auto parsed = parse(node)) {
      append(*parsed, node.line, port_of(*parsed), list_.match, list_);
    }
  }

 private:
  std::optional<EntryText> parse(const Node& node) const {
    const auto parsed = parse_node(file_, node);
    if (!parsed || !is_any(*parsed) || allow_any_) return parsed;
    file_.error(node, quoted(node.text) + " matches every address",
                "write `allow_any: true` in the list if that is what you want");
    return std::nullopt;
  }

  void read_map(const Node& node) {
    if (looks_like_an_address(node)) return;
    yaml::MapReader map(file_.document, &node, "the entry", file_.diagnostics);
    const Node* whole = map.find("entry");
    const Node* address[2];
    std::optional<std::string> port[2];
    for (int side = 0; side < 2; side++) {
      address[side] = map.find(kSides[side].name);
      port[side] = map.text(kSides[side].port_name);
    }
    map.text("comment");
    map.not_supported_yet({"proto", "icmp", "tcp_flags", "expires"});
    map.finish();

    const bool has_fields = address[0] != nullptr || address[1] != nullptr || port[0] || port[1];
    if (whole != nullptr && has_fields) {
      file_.error(node, "the entry has both `entry` and named fields", "write one or the other");
    } else if (whole != nullptr) {
      if (const auto parsed = parse(*whole)) append(*parsed, node.line, port_of(*parsed), list_.match, list_);
    } else if (address[0] != nullptr && address[1] != nullptr) {
      read_both_sides(node, *address[0], *address[1]);
    } else if (address[0] != nullptr || address[1] != nullptr) {
      const int side = address[0] != nullptr ? 0 : 1;
      if (port[1 - side])
        port_not_supported(*map.find(kSides[1 - side].port_name), kSides[1 - side].port_name,
                           "without an address of its side");
      read_side(kSides[side], *address[side], map.find(kSides[side].port_name), node.line);
    } else if (port[0] || port[1]) {
      const char* name = kSides[port[0] ? 0 : 1].port_name;
      port_not_supported(*map.find(name), name, "without an address of its side");
    } else {
      file_.error(node, "the entry names nothing to match", "give it `entry`, `src` or `dst`");
    }
  }

  // `2001:db8::` and `203.0.113.7: 443` without quotes are a key and a value to YAML.
  bool looks_like_an_address(const Node& node) const {
    if (node.members.size() != 1) return false;
    const auto& [key, value] = node.members[0];
    const std::string meant = key.text + ":" + value.text;
    if (value.kind > Kind::scalar || std::holds_alternative<EntryError>(parse_entry(meant))) return false;
    file_.error(node, quoted(meant) + " without quotes is a key and a value in YAML", "write \"" + meant + "\"");
    return true;
  }

  void read_both_sides(const Node& node, const Node& source, const Node& destination) const {
    const auto src = parse_address_only(kSides[0], source);
    const auto dst = parse_address_only(kSides[1], destination);
    if (!src || !dst) return;
    if (src->index() != dst->index()) {
      file_.error(node, "the entry cannot match: `src` and `dst` are of different families",
                  "no packet has an IPv4 address on one side and an IPv6 address on the other");
    } else {
      file_.error(node, "src with dst: not supported yet", "this version compares one side: keep one of them");
    }
  }

  std::optional<EntryText> parse_address_only(const Side& side, const Node& node) const {
    auto parsed = parse(node);
    if (!parsed || !has_port(*parsed)) return parsed;
    file_.error(node, quoted(node.text) + ": `" + side.name + "` takes no port",
                "write {" + std::string(side.name) + ": ADDRESS, " + side.port_name + ": PORT}");
    return std::nullopt;
  }

  void read_side(const Side& side, const Node& address, const Node* port, uint32_t line) {
    const auto parsed = parse_address_only(side, address);
    if (!parsed) return;
    Ports ports{0, 0};
    if (port != nullptr) {
      if (port->kind != Kind::scalar) return;  // reported when it was read
      const auto given = parse_ports(port->text);
      if (!given) {
        file_.error(
            *port,
            std::string("`") + side.port_name + "` is " + quoted(port->text) + ": it must be a port from 1 to 65535",
            "as in " + std::string(side.port_name) + ": 443");
        return;
      }
      if (given->first != given->last) return port_not_supported(*port, side.port_name, "as a range");
      if (!is_single(*parsed)) return port_not_supported(*port, side.port_name, "with a prefix or range");
      ports = *given;
    }
    append(*parsed, line, ports.first, side.direction, list_);
  }

  void port_not_supported(const Node& at, const char* port_name, const char* how) const {
    file_.error(at, std::string(port_name) + ": not supported yet " + how,
                "this version takes one port with a single address of the same side");
  }

  const PolicyFile& file_;
  const bool allow_any_;
  List& list_;
};

}  // namespace

void PolicyFile::error(const Node& at, std::string message, std::string hint) const {
  diagnostics.add(
      {Severity::error, document.where(at), std::move(message), document.source_line(at.line), std::move(hint)});
}

void PolicyFile::warning(const Node& at, std::string message, std::string hint) const {
  diagnostics.add(
      {Severity::warning, document.where(at), std::move(message), document.source_line(at.line), std::move(hint)});
}

void read_entries(const PolicyFile& file, const Node& entries, bool allow_any, List& list) {
  EntryReader reader(file, allow_any, list);
  for (const Node& node : entries.items) reader.read(node);
}

void read_own_entries(const PolicyFile& file, const Node& entries, List& list) {
  for (const Node& node : entries.items) {
    const auto parsed = parse_node(file, node);
    if (!parsed) continue;
    if (has_port(*parsed)) {
      file.error(node, quoted(node.text) + ": `own` holds addresses and prefixes, no ports",
                 "leave the port out, or make it an entry of a list with `action: pass`");
    } else if (is_any(*parsed)) {
      file.error(node, quoted(node.text) + " would exempt every address", "name the prefixes that are yours");
    } else {
      append(*parsed, node.line, 0, list.match, list);
    }
  }
}

void read_canaries(const PolicyFile& file, const Node& canaries, std::vector<Canary>& found) {
  for (const Node& node : canaries.items) {
    const auto parsed = parse_node(file, node);
    if (!parsed) continue;
    if (!is_single(*parsed) || has_port(*parsed)) {
      file.error(node, quoted(node.text) + ": a canary is a single address", "as in 192.0.2.1 or 2001:db8::1");
      continue;
    }
    Canary canary;
    canary.text = node.text;
    if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&*parsed)) canary.v4 = v4->first;
    if (const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&*parsed)) {
      canary.is_v6 = true;
      canary.v6 = v6->first;
    }
    found.push_back(std::move(canary));
  }
}

}  // namespace weir::control
