#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>

#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/direct.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/standing.h"

namespace weir::control::ctl {

namespace cmd_status {

constexpr int kAnswerMs = 2000;  // controld answers in 0.2 s

void show_interfaces(const std::vector<TargetStatus>& targets) {
  Table table({{"interface"}, {"state"}, {""}});
  for (const TargetStatus& target : targets) {
    if (!target.interfaces) continue;
    for (const InterfaceStatus& interface : *target.interfaces) {
      const std::string state = interface.attached ? "attached, " + interface.mode : "NOT ATTACHED";
      const char* remark = interface.mode == "generic" ? "generic (SKB) mode: slower than native" : "";
      table.row({interface.name, (target.connected ? "" : "last known: ") + state,
                 interface.error.empty() ? remark : interface.error});
    }
  }
  if (!table.empty()) print("\n{}", table.text());
}

void show_targets(const std::vector<TargetStatus>& targets) {
  Table table({{"target"},
               {"state"},
               {"generation"},
               {"workers", Table::Align::right},
               {"ports", Table::Align::right},
               {"isa"},
               {"snapshot", Table::Align::right},
               {"limit", Table::Align::right},
               {"pages"},
               {"started"}});
  for (const TargetStatus& target : targets) {
    const bool known = target.start_time != 0;  // reached once
    std::string state = !target.connected ? "away" : target.acknowledged ? "enforces" : "BEHIND";
    if (target.connected && !is_everywhere(target)) state += ", NOT EVERYWHERE";
    if (target.bypass) state += ", BYPASS";
    if (!target.durable) state += ", NOT DURABLE";
    const char* pages = !known || target.interfaces ? "" : target.huge_pages ? "huge" : "4 KiB";
    table.row({target.socket, state, std::to_string(target.generation.number), std::to_string(target.workers),
               std::to_string(target.ports), target.isa, bytes(target.snapshot_bytes),
               bytes(target.snapshot_limit_bytes), pages, age(static_cast<int64_t>(target.start_time))});
  }
  print("\n{}", table.text());
  for (const TargetStatus& target : targets) {
    if (!target.last_error.empty()) print("{}: {}\n", target.socket, target.last_error);
    if (!target.disk_error.empty()) {
      print("{}: would not outlive a restart, tried again: {}\n", target.socket, target.disk_error);
    }
  }
  show_interfaces(targets);
}

void show_shapes(const std::vector<ShapeReport>& shapes) {
  Table table({{"key type"},
               {"keys", Table::Align::right},
               {"filter", Table::Align::right},
               {"k", Table::Align::right},
               {"bits/key", Table::Align::right},
               {"layout"}});
  for (const ShapeReport& report : shapes) {
    const weir_shape& shape = report.shape;
    table.row({report.name, count(shape.n_keys), bytes(shape.filter.size_bytes), std::to_string(shape.k),
               bits_per_key_text(report), layout_text(report)});
  }
  if (!table.empty()) print("\n{}", table.text());
}

// all: else those that are nearly used up.
void show_limits(const std::vector<std::pair<std::string, Limit>>& limits, bool all) {
  constexpr double kNearly = 0.8;
  Table table({{"limit"}, {"used", Table::Align::right}, {"max", Table::Align::right}});
  for (const auto& [name, limit] : limits) {
    if (!all && static_cast<double>(limit.used) < kNearly * static_cast<double>(limit.max)) continue;
    const bool size = name.ends_with("_bytes");
    const std::string limit_text = limit.max == 0 ? "unknown" : size ? bytes(limit.max) : count(limit.max);
    table.row(
        {size ? name.substr(0, name.size() - 6) : name, size ? bytes(limit.used) : count(limit.used), limit_text});
  }
  if (!table.empty()) print("\n{}", table.text());
}

void show_reload(const ReloadAnswer& reload) {
  const std::string when = age(reload.at);
  if (reload.ok) {
    print("last reload {}, {}\n", when, milliseconds(reload.total_ms));
    return;
  }
  print("last reload {}, FAILED: {}\n", when, reason_text(reload.diagnostics, reload.error));
  const std::string first = first_error_text(reload.diagnostics);
  if (first.empty()) return;
  print("  {}\n", first);
  if (reload.diagnostics.errors() > 1) print("  `controlctl check` shows all of them\n");
}

std::string metrics_text(const MetricsDetails& metrics) {
  const std::string served = metrics.address.empty() ? "" : "http://" + metrics.address + "/metrics";
  if (metrics.error.empty()) return served.empty() ? "off" : served;
  return (served.empty() ? "NOT SERVED: " : served + "; ") + metrics.error;
}

void show_fleet(const FleetStanding& fleet) {
  print("fleet       {}: node {} of group {} enforces {}, turn {}\n", fleet.name, fleet.node, fleet.group,
        fleet.revision == 0 ? "no revision yet" : fmt::format("revision {}", fleet.revision), fleet.turn);
  if (fleet.wanted != 0 && fleet.wanted != fleet.revision) {
    const bool is_refused = fleet.state == "refused";
    print("revision {} of the fleet is {}{}{}\n", fleet.wanted, is_refused ? "REFUSED, what runs stays" : "on its way",
          fleet.error.empty() ? "" : ": ", fleet.error);
  } else if (!fleet.error.empty()) {
    print("revision {} of the fleet: {}\n", fleet.revision, fleet.error);
  }
  if (!fleet.etcd_error.empty()) print("FLEET NOT FOLLOWED, what runs stays: {}\n", fleet.etcd_error);
}

void show_warned(const std::vector<WarnedFeed>& warned) {
  constexpr size_t kMostShown = 5;
  for (const WarnedFeed& feed : std::span(warned).first(std::min(warned.size(), kMostShown))) {
    print("feed of {}: warning: {} {}\n", feed.list, feed.file, feed.reason);
  }
  if (warned.size() > kMostShown) {
    print("{} more about feeds: `controlctl feeds` shows all\n", plural(warned.size() - kMostShown, "warning"));
  }
}

void show(const StatusAnswer& answer, bool all) {
  print("{}\n", standing_of(answer).line);
  if (answer.starting) print("controld is starting: it compiles the first policy\n");
  print("controld {}, pid {}\npolicy      {}\nstate       {}\n", answer.version, answer.pid, answer.config,
        answer.state_dir);
  print("generation  {}, published {}{}\nentries     {}\nmemory      {}, at most {} so far\n",
        generation_text(answer.generation), age(answer.published_at), answer.from_last_good ? ", FROM LAST GOOD" : "",
        count(answer.entries), bytes(answer.memory.rss_bytes), bytes(answer.memory.peak_bytes));
  if (!answer.disk_error.empty()) print("NOT DURABLE, tried again: {}\n", answer.disk_error);
  if (!answer.notice.empty()) print("{}\n", answer.notice);
  if (answer.fleet) show_fleet(*answer.fleet);
  if (!answer.starting) show_reload(answer.last_reload);
  for (const RefusedFeed& feed : answer.refused) {
    print("feed of {} REFUSED {}, its last good content stays: {}\n", feed.list, age(feed.since), feed.reason);
  }
  show_warned(answer.warned);
  for (const FilterRate& rate : answer.false_positives) {
    if (is_outside(rate)) print("FALSE POSITIVES: {}. {}\n", outside_text(rate), outside_hint(rate));
  }
  print("capture     {}\n", capture_text(answer.capture));
  print("metrics     {}\n", metrics_text(answer.metrics));
  show_targets(answer.targets);
  if (all) show_shapes(answer.shapes);
  show_limits(answer.limits, all);
}
void show_short(const StatusAnswer& answer) {
  show(answer, false);
}
void show_all(const StatusAnswer& answer) {
  show(answer, true);
}

// Without controld: what the targets tell of themselves.
void show_direct(const DirectStatus& answer) {
  for (const TargetStatus& target : answer.targets) {
    if (target.bypass) print("BYPASS IS ON at {}: everything passes, until `controlctl bypass off`\n", target.socket);
  }
  show_targets(answer.targets);
}

int run(const Context& context, bool all) {
  Patience patience;
  patience.most_ms = kAnswerMs;
  const Result<Document> answer = call_controld(context.socket, {"status"}, patience);
  if (answer) {
    if (const int code = print_answer(context, *answer, all ? show_all : show_short); code != kOk) return code;
    const Result<StatusAnswer> status = read_json<StatusAnswer>(*answer);
    return status && standing_of(*status).is_wrong ? kWrong : kOk;
  }
  if (is_forbidden(context.socket)) return fail(context, answer.error());
  if (const Result<void> may = may_go_around(context.socket, "status"); !may) {
    return fail(context, answer.error() + "\nhint: " + may.error());
  }
  DirectStatus direct;
  direct.error = answer.error();
  for (const TargetState& state : look_directly(find_place(context.socket), Look::status)) {
    const wire::Generation nobodys{0, 1};
    direct.targets.push_back(status_of(state, state.connected ? state.acknowledged : nobodys));
  }
  print(stderr, "controlctl: {}\n", answer.error());
  say_direct("status", "its targets are asked directly");
  if (context.json) {
    print("{}", answer_line(direct));
  } else {
    show_direct(direct);
  }
  return kUnreachable;
}

Run configure(Options& options) {
  auto all = std::make_shared<bool>(false);
  options.flag("--verbose", *all, "also key types with their filters, and every limit");
  return [all](const Context& context) { return run(context, *all); };
}

}  // namespace cmd_status

const Command kStatus = {
    "status",
    Group::everyday,
    "is all well, what is enforced where, the last reload, memory",
    "Begins with OK, WARNING or PROBLEM. The exit code is 6 when something is wrong: not enforced "
    "everywhere, from last good, not durable, a feed refused. Answers at once, also during a "
    "reload; no target is waited for longer than 0.2 s. When no controld answers, the\ntargets are "
    "asked directly, and the exit code is 4.",
    cmd_status::configure,
    [](MemberTable& table) {
      table.add<StatusAnswer>("status");
      table.add<DirectStatus>("status without controld");
    }};

}  // namespace weir::control::ctl
