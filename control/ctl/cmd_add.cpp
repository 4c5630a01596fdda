#include <cstdio>
#include <memory>

#include "control/ctl/change_line.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/policy/model/time_text.h"
#include "control/tell/answer/change.h"

namespace weir::control::ctl {

namespace cmd_add {

struct Arguments {
  std::vector<std::string> keys;
  std::string list, ttl, comment;
};

int run(const Context& context, const Arguments& arguments) {
  Request wanted{"add"};
  if (!arguments.ttl.empty()) {
    wanted.ttl = parse_duration(arguments.ttl);
    if (!wanted.ttl) {
      print(stderr, "controlctl: --ttl is `{}`: it must be a time like 90s, 10m, 24h or 7d\n", arguments.ttl);
      return kUsage;
    }
  }
  std::optional<std::vector<std::string>> entries = read_keys(arguments.keys);
  if (!entries) return kUsage;
  wanted.entries = std::move(*entries);
  if (!arguments.list.empty()) wanted.name = arguments.list;
  if (!arguments.comment.empty()) wanted.comment = arguments.comment;
  return request(context, wanted, print_change);
}

Run configure(Options& options) {
  auto arguments = std::make_shared<Arguments>();
  options.arguments("KEY...", arguments->keys, kKeysHelp).required();
  options.text("--list", "NAME", arguments->list, "to this list; where one list is dynamic it may be left out");
  options.text("--ttl", "TIME", arguments->ttl,
               "for how long: 90s, 10m, 1h30m, 7d; default: the list's max_ttl, or ever");
  options.text("--comment", "TEXT", arguments->comment, "shown wherever the entries are");
  return [arguments](const Context& context) { return run(context, *arguments); };
}

}  // namespace cmd_add

const Command kAdd = {
    "add",
    Group::change,
    "add entries to a dynamic list; waits until they are enforced, and on disk",
    "All of them are added, or none. One that is there already gets the new time to live and comment. "
    "The list must have `dynamic: true`. Exit code 3 says that not every target has them yet: it gets "
    "them when it returns.",
    cmd_add::configure,
    [](MemberTable& table) { table.add<ChangeAnswer>("add"); }};

}  // namespace weir::control::ctl
