// controld: compiles the policy, publishes it to its targets, serves the API. Foreground; SIGHUP reloads, SIGTERM and
// SIGINT stop it. docs/use/control.md.

#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/log/progress_line.h"
#include "common/options/parse.h"
#include "common/printable.h"
#include "control/base/loop/loop.h"
#include "control/daemon/answers.h"
#include "control/daemon/api.h"
#include "control/daemon/arguments.h"
#include "control/daemon/daemon.h"
#include "control/daemon/fleet.h"
#include "control/daemon/rights.h"
#include "control/daemon/web.h"
#include "control/enforce/publish/place.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/target_spec.h"
#include "control/sources/fetch/transfer.h"
#include "control/sources/fleet/follower.h"
#include "control/tell/answer/request.h"

namespace weir::control {
namespace {

// For answers, and what captures still fetch, after a stop.
constexpr std::chrono::seconds kLastAnswers{2};
// For targets that are there to enforce the first policy, before we say that we are ready.
constexpr std::chrono::seconds kFirstAnswers{15};

bool read_targets(Arguments& arguments) {
  Result<std::vector<TargetSpec>> targets = targets_of(arguments.targets);
  if (!targets) return print_text(stderr, fmt::format("--target {}\n", targets.error())), false;
  arguments.daemon.targets = std::move(*targets);
  return true;
}

// The exit code when the program is to end here (--help, --version, a wrong option), else empty.
std::optional<int> parse(int argc, char** argv, Arguments& arguments, std::optional<MetricsSettings>& metrics) {
  // The other half of the processors is the data plane's, whose workers never sleep.
  arguments.daemon.build_threads = std::max(1u, std::thread::hardware_concurrency() / 2);
  const Options options = options_of(arguments);
  const Program program{"controld", "Compiles a weir policy and publishes it to the data planes.",
                        "controld " WEIR_VERSION};
  const std::optional<int> code =
      parse_options(program, std::array<const Options*, 1>{&options}, std::vector<std::string>(argv + 1, argv + argc));
  if (code) return code;
  if (!arguments.state_dir.empty()) arguments.daemon.state_dir = arguments.state_dir;
  const auto mode = std::find(kSeccompModes.begin(), kSeccompModes.end(), arguments.seccomp);
  arguments.daemon.seccomp = static_cast<confine::Seccomp>(mode - kSeccompModes.begin());
  if (!read_targets(arguments)) return 2;
  if (!arguments.metrics.empty()) {
    const Result<MetricsSettings> settings = parse_metrics_settings(arguments.metrics);
    if (!settings) {
      print_text(stderr, fmt::format("--metrics {}: {}\n", arguments.metrics, settings.error()));
      return 2;
    }
    metrics = *settings;
  }
  return std::nullopt;
}

bool find_config(std::string& config) {
  if (!config.empty()) return true;
  const Result<std::string> found = default_config();
  if (!found) return log::error("no policy", {{"error", found.error()}}), false;
  config = *found;
  log::info("no --config", {{"using", config}});
  return true;
}

void notify_reloading() {
  const auto now = Clock::now().time_since_epoch();
  const int64_t usec = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", usec).c_str());  // sd_notify(3)
}

// While the first policy is compiled: what systemctl status shows, and that the start may take longer than
// TimeoutStartSec. Once a second, by the loop: a controld that hangs does not ask for more time.
void tell_service_manager(Loop& loop, const Progress& progress, Loop::Source& again) {
  constexpr int64_t kMoreTime_us = 30'000'000;
  const uint64_t done = progress.done, of = progress.of;
  std::string far = progress.phase.load();
  if (of != 0) far += fmt::format(", {} of {} {}", std::min(done, of), of, progress.unit.load());
  sd_notify(0, fmt::format("STATUS=Compiling the first policy: {}\nEXTEND_TIMEOUT_USEC={}", far, kMoreTime_us).c_str());
  again = loop.timer(Clock::now() + std::chrono::seconds(1),
                     [&loop, &progress, &again] { tell_service_manager(loop, progress, again); });
}

int run(int argc, char** argv) {
  Arguments arguments;
  std::optional<MetricsSettings> metrics;  // of the command line
  if (std::optional<int> code = parse(argc, argv, arguments, metrics)) return *code;
  log::start();
  (void)log::has_progress_line();  // while it may be asked for
  if (arguments.verbose) log::set_threshold(log::Level::debug);
  if (!find_config(arguments.daemon.config)) return 1;
  // While there are no threads, and nothing that it should not hold.
  const Result<std::unique_ptr<confine::Helpers>> parsers = start_parsers({&kFetchJob, &fleet::kFollowJob});
  if (!parsers) {
    log::error("cannot start", {{"error", parsers.error()}});
    return 1;
  }
  arguments.daemon.parsers = parsers->get();
  const Result<std::optional<gid_t>> read_group = find_group(arguments.read_group, kReadGroup);
  if (!read_group) {
    log::error("cannot start", {{"error", "--read-group: " + read_group.error()}});
    return 1;
  }
  const Result<std::optional<gid_t>> admin_group = find_group(arguments.admin_group, kAdminGroup);
  if (!admin_group) {
    log::error("cannot start", {{"error", "--admin-group: " + admin_group.error()}});
    return 1;
  }
  arguments.daemon.admin_group = *admin_group;

  // Before any thread exists, so that all of them leave signals to the loop.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGHUP, SIGTERM, SIGINT}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // Policies are read and compiled in turn by one thread: more arenas would only keep more freed memory.
  mallopt(M_ARENA_MAX, 2);

  Loop loop;
  std::unique_ptr<Daemon> daemon;
  bool is_stopped = false, is_changed = false;
  const auto stop = [&](const char* name) {
    log::info("stopping", {{"cause", name}});
    sd_notify(0, "STOPPING=1");
    is_stopped = true;
    loop.stop();
  };
  const auto reload = [&] {
    if (daemon == nullptr) {  // the first policy is being compiled, and may be another one by now
      is_changed = true;
      return;
    }
    notify_reloading();
    daemon->reload([](const std::shared_ptr<const ReloadAnswer>&) {}, {.why = "SIGHUP"});
    sd_notify(0, "READY=1");  // the old generation enforces until the new one does: ready all along
  };
  const Loop::Source sources[] = {loop.signal(SIGTERM, [&] { stop("SIGTERM"); }),
                                  loop.signal(SIGINT, [&] { stop("SIGINT"); }), loop.signal(SIGHUP, reload)};

  arguments.daemon.watch_feeds = true;
  arguments.daemon.fetches = true;
  arguments.daemon.guards_host = !arguments.no_host_guard;
  arguments.daemon.panic_socket = panic_socket_of(arguments.socket);
  arguments.daemon.place = place_of(arguments.socket);
  std::unique_ptr<ApiServer> api;
  std::optional<log::ProgressLine> progress_line;  // of the first policy
  Loop::Source told_again;
  std::unique_ptr<Web> web;
  const bool is_web_off = metrics && !metrics->listen;
  arguments.daemon.serves_metrics = !is_web_off;
  arguments.daemon.policy_taken = [&] {
    if (web != nullptr) web->follow();
  };
  arguments.daemon.opened = [&](Daemon& opened) -> Result<void> {
    const auto answer_line = [&opened](const std::string& line, const Caller& caller, ApiServer::Reply reply) {
      answer(opened, line, caller, std::move(reply));
    };
    Result<std::unique_ptr<ApiServer>> open = ApiServer::start(loop, arguments.socket, {answer_line, failure_line},
                                                               ApiServer::kClientMs, {*read_group, *admin_group});
    if (!open) return Error{open.error()};
    api = std::move(*open);
    if (!is_web_off) web = std::make_unique<Web>(loop, opened, metrics);
    log::info("compiling the first policy; controlctl is answered", {{"socket", arguments.socket}});
    progress_line.emplace(opened.progress());
    tell_service_manager(loop, opened.progress(), told_again);
    return {};
  };
  // What a thread is still at, a policy that is compiled, say, is left as it is: it is nothing that a crash could not
  // interrupt.
  const auto give_up = [&] {
    log::info("stopped; what was being done is given up");
    for (const std::string& path : {arguments.socket, panic_socket_of(arguments.socket)}) unlink(path.c_str());
    std::_Exit(0);
  };
  bool is_ready = false;
  const auto say_ready = [&](const char* message) {
    if (std::exchange(is_ready, true)) return;
    told_again.reset();  // nobody waits for the start any more
    sd_notify(0, message);
    loop.feed_watchdog();
  };
  // What waits for us, the network say, waits for what is enforced, and not for a policy that takes long to compile.
  arguments.daemon.enforcing = [&] { say_ready("READY=1\nSTATUS=The last good is enforced; the policy is compiled"); };
  std::unique_ptr<FleetNode> node;
  arguments.daemon.added = [&](const Change& change, const std::string& list) {
    if (node != nullptr) node->added_here(change, list);
  };
  arguments.daemon.went_back = [&] {
    if (node != nullptr) node->went_back();
  };
  Result<std::unique_ptr<Daemon>> started = Daemon::start(loop, arguments.daemon);
  told_again.reset();
  progress_line.reset();
  if (is_stopped) give_up();
  if (!started) {
    log::error("cannot start", {{"error", started.error()}});
    return 1;
  }
  daemon = std::move(*started);
  log::info("ready", {{"version", WEIR_VERSION}, {"socket", arguments.socket}});
  loop.run_until([&] { return is_ready || daemon->is_settled(); }, Clock::now() + kFirstAnswers);
  say_ready("READY=1");
  sd_notify(0, "STATUS=");
  if (is_changed) reload();
  if (daemon->fleet()) node = std::make_unique<FleetNode>(loop, *daemon, **parsers);
  loop.run();
  node.reset();
  daemon->stop();  // ends the waits of requests, which the API then answers
  loop.run_until([&] { return api->is_idle() && daemon->is_idle(); }, Clock::now() + kLastAnswers);
  if (daemon->is_busy()) give_up();
  return 0;
}

}  // namespace
}  // namespace weir::control

int main(int argc, char** argv) {
  return weir::control::run(argc, argv);
}
