#pragma once

#include <string>
#include <vector>

#include "control/policy/feeds/entry_text.h"
#include "control/policy/model/columns.h"
#include "control/policy/model/policy.h"
#include "tests/catch.h"

// Policies for tests, without a file: list("feed", WEIR_DROP, WEIR_AS_SOURCE, {"192.0.2.0/24", "[2001:db8::7]:443"}).
namespace weir::control {

// The entries of a list, to be changed: edit(policy.lists[0])->v4[0].expires = 100. They are in the order in which
// they were written; what was changed is in the list when this ends.
class Edit {
 public:
  explicit Edit(List& list) : list_(list), draft_(draft_of(*list.content)) {}
  Edit(const Edit&) = delete;
  ~Edit() { list_.content = make_entries(std::move(draft_)); }
  ListDraft* operator->() { return &draft_; }

 private:
  List& list_;
  ListDraft draft_;
};

inline Edit edit(List& list) {
  return Edit(list);
}

inline void add_entry(ListDraft& list, const std::string& text, uint8_t directions, uint32_t line) {
  const EntryText parsed = parse_entry(text);
  INFO(text);
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) {
    list.v4.push_back({v4->first, v4->last, line, v4->port, directions, 0});
  } else if (const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&parsed)) {
    list.v6.push_back({v6->first, v6->last, line, v6->port, directions, 0});
  } else {
    FAIL(std::get<EntryError>(parsed).reason);
  }
}

inline List make_list(const std::string& name, weir_action action, uint8_t match,
                      const std::vector<std::string>& entries) {
  List list;
  list.name = name;
  list.action = action;
  list.match = match;
  list.policy_path = "weir.yaml";
  ListDraft draft;
  for (size_t i = 0; i < entries.size(); i++) add_entry(draft, entries[i], match, static_cast<uint32_t>(i + 10));
  list.content = make_entries(std::move(draft));
  return list;
}

inline Policy make_policy(std::vector<List> lists) {
  Policy policy;
  policy.path = "weir.yaml";
  policy.lists = std::move(lists);
  return policy;
}

constexpr uint8_t kSource = WEIR_AS_SOURCE;
constexpr uint8_t kDestination = WEIR_AS_DESTINATION;
constexpr uint8_t kEither = kSource | kDestination;

}  // namespace weir::control
