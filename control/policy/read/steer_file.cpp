#include "control/policy/read/steer_file.h"

#include <bit>
#include <cstring>

#include "common/ip.h"
#include "common/yaml/yaml.h"
#include "control/policy/model/fields.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/policy_entries.h"
#include "filter/format/packet.h"

namespace weir::control {

namespace {

using yaml::Key;
using yaml::Section;
namespace row = yaml::row;

constexpr std::string_view kPlaces = "kernel | worker";
constexpr std::string_view kPorts = "[0-9]+(-[0-9]+)?";

constexpr Key kRuleKeys[] = {
    row::choice("to", kPlaces, "Where the packets go that the rule takes.").required(),
    row::choice("family", "4 | 6", "The version of IP."),
    row::text("src", "The source: an address or a prefix.").called("address"),
    row::text("dst", "The destination: an address or a prefix.").called("address"),
    row::text("proto", "The protocol: a name, as in tcp, or a number from 0 to 255."),
    row::text("sport", "The source port, as in 443, or a range of them. Fragments have none.").matching(kPorts),
    row::text("dport", "The destination port, as in 443, or a range of them. Fragments have none.").matching(kPorts),
    row::text("comment", "For people; it is not looked at."),
};

}  // namespace

constexpr Section kSteerRuleSection = {"the rule", kRuleKeys};

namespace {

constexpr Key kRuleItem = row::map("", kSteerRuleSection, "Each rule has these keys.");
constexpr Key kKeys[] = {
    row::text("version", "Of this format.").matching("1").required(),
    row::choice("default", kPlaces, "Where IP packets go that no rule takes.").by_default("kernel"),
    row::choice("link", kPlaces,
                "Where the link's own frames go, before any rule: what is not IP (ARP, LLDP), and IPv6 neighbour and "
                "listener discovery, without which nobody reaches this host.")
        .by_default("kernel"),
    row::sequence("rules", kRuleItem,
                  "At most 64. The first rule that takes a packet decides; all that it asks must hold."),
};

}  // namespace

constexpr Section kSteerSection = {"the file", kKeys};

namespace {

using yaml::Document;
using yaml::Kind;
using yaml::MapReader;
using yaml::Node;

constexpr const char* kSteerVersion = "1";

struct RuleSide {
  const char* address;
  const char* port;
  weir_steer_by asks;
};
constexpr RuleSide kRuleSides[2] = {{"src", "sport", WEIR_STEER_BY_SOURCE_PORT},
                                    {"dst", "dport", WEIR_STEER_BY_DESTINATION_PORT}};

// As in a packet: struct weir_packet has the bytes of the wire in its words.
void set_words(weir_u64 (&words)[2], Ipv4 value) {
  const auto bytes = to_bytes(value);
  memcpy(words, bytes.data(), bytes.size());
}
void set_words(weir_u64 (&words)[2], Ipv6 value) {
  const auto bytes = to_bytes(value);
  memcpy(words, bytes.data(), bytes.size());
}

// How long the prefix is that the range is; empty: it is none.
template <class Addr>
std::optional<unsigned> prefix_bits(const Entry<Addr>& range) {
  const Addr differ = range.first ^ range.last;
  for (unsigned bits = 0; bits <= kAddrBits<Addr>; bits++) {
    const Addr host = static_cast<Addr>(~prefix_mask<Addr>(bits));
    if (differ == host) return (range.first & host) == 0 ? std::optional(bits) : std::nullopt;
  }
  return std::nullopt;
}

class RuleReader {
 public:
  RuleReader(const PolicyFile& file, const Node& node)
      : file_(file), node_(node), map_(file.document, &node, kSteerRuleSection, file.diagnostics) {}

  weir_steer_rule read() {
    const size_t errors = file_.diagnostics.errors();
    if (map_.require("to") != nullptr) rule_.to = static_cast<uint8_t>(map_.choice("to").value_or(0));
    const auto family = map_.choice("family");
    if (family) rule_.family = *family == 0 ? 4 : 6;
    for (int side = 0; side < 2; side++) read_address(side);
    read_protocol();
    for (int side = 0; side < 2; side++) read_ports(side);
    map_.text("comment");
    map_.finish();
    for (const auto& [name, value] : node_.members) {
      if (value.kind != Kind::null || name.text == "comment" || name.text == "to") continue;
      file_.error(name, quoted(name.text) + " has no value", "give it one, or take it out");
    }
    if (file_.diagnostics.errors() == errors && asks_nothing()) {
      file_.error(
          node_, "the rule names nothing to match",
          "give it some of `family`, `proto`, `src`, `dst`, `sport`, `dport`; for all the rest there is `default`");
    }
    return rule_;
  }

 private:
  bool asks_nothing() const {
    const weir_u64(&mask)[2][2] = rule_.mask;
    return rule_.family == 0 && rule_.asks == 0 && (mask[0][0] | mask[0][1] | mask[1][0] | mask[1][1]) == 0;
  }

