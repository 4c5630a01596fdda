#include <fmt/format.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "bpf/enforce/enforcer.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/print.h"

// Takes XDP off interfaces: by controld, which would attach it again, or from the pins when no controld answers.
namespace weir::control::ctl {

namespace {

void show(const Json& answer) {
  const Json& names = answer.at("detached");
  if (names.empty()) fmt::print("nothing was attached\n");
  for (const Json& name : names) {
    fmt::print("{}: detached, nothing is enforced there\n", name.get<std::string>());
  }
}

int run_direct(const Context& context, const std::string& why) {
  const Result<std::vector<std::string>> off =
      xdp::detach_pinned(context.bpf_dir, context.interface.empty() ? std::nullopt : std::optional(context.interface));
  Json answer = {{"version", WEIR_VERSION}, {"controld", false}};
  if (off) {
    answer.update({{"ok", true}, {"detached", *off}});
  } else {
    answer["error"] = off.error();
  }
  fmt::print(stderr, "controlctl: no controld answers ({}): what is pinned in {} is taken away\n",
             why.substr(0, why.find('\n')), context.bpf_dir);
  return print_answer(context, answer, show);
}

int run(const Context& context) {
  Json wanted = {{"command", "detach"}};
  if (!context.interface.empty()) wanted["interface"] = context.interface;
  const Result<Json> answer = call_controld(context.socket, wanted);
  if (!answer) return run_direct(context, answer.error());
  return print_answer(context, *answer, show);
}

void options(CLI::App& app, Context& context) {
  app.add_option("INTERFACE", context.interface, "default: all of them");
  app.add_option("--bpf-dir", context.bpf_dir, "where programs are pinned, for when no controld answers")
      ->capture_default_str();
}

}  // namespace

const Command kDetach = {"detach", "take XDP off an interface, or off all, until the next reload", options, run};

}  // namespace weir::control::ctl
