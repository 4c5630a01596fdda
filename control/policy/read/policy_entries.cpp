#include "control/policy/read/policy_entries.h"

#include "control/policy/model/fields.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/entry_map.h"
#include "control/policy/read/entry_node.h"

namespace weir::control {

using yaml::Node;

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
      append(*parsed, {node.line, 0, list.match}, list);
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
