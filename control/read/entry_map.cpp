#include "control/read/entry_map.h"

#include <charconv>

#include "control/read/entry_node.h"

namespace weir::control {
namespace {

using yaml::Kind;
using yaml::MapReader;
using yaml::Node;

struct Side {
  const char* name;  // of the field with the address
  const char* port_name;
  uint8_t direction;
};
constexpr Side kSides[2] = {{"src", "sport", WEIR_AS_SOURCE}, {"dst", "dport", WEIR_AS_DESTINATION}};

uint16_t parse_port(std::string_view text) {  // 0 = none
  uint16_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failure == std::errc{} && end == text.data() + text.size() && text[0] != '0';
  return whole ? value : uint16_t{0};
}

AddressRange range_of(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return AddressRange{entry.first, entry.last}; });
}

// The nodes of the fields; nullptr: not given.
struct Fields {
  const Node* entry;
  const Node* address[2];  // indexed as kSides
  const Node* port[2];
  const Node* proto;
  const Node* icmp;
  const Node* tcp_flags;

  const Node* any_port() const { return port[0] != nullptr ? port[0] : port[1]; }
  bool any_named() const {
    return address[0] != nullptr || address[1] != nullptr || any_port() != nullptr || proto != nullptr ||
           icmp != nullptr || tcp_flags != nullptr;
  }
};

class EntryMapReader {
 public:
  EntryMapReader(const PolicyFile& file, const Node& node, bool allow_any, List& list)
      : file_(file), node_(node), allow_any_(allow_any), list_(list) {}

  void read() {
    if (looks_like_an_address()) return;
    const size_t errors = file_.diagnostics.errors();
    MapReader map(file_.document, &node_, "the entry", file_.diagnostics);
    find_fields(map);
    const uint32_t expires = read_expires(map);
    map.text("comment");
    map.finish();
    refuse_empty_fields(node_);
    if (fields_.entry != nullptr && fields_.any_named()) {
      file_.error(node_, "the entry has both `entry` and named fields", "write one or the other");
    } else if (fields_.entry != nullptr) {
      const auto parsed = parse_node(file_, *fields_.entry, allow_any_);
      if (parsed) append(*parsed, {node_.line, port_of(*parsed), list_.match, expires}, list_);
    } else if (fields_.any_named()) {
      flow_.expires = expires;
      flow_.line = node_.line;
      read_fields(map);
      if (file_.diagnostics.errors() != errors) return;
      refuse_the_impossible();
      warn_of_other_icmp();
      if (file_.diagnostics.errors() == errors) keep();
    } else if (file_.diagnostics.errors() == errors) {
      file_.error(node_, "the entry names nothing to match",
                  "give it `entry`, or some of `src`, `dst`, `proto`, `sport`, `dport`, `icmp`, `tcp_flags`");
    }
  }

 private:
  // `2001:db8::` and `203.0.113.7: 443` without quotes are a key and a value to YAML.
  bool looks_like_an_address() const {
    if (node_.members.size() != 1) return false;
    const auto& [key, value] = node_.members[0];
    const std::string meant = key.text + ":" + value.text;
    if (value.kind > Kind::scalar || std::holds_alternative<EntryError>(parse_entry(meant))) return false;
    file_.error(node_, quoted(meant) + " without quotes is a key and a value in YAML", "write \"" + meant + "\"");
    return true;
  }

  void find_fields(MapReader& map) {
    fields_.entry = map.find("entry");
    for (int side = 0; side < 2; side++) {
      fields_.address[side] = map.find(kSides[side].name);
      fields_.port[side] = map.find(kSides[side].port_name);
    }
    fields_.proto = map.find("proto");
    fields_.icmp = map.find("icmp");
    fields_.tcp_flags = map.find("tcp_flags");
  }

  // Elsewhere a key without a value counts as left out. Here that would match more than was meant.
  void refuse_empty_fields(const Node& map) const {
    for (const auto& [name, value] : map.members) {
      if (value.kind != Kind::null || name.text == "comment") continue;
      file_.error(name, quoted(name.text) + " has no value", "give it one, or take it out");
    }
  }