  void read_address(int side) {
    const Node* node = map_.find(kRuleSides[side].address);
    if (node == nullptr) return;
    const std::optional<EntryText> parsed = parse_node(file_, *node);
    if (!parsed) return;
    if (port_of(*parsed) != 0) {
      file_.error(*node, quoted(node->text) + ": `" + kRuleSides[side].address + "` takes no port",
                  std::string("write ") + kRuleSides[side].address + ": ADDRESS, " + kRuleSides[side].port + ": PORT");
      return;
    }
    const uint8_t family = std::holds_alternative<ParsedEntry<Ipv4>>(*parsed) ? 4 : 6;
    if (rule_.family != 0 && rule_.family != family) {
      file_.error(*node,
                  quoted(node->text) + " is IPv" + std::to_string(family) + ", and the rule is about IPv" +
                      std::to_string(rule_.family) + ": it cannot match",
                  "`family`, `src` and `dst` must be of one family; write two rules for both");
      return;
    }
    rule_.family = family;
    visit_parsed(*parsed, [&](const auto& range) { keep_prefix(side, *node, range); });
  }

  template <class Addr>
  void keep_prefix(int side, const Node& node, const Entry<Addr>& range) {
    const std::optional<unsigned> bits = prefix_bits(range);
    if (!bits) {
      file_.error(node, quoted(node.text) + " is no single prefix", "write one rule for each prefix of the range");
      return;
    }
    set_words(rule_.address[side], range.first);
    set_words(rule_.mask[side], prefix_mask<Addr>(*bits));
  }

  // As an entry of a policy has it. False: it is not given, or says nothing.
  bool read_field(const char* key, Flow& flow) {
    const auto text = map_.text(key);
    if (!text) return false;
    const Field& field = *find_field(key);
    const auto error = field.parse(field, *text, flow);
    if (error) {
      const std::string name(key);
      file_.error(*map_.find(key), "`" + name + "` is " + quoted(*text) + ": " + error->reason, error->hint);
    }
    return !error;
  }

  void read_protocol() {
    Flow flow;
    if (!read_field("proto", flow)) return;
    rule_.protocol = static_cast<weir_u8>(*flow.protocol);
    rule_.asks |= WEIR_STEER_BY_PROTOCOL;
  }

  void read_ports(int side) {
    Flow flow;
    if (!read_field(kRuleSides[side].port, flow)) return;
    const Node& node = *map_.find(kRuleSides[side].port);
    const PortRange ports = side == 0 ? *flow.sport : *flow.dport;
    if ((rule_.asks & WEIR_STEER_BY_PROTOCOL) != 0 && !has_ports(rule_.protocol)) {
      file_.error(node, "the rule cannot match: packets of " + quoted(map_.find("proto")->text) + " have no ports",
                  "ports are of tcp, udp, sctp, dccp and udplite");
      return;
    }
    rule_.first_port[side] = ports.first;
    rule_.last_port[side] = ports.last;
    rule_.asks = static_cast<weir_u8>(rule_.asks | kRuleSides[side].asks);
  }

