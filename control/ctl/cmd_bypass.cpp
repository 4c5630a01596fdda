#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "common/panic.h"
#include "common/wire.h"
#include "control/answer/reload.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/print.h"

// The panic switch: everything passes, on every plane, until turned off.
namespace weir::control::ctl {

namespace {

constexpr int kDataplaneMs = 2000;  // a data plane answers between two bursts of its control thread's work

struct Wanted {
  std::string state;      // on, off
  std::string dataplane;  // empty: by controld
};

const char* text_of(bool on) {
  return on ? "ON: everything passes" : "off";
}

void show(const BypassAnswer& answer) {
  fmt::print("bypass is {}\n", text_of(answer.bypass));
  if (answer.told) print_targets(answer.told->targets);
}

Result<void> tell(const std::string& socket, bool on) {
  Result<Fd> connection = wire::connect_panic(socket, kDataplaneMs);
  if (!connection) return Error{connection.error()};
  const wire::BypassBody body{on ? 1u : 0u, 0};
  Result<wire::Message> answer = wire::call(connection->get(), wire::Type::bypass, wire::bytes_of(body));
  if (!answer) return Error{answer.error()};
  const std::optional<wire::StatusBody> status = wire::body_as<wire::StatusBody>(*answer);
  if (!status || (status->bypass != 0) != on) return Error{"it did not confirm"};
  return {};
}

// Without controld, which may be down.
int run_direct(const Context& context, const std::string& dataplane, bool on) {
  const Result<void> told = tell(dataplane, on);
  const bool ok = static_cast<bool>(told);
  const BypassAnswer answer{on, BypassAnswer::Told{ok, {{dataplane, ok, ok ? "" : told.error()}}}, ""};
  if (context.json) {
    fmt::print("{}", answer_line(answer));
  } else {
    print_targets(answer.told->targets);
    if (ok) fmt::print("bypass is {}\n", text_of(on));
  }
  return ok ? kOk : kNotAcknowledged;
}

int run(const Context& context, const Wanted& wanted) {
  const bool on = wanted.state == "on";
  if (!wanted.dataplane.empty()) return run_direct(context, wanted.dataplane, on);
  Request asked{"bypass"};
  asked.on = on;
  return request(context, asked, show);
}

Run configure(Options& options) {
  auto wanted = std::make_shared<Wanted>();
  options.argument("STATE", wanted->state, "everything passes, or it is filtered again")
      .required()
      .one_of({"on", "off"});
  options
      .text("--dataplane", "SOCKET", wanted->dataplane, "tell the data plane on this socket itself, without controld")
      .files();
  return [wanted](const Context& context) { return run(context, *wanted); };
}

}  // namespace

const Command kBypass = {
    "bypass",
    Group::change,
    "the panic switch: on = everything passes, on every target, until off",
    "It is told to every target at once, and again to each one that returns. Exit code 3 says that "
    "not every target\nconfirmed.",
    configure,
    [](MemberTable& table) { table.add<BypassAnswer>("bypass"); }};

}  // namespace weir::control::ctl
