#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include <CLI/CLI.hpp>

#include "bpf/enforce/steering.h"
#include "control/ctl/command.h"
#include "control/ctl/text.h"
#include "control/read/steer_file.h"

// Needs no controld: writes the maps that the steering programs share. docs/operate/steering.md.
namespace weir::control::ctl {

namespace {

constexpr const char* kEndNames[WEIR_STEER_ENDS] = {"to_worker", "to_kernel", "no_rules", "no_socket", "too_long"};
constexpr const char* kEndTexts[WEIR_STEER_ENDS] = {"to the worker", "to the kernel", "to the kernel: no rules",
                                                    "to the kernel: no socket on the queue",
                                                    "to the kernel: longer than a buffer"};

Json tally_json(const weir_tally& tally) {
  return {{"packets", tally.packets}, {"bytes", tally.bytes}};
}

Json rules_json(const weir_steering& rules) {
  Json json = {{"default", steer_to_name(rules.default_to)},
               {"default_taken", tally_json(rules.taken[WEIR_TAKEN_BY_DEFAULT])},
               {"link", steer_to_name(rules.link_to)},
               {"link_taken", tally_json(rules.taken[WEIR_TAKEN_BY_LINK])},
               {"since", rules.since_unix},
               {"rules", Json::array()}};
  for (uint32_t i = 0; i < rules.n_rules; i++) {
    const weir_steer_rule& rule = rules.rule[i];
    json["rules"].push_back(
        {{"to", steer_to_name(rule.to)}, {"match", rule_text(rule)}, {"taken", tally_json(rules.taken[i])}});
  }
  return json;
}

Json state_json(const xdp::SteeringState& state) {
  Json json = {{"ok", true}, {"version", WEIR_VERSION}, {"applied", state.rules.has_value()}};
  if (state.rules) json.update(rules_json(*state.rules));
  json["totals"] = Json::object();
  for (unsigned end = 0; end < WEIR_STEER_ENDS; end++)
    json["totals"][kEndNames[end]] = tally_json(state.totals.end[end]);
  return json;
}

void show_rules(const weir_steering& rules) {
  fmt::print("applied {}\n", age(static_cast<int64_t>(rules.since_unix)));
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
  fmt::print("{}", table.text());
}

void show(const xdp::SteeringState& state) {
  if (state.rules) {
    show_rules(*state.rules);
  } else {
    fmt::print("no rules are applied: everything stays in the kernel\n");
  }
  if (!state.pinned) return;
  fmt::print("\nsince the maps are there:\n");
  Table table({{"what became of frames"}, {"packets", Table::Align::right}, {"bytes", Table::Align::right}});
  for (unsigned end = 0; end < WEIR_STEER_ENDS; end++) {
    table.row({kEndTexts[end], count(state.totals.end[end].packets), bytes(state.totals.end[end].bytes)});
  }
  fmt::print("{}", table.text());
}

int fail(const Context& context, const std::string& error) {
  if (context.json) fmt::print("{}", to_line({{"ok", false}, {"version", WEIR_VERSION}, {"error", error}}));
  fmt::print(stderr, "controlctl steer: {}\n", error);
  return kFailed;
}

int run_show(const Context& context) {
  const Result<xdp::SteeringState> state = xdp::read_steering(context.bpf_dir);
  if (!state) return fail(context, state.error());
  if (context.json) {
    fmt::print("{}", to_line(state_json(*state)));
  } else {
    show(*state);
  }
  return kOk;
}

int run_clear(const Context& context) {
  const Result<void> cleared = xdp::clear_steering(context.bpf_dir);
  if (!cleared) return fail(context, cleared.error());
  if (context.json) {
    fmt::print("{}", to_line({{"ok", true}, {"version", WEIR_VERSION}, {"applied", false}}));
  } else {
    fmt::print("no rules are applied: everything stays in the kernel\n");
  }
  return kOk;
}

int run_file(const Context& context) {
  Diagnostics diagnostics;
  std::optional<weir_steering> rules = read_steer_file(context.steer_file, diagnostics);
  std::string error;
  if (rules && !context.check) {
    rules->since_unix = static_cast<uint64_t>(time(nullptr));
    const Result<void> applied = xdp::apply_steering(context.bpf_dir, *rules);
    if (!applied) error = applied.error();
  }
  const bool ok = rules && error.empty();
  if (context.json) {
    Json json = {{"ok", ok},
                 {"version", WEIR_VERSION},
                 {"applied", ok && !context.check},
                 {"error", error},
                 {"diagnostics", to_json(diagnostics)}};
    if (rules) json["n_rules"] = rules->n_rules;
    fmt::print("{}", to_line(json));
  } else {
    fmt::print(stderr, "{}", format(diagnostics));
    if (!error.empty()) fmt::print(stderr, "controlctl steer: {}\n", error);
    if (ok) {
      fmt::print("{}: {}: {}, the rest to the {}\n", context.steer_file, context.check ? "ok" : "applied",
                 plural(rules->n_rules, "rule"), steer_to_name(rules->default_to));
    }
  }
  return ok ? kOk : kFailed;
}

int run(const Context& context) {
  if (context.show) return run_show(context);
  if (context.clear) return run_clear(context);
  return run_file(context);
}

void options(CLI::App& app, Context& context) {
  CLI::Option_group* what = app.add_option_group("one of");
  what->add_option("FILE", context.steer_file, "apply these rules (configs/steer.yaml); as root");
  what->add_flag("--show", context.show, "the rules that apply, and what they took");
  what->add_flag("--clear", context.clear, "no rules: everything stays in the kernel");
  what->require_option(1);
  app.add_flag("--check", context.check, "only look whether FILE is right");
  app.add_option("--bpf-dir", context.bpf_dir, "where the maps are pinned; net_af_xdp knows the default only")
      ->capture_default_str();
}

}  // namespace

const Command kSteer = {"steer", "which frames go to a data plane's net_af_xdp port, and which stay in the kernel",
                        options, run};

}  // namespace weir::control::ctl
