#include "control/ctl/change_line.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/lists/journal/change.h"
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
    print(stderr, "controlctl: it holds still: {}\nhint: take it out there, or add it to a list with `action: pass`\n",
          answer.counts.still_held);
  }
  if (answer.ok) return;
  print_targets(answer.targets);
  print(stderr, "controlctl: {}\n", answer.error);
}

}  // namespace weir::control::ctl
