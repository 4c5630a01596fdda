#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "common/paths.h"
#include "control/answer/make.h"
#include "control/compile/compile.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/text.h"
#include "control/read/policy.h"

// Needs no controld and changes nothing: reads the policy and its feeds, and plans.
namespace weir::control::ctl {

namespace {

std::string summary_line(const std::string& config, const Diagnostics& diagnostics) {
  return fmt::format("{}: {}, {}\n", config, plural(diagnostics.errors(), "error"),
                     plural(diagnostics.warnings(), "warning"));
}

void show(const std::string& config, const Diagnostics& diagnostics, const std::vector<ListSummary>& lists,
          const std::optional<CompileReport>& plan) {
  fmt::print(stderr, "{}", format(diagnostics));
  if (!plan) {
    fmt::print(stderr, "{}", summary_line(config, diagnostics));
    return;
  }
  uint64_t bad_lines = 0;
  for (const ListSummary& list : lists) {
    if (list.ipv6_aggregate != 128) {
      fmt::print("{}: list {}: {} widened to /{}\n", config, list.name,
                 plural(list.ipv6_widened, "IPv6 address", "IPv6 addresses"), list.ipv6_aggregate);
    }
    bad_lines += list.feed.bad;
    for (const BadLine& bad : list.feed.samples) {
      fmt::print("{}:{}: bad line of list {}: {}: {}\n", list.feed.path, bad.line, list.name, bad.reason, bad.text);
    }
    if (list.feed.bad > list.feed.samples.size()) {
      fmt::print("{}: ... and {} more bad lines\n", list.feed.path, count(list.feed.bad - list.feed.samples.size()));
    }
  }
  fmt::print("{}: ok: {}, {}, {}, {} snapshot; {}", config, plural(lists.size(), "list"),
             plural(plan->entries, "entry", "entries"), plural(plan->shapes.size(), "shape"),
             bytes(plan->snapshot_bytes), plural(bad_lines, "bad feed line"));
  fmt::print("{}\n", diagnostics.warnings() == 0 ? "" : "; " + plural(diagnostics.warnings(), "warning"));
}

struct CheckAnswer {
  struct Planned {
    uint64_t entries = 0, snapshot_bytes = 0;
    std::vector<ShapeDetails> shapes;
  };
  bool ok = false;
  uint64_t errors = 0, warnings = 0;
  std::vector<Diagnostic> diagnostics;
  std::vector<ListDetails> lists;
  std::optional<Planned> planned;
};

void members(Fields& f, CheckAnswer::Planned& planned) {
  f({"entries", "", "of all lists"}, planned.entries);
  f({"snapshot_bytes", "bytes", "of the snapshot, room for more included"}, planned.snapshot_bytes);
  f.array({"shapes", "", "that the planner would choose"}, planned.shapes, "shape");
}

void members(Fields& f, CheckAnswer& answer) {
  f({"ok", "", "there is no error"}, answer.ok);
  f({"errors", "", "in the policy and its feeds"}, answer.errors);
  f({"warnings", "", "in the policy and its feeds"}, answer.warnings);
  f.array({"diagnostics", "", "the first 100 errors and the first 100 warnings"}, answer.diagnostics, "diagnostic");
  f.array({"lists", "", "in the order of the policy"}, answer.lists, "list");
  f.group("entries", answer.planned);
}

CheckAnswer answer_of(const Diagnostics& diagnostics, const std::vector<ListSummary>& lists,
                      const std::optional<CompileReport>& plan) {
  CheckAnswer answer;
  answer.ok = plan.has_value();
  answer.errors = diagnostics.errors();
  answer.warnings = diagnostics.warnings();
  answer.diagnostics = diagnostics.kept();
  answer.lists = all_details<ListDetails>(lists);
  if (plan) answer.planned = {plan->entries, plan->snapshot_bytes, all_details<ShapeDetails>(plan->shapes)};
  return answer;
}

int check(const Context& context, const std::string& config) {
  Diagnostics diagnostics;
  std::vector<ListSummary> lists;
  std::optional<CompileReport> plan;
  if (std::optional<Policy> policy = read_policy(config, diagnostics)) {
    lists = summarise(policy->lists);
    Result<CompileReport> planned = plan_only(*policy);
    if (planned) {
      plan = std::move(*planned);
    } else {
      diagnostics.add({Severity::error, {config, 0, 0}, planned.error(), "", ""});
    }
  }
  if (context.json) {
    fmt::print("{}", answer_line(answer_of(diagnostics, lists, plan)));
  } else {
    show(config, diagnostics, lists, plan);
  }
  return plan ? kOk : kFailed;
}

int run(const Context& context, const std::string& asked) {
  const Result<std::string> config = asked.empty() ? default_config() : Result<std::string>(asked);
  if (config) return check(context, *config);
  if (context.json) fmt::print("{}", failure_line(config.error()));
  fmt::print(stderr, "controlctl check: {}\n", config.error());
  return kFailed;
}

Run configure(Options& options) {
  auto config = std::make_shared<std::string>();
  options.text("--config", "FILE", *config, "the policy file; default: ./weir.yaml, then /etc/weir/weir.yaml")
      .argument_too()
      .files();
  return [config](const Context& context) { return run(context, *config); };
}

}  // namespace

const Command kCheck = {"check",
                        Group::file,
                        "read a policy and its feeds, and say all that is wrong; needs no controld",
                        "It changes nothing. Exit code 1 says that the policy has errors.",
                        configure,
                        [](MemberTable& table) { table.add<CheckAnswer>("check"); }};

}  // namespace weir::control::ctl
