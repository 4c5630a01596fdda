#include "control/ctl/fleet_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "common/files.h"
#include "control/ctl/text.h"
#include "control/lists/journal/change.h"
#include "control/policy/read/feed_group.h"
#include "control/sources/fleet/revision.h"

namespace weir::control::ctl {
namespace {

namespace fs = std::filesystem;

Result<void> append(const std::string& folder, const std::string& relative, std::set<std::string>& known,
                    PolicyFiles& to) {
  if (!fleet::is_path_inside(relative)) {
    return Error{
        fmt::format("{} is not in the folder of the policy: nodes would not find it there\nhint: put feeds "
                    "beside the policy, or into a folder below, and name them by a relative path",
                    relative)};
  }
  if (!known.insert(relative).second) return {};
  Result<std::string> bytes = read_file(folder + "/" + relative, fleet::kMostBlob);
  if (!bytes) return Error{bytes.error()};
  to.files.push_back({relative, std::move(*bytes)});
  return {};
}

std::string normal(const std::string& path) {
  return fs::path(path).lexically_normal().string();
}

}  // namespace

Result<PolicyFiles> policy_files(const std::string& path, const Policy& policy) {
  PolicyFiles found;
  const fs::path whole(path);
  const std::string folder = whole.has_parent_path() ? whole.parent_path().string() : ".";
  found.policy = whole.filename().string();
  std::set<std::string> known;
  if (const Result<void> done = append(folder, found.policy, known, found); !done) return Error{done.error()};
  for (const List& list : policy.lists) {
    if (list.file.empty() || !list.url.empty()) continue;  // each node fetches what has an url
    if (fs::path(list.file).is_absolute()) {
      return Error{
          fmt::format("the feed of list {} is {}, which is not in the folder of the policy\nhint: put feeds beside "
                      "the policy, or into a folder below, and name them by a relative path",
                      list.name, list.file)};
    }
    const std::string at = folder + "/" + list.file;
    std::vector<std::string> names = {list.file};
    if (stands_for_several(at)) {
      const Result<std::vector<std::string>> several = feed_names(at);
      if (!several) return Error{several.error()};
      names.clear();
      for (const std::string& name : *several) names.push_back(fs::path(name).lexically_relative(folder).string());
    }
    for (const std::string& name : names) {
      if (const Result<void> done = append(folder, normal(name), known, found); !done) return Error{done.error()};
    }
  }
  return found;
}

Result<std::string> dynamic_list(const Policy& policy, const std::string& name) {
  Change change;
  change.list = name;
  const Result<const List*> list = list_of(change, policy.lists);
  if (!list) return Error{"of the fleet's policy: " + list.error()};
  return (*list)->name;
}

std::string line_difference(const std::string& before, const std::string& after, size_t most_lines) {
  const std::vector<std::string> old_lines = lines_of(before), new_lines = lines_of(after);
  // As sets with counts: a policy that is written in another order says the same to nearly every reader.
  std::map<std::string, int> count;
  for (const std::string& line : old_lines) count[line]--;
  for (const std::string& line : new_lines) count[line]++;
  std::string text;
  size_t shown = 0, left = 0;
  const auto show = [&](const std::vector<std::string>& lines, int sign, const char* mark) {
    for (const std::string& line : lines) {
      int& here = count[line];
      if (here * sign <= 0) continue;
      here -= sign;
      if (shown == most_lines) {
        left++;
        continue;
      }
      shown++;
      text += mark + line + "\n";
    }
  };
  show(old_lines, -1, "- ");
  show(new_lines, 1, "+ ");
  if (left != 0) text += fmt::format("... and {} lines more\n", left);
  return text;
}

}  // namespace weir::control::ctl
