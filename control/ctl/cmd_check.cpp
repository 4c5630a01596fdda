#include <fmt/format.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "control/answer/summary.h"
#include "control/compile/compile.h"
#include "control/ctl/command.h"
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

Json report(const Diagnostics& diagnostics, const std::vector<ListSummary>& lists,
            const std::optional<CompileReport>& plan) {
  Json json = {{"ok", plan.has_value()},
               {"version", WEIR_VERSION},
               {"errors", diagnostics.errors()},
               {"warnings", diagnostics.warnings()},
               {"diagnostics", to_json(diagnostics)}};
  json["lists"] = Json::array();
  for (const ListSummary& list : lists) json["lists"].push_back(to_json(list));
  if (!plan) return json;
  json["entries"] = plan->entries;
  json["snapshot_bytes"] = plan->snapshot_bytes;
  json["shapes"] = Json::array();
  for (const ShapeReport& shape : plan->shapes) json["shapes"].push_back(to_json(shape));
  return json;
}

int run(const Context& context) {
  Diagnostics diagnostics;
  std::vector<ListSummary> lists;
  std::optional<CompileReport> plan;
  if (std::optional<Policy> policy = read_policy(context.config, diagnostics)) {
    lists = summarise(*policy);
    Result<CompileReport> planned = plan_only(*policy);
    if (planned) {
      plan = std::move(*planned);
    } else {
      diagnostics.add({Severity::error, {context.config, 0, 0}, planned.error(), "", ""});
    }
  }
  if (context.json) {
    fmt::print("{}", to_line(report(diagnostics, lists, plan)));
  } else {
    show(context.config, diagnostics, lists, plan);
  }
  return plan ? kOk : kFailed;
}

void options(CLI::App& app, Context& context) {
  app.add_option("--config,config", context.config, "the policy file")->required();
}

}  // namespace

const Command kCheck = {"check", "read a policy and its feeds, and say all that is wrong; needs no controld", options,
                        run};

}  // namespace weir::control::ctl
