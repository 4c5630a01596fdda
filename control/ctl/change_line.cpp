#include "control/ctl/change_line.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "control/ctl/command.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/lists/journal/change.h"
#include "control/policy/model/time_text.h"
#include "control/policy/read/entry_line.h"

namespace weir::control::ctl {

namespace {

constexpr const char* kBlanks = " \t\r\v\f";

bool take(const std::string& key, std::vector<std::string>& entries) {
  if (key.front() != '{') {
    entries.push_back(key);
    return true;
  }
  const Result<std::string> line = entry_line_of_map(key);
  if (!line) {
    print(stderr, "controlctl: {}\n", line.error());
    return false;
  }
  entries.push_back(*line);
  return true;
}

bool take_stdin(std::vector<std::string>& entries) {
  for (std::string line; std::getline(std::cin, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    line.erase(line.find_last_not_of(kBlanks) + 1);
    line.erase(0, line.find_first_not_of(kBlanks));
    if (line.empty()) continue;
    if (entries.size() == Change::kMostEntries) {
      print(stderr,
            "controlctl: more than {} entries on stdin: nothing was changed\nhint: give them in parts, as in "
            "`split -l {} FILE part. && for p in part.*; do controlctl add - < $p; done`\n",
            Change::kMostEntries, Change::kMostEntries);
      return false;
    }
    if (!take(line, entries)) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> read_keys(const std::vector<std::string>& keys) {
  std::vector<std::string> entries;
  for (const std::string& key : keys) {
    if (key.empty()) {
      print(stderr, "controlctl: an entry is empty\n");
      return std::nullopt;
    }
    if (key == "-" ? !take_stdin(entries) : !take(key, entries)) return std::nullopt;
  }
  if (entries.empty()) {
    print(stderr, "controlctl: no entry on stdin: nothing was changed\n");
    return std::nullopt;
  }
  return entries;
}

void print_change(const ChangeAnswer& answer) {
  std::string what;
  const auto tell = [&](uint64_t n, const char* became) {
    if (n != 0) what += fmt::format("{}{} {}", what.empty() ? "" : ", ", plural(n, "entry", "entries"), became);
  };
  tell(answer.counts.added, "added");
  tell(answer.counts.renewed, "renewed");
  tell(answer.counts.deleted, "deleted");
  tell(answer.counts.missing, "not there");
  print("list {}: {}; {} added to it now\n", answer.list, what.empty() ? "nothing to do" : what,
        plural(answer.entries, "entry", "entries"));
  for (const std::string& text : answer.counts.widened_texts) print("{}\n", text);
  if (answer.counts.widened > answer.counts.widened_texts.size()) {
    print("... and {} more by ipv6_aggregate\n",
          plural(answer.counts.widened - answer.counts.widened_texts.size(), "network", "networks"));
  }
  std::fflush(stdout);
  if (!answer.counts.still_held.empty()) {
    print(stderr, "controlctl: still matches: {}\nhint: take it out there, or add it to a list with `action: pass`\n",
          answer.counts.still_held);
  }
  for (const std::string& text : answer.counts.still_passes) print(stderr, "controlctl: STILL PASSES: {}\n", text);
  if (!answer.counts.still_passes.empty()) {
    print(stderr, "hint: own addresses and pass lists win over drop lists: take the entry out there\n");
  }
  if (!answer.notice.empty()) print(stderr, "controlctl: DROPS NOTHING NOW: {}\n", answer.notice);
  if (answer.ok) return;
  print_targets(answer.targets);
  print(stderr, "controlctl: {}\n", answer.error);
}

Run configure_add(Options& options, const char* action, const char* list_help) {
  struct Arguments {
    std::vector<std::string> keys;
    std::string list, ttl, comment;
  };
  auto arguments = std::make_shared<Arguments>();
  options.arguments("KEY...", arguments->keys, kKeysHelp).required();
  options.text("--list", "NAME", arguments->list, list_help);
  options.text("--ttl", "TIME", arguments->ttl,
               "for how long: 90s, 10m, 1h30m, 7d; default: the list's max_ttl, or ever");
  options.text("--comment", "TEXT", arguments->comment, "shown wherever the entries are");
  return [arguments, action](const Context& context) -> int {
    Request wanted{"add"};
    if (!arguments->ttl.empty()) {
      wanted.ttl = parse_duration(arguments->ttl);
      if (!wanted.ttl) {
        print(stderr, "controlctl: --ttl is `{}`: it must be a time like 90s, 10m, 24h or 7d\n", arguments->ttl);
        return kUsage;
      }
    }
    std::optional<std::vector<std::string>> entries = read_keys(arguments->keys);
    if (!entries) return kUsage;
    wanted.entries = std::move(*entries);
    if (arguments->list.empty()) {
      wanted.action = action;
    } else {
      wanted.name = arguments->list;
    }
    if (!arguments->comment.empty()) wanted.comment = arguments->comment;
    return request(context, wanted, print_change);
  };
}

}  // namespace weir::control::ctl
