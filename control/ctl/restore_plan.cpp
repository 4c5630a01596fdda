#include "control/ctl/restore_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "control/ctl/text.h"
#include "control/lists/journal/change.h"

namespace weir::control::ctl {

namespace {

constexpr size_t kLongestName = 63;

// [A-Za-z0-9._-]{1,63}, as docs/use/policy.md says
bool is_list_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

// Sets of something else than addresses, by the beginnings of their types.
struct Foreign {
  const char* type;
  const char* why;
};
constexpr Foreign kForeign[] = {
    {"hash:mac", "it holds MAC addresses, and weir compares addresses of IP"},
    {"ether_addr", "it holds MAC addresses, and weir compares addresses of IP"},
    {"ether", "it holds MAC addresses, and weir compares addresses of IP"},
    {"bitmap:port", "it holds ports, and an entry of weir begins with an address"},
    {"inet_service", "it holds ports, and an entry of weir begins with an address"},
    {"list:set", "it holds names of other sets: restore those"},
    {"ifname", "it holds interfaces, which weir does not compare"},
    {"iface_index", "it holds interfaces, which weir does not compare"},
    {"mark", "it holds marks of the kernel, which no packet carries"},
};

std::string why_foreign(const std::string& type) {
  for (const Foreign& foreign : kForeign) {
    if (type == foreign.type) return foreign.why;
  }
  return "";
}

// What a list gets: of an entry that stands in several sets, the one that stays longest.
class Collected {
 public:
  void add(const feeds::SetEntry& entry) {
    feeds::SetEntry& kept = entries_.try_emplace(entry.text, entry).first->second;
    if (kept.expires < entry.expires) kept = entry;
  }
  RestoredList of_list(const std::string& name, uint64_t now) const {
    RestoredList list;
    list.name = name;
    for (const auto& [text, entry] : entries_) {
      list.entries.push_back(text);
      list.comments.push_back(entry.comment.substr(0, Change::kMostComment));
      const bool stays = entry.expires == kNever;
      list.ttls.push_back(stays ? 0 : std::min<uint64_t>(entry.expires - now, Change::kMostTtl_s));
    }
    const auto is_empty = [](const std::string& comment) { return comment.empty(); };
    if (std::all_of(list.comments.begin(), list.comments.end(), is_empty)) list.comments.clear();
    if (std::all_of(list.ttls.begin(), list.ttls.end(), [](uint64_t ttl) { return ttl == 0; })) list.ttls.clear();
    return list;
  }
  size_t size() const { return entries_.size(); }

 private:
  std::map<std::string, feeds::SetEntry> entries_;
};

void refuse_exceptions(RestoredSet& restored) {
  std::string all;
  for (size_t i = 0; i < restored.exceptions.size() && i < feeds::LeftOut::kMostFirst; i++) {
    all += (all.empty() ? "" : " ") + restored.exceptions[i];
  }
  restored.refused = fmt::format(
      "it has {} (`nomatch`): without them more would be blocked than the set blocks\n"
      "hint: add them to a list with `action: pass`, which always wins, as in `controlctl add --list PASS_LIST {}`; "
      "then restore the set with --ignore-exceptions",
      plural(restored.exceptions.size(), "exception"), all);
}

// The entries of a set that count; what the set loses is written down.
std::vector<const feeds::SetEntry*> entries_of(const feeds::NamedSet& set, uint64_t now, RestoredSet& restored) {
  std::vector<const feeds::SetEntry*> entries;
  feeds::LeftOut ports{
      "an address with a port: whether the rule compares source or destination, the set does not say", 0, {}};
  for (const feeds::SetEntry& entry : set.entries) {
    if (entry.expires != kNever && entry.expires <= now) {
      restored.ended++;
    } else if (entry.has_port) {
      ports.n++;
      if (ports.first.size() < feeds::LeftOut::kMostFirst) ports.first.push_back(entry.text);
    } else {
      entries.push_back(&entry);
    }
  }
  if (ports.n != 0) restored.left_out.push_back(std::move(ports));
  return entries;
}

}  // namespace

Result<RestorePlan> plan_restore(const std::deque<feeds::NamedSet>& sets, const RestoreOptions& options, uint64_t now) {
  RestorePlan plan;
  for (const std::string& name : options.sets) {
    const bool is_there = std::any_of(sets.begin(), sets.end(), [&](const auto& set) { return set.name == name; });
    if (is_there) continue;
    std::string known;
    for (const feeds::NamedSet& set : sets) known += (known.empty() ? "" : ", ") + set.name;
    return Error{fmt::format("there is no set {}\nhint: there are: {}", name, known)};
  }
  std::map<std::string, Collected> lists;
  for (const feeds::NamedSet& set : sets) {
    const bool is_wanted =
        options.sets.empty() || std::find(options.sets.begin(), options.sets.end(), set.name) != options.sets.end();
    if (!is_wanted) continue;
    RestoredSet& restored = plan.sets.emplace_back();
    restored.name = set.name;
    restored.type = set.type;
    restored.list = options.list.empty() ? set.name : options.list;
    restored.left_out = set.left_out;
    restored.exceptions = set.exceptions;
    restored.refused = set.name.empty() ? "these lines belong to no set" : why_foreign(set.type);
    if (!why_foreign(set.type).empty()) restored.left_out.clear();  // all of it, for this one reason
    if (!restored.refused.empty()) continue;
    const std::vector<const feeds::SetEntry*> entries = entries_of(set, now, restored);
    if (!set.exceptions.empty() && !options.ignore_exceptions) {
      refuse_exceptions(restored);
      continue;
    }
    if (!is_list_name(restored.list)) {
      restored.refused =
          "a list of weir cannot have this name\nhint: name the list with --list, and the set with --set";
      continue;
    }
    restored.entries = entries.size();
    for (const feeds::SetEntry* entry : entries) lists[restored.list].add(*entry);
  }
  for (const auto& [name, collected] : lists) {
    if (collected.size() <= Change::kMostEntries) {
      plan.lists.push_back(collected.of_list(name, now));
      continue;
    }
    for (RestoredSet& set : plan.sets) {
      if (set.list != name || set.entries == 0) continue;
      set.refused = fmt::format(
          "list {} would get {} entries, and {} are added at once\nhint: let the file be the list's feed: `file: FILE` "
          "in weir.yaml, which has no such limit, keeps times to live, and needs no `dynamic`",
          name, collected.size(), Change::kMostEntries);
      set.entries = 0;
    }
  }
  return plan;
}

std::string lines_of_policy(const std::vector<std::string>& names) {
  std::string lines;
  for (const std::string& name : names) {
    lines += fmt::format(
        "  - name: {}\n    action: drop      # or pass, when the set is an allowlist\n    match: src        # or dst, "
        "or "
        "either: what the rule compares with the set\n    dynamic: true\n",
        name);
  }
  return lines;
}

}  // namespace weir::control::ctl
