#include <fmt/format.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "common/wire.h"
#include "control/ctl/command.h"
#include "control/ctl/print.h"

// The panic switch: everything passes, on every plane, until turned off.
namespace weir::control::ctl {

namespace {

constexpr int kDataplaneMs = 2000;  // a data plane answers between two bursts of its control thread's work

void show(const Json& answer) {
  fmt::print("bypass is {}\n", answer.at("bypass").get<bool>() ? "ON: everything passes" : "off");
  print_targets(answer.at("targets"));
}

Result<void> tell(const std::string& socket, bool on) {
  Result<Fd> connection = wire::connect(socket, kDataplaneMs);
  if (!connection) return Error{connection.error()};
  const wire::BypassBody body{on ? 1u : 0u, 0};
  Result<wire::Message> answer = wire::call(connection->get(), wire::Type::bypass, wire::bytes_of(body));
  if (!answer) return Error{answer.error()};
  const std::optional<wire::StatusBody> status = wire::body_as<wire::StatusBody>(*answer);
  if (!status || (status->bypass != 0) != on) return Error{"it did not confirm"};
  return {};
}

// Without controld, which may be down.
int run_direct(const Context& context, bool on) {
  const Result<void> told = tell(context.dataplane, on);
  const std::string error = told ? "" : told.error();
  const Json answer = {
      {"version", WEIR_VERSION},
      {"ok", told ? true : false},
      {"bypass", on},
      {"targets", {{{"socket", context.dataplane}, {"acknowledged", told ? true : false}, {"error", error}}}}};
  if (context.json) {
    fmt::print("{}", to_line(answer));
  } else {
    print_targets(answer.at("targets"));
    if (told) fmt::print("bypass is {}\n", on ? "ON: everything passes" : "off");
  }
  return exit_code(answer);
}

int run(const Context& context) {
  const bool on = context.on_off == "on";
  if (!context.dataplane.empty()) return run_direct(context, on);
  return request(context, {{"command", "bypass"}, {"on", on}}, show);
}

void options(CLI::App& app, Context& context) {
  app.add_option("STATE", context.on_off, "on or off")->required()->check(CLI::IsMember({"on", "off"}));
  app.add_option("--dataplane", context.dataplane, "tell the data plane on this socket itself, without controld");
}

}  // namespace

const Command kBypass = {"bypass", "the panic switch: on = everything passes, on every target, until off", options,
                         run};

}  // namespace weir::control::ctl
