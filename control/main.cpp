// controld: compiles the policy, publishes it to its targets, serves the API. Foreground; SIGHUP reloads, SIGTERM and
// SIGINT stop it. docs/use/control.md.

#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include <CLI/CLI.hpp>

#include "common/paths.h"
#include "control/answer/request.h"
#include "control/daemon/answers.h"
#include "control/daemon/api.h"
#include "control/daemon/daemon.h"
#include "control/loop/loop.h"
#include "control/read/target_spec.h"

namespace weir::control {
namespace {

// For answers, and what captures still fetch, after a stop.
constexpr std::chrono::seconds kLastAnswers{2};

struct Arguments {
  Daemon::Options daemon;
  std::string socket = default_controld_socket();
  std::string state_dir;
  std::vector<std::string> targets;
  bool verbose = false;
};

bool read_targets(Arguments& arguments) {
  Result<std::vector<TargetSpec>> targets = targets_of(arguments.targets);
  if (!targets) return fmt::print(stderr, "--target {}\n", targets.error()), false;
  arguments.daemon.targets = std::move(*targets);
  return true;
}

// The exit code when the program is to end here (--help, --version, a wrong option), else empty.
std::optional<int> parse(int argc, char** argv, Arguments& arguments) {
  CLI::App app("Compiles a weir policy and publishes it to the data planes.", "controld");
  app.add_option("--config", arguments.daemon.config, "the policy; default: ./weir.yaml, then /etc/weir/weir.yaml");
  app.add_option("--socket", arguments.socket, "where controlctl finds this controld")->capture_default_str();
  app.add_option("--state-dir", arguments.state_dir, "instead of the policy's state_dir");
  app.add_option("--target", arguments.targets,
                 "socket of a data plane, or xdp:eth0,eth1 (attach: auto); instead of the policy's targets")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--bpf-dir", arguments.daemon.bpf_dir, "BPF file system where XDP programs and maps are pinned")
      ->capture_default_str();
  // The other half of the processors is the data plane's, whose workers never sleep.
  arguments.daemon.build_threads = std::max(1u, std::thread::hardware_concurrency() / 2);
  app.add_option("--build-threads", arguments.daemon.build_threads,
                 "threads that build large filters; default: for half of the processors that controld may use")
      ->check(CLI::Range(1u, 256u));
  app.add_flag("--verbose", arguments.verbose, "also log every API request");
  app.set_version_flag("--version", "controld " WEIR_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (!arguments.state_dir.empty()) arguments.daemon.state_dir = arguments.state_dir;
  if (!read_targets(arguments)) return 2;
  return std::nullopt;
}

bool find_config(std::string& config) {
  if (!config.empty()) return true;
  const Result<std::string> found = default_config();
  if (!found) return spdlog::error("{}", found.error()), false;
  config = *found;
  spdlog::info("no --config: using {}", config);
  return true;
}

void notify_reloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t usec = int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", usec).c_str());  // sd_notify(3)
}

int run(int argc, char** argv) {
  Arguments arguments;
  if (std::optional<int> code = parse(argc, argv, arguments)) return *code;
  spdlog::set_default_logger(spdlog::stderr_color_mt("controld"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  if (arguments.verbose) spdlog::set_level(spdlog::level::debug);
  if (!find_config(arguments.daemon.config)) return 1;

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
    spdlog::info("{}: stopping", name);
    is_stopped = true;
    loop.stop();
  };
  const auto reload = [&] {
    if (daemon == nullptr) {  // the first policy is being compiled, and may be another one by now
      is_changed = true;
      return;
    }
    spdlog::info("SIGHUP: reloading");
    notify_reloading();
    daemon->reload([](const std::shared_ptr<const ReloadReport>&) {});
    sd_notify(0, "READY=1");  // the old generation enforces until the new one does: ready all along
  };
  const Loop::Source sources[] = {loop.signal(SIGTERM, [&] { stop("SIGTERM"); }),
                                  loop.signal(SIGINT, [&] { stop("SIGINT"); }), loop.signal(SIGHUP, reload)};

  arguments.daemon.panic_socket = panic_socket_of(arguments.socket);
  Result<std::unique_ptr<Daemon>> started = Daemon::start(loop, std::move(arguments.daemon));
  if (is_stopped) return 0;
  if (!started) {
    spdlog::error("{}", started.error());
    return 1;
  }
  daemon = std::move(*started);
  const auto answer_line = [&](const std::string& line, ApiServer::Reply reply) {
    answer(*daemon, line, std::move(reply));
  };
  Result<std::unique_ptr<ApiServer>> api = ApiServer::start(loop, arguments.socket, {answer_line, failure_line});
  if (!api) {
    spdlog::error("{}", api.error());
    return 1;
  }
  spdlog::info("controld {} is ready on {}", WEIR_VERSION, arguments.socket);
  sd_notify(0, "READY=1");
  loop.feed_watchdog();
  if (is_changed) reload();
  loop.run();
  sd_notify(0, "STOPPING=1");
  daemon->stop();  // ends the waits of requests, which the API then answers
  loop.run_until([&] { return (*api)->is_idle() && daemon->is_idle(); }, Clock::now() + kLastAnswers);
  return 0;
}

}  // namespace
}  // namespace weir::control

int main(int argc, char** argv) {
  return weir::control::run(argc, argv);
}
