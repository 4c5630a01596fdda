#include <cstdio>
#include <memory>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/model/time_text.h"
#include "control/tell/answer/change.h"

namespace weir::control::ctl {

namespace {

void show_changes(const std::vector<ListChange>& changes) {
  constexpr size_t kMostShown = 20;
  if (changes.empty()) print("no list changed\n");
  Table table({{"list"},
               {""},
               {"added", Table::Align::right},
               {"removed", Table::Align::right},
               {"entries", Table::Align::right}});
  for (size_t i = 0; i < changes.size() && i < kMostShown; i++) {
    const ListChange& list = changes[i];
    table.row({list.name, list.state, count(list.added), count(list.removed), count(list.entries)});
  }
  if (!table.empty()) print("\n{}", table.text());
  if (changes.size() > kMostShown) print("... and {} more lists\n", changes.size() - kMostShown);
  if (!table.empty()) print("\n");
}

}  // namespace

void print_reload(const ReloadAnswer& answer) {
  std::fflush(stdout);
  print_diagnostics(answer.diagnostics.kept());
  const std::string running = generation_text(answer.generation);
  const bool published = !answer.targets.empty() || answer.ok;
  if (!published) {
    print(stderr, "reload failed: {}\nstill enforced: generation {}\n", reason_text(answer.diagnostics, answer.error),
          running);
    if (!answer.over_limits.empty()) {
      print(stderr, "hint: `controlctl plan FILE` tells whom it concerns; `controlctl reload --force` goes on\n");
    }
    return;
  }
  Table phases({{"phase"}, {"time", Table::Align::right}});
  for (const PhaseTime& phase : answer.phases) phases.row({phase.name, milliseconds(phase.milliseconds)});
  phases.row({"total", milliseconds(answer.total_ms)});
  print("{}\n", phases.text());
  print("generation {}: {}, {} snapshot\n", running, plural(answer.entries, "entry", "entries"),
        bytes(answer.snapshot_bytes));
  show_changes(answer.changes);
  print_targets(answer.targets);
  if (!answer.error.empty()) print(stderr, "reload: {}\n", answer.error);
}

namespace cmd_reload {

Run configure(Options& options) {
  auto confirm = std::make_shared<std::string>();
  options.text("--confirm", "TIME", *confirm,
               "go back by itself after this time, 60s say, unless `controlctl confirm` comes before");
  auto force = std::make_shared<bool>(false);
  options.flag("--force", *force, "publish it also when a limit of `plan` is exceeded");
  return [confirm, force](const Context& context) -> int {
    Request wanted{"reload"};
    if (*force) wanted.force = true;
    if (!confirm->empty()) {
      wanted.confirm = parse_duration(*confirm);
      if (!wanted.confirm) {
        print(stderr, "controlctl: --confirm is `{}`: it must be a time like 60s or 5m\n", *confirm);
        return kUsage;
      }
    }
    const int code = request(context, wanted, print_reload);
    if (wanted.confirm && code != kFailed && code != kUnreachable && !context.json) {
      print("goes back in {} s unless `controlctl confirm` comes before\n", *wanted.confirm);
    }
    return code;
  };
}

}  // namespace cmd_reload

const Command kReload = {"reload",
                         Group::everyday,
                         "read the policy again, compile and publish it; waits for every target",
                         "A step that fails leaves what is enforced as it is. Exit code 3 says that not every target "
                         "acknowledged, or that a "
                         "feed was refused: its list keeps what it had; 5 that a limit of `plan` in the policy is "
                         "exceeded.",
                         cmd_reload::configure,
                         [](MemberTable& table) { table.add<ReloadAnswer>("reload"); },
                         false,
                         "apply"};

}  // namespace weir::control::ctl