  const PolicyFile& file_;
  const Node& node_;
  MapReader map_;
  weir_steer_rule rule_ = {};
};

// What an operator would hardly want.
void warn_of_rules_that_never_match(const PolicyFile& file, const Node& rules, const weir_steering& steering) {
  for (uint32_t i = 1; i < steering.n_rules; i++) {
    for (uint32_t before = 0; before < i; before++) {
      if (!covers(steering.rule[before], steering.rule[i])) continue;
      file.warning(rules.items[i],
                   "the rule takes nothing: the one in line " + std::to_string(rules.items[before].line) +
                       " comes first and takes all of it (" + rule_text(steering.rule[before]) + ")",
                   "the first rule that matches decides: put the narrower one first, or take it out");
      break;
    }
  }
}

bool keeps_something(const weir_steering& steering) {
  for (uint32_t i = 0; i < steering.n_rules; i++) {
    if (steering.rule[i].to == WEIR_TO_KERNEL) return true;
  }
  return steering.default_to == WEIR_TO_KERNEL;
}

std::optional<weir_steering> from_document(const Document& document, Diagnostics& diagnostics) {
  const size_t errors = diagnostics.errors();
  const PolicyFile file{document, diagnostics, 0};
  if (document.root.kind == Kind::null) {
    file.error(document.root, "the file is empty", "begin with a line `version: 1`");
    return std::nullopt;
  }
  MapReader root(document, &document.root, kSteerSection, diagnostics);
  const Node* version = root.require("version");
  if (const auto text = root.text("version"); text && *text != kSteerVersion) {
    root.error(*version, "version " + quoted(*text) + " is not known",
               std::string("this program reads `version: ") + kSteerVersion + "`");
    return std::nullopt;
  }
  weir_steering steering = {};
  steering.version = WEIR_STEER_VERSION;
  steering.default_to = static_cast<uint8_t>(root.choice("default").value_or(WEIR_TO_KERNEL));
  steering.link_to = static_cast<uint8_t>(root.choice("link").value_or(WEIR_TO_KERNEL));
  const Node* rules = root.sequence("rules");
  root.finish();
  if (rules != nullptr) {
    if (rules->items.size() > WEIR_MAX_STEER_RULES) {
      file.error(rules->items[WEIR_MAX_STEER_RULES],
                 std::to_string(rules->items.size()) + " rules: there may be " + std::to_string(WEIR_MAX_STEER_RULES),
                 "each is compared with every packet: name larger prefixes, or turn `default` around");
      return std::nullopt;
    }
    for (const Node& node : rules->items) steering.rule[steering.n_rules++] = RuleReader(file, node).read();
  }
  if (diagnostics.errors() != errors) return std::nullopt;
  if (rules != nullptr) warn_of_rules_that_never_match(file, *rules, steering);
  if (!keeps_something(steering)) {
    file.warning(*root.find("default"), "no IP traffic stays in the kernel: a login over this interface is lost",
                 "keep it with a rule in front, as in {to: kernel, proto: tcp, dport: 22}");
  }
  return steering;
}

unsigned mask_bits(const weir_u64 (&mask)[2]) {
  return static_cast<unsigned>(std::popcount(mask[0]) + std::popcount(mask[1]));
}

std::string prefix_text(const weir_steer_rule& rule, int side) {
  uint8_t bytes[16];
  memcpy(bytes, rule.address[side], sizeof bytes);
  const unsigned bits = mask_bits(rule.mask[side]);
  const std::string address = rule.family == 4 ? to_string(ipv4_from_bytes(bytes)) : to_string(ipv6_from_bytes(bytes));
  return bits == (rule.family == 4 ? 32u : 128u) ? address : address + "/" + std::to_string(bits);
}

Flow flow_of(const weir_steer_rule& rule) {
  const auto asks = [&](weir_steer_by what) { return (rule.asks & what) != 0; };
  Flow flow;
  if (asks(WEIR_STEER_BY_PROTOCOL)) flow.protocol = rule.protocol;
  if (asks(WEIR_STEER_BY_SOURCE_PORT)) flow.sport = {rule.first_port[0], rule.last_port[0]};
  if (asks(WEIR_STEER_BY_DESTINATION_PORT)) flow.dport = {rule.first_port[1], rule.last_port[1]};
  return flow;
}

}  // namespace

std::string rule_text(const weir_steer_rule& rule) {
  std::string text;
  for (int side = 0; side < 2; side++) {
    if (mask_bits(rule.mask[side]) != 0)
      text += std::string(" ") + kRuleSides[side].address + " " + prefix_text(rule, side);
  }
  if (text.empty() && rule.family != 0) text = " IPv" + std::to_string(rule.family);
  const std::string fields = flow_text(flow_of(rule));
  if (!fields.empty()) text += " " + fields;
  return text.empty() ? "any IP packet" : text.substr(1);
}

const char* steer_to_name(uint8_t to) {
  return to == WEIR_TO_WORKER ? "worker" : "kernel";
}

bool covers(const weir_steer_rule& wide, const weir_steer_rule& narrow) {
  if (wide.family != 0 && wide.family != narrow.family) return false;
  for (int side = 0; side < 2; side++) {
    for (int half = 0; half < 2; half++) {
      const weir_u64 mask = wide.mask[side][half];
      if ((mask & ~narrow.mask[side][half]) != 0) return false;
      if (((wide.address[side][half] ^ narrow.address[side][half]) & mask) != 0) return false;
    }
    if ((wide.asks & kRuleSides[side].asks) == 0) continue;
    if ((narrow.asks & kRuleSides[side].asks) == 0 || narrow.first_port[side] < wide.first_port[side] ||
        narrow.last_port[side] > wide.last_port[side]) {
      return false;
    }
  }
  if ((wide.asks & WEIR_STEER_BY_PROTOCOL) == 0) return true;
  return (narrow.asks & WEIR_STEER_BY_PROTOCOL) != 0 && narrow.protocol == wide.protocol;
}

std::optional<weir_steering> read_steer_file(const std::string& path, Diagnostics& diagnostics) {
  const std::optional<Document> document = yaml::read_document(path, diagnostics);
  if (!document || !diagnostics.ok()) return std::nullopt;
  return from_document(*document, diagnostics);
}

std::optional<weir_steering> parse_steer_file(std::string path, std::string text, Diagnostics& diagnostics) {
  const std::optional<Document> document = yaml::parse_document(std::move(path), std::move(text), diagnostics);
  if (!document || !diagnostics.ok()) return std::nullopt;
  return from_document(*document, diagnostics);
}

}  // namespace weir::control
