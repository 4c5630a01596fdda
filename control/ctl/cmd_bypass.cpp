#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "common/paths.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/direct.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/tell/answer/change.h"

// The panic switch: everything passes, on every plane, until turned off.
namespace weir::control::ctl {

namespace cmd_bypass {

// An order has taken effect when this is over, whoever is busy, stopped or dead.
constexpr int kAtOnceMs = 40;
// Then controld may still say how it went: it may only wait for its disk.
constexpr int kReportMs = 1000;
// The disk comes first when it answers so soon: a controld that goes on just now reads there what is wanted.
constexpr std::chrono::milliseconds kDiskFirst{10};

struct Wanted {
  std::string state;      // on, off
  std::string dataplane;  // empty: by controld
};

const char* text_of(bool on) {
  return on ? "ON: everything passes" : "off";
}

void show(const BypassAnswer& answer) {
  print("bypass is {}\n", text_of(answer.bypass));
  if (answer.told) print_targets(answer.told->targets);
  if (!answer.error.empty()) print(stderr, "bypass: {}\n", answer.error);
}

int print_direct(const Context& context, const BypassAnswer& answer) {
  if (context.json) {
    print("{}", answer_line(answer));
  } else {
    show(answer);
  }
  const auto& targets = answer.told->targets;
  const auto is_told = [](const TargetOutcome& one) { return one.acknowledged; };
  if (!std::all_of(targets.begin(), targets.end(), is_told)) return kNotAcknowledged;
  return answer.error.empty() ? kOk : kFailed;
}

// controld: a connection to it, or -1.
BypassAnswer tell(const Place& place, bool on, int controld) {
  Remembering remembering(place, on ? Note::on : Note::off);
  (void)remembering.wait(kDiskFirst);
  BypassAnswer answer{on, false, BypassAnswer::Told{true, bypass_directly(place, on, controld)}, ""};
  for (const TargetOutcome& one : answer.told->targets) answer.told->ok = answer.told->ok && one.acknowledged;
  if (!answer.told->ok) answer.error = "not every target confirmed";
  const Result<void> remembered = remembering.result();
  const bool is_kept = remembered && !place.state_dir.empty();
  if (is_kept && !answer.told->ok) answer.error += "; controld tells the others when it is back";
  if (is_kept && answer.told->ok && !on) (void)Remembering(place, Note::off_is_told).result();
  if (remembered) return answer;
  answer.told->ok = false;
  answer.error = "controld would not remember it after a restart: " + remembered.error();
  return answer;
}

// Without controld: `--dataplane`.
int run_direct(const Context& context, const std::string& dataplane, bool on) {
  return print_direct(context, tell({"", "", "", {dataplane_target(dataplane)}}, on, -1));
}

int run(const Context& context, const Wanted& wanted) {
  const bool on = wanted.state == "on";
  if (!wanted.dataplane.empty()) return run_direct(context, wanted.dataplane, on);
  Request asked{"bypass"};
  asked.on = on;
  std::optional<BypassAnswer> direct;
  Patience patience;
  patience.soon_ms = kAtOnceMs;
  const Result<void> may_go_around = ctl::may_go_around(context.socket, "bypass " + wanted.state);
  if (may_go_around)
    patience.not_soon = [&](int controld) {
      direct = tell(find_place(context.socket), on, controld);
      return kReportMs;
    };
  const Result<Document> answer = call_controld(context.socket, asked, patience);
  if (answer) return print_answer(context, *answer, show);
  if (is_forbidden(panic_socket_of(context.socket))) return fail(context, answer.error());
  if (!may_go_around) return fail(context, answer.error() + "\nhint: " + may_go_around.error());
  if (!direct) direct = tell(find_place(context.socket), on, -1);
  const auto& targets = direct->told->targets;
  const bool is_nobody_there = std::none_of(targets.begin(), targets.end(), [](const TargetOutcome& one) {
    return one.acknowledged || one.error.find("in force") == 0;
  });
  say_direct(answer.error(), "its targets are told directly");
  const int code = print_direct(context, *direct);
  return is_nobody_there ? kUnreachable : code;
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

}  // namespace cmd_bypass

const Command kBypass = {
    "bypass",
    Group::everyday,
    "the panic switch: on = everything passes, on every target, until off",
    "It is told to every target at once, and again to each one that returns. Exit code 3 says that "
    "not every target\nconfirmed.\n\nWhen no controld answers within 40 ms, be it dead, stopped or starting, "
    "controlctl tells the targets itself, and "
    "says so.",
    cmd_bypass::configure,
    [](MemberTable& table) { table.add<BypassAnswer>("bypass"); },
    true,
    "panic"};

}  // namespace weir::control::ctl
