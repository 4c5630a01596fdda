#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "bpf/enforce/enforcer.h"
#include "control/answer/reload.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/print.h"

// Takes XDP off interfaces: by controld, which would attach it again, or from the pins when no controld answers.
namespace weir::control::ctl {

namespace {

struct Wanted {
  std::string interface;  // empty: all
  std::string bpf_dir = "/sys/fs/bpf";
};

void show(const DetachAnswer& answer) {
  if (answer.detached.empty()) fmt::print("nothing was attached\n");
  for (const std::string& name : answer.detached) fmt::print("{}: detached, nothing is enforced there\n", name);
}

int run_direct(const Context& context, const Wanted& wanted, const std::string& why) {
  const Result<std::vector<std::string>> off =
      xdp::detach_pinned(wanted.bpf_dir, wanted.interface.empty() ? std::nullopt : std::optional(wanted.interface));
  fmt::print(stderr, "controlctl: no controld answers ({}): what is pinned in {} is taken away\n",
             why.substr(0, why.find('\n')), wanted.bpf_dir);
  if (context.json) {
    const std::string line =
        off ? answer_line(DetachAnswer{true, false, *off}) : answer_line(DetachFailure{false, off.error()});
    fmt::print("{}", line);
  } else if (off) {
    show({true, false, *off});
  } else {
    fmt::print(stderr, "controlctl: {}\n", off.error());
  }
  return off ? kOk : kFailed;
}

int run(const Context& context, const Wanted& wanted) {
  Request asked{"detach"};
  if (!wanted.interface.empty()) asked.interface = wanted.interface;
  const Result<Document> answer = call_controld(context.socket, asked);
  if (!answer) return run_direct(context, wanted, answer.error());
  return print_answer(context, *answer, show);
}

Run configure(Options& options) {
  auto wanted = std::make_shared<Wanted>();
  options.argument("INTERFACE", wanted->interface, "default: all of them").interfaces();
  options.text("--bpf-dir", "DIR", wanted->bpf_dir, "where programs are pinned, for when no controld answers").files();
  return [wanted](const Context& context) { return run(context, *wanted); };
}

}  // namespace

const Command kDetach = {"detach",
                         Group::change,
                         "take XDP off an interface, or off all, until the next reload",
                         "When no controld answers, it removes what is pinned in --bpf-dir itself.",
                         configure,
                         [](MemberTable& table) { table.add<DetachAnswer>("detach"); }};

}  // namespace weir::control::ctl
