#include "control/sources/fleet/head.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/peer_number.h"
#include "control/base/json/json.h"
#include "control/sources/fleet/names.h"

namespace weir::control::fleet {

void members(Fields& f, GroupAt& at) {
  f({"group", "", "of nodes"}, at.group);
  f({"revision", "", "that it enforces"}, at.revision);
  f({"since", "", "turn that gave it to the group"}, at.since);
}

void members(Fields& f, Head& head) {
  f({"turn", "", "of the pointer: rises by one with each change"}, head.turn);
  f({"id", "", "of this turn, random"}, head.id);
  f({"revision", "", "of groups that are not named; 0: none"}, head.revision);
  f({"since", "", "turn that gave it to them"}, head.since);
  f.array({"groups", "", "that have one of their own"}, head.groups, "group");
  f({"staged", "", "revision that was pushed, and is not everywhere; 0: none"}, head.staged);
  f({"everywhere", "", "the last revision that all groups had"}, head.everywhere);
  f({"everywhere_before", "", "and the one before it"}, head.everywhere_before);
  f({"is_paused", "", "a rollout stops"}, head.is_paused);
  f({"by", "", "who changed it"}, head.by);
  f({"what", "", "what was done"}, head.what);
  f({"at", "s", "when, Unix time"}, head.at);
}

GroupAt at_of(const Head& head, std::string_view group) {
  const auto is_it = [&](const GroupAt& at) { return at.group == group; };
  const auto found = std::find_if(head.groups.begin(), head.groups.end(), is_it);
  return found != head.groups.end() ? *found : GroupAt{std::string(group), head.revision, head.since};
}

bool is_everywhere(const Head& head, uint64_t revision) {
  return head.revision == revision && std::all_of(head.groups.begin(), head.groups.end(),
                                                  [&](const GroupAt& at) { return at.revision == revision; });
}

void move(Head& head, std::string_view group, uint64_t revision) {
  if (group.empty()) {
    head.revision = revision;
    head.since = head.turn;
    head.groups.clear();
  } else {
    const auto is_it = [&](const GroupAt& at) { return at.group == group; };
    const auto found = std::find_if(head.groups.begin(), head.groups.end(), is_it);
    if (found != head.groups.end()) {
      found->revision = revision;
      found->since = head.turn;
    } else {
      head.groups.push_back({std::string(group), revision, head.turn});
    }
  }
  if (!is_everywhere(head, revision)) return;
  if (head.staged == revision) head.staged = 0;
  if (head.everywhere == revision) return;
  head.everywhere_before = head.everywhere;
  head.everywhere = revision;
}

uint64_t before(const Head& head) {
  return is_everywhere(head, head.everywhere) ? head.everywhere_before : head.everywhere;
}

std::string text_of(const Head& head) {
  return write_json(head).line();
}

namespace {

Result<Head> parse_head(std::string_view text) {
  if (text.size() > kMostHead) return Error{"the fleet's head is longer than 64 KiB"};
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{"the fleet's head is not understood: " + document.error()};
  Result<Head> head = read_json<Head>(*document);
  if (!head) return Error{"the fleet's head is not understood: " + head.error()};
  return head;
}

Result<void> check_number(const char* what, uint64_t number) {
  if (number <= kMostNumber) return {};
  return Error{fmt::format("the head's {} {} is not possible: {}", what, number, kHowToRepair)};
}

// But for its turn.
Result<void> check_head(const Head& head) {
  const std::pair<const char*, uint64_t> numbers[] = {{"revision", head.revision},
                                                      {"since", head.since},
                                                      {"staged", head.staged},
                                                      {"everywhere", head.everywhere},
                                                      {"everywhere_before", head.everywhere_before}};
  for (const auto& [what, number] : numbers) {
    if (Result<void> possible = check_number(what, number); !possible) return possible;
  }
  if (head.groups.size() > kMostGroups) return Error{"the fleet's head names more than 64 groups"};
  for (const GroupAt& at : head.groups) {
    if (!is_name(at.group)) return Error{"the fleet's head names a group that no node can be in"};
    if (Result<void> possible = check_number("revision", at.revision); !possible) return possible;
    if (Result<void> possible = check_number("since", at.since); !possible) return possible;
  }
  return {};
}

}  // namespace

Result<Head> read_head(std::string_view text) {
  Result<Head> head = parse_head(text);
  if (!head) return head;
  if (head->turn == 0) return Error{fmt::format("the fleet's head has no turn: {}", kHowToRepair)};
  if (Result<void> possible = check_number("turn", head->turn); !possible) return Error{possible.error()};
  if (Result<void> checked = check_head(*head); !checked) return Error{checked.error()};
  return head;
}

Head repaired_head(std::string_view text) {
  Result<Head> head = parse_head(text);
  if (!head || !check_head(*head)) return {};
  if (head->turn > kMostNumber) head->turn = 0;
  return std::move(*head);
}

Follows follows(const Head& head, uint64_t turn, std::string_view id) {
  if (turn == 0) return Follows::yes;
  if (!is_possible(head.turn, turn)) return Follows::is_not_possible;
  if (!is_possible(turn, head.turn)) return Follows::is_beyond;
  if (head.turn < turn) return Follows::is_older;
  return head.turn == turn && !id.empty() && head.id != id ? Follows::is_another : Follows::yes;
}

}  // namespace weir::control::fleet
