#include "control/policy/read/policy_entries.h"

#include <algorithm>

#include "control/policy/model/fields.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/policy_file.h"
#include "filter/format/frame_rules.h"

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

namespace {

using yaml::MapReader;

struct Side {
  const char* name;  // of the field with the address
  const char* port_name;
  uint8_t direction;
};
constexpr Side kSides[2] = {{"src", "sport", WEIR_AS_SOURCE}, {"dst", "dport", WEIR_AS_DESTINATION}};

AddressRange range_of(const EntryText& parsed) {
  return visit_parsed(parsed, [](const auto& entry) { return AddressRange{entry.first, entry.last}; });
}

class EntryMapReader {
 public:
  EntryMapReader(const PolicyFile& file, const Node& node, bool allow_any, ListDraft& list)
      : file_(file), node_(node), allow_any_(allow_any), list_(list) {}

  void read() {
    if (looks_like_an_address()) return;
    const size_t errors = file_.diagnostics.errors();
    MapReader map(file_.document, &node_, entry_section(), file_.diagnostics);
    find_all(map);
    const uint32_t expires = read_expires(map);
    const std::string comment = map.text("comment").value_or("");
    const size_t n_v4 = list_.v4.size(), n_v6 = list_.v6.size(), n_flows = list_.flows.size();
    map.finish();
    refuse_empty_fields(node_);
    if (entry_ != nullptr && any_named_) {
      file_.error(node_, "the entry has both `entry` and named fields", "write one or the other");
    } else if (entry_ != nullptr) {
      const auto parsed = parse_node(file_, *entry_, allow_any_);
      if (parsed) append(*parsed, {node_.line, port_of(*parsed), list_.match, expires}, list_);
    } else if (any_named_) {
      flow_.expires = expires;
      flow_.line = node_.line;
      read_fields(map);
      if (file_.diagnostics.errors() == errors) refuse_any();
      if (file_.diagnostics.errors() != errors) return;
      refuse_the_impossible(map);
      warn_of_other_icmp(map);
      if (file_.diagnostics.errors() == errors) keep();
    } else if (file_.diagnostics.errors() == errors) {
      std::string keys = "`src`, `dst`";
      for (const Field& field : fields()) {
        if (is_first_of_key(field)) keys += ", `" + std::string(field.key) + "`";
      }
      file_.error(node_, "the entry names nothing to match", "give it `entry`, or some of " + keys);
    }
    if (comment.empty()) return;
    const auto keep_comment = [&](const auto& entries, size_t n_before) {
      if (entries.size() > n_before) list_.comments.push_back({node_.line, shown_text(entries.back()), comment});
    };
    keep_comment(list_.v4, n_v4);
    keep_comment(list_.v6, n_v6);
    keep_comment(list_.flows, n_flows);
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

  // Rows that share a map: the first of them reads all of it.
  static bool is_first_of_key(const Field& field) { return &field == fields().data() || (&field)[-1].key != field.key; }

  // Tells the reader every key, in the order in which it lists them.
  void find_all(MapReader& map) {
    entry_ = map.find("entry");
    for (int side = 0; side < 2; side++) {
      address_[side] = map.find(kSides[side].name);
      map.find(kSides[side].port_name);
      any_named_ |= address_[side] != nullptr;
    }
    for (const Field& field : fields()) any_named_ |= map.find(field.key) != nullptr;
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
    for (const Field& field : fields()) {
      if (is_first_of_key(field)) read_field(map, field);
    }
  }

  void read_field(MapReader& map, const Field& field) {
    switch (field.form) {
      case FieldForm::scalar:
        if (const auto text = map.text(field.key)) parse(field, *map.find(field.key), *text);
        break;
      case FieldForm::list:
        read_list(map, field);
        break;
      case FieldForm::number:
        if (const Node* numbers = map.map(field.key)) read_numbers(map.section(field.key), *numbers, field.key);
        break;
      case FieldForm::bits:
        if (const Node* bits = map.map(field.key)) read_bits(map.section(field.key), *bits, field);
        break;
    }
  }

  void parse(const Field& field, const Node& place, const std::string& text) {
    const auto error = field.parse(field, text, flow_);
    if (error) report(field, place, text, *error);
  }

  void report(const Field& field, const Node& place, const std::string& text, const FieldError& error) const {
    file_.error(place, "`" + std::string(field.key) + "` is " + quoted(text) + ": " + error.reason, error.hint);
  }

  void read_address(int side) {
    const Node* node = address_[side];
    if (node == nullptr) return;
    parsed_[side] = parse_node(file_, *node);
    if (!parsed_[side]) return;
    if (port_of(*parsed_[side]) != 0) {
      file_.error(*node, quoted(node->text) + ": `" + kSides[side].name + "` takes no port",
                  "write {" + std::string(kSides[side].name) + ": ADDRESS, " + kSides[side].port_name + ": PORT}");
    }
    (side == 0 ? flow_.src : flow_.dst) = range_of(*parsed_[side]);
    flow_.family = std::holds_alternative<ParsedEntry<Ipv4>>(*parsed_[side]) ? 4 : 6;
  }

  bool is_every_address(int side) const { return parsed_[side] && is_any(*parsed_[side]); }

  // Every address of one side is no more than was meant when the other side names some.
  void refuse_any() const {
    if (allow_any_) return;
    for (int side = 0; side < 2; side++) {
      const bool has_other = parsed_[1 - side] && !is_every_address(1 - side);
      if (!is_every_address(side) || has_other) continue;
      file_.error(*address_[side], quoted(address_[side]->text) + " matches every address",
                  "name addresses as `" + std::string(kSides[1 - side].name) +
                      "`, or write `allow_any: true` in the list if that is what you want");
      return;
    }
  }

  void read_list(MapReader& map, const Field& field) {
    const Node* node = map.find(field.key);
    if (node == nullptr || node->kind != Kind::sequence) {
      if (const auto text = map.text(field.key)) parse_item(field, *node, *text);
      return;
    }
    const std::string key(field.key);
    if (node->items.empty()) file_.error(*node, "`" + key + "` names nothing to match", field.example);
    for (const Node& item : node->items) {
      if (item.kind == Kind::scalar) {
        parse_item(field, item, item.text);
      } else {
        file_.error(item, "a value of `" + key + "` must be a text", field.example);
      }
    }
  }

  // Commas are for the one line of text; in a policy file each value is an item.
  void parse_item(const Field& field, const Node& place, const std::string& text) {
    const bool is_one = text.find(',') == std::string::npos;
    const auto error = field.parse(field, is_one ? text : "", flow_);
    if (error) report(field, place, text, *error);
  }

  // All rows of this key.
  void read_numbers(MapReader numbers, const Node& node, std::string_view key) {
    const size_t errors = file_.diagnostics.errors();
    bool any = false;
    const char* example = "";
    for (const Field& field : fields()) {
      if (field.key != key) continue;
      example = field.example;
      const auto value = numbers.integer(field.inner);
      if (!value) continue;
      any = true;
      field.parse(field, std::to_string(*value), flow_);
    }
    numbers.finish();
    refuse_empty_fields(node);
    if (any || file_.diagnostics.errors() != errors) return;
    file_.error(node, "`" + std::string(key) + "` names nothing to match", example);
  }

  void read_bits(MapReader map, const Node& node, const Field& field) {
    const size_t errors = file_.diagnostics.errors();
    const std::string key(field.key);
    const Node* set_node = map.sequence("set");
    const Node* mask_node = map.sequence("mask");
    map.finish();
    refuse_empty_fields(node);
    const auto names = field.names();
    const auto bits_of = [&](const Node* list) {
      return list == nullptr ? uint8_t{0} : read_names(file_, *list, names, field.name_noun).value_or(0);
    };
    const uint8_t set = bits_of(set_node);
    const uint8_t mask = mask_node == nullptr ? set : bits_of(mask_node);
    if (file_.diagnostics.errors() != errors) return;
    if (const auto left_out = static_cast<uint8_t>(set & ~mask); left_out != 0) {
      cannot_match(node, "`set` has " + bit_names(left_out, names) + ", which `mask` leaves out",
                   "every flag of `set` must stand in `mask`, too");
    } else if (mask == 0) {
      file_.error(node, "`" + key + "` names nothing to match", field.example);
    } else {
      field.parse(field, bit_names(set, names) + "/" + bit_names(mask, names), flow_);
    }
  }

  void cannot_match(const Node& at, const std::string& why, std::string hint) const {
    file_.error(at, "the entry cannot match: " + why, std::move(hint));
  }

  // The first field given that needs any of these (mask of weir_has); null: there is none.
  const Node* first_needing(MapReader& map, unsigned needs) const {
    for (const Field& field : fields()) {
      if (field.is_asked(flow_) && (needs_of(field.asks) & needs) != 0) return map.find(field.key);
    }
    return nullptr;
  }

  void refuse_the_impossible(MapReader& map) const {
    if (parsed_[0] && parsed_[1] && parsed_[0]->index() != parsed_[1]->index()) {
      cannot_match(node_, "`src` and `dst` are of different families",
                   "no packet has an IPv4 address on one side and an IPv6 address on the other");
    }
    if (const auto contradiction = contradiction_in(flow_)) {
      cannot_match(*map.find(contradiction->field->key), contradiction->reason, contradiction->hint);
    }
    if (flow_.protocol) {
      refuse_what_is_not_carried(map);
    } else {
      refuse_what_no_protocol_carries(map);
    }
  }

  void refuse_what_is_not_carried(MapReader& map) const {
    const unsigned lacking = needs_of(fields_asked(flow_)) & ~weir_carries(*flow_.protocol);
    const Carried* told = nullptr;
    for (const Field& field : fields()) {
      if (!field.is_asked(flow_) || (needs_of(field.asks) & lacking) == 0) continue;
      const Carried& part = *std::find_if(carried().begin(), carried().end(), [&](const Carried& each) {
        return (each.needs & needs_of(field.asks)) != 0;
      });
      if (told == &part) continue;  // the source port or the ICMP type has told
      told = &part;
      cannot_match(*map.find(field.key), "packets of " + quoted(map.find("proto")->text) + " have no " + part.absent,
                   part.goes_with);
    }
  }

  void refuse_what_no_protocol_carries(MapReader& map) const {
    const unsigned needs = needs_of(fields_asked(flow_));
    for (const Carried& a : carried()) {
      for (const Carried& b : carried().subspan(static_cast<size_t>(&a - carried().data()) + 1)) {
        if ((needs & a.needs) == 0 || (needs & b.needs) == 0 || go_together(a, b)) continue;
        cannot_match(*first_needing(map, b.needs), std::string("packets with ") + a.present + " have no " + b.absent,
                     std::string("keep ") + a.keep + " or " + b.keep);
      }
    }
  }

  // Some protocol has both.
  static bool go_together(const Carried& a, const Carried& b) {
    for (unsigned protocol = 0; protocol <= UINT8_MAX; protocol++) {
      if ((weir_carries(protocol) & a.needs) != 0 && (weir_carries(protocol) & b.needs) != 0) return true;
    }
    return false;
  }

  // It may match, but hardly what its author had in mind.
  void warn_of_other_icmp(MapReader& map) const {
    const Node* place = map.find("proto");
    const std::string proto = place != nullptr ? quoted(place->text) : "";
    if (flow_.family == 6 && flow_.protocol == kProtocolIcmp) {
      file_.warning(*place, proto + " is the ICMP of IPv4, and the address is of IPv6", "write proto: icmpv6");
    } else if (flow_.family == 4 && flow_.protocol == kProtocolIcmpv6) {
      file_.warning(*place, proto + " is the ICMP of IPv6, and the address is of IPv4", "write proto: icmp");
    }
  }

  // As an Entry when it is one side's addresses; with a port of the same side when that is one port of one address.
  // Ports of whole networks would need a key shape for every prefix length: as flows they stand under the network.
  void keep() const {
    const int side = address_[0] != nullptr ? 0 : 1;
    const std::optional<PortRange> port = side == 0 ? flow_.sport : flow_.dport;
    const unsigned of_side = side == 0 ? WEIR_ASKS_SPORT : WEIR_ASKS_DPORT;
    const bool is_entry = address_[side] != nullptr && address_[1 - side] == nullptr &&
                          (fields_asked(flow_) & ~of_side) == 0 &&
                          (!port || (port->first == port->last && is_single(*parsed_[side])));
    if (!is_entry) return list_.flows.push_back(flow_);
    const uint16_t one_port = port ? port->first : uint16_t{0};
    append(*parsed_[side],
           {node_.line, one_port, static_cast<uint8_t>(kSides[side].direction | kNamesSide), flow_.expires}, list_);
  }

  const PolicyFile& file_;
  const Node& node_;
  const bool allow_any_;
  ListDraft& list_;
  const Node* entry_ = nullptr;  // nullptr, here and below: not given
  const Node* address_[2] = {};  // indexed as kSides
  bool any_named_ = false;
  std::optional<EntryText> parsed_[2];  // the addresses, indexed as kSides
  Flow flow_;
};

}  // namespace

void read_entry_map(const PolicyFile& file, const Node& node, bool allow_any, ListDraft& list) {
  EntryMapReader(file, node, allow_any, list).read();
}

namespace {

// An entry that says nothing but a protocol matches all packets of it, whoever they are from. What was added to a list
// is not asked: it must come back from the journal.
bool is_protocol_alone(const Flow& flow) {
  return !flow.src && !flow.dst && fields_asked(flow) == WEIR_ASKS_PROTOCOL;
}

}  // namespace

void read_entries(const PolicyFile& file, const Node& entries, bool allow_any, ListDraft& list) {
  for (const Node& node : entries.items) {
    if (node.kind == yaml::Kind::map) {
      const size_t n_flows = list.flows.size();
      read_entry_map(file, node, allow_any, list);
      if (allow_any || list.flows.size() == n_flows || !is_protocol_alone(list.flows.back())) continue;
      Flow shown = list.flows.back();
      shown.expires = kNever;
      file.error(node, "the entry matches every packet with `" + flow_line(shown) + "`, of every address",
                 "name `src`, `dst` or a port, or write `allow_any: true` in the list if that is what you want");
    } else if (const auto parsed = parse_node(file, node, allow_any)) {
      append(*parsed, {node.line, port_of(*parsed), list.match}, list);
    }
  }
}

void read_own_entries(const PolicyFile& file, const Node& entries, ListDraft& list) {
  for (const Node& node : entries.items) {
    const auto parsed = parse_node(file, node);
    if (!parsed) continue;
    if (port_of(*parsed) != 0) {
      file.error(node, quoted(node.text) + ": `own` holds addresses and prefixes, no ports",
                 "leave the port out, or make it an entry of a list with `action: pass`");
    } else if (is_any(*parsed)) {
      file.error(node, quoted(node.text) + " would exempt every address", "name the prefixes that are yours");
    } else {
      append(*parsed, {node.line, 0, kBothDirections}, list);
    }
  }
}

void read_canaries(const PolicyFile& file, const Node& canaries, std::vector<Canary>& found) {
  for (const Node& node : canaries.items) {
    const auto parsed = parse_node(file, node);
    if (!parsed) continue;
    if (!is_single(*parsed) || port_of(*parsed) != 0) {
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
