// controlctl: one command, one request to controld, one answer. docs/use/control.md.

#include <optional>

#include <CLI/CLI.hpp>

#include "common/paths.h"
#include "control/ctl/command.h"

namespace weir::control::ctl {
namespace {

constexpr const Command* kCommands[] = {
    &kReload, &kStatus, &kCheck,  &kExplain, &kShapes,  &kSize,  &kStats,
    &kTop,    &kList,   &kBypass, &kDetach,  &kCapture, &kSteer,
};

int run(int argc, char** argv) {
  Context context;
  context.socket = default_controld_socket();
  CLI::App app("Talks to controld.", "controlctl");
  app.set_version_flag("--version", "controlctl " WEIR_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // --json and --socket may stand behind the command
  app.add_option("--socket", context.socket, "controld's socket")->capture_default_str();
  app.add_flag("--json", context.json, "print JSON");
  for (const Command* command : kCommands) {
    CLI::App* sub = app.add_subcommand(command->name, command->help);
    if (command->options != nullptr) command->options(*sub, context);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  for (const Command* command : kCommands) {
    if (app.got_subcommand(command->name)) return command->run(context);
  }
  return kUsage;
}

}  // namespace
}  // namespace weir::control::ctl

int main(int argc, char** argv) {
  return weir::control::ctl::run(argc, argv);
}
