#include <algorithm>
#include <iterator>
#include <memory>

#include "control/ctl/commands.h"
#include "control/ctl/fleet_command.h"

namespace weir::control::ctl {

namespace fleet_command {

struct Action {
  const char* name;
  int (*run)(const Context&, const Asked&, Fleet&);
};
constexpr Action kActions[] = {
    {"push", push},       {"plan", plan},   {"status", status},     {"nodes", status},
    {"rollout", rollout}, {"pause", pause}, {"rollback", rollback}, {"add", add},
    {"del", del},         {"diff", diff},   {"history", history},
};

int run(const Context& context, const Asked& asked) {
  if (asked.blobs_folder.empty() != asked.blobs_url.empty()) {
    return refuse(context, "--blobs and --blobs-url belong together", kUsage);
  }
  const auto action = std::find_if(std::begin(kActions), std::end(kActions),
                                   [&](const Action& one) { return asked.action == one.name; });
  Result<Fleet> fleet = open(asked);
  if (!fleet) return refuse(context, fleet.error());
  return action->run(context, asked, *fleet);
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  std::vector<std::string> names;
  for (const Action& action : kActions) names.push_back(action.name);
  options.argument("ACTION", asked->action, "what to do").required().one_of(names);
  options.arguments("ARG...", asked->rest, "push, plan: the FILE of a policy; add, del: entries; diff: two revisions")
      .files();
  options
      .text("--config", "FILE", asked->config, "a file with `fleet:`; default: ./weir.yaml, then /etc/weir/weir.yaml")
      .files();
  options.text("--etcd", "URL,...", asked->etcd, "instead: where etcd is");
  options.text("--name", "NAME", asked->name, "the fleet; default: that of the file");
  options.text("--comment", "TEXT", asked->comment, "push, add: why");
  options.flag("--stage", asked->stage, "push: store it, and let no node take it before `rollout`");
  options.text("--blobs", "DIR", asked->blobs_folder, "push: files of more than 16 MiB, packed, go into this folder")
      .files();
  options.text("--blobs-url", "URL", asked->blobs_url, "push: from which nodes fetch what lies in that folder");
  options.text("--groups", "A,B,...", asked->groups,
               "rollout: these groups alone, in this order; default: all, by name");
  options.text("--wait", "TIME", asked->wait,
               "rollout: how long nodes of a group may take; plan: for answers, 2 minutes at most");
  options.text("--watch", "TIME", asked->watch, "rollout: how long a group is watched before the next one");
  options.text("--excess", "SHARE", asked->excess, "rollout: how much more than expected a node may drop");
  options.text("--to", "REVISION", asked->to, "rollout, rollback, plan: this one");
  options.text("--list", "NAME", asked->list, "add, del: of this list; where one list is dynamic it may be left out");
  options.text("--ttl", "TIME", asked->ttl, "add: for how long; default: until it is deleted");
  options.text("--enforced", "TIME", asked->wait_nodes, "add, del: wait so long until every node enforces it");
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace fleet_command

const Command kFleet = {
    "fleet",
    Group::change,
    "one policy for many machines: push it, roll it out, add entries everywhere; speaks to etcd, needs no controld",
    "push stores a policy and its feeds as a revision, which every node takes at once; with --stage they wait for\n"
    "rollout, which brings it to one group of nodes after the other, and stops when a node refuses it, goes silent or\n"
    "drops more than it expected. rollback brings all groups back. plan stores a policy as if to stage it, and asks "
    "each\n"
    "node what it would do to its traffic; exit code 5 says that one would refuse it. add and del change a dynamic "
    "list of every node.\n"
    "Exit code 1 says that it was not done, or that a rollout stopped, 3 that not every node has it yet.",
    fleet_command::configure,
    [](MemberTable& table) { table.add<FleetAnswer>("fleet"); }};

}  // namespace weir::control::ctl
