#pragma once

#include "control/policy/feeds/entry_text.h"
#include "control/policy/model/policy.h"
#include "control/policy/read/policy_file.h"

// These functions read the entries of a policy file, as texts and as maps.
namespace weir::control {

// One entry's text in a policy file: a scalar node -> ParsedEntry.

// Applies f to the ParsedEntry of either family. parsed is no EntryError, here and below.
template <class F>
auto visit_parsed(const EntryText& parsed, F&& f) {
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) return f(*v4);
  return f(std::get<ParsedEntry<Ipv6>>(parsed));
}

uint16_t port_of(const EntryText& parsed);
bool is_single(const EntryText& parsed);
bool is_any(const EntryText& parsed);

// What the text of one node says; every reason why it says nothing is reported.
std::optional<EntryText> parse_node(const PolicyFile& file, const yaml::Node& node);
// The same; every address is an error without allow_any.
std::optional<EntryText> parse_node(const PolicyFile& file, const yaml::Node& node, bool allow_any);

// What an Entry holds beside its addresses.
struct EntryTail {
  uint32_t line;
  uint16_t port;
  uint8_t directions;
  uint32_t expires = kNever;
};
void append(const EntryText& parsed, const EntryTail& tail, ListDraft& list);

// Appends one entry with named fields: {entry: TEXT, expires: TIME} as the text says; {src, dst, expires, and the
// keys of control/policy/model/fields.h} as an Entry when that can hold it, else as a Flow. Whatever is wrong with it
// is reported.
void read_entry_map(const PolicyFile& file, const yaml::Node& node, bool allow_any, ListDraft& list);

// Appends the entries of a list: texts, and maps with named fields.
void read_entries(const PolicyFile& file, const yaml::Node& entries, bool allow_any, ListDraft& list);

// Appends `policy.own`: addresses, prefixes and ranges, in both directions.
void read_own_entries(const PolicyFile& file, const yaml::Node& entries, ListDraft& list);

// Appends `filter.canaries`: single addresses.
void read_canaries(const PolicyFile& file, const yaml::Node& canaries, std::vector<Canary>& found);

}  // namespace weir::control
