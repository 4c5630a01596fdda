#include <cstdio>
#include <ctime>
#include <memory>

#include "bpf/enforce/steering.h"
#include "common/clock.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/text.h"
#include "control/policy/read/steer_file.h"
#include "control/tell/answer/parts.h"

// Needs no controld: writes the maps that the steering programs share. docs/operate/steering.md.
namespace weir::control::ctl {

namespace cmd_steer {

struct Asked {
  std::string file;
  bool show = false, clear = false, check = false;
  std::string bpf_dir = "/sys/fs/bpf";
};

constexpr const char* kEndNames[WEIR_STEER_ENDS] = {"to_worker", "to_kernel", "no_rules", "no_socket", "too_long"};
constexpr const char* kEndTexts[WEIR_STEER_ENDS] = {"to the worker", "to the kernel", "to the kernel: no rules",
                                                    "to the kernel: no socket on the queue",
                                                    "to the kernel: longer than a buffer"};

struct Tally {
  uint64_t packets = 0, bytes = 0;
};

struct RuleAnswer {
  std::string to, match;
  Tally taken;
};

struct RulesAnswer {
  std::string default_to, link_to;
  Tally default_taken, link_taken;
  uint64_t since = 0;
  std::vector<RuleAnswer> rules;
};

struct Totals {
  std::vector<std::pair<std::string, Tally>> ends;
};

struct SteerAnswer {
  bool ok = false;
  std::optional<bool> applied;
  std::optional<RulesAnswer> rules;
  std::optional<Totals> totals;
  std::optional<std::string> error;
  std::optional<std::vector<Diagnostic>> diagnostics;
  std::optional<uint32_t> n_rules;
};

void members(Fields& f, Tally& tally) {
  f({"packets", "frames", "that it took"}, tally.packets);
  f({"bytes", "bytes", "of them"}, tally.bytes);
}

void members(Fields& f, RuleAnswer& rule) {
  f({"to", "", "worker or kernel"}, rule.to);
  f({"match", "", "as it is written"}, rule.match);
  f.object({"taken", "", "by this rule"}, rule.taken, "tally");
}

void members(Fields& f, RulesAnswer& rules) {
  f({"default", "", "where IP goes that no rule takes: worker or kernel"}, rules.default_to);
  f.object({"default_taken", "", "by the default"}, rules.default_taken, "tally");
  f({"link", "", "where frames go that are not IP, and neighbour discovery"}, rules.link_to);
  f.object({"link_taken", "", "of these"}, rules.link_taken, "tally");
  f({"since", "Unix seconds", "when they were applied"}, rules.since);
  f.array({"rules", "", "in their order"}, rules.rules, "rule");
}

void members(Fields& f, Totals& totals) {
  f.by_name(
      {"totals", "", "with --show: to_worker, to_kernel, no_rules, no_socket, too_long; since the maps are there"},
      totals.ends, "tally");
}

void members(Fields& f, SteerAnswer& answer) {
  f({"ok", "", "it was done"}, answer.ok);
  f.maybe({"applied", "", "rules are applied now"}, answer.applied);
  f.group("default", answer.rules);
  f.group("totals", answer.totals);
  f.maybe({"error", "", "why not; may be empty"}, answer.error);
  f.maybe_array({"diagnostics", "", "with FILE: what is wrong with it"}, answer.diagnostics, "diagnostic");
  f.maybe({"n_rules", "", "with FILE: how many it has"}, answer.n_rules);
}

Tally tally_of(const weir_tally& tally) {
  return {tally.packets, tally.bytes};
}

RulesAnswer answer_of(const weir_steering& rules) {
  RulesAnswer answer;
  answer.default_to = steer_to_name(rules.default_to);
  answer.default_taken = tally_of(rules.taken[WEIR_TAKEN_BY_DEFAULT]);
  answer.link_to = steer_to_name(rules.link_to);
  answer.link_taken = tally_of(rules.taken[WEIR_TAKEN_BY_LINK]);
  answer.since = rules.since_unix;
  for (uint32_t i = 0; i < rules.n_rules; i++) {
    answer.rules.push_back({steer_to_name(rules.rule[i].to), rule_text(rules.rule[i]), tally_of(rules.taken[i])});
  }
  return answer;
}

SteerAnswer answer_of(const xdp::SteeringState& state) {
  SteerAnswer answer;
  answer.ok = true;
  answer.applied = state.rules.has_value();
  if (state.rules) answer.rules = answer_of(*state.rules);
  answer.totals.emplace();
  for (unsigned end = 0; end < WEIR_STEER_ENDS; end++) {
    answer.totals->ends.emplace_back(kEndNames[end], tally_of(state.totals.end[end]));
  }
  return answer;
}

void show_rules(const weir_steering& rules) {
  print("applied {}\n", age(static_cast<int64_t>(rules.since_unix)));
  Table table({{"rule", Table::Align::right},
               {"to"},
               {"what"},
               {"packets", Table::Align::right},
               {"bytes", Table::Align::right}});
  const auto row = [&](const std::string& name, uint8_t to, const std::string& what, const weir_tally& taken) {
    table.row({name, steer_to_name(to), what, count(taken.packets), bytes(taken.bytes)});
  };
  row("link", rules.link_to, "not IP, neighbour discovery", rules.taken[WEIR_TAKEN_BY_LINK]);
  for (uint32_t i = 0; i < rules.n_rules; i++) {
    row(std::to_string(i + 1), rules.rule[i].to, rule_text(rules.rule[i]), rules.taken[i]);
  }
  row("default", rules.default_to, "IP, no rule", rules.taken[WEIR_TAKEN_BY_DEFAULT]);
  print("{}", table.text());
}

void show(const xdp::SteeringState& state) {
  if (state.rules) {
    show_rules(*state.rules);
  } else {
    print("no rules are applied: everything stays in the kernel\n");
  }
  if (!state.pinned) return;
  print("\nsince the maps are there:\n");
  Table table({{"what became of frames"}, {"packets", Table::Align::right}, {"bytes", Table::Align::right}});
  for (unsigned end = 0; end < WEIR_STEER_ENDS; end++) {
    table.row({kEndTexts[end], count(state.totals.end[end].packets), bytes(state.totals.end[end].bytes)});
  }
  print("{}", table.text());
}

int fail_steer(const Context& context, const std::string& error) {
  if (context.json) {
    SteerAnswer answer;
    answer.error = error;
    print("{}", answer_line(answer));
  }
  print(stderr, "controlctl steer: {}\n", error);
  return kFailed;
}

int run_show(const Context& context, const Asked& asked) {
  const Result<xdp::SteeringState> state = xdp::read_steering(asked.bpf_dir);
  if (!state) return fail_steer(context, state.error());
  if (context.json) {
    print("{}", answer_line(answer_of(*state)));
  } else {
    show(*state);
  }
  return kOk;
}

int run_clear(const Context& context, const Asked& asked) {
  const Result<void> cleared = xdp::clear_steering(asked.bpf_dir);
  if (!cleared) return fail_steer(context, cleared.error());
  if (context.json) {
    SteerAnswer answer;
    answer.ok = true;
    answer.applied = false;
    print("{}", answer_line(answer));
  } else {
    print("no rules are applied: everything stays in the kernel\n");
  }
  return kOk;
}

int run_file(const Context& context, const Asked& asked) {
  Diagnostics diagnostics;
  std::optional<weir_steering> rules = read_steer_file(asked.file, diagnostics);
  std::string error;
  if (rules && !asked.check) {
    rules->since_unix = static_cast<uint64_t>(unix_now());
    const Result<void> applied = xdp::apply_steering(asked.bpf_dir, *rules);
    if (!applied) error = applied.error();
  }
  const bool ok = rules && error.empty();
  if (context.json) {
    SteerAnswer answer;
    answer.ok = ok;
    answer.applied = ok && !asked.check;
    answer.error = error;
    answer.diagnostics = diagnostics.kept();
    if (rules) answer.n_rules = rules->n_rules;
    print("{}", answer_line(answer));
  } else {
    print(stderr, "{}", format(diagnostics));
    if (!error.empty()) print(stderr, "controlctl steer: {}\n", error);
    if (ok) {
      print("{}: {}: {}, the rest to the {}\n", asked.file, asked.check ? "ok" : "applied",
            plural(rules->n_rules, "rule"), steer_to_name(rules->default_to));
    }
  }
  return ok ? kOk : kFailed;
}

int run(const Context& context, const Asked& asked) {
  if (asked.show) return run_show(context, asked);
  if (asked.clear) return run_clear(context, asked);
  return run_file(context, asked);
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  options.argument("FILE", asked->file, "apply these rules (configs/steer.yaml); as root").files();
  options.flag("--show", asked->show, "the rules that apply, and what they took");
  options.flag("--clear", asked->clear, "no rules: everything stays in the kernel");
  options.exactly_one({"FILE", "--show", "--clear"});
  options.flag("--check", asked->check, "only look whether FILE is right");
  options.text("--bpf-dir", "DIR", asked->bpf_dir, "where the maps are pinned; net_af_xdp knows the default only")
      .files();
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace cmd_steer

const Command kSteer = {"steer",
                        Group::file,
                        "which frames go to a data plane's net_af_xdp port, and which stay in the kernel",
                        "It needs no controld: it writes the maps that the steering programs share.",
                        cmd_steer::configure,
                        [](MemberTable& table) { table.add<cmd_steer::SteerAnswer>("steer"); }};

}  // namespace weir::control::ctl
