#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "bpf/enforce/enforcer.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/direct.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/tell/answer/change.h"

// Takes XDP off interfaces: by controld, which would attach it again, or from the pins when no controld answers.
namespace weir::control::ctl {

namespace cmd_detach {

// As the panic switch (cmd_bypass.cpp).
constexpr int kAtOnceMs = 40;
constexpr int kReportMs = 1000;

struct Wanted {
  std::string interface;  // empty: all
  std::string bpf_dir;    // empty: where this controld last had its pins
};

void show(const DetachAnswer& answer) {
  if (answer.detached.empty()) print("nothing was attached\n");
  for (const std::string& name : answer.detached) print("{}: detached, nothing is enforced there\n", name);
}

using Names = Result<std::vector<std::string>>;

Names detach_directly(const Wanted& wanted) {
  return xdp::detach_on_demand(wanted.bpf_dir,
                               wanted.interface.empty() ? std::nullopt : std::optional(wanted.interface));
}

int print_direct(const Context& context, const Names& off) {
  if (context.json) {
    const std::string line =
        off ? answer_line(DetachAnswer{true, false, *off}) : answer_line(DetachFailure{false, off.error()});
    print("{}", line);
  } else if (off) {
    show({true, false, *off});
  } else {
    print(stderr, "controlctl: {}\n", off.error());
  }
  return off ? kOk : kFailed;
}

int run(const Context& context, Wanted wanted) {
  if (wanted.bpf_dir.empty()) wanted.bpf_dir = find_place(context.socket).bpf_dir;
  Request asked{"detach"};
  if (!wanted.interface.empty()) asked.interface = wanted.interface;
  std::optional<Names> direct;
  Patience patience;
  patience.soon_ms = kAtOnceMs;
  const Result<void> may_go_around = ctl::may_go_around(context.socket, "detach " + wanted.interface);
  if (may_go_around)
    patience.not_soon = [&](int) {
      direct = detach_directly(wanted);
      return kReportMs;
    };
  const Result<Document> answer = call_controld(context.socket, asked, patience);
  if (answer && !(direct && *direct)) return print_answer(context, *answer, show);
  if (!answer && is_forbidden(context.socket)) return fail(context, answer.error());
  if (!answer && !may_go_around) return fail(context, answer.error() + "\nhint: " + may_go_around.error());
  if (!direct) direct = detach_directly(wanted);
  const std::string why = answer ? fmt::format("not within {} ms", kAtOnceMs) : answer.error();
  say_direct(why, ("what is pinned in " + wanted.bpf_dir + " is taken away").c_str());
  return print_direct(context, *direct);
}

Run configure(Options& options) {
  auto wanted = std::make_shared<Wanted>();
  options.argument("INTERFACE", wanted->interface, "default: all of them").interfaces();
  options
      .text("--bpf-dir", "DIR", wanted->bpf_dir,
            "where programs are pinned, for when no controld answers; default: where this controld had them")
      .files();
  return [wanted](const Context& context) { return run(context, *wanted); };
}

}  // namespace cmd_detach

const Command kDetach = {"detach",
                         Group::change,
                         "take XDP off an interface, or off all, until the next reload",
                         "When no controld answers, it removes what is pinned in --bpf-dir itself.",
                         cmd_detach::configure,
                         [](MemberTable& table) { table.add<DetachAnswer>("detach"); },
                         true};

}  // namespace weir::control::ctl