  uint32_t read_expires(MapReader& map) const {
    const auto text = map.text("expires");
    if (!text) return kNever;
    const Node& place = *map.find("expires");
    const auto expires = parse_time(*text);
    if (!expires) {
      file_.error(place, "`expires` is " + quoted(*text) + ": it must be a time like 2026-12-01T00:00:00Z",
                  "RFC 3339: date, T, time of day, then Z or an offset like +01:00");
    } else if (*expires != kNever && *expires <= file_.now) {
      file_.warning(place, "the entry has expired (" + quoted(*text) + "): it matches nothing",
                    "take it out, or give it a later time");
    }
    return expires.value_or(kNever);
  }

  void read_fields(MapReader& map) {
    for (int side = 0; side < 2; side++) read_address(side);
    flow_.sport = read_ports(map, kSides[0].port_name);
    flow_.dport = read_ports(map, kSides[1].port_name);
    read_protocol(map);
    if (const Node* icmp = map.map("icmp")) read_icmp(*icmp);
    if (const Node* flags = map.map("tcp_flags")) read_tcp_flags(*flags);
  }

  void read_address(int side) {
    const Node* node = fields_.address[side];
    if (node == nullptr) return;
    parsed_[side] = parse_node(file_, *node, allow_any_);
    if (!parsed_[side]) return;
    if (port_of(*parsed_[side]) != 0) {
      file_.error(*node, quoted(node->text) + ": `" + kSides[side].name + "` takes no port",
                  "write {" + std::string(kSides[side].name) + ": ADDRESS, " + kSides[side].port_name + ": PORT}");
    }
    (side == 0 ? flow_.src : flow_.dst) = range_of(*parsed_[side]);
    flow_.family = std::holds_alternative<ParsedEntry<Ipv4>>(*parsed_[side]) ? 4 : 6;
  }

  std::optional<PortRange> read_ports(MapReader& map, const std::string& name) const {
    const auto text = map.text(name);
    if (!text) return std::nullopt;
    const Node& place = *map.find(name);
    const size_t hyphen = text->find('-');
    const uint16_t first = parse_port(std::string_view(*text).substr(0, hyphen));
    const uint16_t last = hyphen == std::string::npos ? first : parse_port(std::string_view(*text).substr(hyphen + 1));
    if (first == 0 || last == 0) {
      file_.error(place, quoted(name) + " is " + quoted(*text) + ": it must be a port from 1 to 65535, or a range",
                  "as in " + name + ": 443 or " + name + ": 8000-8010");
    } else if (last < first) {
      file_.error(place, quoted(name) + " is " + quoted(*text) + ": the range ends before it begins", "swap its ends");
    }
    return PortRange{first, last};
  }

  void read_protocol(MapReader& map) {
    const auto text = map.text("proto");
    if (!text) return;
    flow_.protocol = parse_protocol(*text);
    if (flow_.protocol) return;
    file_.error(*fields_.proto, "`proto` is " + quoted(*text) + ": it must be a protocol's name or number, 0 to 255",
                "names: " + protocol_names());
  }

  void read_icmp(const Node& node) {
    const size_t errors = file_.diagnostics.errors();
    MapReader icmp(file_.document, &node, "`icmp`", file_.diagnostics);
    const auto type = icmp.integer("type", 0, 255);
    const auto code = icmp.integer("code", 0, 255);
    icmp.finish();
    refuse_empty_fields(node);
    if (type) flow_.icmp_type = static_cast<uint8_t>(*type);
    if (code) flow_.icmp_code = static_cast<uint8_t>(*code);
    if (type || code || file_.diagnostics.errors() != errors) return;
    file_.error(node, "`icmp` names nothing to match", "give it `type`, `code` or both, as in icmp: {type: 8}");
  }

  void read_tcp_flags(const Node& node) {
    const size_t errors = file_.diagnostics.errors();
    MapReader flags(file_.document, &node, "`tcp_flags`", file_.diagnostics);
    const Node* set = flags.sequence("set");
    const Node* mask = flags.sequence("mask");
    flags.finish();
    refuse_empty_fields(node);
    if (set != nullptr) flow_.tcp_set = read_names(file_, *set, tcp_flag_names(), "a TCP flag").value_or(0);
    if (mask != nullptr) flow_.tcp_mask = read_names(file_, *mask, tcp_flag_names(), "a TCP flag").value_or(0);
    if (file_.diagnostics.errors() != errors) return;
    if (mask == nullptr) flow_.tcp_mask = flow_.tcp_set;
    if (const auto left_out = static_cast<uint8_t>(flow_.tcp_set & ~flow_.tcp_mask); left_out != 0) {
      cannot_match(node, "`set` has " + bit_names(left_out, tcp_flag_names()) + ", which `mask` leaves out",
                   "every flag of `set` must stand in `mask`, too");
    } else if (flow_.tcp_mask == 0) {
      file_.error(node, "`tcp_flags` names nothing to match",
                  "as in tcp_flags: {set: [syn], mask: [syn, ack]}: SYN is set, ACK is not");
    }
  }

