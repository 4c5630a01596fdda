#include <fmt/format.h>
#include <net/if.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

#include "bpf/enforce/enforcer.h"
#include "common/clock.h"
#include "common/files.h"
#include "common/paths.h"
#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/fleet_files.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/setup_files.h"
#include "control/policy/read/policy.h"
#include "control/tell/answer/standing.h"

// `setup`: a target into the policy, and the proof that it enforces: a first block, which is taken back.
namespace weir::control::ctl {

namespace cmd_setup {

constexpr const char* kBlocked = "203.0.113.7";  // of TEST-NET-3: nobody's
constexpr std::array<uint8_t, 4> kBlockedBytes = {203, 0, 113, 7};
constexpr uint32_t kBlockedTtl_s = 60;  // if setup is killed meanwhile
constexpr const char* kDataplaneTarget = "/run/weir-dataplane/main/dataplane.sock";
constexpr const char* kDataplaneEnv = "/etc/weir/dataplane-main.env";
constexpr std::chrono::seconds kEnforcedIn{20};
constexpr size_t kMostShown = 20;  // lines of a file
constexpr std::chrono::milliseconds kLook{50};

struct Arguments {
  std::string interface, ports, config, restart;
  bool dry_run = false;
};

struct SetupAnswer {
  bool ok = false;
  std::string policy, target;
  bool changed = false;  // the policy
  std::string proof, page, error;
};
void members(Fields& f, SetupAnswer& answer) {
  f({"ok", "", "the target enforces, and the proof holds; --dry-run: it may be tried"}, answer.ok);
  f({"policy", "", "the policy file"}, answer.policy);
  f({"target", "", "that enforces the policy, as `status` calls it"}, answer.target);
  f({"changed", "", "the policy file has the target since now; --dry-run: would have"}, answer.changed);
  f.unless_empty({"proof", "", "how the block of 203.0.113.7 was seen to work"}, answer.proof);
  f.unless_empty({"page", "", "address of the page; absent: it is off"}, answer.page);
  f.unless_empty({"error", "", "why not, and the way out"}, answer.error);
}

std::vector<std::string> interfaces_here() {
  std::vector<std::string> names;
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> all(if_nameindex(), if_freenameindex);
  for (const struct if_nameindex* one = all.get(); one != nullptr && one->if_index != 0; one++) {
    if (one->if_name != std::string_view("lo")) names.emplace_back(one->if_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A person at a terminal is asked. Empty: nobody is there, or nothing was chosen.
std::string chosen_interface() {
  const std::vector<std::string> names = interfaces_here();
  if (names.empty() || isatty(STDIN_FILENO) == 0) return "";
  print("weir can filter what these interfaces receive: {}\nWhich one? [{}] ", joined(names), names.front());
  std::fflush(stdout);
  std::string answer;
  if (!std::getline(std::cin, answer)) return "";
  return answer.empty() ? names.front() : answer;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream words(list);
  for (std::string part; std::getline(words, part, ',');) parts.push_back(part);
  return parts;
}

// Nothing: DPDK can drive the card as it is.
Result<void> look_at_card(const std::string& address) {
  const std::string device = "/sys/bus/pci/devices/" + address;
  std::error_code failed;
  if (!std::filesystem::exists(device, failed)) {
    return Error{fmt::format("there is no card at {}\nhint: `dataplane --doctor` lists the cards", address)};
  }
  const std::string driver = std::filesystem::read_symlink(device + "/driver", failed).filename().string();
  if (driver == "vfio-pci" || driver == "mlx5_core") return {};
  return Error{fmt::format("{} drives the card at {}\nhint: driverctl set-override {} vfio-pci",
                           driver.empty() ? "no driver" : driver, address, address)};
}

// The file keeps its owner and its mode, and a link to it stays.
Result<void> rewrite(const std::string& name, const std::string& text) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(name, failed);
  const std::string path = failed ? name : real.string();
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return errno_error("cannot look at " + path);
  const Result<void> written = write_file_durably(path, {std::as_bytes(std::span(text))}, status.st_mode & 07777);
  if (!written) return written;
  if (chown(path.c_str(), status.st_uid, status.st_gid) != 0)
    return errno_error("cannot give " + path + " to its owner");
  return {};
}

Result<void> run_command(const std::string& command) {
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  if (status == 0) return {};
  return Error{fmt::format("`{}` failed", command)};
}

// The plan of setup: plan_of() completes it before setup changes anything.
struct Plan {
  Arguments arguments;
  std::string target;  // as status calls it
  std::string policy_before, policy_after;
  std::string env_before, env_after;  // of the data plane; empty: it needs none
  bool is_xdp() const { return arguments.ports.empty(); }
  bool changes_policy() const { return policy_before != policy_after; }
};

bool has_target(const Policy& policy, const Plan& plan) {
  return std::any_of(policy.targets.begin(), policy.targets.end(), [&](const TargetSpec& target) {
    const auto& interfaces = target.interfaces;
    return plan.is_xdp() ? std::find(interfaces.begin(), interfaces.end(), plan.arguments.interface) != interfaces.end()
                         : target.name == plan.target;
  });
}

Result<Plan> plan_of(const Arguments& arguments) {
  Plan plan;
  plan.arguments = arguments;
  std::string line;
  if (plan.is_xdp()) {
    if (if_nametoindex(arguments.interface.c_str()) == 0) {
      return Error{
          fmt::format("there is no interface {}\nhint: there are {}", arguments.interface, joined(interfaces_here()))};
    }
    plan.target = "xdp:" + arguments.interface;
    line = fmt::format("xdp: {{interfaces: [{}]}}", arguments.interface);
  } else {
    const std::vector<std::string> cards = split(arguments.ports);
    for (const std::string& card : cards) {
      if (const Result<void> usable = look_at_card(card); !usable) return Error{usable.error()};
    }
    plan.target = kDataplaneTarget;
    line = std::string("dataplane: ") + kDataplaneTarget;
    Result<std::string> env = read_file(kDataplaneEnv, size_t{1} << 20);
    if (!env) return Error{env.error() + "\nhint: install the package weir-dataplane"};
    Result<std::string> changed = with_ports(*env, cards);
    if (!changed) return Error{fmt::format("{}: {}", kDataplaneEnv, changed.error())};
    plan.env_before = std::move(*env);
    plan.env_after = std::move(*changed);
  }
  constexpr size_t kMostPolicy = size_t{64} << 20;
  Result<std::string> before = read_file(arguments.config, kMostPolicy);
  if (!before) return Error{before.error()};
  plan.policy_before = *before;
  plan.policy_after = *before;
  Diagnostics diagnostics;
  const FeedHistory no_history(nullptr);
  const uint64_t now = unix_now();
  const std::optional<Policy> policy = read_policy_text(arguments.config, *before, diagnostics, now, no_history);
  if (!policy)
    return Error{fmt::format("{} has errors\nhint: controlctl check {}", arguments.config, arguments.config)};
  if (has_target(*policy, plan)) return plan;
  // One xdp target has all interfaces.
  const std::optional<std::string> extended =
      plan.is_xdp() ? with_interface(*before, arguments.interface) : std::nullopt;
  Result<std::string> after = extended ? *extended : with_target(*before, line);
  if (!after) return Error{fmt::format("{}: {}", arguments.config, after.error())};
  const std::optional<Policy> changed = read_policy_text(arguments.config, *after, diagnostics, now, no_history);
  if (!changed || !has_target(*changed, plan)) {
    return Error{fmt::format("{} cannot take one more target by itself\nhint: write `- {}` below `targets:` by hand",
                             arguments.config, line)};
  }
  plan.policy_after = std::move(*after);
  return plan;
}

std::optional<StatusAnswer> status_now(const Context& context) {
  Patience patience;
  patience.is_quiet = true;
  const Result<Document> document = call_controld(context.socket, {"status"}, patience);
  if (!document) return std::nullopt;
  Result<StatusAnswer> status = read_json<StatusAnswer>(*document);
  return status ? std::optional(std::move(*status)) : std::nullopt;
}

const TargetStatus* find_target(const StatusAnswer& status, const Plan& plan) {
  const auto found = std::find_if(status.targets.begin(), status.targets.end(), [&](const TargetStatus& target) {
    if (!plan.is_xdp()) return target.socket == plan.target;
    return target.interfaces && std::any_of(target.interfaces->begin(), target.interfaces->end(),
                                            [&](const auto& one) { return one.name == plan.arguments.interface; });
  });
  return found == status.targets.end() ? nullptr : &*found;
}

// controld gives XDP's privileges up at a start without an xdp target: then it has to start anew.
bool reload_suffices(const std::optional<StatusAnswer>& status, const Plan& plan) {
  if (!status) return false;
  return std::any_of(status->targets.begin(), status->targets.end(),
                     [&](const TargetStatus& target) { return target.interfaces.has_value() == plan.is_xdp(); });
}

void tell(const Context& context, const char* what, const std::string& text) {
  if (!context.json) print("{:<10}{}\n", what, text);
}

Result<void> apply(const Context& context, const Plan& plan) {
  if (!plan.is_xdp()) {
    if (plan.env_after != plan.env_before) {
      if (const Result<void> written = rewrite(kDataplaneEnv, plan.env_after); !written) return written;
      tell(context, "written",
           fmt::format("{}:\n{}", kDataplaneEnv, line_difference(plan.env_before, plan.env_after, kMostShown)));
    }
    if (const Result<void> started = run_command("systemctl enable --now weir-dataplane@main"); !started)
      return started;
  }
  const std::optional<StatusAnswer> status = status_now(context);
  if (plan.changes_policy()) {
    if (const Result<void> written = rewrite(plan.arguments.config, plan.policy_after); !written) return written;
    tell(context, "written",
         fmt::format("{}:\n{}", plan.arguments.config,
                     line_difference(plan.policy_before, plan.policy_after, kMostShown)));
  } else if (status && find_target(*status, plan) != nullptr) {
    return {};
  }
  if (!reload_suffices(status, plan)) {
    tell(context, "runs", plan.arguments.restart);
    return run_command(plan.arguments.restart);
  }
  tell(context, "runs", "controlctl reload");
  const Result<Document> document = call_controld(context.socket, {"reload"});
  if (!document) return Error{document.error()};
  const Result<ReloadAnswer> answer = read_json<ReloadAnswer>(*document);
  if (!answer) return Error{answer.error()};
  const std::string reason = reason_text(answer->diagnostics, answer->error);
  const bool is_published = std::any_of(answer->phases.begin(), answer->phases.end(),
                                        [](const PhaseTime& phase) { return phase.name == "publish"; });
  return is_published ? Result<void>() : Error{"the reload failed: " + reason};
}

Result<StatusAnswer> wait_until_enforced(const Context& context, const Plan& plan) {
  const auto end = Clock::now() + kEnforcedIn;
  std::string error = "controld does not answer\nhint: journalctl -u weir-controld";
  while (true) {
    if (std::optional<StatusAnswer> status = status_now(context)) {
      const TargetStatus* const target = find_target(*status, plan);
      if (target != nullptr && target->acknowledged && is_everywhere(*target)) return std::move(*status);
      error =
          target == nullptr ? "controld runs with another policy\nhint: its status names the file" : target->last_error;
      if (target != nullptr && target->interfaces) {
        for (const InterfaceStatus& one : *target->interfaces) {
          if (!one.error.empty()) error = one.name + ": " + one.error;
        }
      }
    }
    if (Clock::now() >= end) return Error{"the target does not enforce the policy: " + error};
    std::this_thread::sleep_for(kLook);
  }
}

// 60 bytes of UDP from the blocked address to nobody.
std::array<uint8_t, 60> made_packet() {
  std::array<uint8_t, 60> frame = {};
  frame[5] = frame[11] = 2;
  frame[12] = 0x08;
  constexpr std::array<uint8_t, 12> kIp = {0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0};
  std::copy(kIp.begin(), kIp.end(), frame.begin() + 14);
  std::copy(kBlockedBytes.begin(), kBlockedBytes.end(), frame.begin() + 26);
  frame[30] = 192, frame[32] = 2, frame[33] = 1;
  frame[35] = 9, frame[37] = 9;
  frame[39] = 26;
  return frame;
}

Result<bool> drops_now(const Context& context, const Plan& plan) {
  if (plan.is_xdp()) {
    const std::array<uint8_t, 60> frame = made_packet();
    return xdp::drops_frame(plan.arguments.interface, std::as_bytes(std::span(frame)));
  }
  Request asked{"explain"};
  asked.key = kBlocked;
  const Result<Document> document = call_controld(context.socket, asked);
  if (!document) return Error{document.error()};
  const Result<ExplainAnswer> answer = read_json<ExplainAnswer>(*document);
  if (!answer || !answer->of_key) return Error{answer ? "explain has no answer" : answer.error()};
  return answer->now.empty() && answer->of_key->as_source.action == "drop";
}

Result<void> change(const Context& context, const char* command) {
  Request wanted{command};
  wanted.entries = {std::string("src ") + kBlocked};  // whichever side the list is compared with
  wanted.action = "drop";
  if (wanted.command == "add") {
    wanted.ttl = kBlockedTtl_s;
    wanted.comment = "controlctl setup";
  }
  const Result<Document> document = call_controld(context.socket, wanted);
  if (!document) return Error{document.error()};
  const std::optional<std::string> error = document->text("error");
  return error ? Result<void>(Error{*error}) : Result<void>();
}

// A packet passes, drops while its source is blocked, and passes again.
Result<std::string> prove(const Context& context, const Plan& plan) {
  const char* const by = plan.is_xdp() ? "a made packet from 203.0.113.7" : "203.0.113.7";
  const Result<bool> before = drops_now(context, plan);
  if (!before) return Error{before.error()};
  if (*before) return fmt::format("{} drops: the policy blocks it already", by);
  if (const Result<void> added = change(context, "add"); !added) return Error{added.error()};
  const Result<bool> blocked = drops_now(context, plan);
  const Result<void> taken_back = change(context, "del");
  if (!blocked) return Error{blocked.error()};
  if (!*blocked)
    return Error{fmt::format("{} passes, though it is blocked\nhint: controlctl explain {}", by, kBlocked)};
  if (!taken_back) return Error{taken_back.error()};
  const Result<bool> after = drops_now(context, plan);
  if (!after) return Error{after.error()};
  if (*after)
    return Error{fmt::format("{} drops, though it is blocked no more\nhint: controlctl explain {}", by, kBlocked)};
  return fmt::format("{} passed, dropped while 203.0.113.7 was blocked, and passes again", by);
}

void show_plan(const Plan& plan, const std::optional<StatusAnswer>& status) {
  if (plan.changes_policy()) {
    print("would write into {}:\n{}", plan.arguments.config,
          line_difference(plan.policy_before, plan.policy_after, kMostShown));
  } else {
    print("{} has the target already\n", plan.arguments.config);
  }
  if (plan.env_after != plan.env_before) {
    print("would write into {}:\n{}", kDataplaneEnv, line_difference(plan.env_before, plan.env_after, kMostShown));
  }
  if (!plan.is_xdp()) print("would run: systemctl enable --now weir-dataplane@main\n");
  print("would run: {}\n", reload_suffices(status, plan) ? "controlctl reload" : plan.arguments.restart);
  print("would block {} for a moment, prove that it drops, and unblock it\n", kBlocked);
}

int refuse(const Context& context, SetupAnswer answer, const std::string& error, int code) {
  answer.error = error;
  if (context.json) print("{}", answer_line(answer));
  print(stderr, "controlctl: setup: {}\n", error);
  return code;
}

int run(const Context& context, Arguments arguments) {
  SetupAnswer answer;
  const bool is_asked = arguments.ports.empty() && arguments.interface.empty() && !context.json;
  if (is_asked) arguments.interface = chosen_interface();
  if (arguments.ports.empty() && arguments.interface.empty()) {
    return refuse(context, answer,
                  fmt::format("--interface or --ports is missing\nhint: {} setup --interface NAME; there are {}",
                              context.program, joined(interfaces_here())),
                  kUsage);
  }
  const std::optional<StatusAnswer> running = status_now(context);
  if (arguments.config.empty() && running && running->config.starts_with('/')) arguments.config = running->config;
  if (arguments.config.empty()) {
    const Result<std::string> config = default_config();
    if (!config) return refuse(context, answer, config.error(), kFailed);
    arguments.config = *config;
  }
  answer.policy = arguments.config;
  const Result<Plan> plan = plan_of(arguments);
  if (!plan) return refuse(context, answer, plan.error(), kFailed);
  answer.target = plan->target;
  if (arguments.dry_run) {
    answer.ok = true;
    answer.changed = plan->changes_policy();
    context.json ? print("{}", answer_line(answer)) : show_plan(*plan, running);
    return kOk;
  }
  if (geteuid() != 0)
    return refuse(context, answer, "it changes files of root\nhint: run it as root, or add --dry-run", kFailed);
  answer.changed = plan->changes_policy();
  if (const Result<void> applied = apply(context, *plan); !applied)
    return refuse(context, answer, applied.error(), kFailed);
  const Result<StatusAnswer> status = wait_until_enforced(context, *plan);
  if (!status) return refuse(context, answer, status.error(), kNotAcknowledged);
  answer.target = find_target(*status, *plan)->socket;
  tell(context, "enforced", enforced_where(*status) + ": " + answer.target);
  const Result<std::string> proof = prove(context, *plan);
  if (!proof) return refuse(context, answer, "no proof: " + proof.error(), kFailed);
  answer.proof = *proof;
  tell(context, "proved", *proof);
  if (!status->metrics.address.empty()) answer.page = fmt::format("http://{}/", status->metrics.address);
  tell(context, "page", answer.page.empty() ? "off: `metrics` in the policy says so" : answer.page);
  tell(context, "next", fmt::format("{} add ADDRESS --ttl 1h", context.program));
  answer.ok = true;
  if (context.json) print("{}", answer_line(answer));
  return kOk;
}

Run configure(Options& options) {
  auto arguments = std::make_shared<Arguments>();
  arguments->restart = "systemctl restart weir-controld";
  options.text("--interface", "NAME", arguments->interface, "filter what this interface receives, in the kernel (XDP)")
      .interfaces();
  options.text("--ports", "PCI,PCI", arguments->ports, "filter between these cards: 0000:01:00.0,0000:01:00.1 (DPDK)");
  options
      .text("--config", "FILE", arguments->config,
            "the policy file; default: that of controld, else ./weir.yaml, then /etc/weir/weir.yaml")
      .files();
  options.text("--restart", "COMMAND", arguments->restart, "what starts controld anew");
  options.flag("--dry-run", arguments->dry_run, "change nothing, and say what would be done");
  return [arguments](const Context& context) { return run(context, *arguments); };
}

}  // namespace cmd_setup

const Command kSetup = {
    "setup",
    Group::everyday,
    "let an interface or cards enforce the policy, and prove it by a first block",
    "It writes the target into the policy, reloads or restarts controld, blocks 203.0.113.7, sees a packet from there "
    "drop, and unblocks it. On an interface the kernel runs a made packet through the program that filters; with cards "
    "`explain` answers. Without options it asks which interface.",
    cmd_setup::configure,
    [](MemberTable& table) { table.add<cmd_setup::SetupAnswer>("setup"); }};

}  // namespace weir::control::ctl