  void cannot_match(const Node& at, const std::string& why, std::string hint) const {
    file_.error(at, "the entry cannot match: " + why, std::move(hint));
  }

  void refuse_the_impossible() const {
    if (parsed_[0] && parsed_[1] && parsed_[0]->index() != parsed_[1]->index()) {
      cannot_match(node_, "`src` and `dst` are of different families",
                   "no packet has an IPv4 address on one side and an IPv6 address on the other");
    }
    const bool is_icmp = flow_.protocol == kProtocolIcmp || flow_.protocol == kProtocolIcmpv6;
    const std::string proto = fields_.proto != nullptr ? quoted(fields_.proto->text) : "";
    if (fields_.any_port() != nullptr && flow_.protocol && !has_ports(*flow_.protocol)) {
      cannot_match(*fields_.any_port(), "packets of " + proto + " have no ports",
                   "ports are of tcp, udp, sctp, dccp and udplite");
    }
    if (fields_.icmp != nullptr && flow_.protocol && !is_icmp) {
      cannot_match(*fields_.icmp, "packets of " + proto + " have no ICMP header",
                   "`icmp` goes with `proto: icmp` (IPv4) or `proto: icmpv6`");
    }
    if (fields_.tcp_flags != nullptr && flow_.protocol && flow_.protocol != kProtocolTcp) {
      cannot_match(*fields_.tcp_flags, "packets of " + proto + " have no TCP flags",
                   "`tcp_flags` goes with `proto: tcp`");
    }
    if (flow_.protocol) return;
    if (fields_.icmp != nullptr && fields_.any_port() != nullptr) {
      cannot_match(*fields_.any_port(), "packets with an ICMP header have no ports", "keep `icmp` or the port");
    }
    if (fields_.icmp != nullptr && fields_.tcp_flags != nullptr) {
      cannot_match(*fields_.tcp_flags, "packets with an ICMP header have no TCP flags", "keep `icmp` or `tcp_flags`");
    }
  }

  // It may match, but hardly what its author had in mind.
  void warn_of_other_icmp() const {
    const std::string proto = fields_.proto != nullptr ? quoted(fields_.proto->text) : "";
    if (flow_.family == 6 && flow_.protocol == kProtocolIcmp) {
      file_.warning(*fields_.proto, proto + " is the ICMP of IPv4, and the address is of IPv6", "write proto: icmpv6");
    } else if (flow_.family == 4 && flow_.protocol == kProtocolIcmpv6) {
      file_.warning(*fields_.proto, proto + " is the ICMP of IPv6, and the address is of IPv4", "write proto: icmp");
    }
  }

  // As an Entry when it is one side's addresses; with a port of the same side when that is one port of one address.
  // Ports of whole networks would need a key shape for every prefix length: as flows they stand under the network.
  void keep() const {
    const int side = fields_.address[0] != nullptr ? 0 : 1;
    const std::optional<PortRange> port = side == 0 ? flow_.sport : flow_.dport;
    const bool is_entry = fields_.address[side] != nullptr && fields_.address[1 - side] == nullptr &&
                          fields_.port[1 - side] == nullptr &&
                          (!port || (port->first == port->last && is_single(*parsed_[side]))) &&
                          fields_.proto == nullptr && fields_.icmp == nullptr && fields_.tcp_flags == nullptr;
    if (!is_entry) return list_.flows.push_back(flow_);
    const uint16_t one_port = port ? port->first : uint16_t{0};
    append(*parsed_[side], {node_.line, one_port, kSides[side].direction, flow_.expires}, list_);
  }

  const PolicyFile& file_;
  const Node& node_;
  const bool allow_any_;
  List& list_;
  Fields fields_{};
  std::optional<EntryText> parsed_[2];  // the addresses, indexed as kSides
  Flow flow_;
};

}  // namespace

void read_entry_map(const PolicyFile& file, const Node& node, bool allow_any, List& list) {
  EntryMapReader(file, node, allow_any, list).read();
}

}  // namespace weir::control
