#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "common/files.h"
#include "common/log/log.h"
#include "common/paths.h"
#include "common/printable.h"
#include "common/realtime.h"
#include "dataplane/doctor/doctor.h"
#include "dataplane/ports/devices.h"
#include "dataplane/ports/port_stats.h"
#include "dataplane/serve/bypass.h"
#include "dataplane/serve/control.h"
#include "dataplane/serve/control_thread.h"
#include "dataplane/serve/heartbeat.h"
#include "dataplane/serve/report.h"
#include "dataplane/serve/telemetry.h"
#include "dataplane/serve/wall_clock.h"
#include "dataplane/start/dpdk_log.h"
#include "dataplane/start/eal_arguments.h"
#include "dataplane/start/eal_check.h"
#include "dataplane/start/options.h"
#include "dataplane/start/privileges.h"
#include "filter/probe/dispatch.h"

namespace weir::dataplane {

namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;  // command line or configuration
constexpr const char* kCannotStart = "cannot start";
constexpr std::chrono::seconds kMostLastWrite{2};  // of a disk, at the end

int fail(const std::string& error, int code) {
  log::error(kCannotStart, {{"error", error}});
  return code;
}

std::optional<Config> load_config(const Options& options) {
  Diagnostics diagnostics;
  Config config = options.config_path.empty() ? default_config() : read_config(options.config_path, diagnostics);
  options.doctor ? (void)fputs(format(diagnostics).c_str(), stderr) : log::tell(diagnostics);
  if (!diagnostics.ok()) return std::nullopt;
  if (!options.socket_path.empty()) config.socket_path = options.socket_path;
  if (!options.state_dir.empty()) config.state_dir = options.state_dir;
  return config;
}

// SIGINT and SIGTERM arrive here only: blocked in this thread and all that it starts, as is SIGHUP (answer_hangup()).
Fd block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // virtio_user writes to its back end's socket, which may be gone
  return Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// A terminal that goes away, or who takes this program for one that reads its configuration again: nothing ends.
void answer_hangup() {
  sigset_t hangup;
  sigemptyset(&hangup);
  sigaddset(&hangup, SIGHUP);
  constexpr timespec kAtOnce = {};
  if (sigtimedwait(&hangup, nullptr, &kAtOnce) != SIGHUP) return;
  log::info(
      "SIGHUP is ignored: a changed policy comes by `controlctl reload`, a changed dataplane.yaml by a new start");
}

// rte_eal_init .. rte_eal_cleanup.
class Eal {
 public:
  static std::optional<Eal> start(const std::string& program, const std::vector<std::string>& given) {
    EalArguments eal = complete_eal_arguments(given, look_at_machine());
    for (const std::string& note : eal.notes) log::info("DPDK's options", {{"note", note}});
    std::vector<std::string> strings = {program};
    strings.insert(strings.end(), eal.arguments.begin(), eal.arguments.end());
    std::vector<char*> argv;
    for (std::string& text : strings) argv.push_back(text.data());
    argv.push_back(nullptr);
    take_dpdk_log();
    if (rte_eal_init(static_cast<int>(strings.size()), argv.data()) < 0) {
      log::error("DPDK does not start; its lines above say more (dataplane [EAL options] -- [options])",
                 {{"error", rte_strerror(rte_errno)}});
      return std::nullopt;
    }
    return Eal(eal.own_prefix ? rte_eal_get_runtime_dir() : "");
  }
  Eal(Eal&& other) noexcept : running_(std::exchange(other.running_, false)), folder_(std::move(other.folder_)) {}
  Eal& operator=(Eal&&) = delete;
  ~Eal() {
    if (!running_) return;
    rte_eal_cleanup();
    std::error_code ignored;  // a folder that stays costs nothing
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

 private:
  explicit Eal(std::string own_folder) : running_(true), folder_(std::move(own_folder)) {}
  bool running_;
  std::string folder_;  // run-time folder to remove; empty: shared with others
};

std::vector<Worker> make_workers(const PortPlan& plan) {
  std::vector<Worker> workers(plan.routes.size());
  unsigned lcore = 0;
  uint32_t id = 0;
  RTE_LCORE_FOREACH(lcore) {
    workers[id].id = id;
    workers[id].lcore = lcore;
    workers[id].routes = plan.routes[id];
    workers[id].spreads = plan.spreads[id];
    workers[id].load.prepare(plan.routes[id].size(), rte_get_tsc_hz());
    id++;
  }
  return workers;
}

std::vector<int> worker_nodes() {
  std::vector<int> nodes;
  unsigned lcore = 0;
  RTE_LCORE_FOREACH(lcore) {
    nodes.push_back(static_cast<int>(rte_lcore_to_socket_id(lcore)));
  }
  return nodes;
}

std::vector<WorkerPlace> places_of(const std::vector<Worker>& workers) {
  std::vector<WorkerPlace> places;
  for (const Worker& worker : workers) {
    places.push_back({static_cast<int>(rte_lcore_to_socket_id(worker.lcore))});
  }
  return places;
}

// The lcores, from launch to the last one's return.
void run_workers(std::vector<Worker>& workers, const WorkerSetup& setup) {
  struct Launch {
    std::vector<Worker>& workers;
    const WorkerSetup& setup;
  } launch = {workers, setup};
  rte_eal_mp_remote_launch(
      [](void* argument) -> int {
        const Launch& all = *static_cast<Launch*>(argument);
        for (Worker& worker : all.workers) {
          if (worker.lcore == rte_lcore_id()) run(worker, all.setup);
        }
        return 0;
      },
      &launch, CALL_MAIN);
  rte_eal_mp_wait_lcore();
}

std::vector<std::string> drivers_of(const Devices& devices) {
  std::vector<std::string> drivers;
  for (const PortRow& row : devices.rows()) drivers.push_back(row.driver);
  return drivers;
}

// What fails may be there a moment later: memory, a descriptor. Nothing is enforced meanwhile, and no frame taken.
Result<bool> restore(Publisher& publisher) {
  constexpr int kAttempts = 5;
  constexpr std::chrono::milliseconds kPause{100};
  for (int attempt = 1;; attempt++) {
    Result<bool> restored = publisher.restore();
    if (restored || attempt == kAttempts) return restored;
    std::this_thread::sleep_for(kPause);
  }
}

void say_what_is_enforced(const Result<bool>& restored, const SnapshotSlot& slot, const Config& config, bool waiting) {
  if (!restored) log::error("the saved snapshot is not used", {{"error", restored.error()}});
  if (const Snapshot* snapshot = slot.current()) {
    const wire::Generation generation = snapshot->generation();
    const Copies& base = *snapshot->base();
    log::Fields fields = {{"generation", generation.number},
                          {"epoch", fmt::format("{:016x}", generation.epoch)},
                          {"cause", "restored from disk"}};
    if (snapshot->overlay() != nullptr) fields.emplace_back("base", base.generation().number);
    fields.emplace_back("lists", snapshot->lists().size());
    fields.emplace_back("bytes", snapshot->size_bytes());
    fields.emplace_back("pages", base.huge() ? "huge" : "ordinary");
    log::change("enforcing the saved generation", std::move(fields));
  } else if (waiting) {
    log::change("no snapshot yet: ports are not polled before there is one", {{"cause", "--wait-for-snapshot"}});
  } else {
    log::change(config.pass_without_snapshot ? "no snapshot yet: everything passes until controld publishes one"
                                             : "no snapshot yet: everything is dropped until controld publishes one",
                {{"cause", config.pass_without_snapshot ? "no_snapshot: pass" : "no_snapshot: drop"}});
  }
}

// The end: totals, and proof that no frame and no mbuf was lost on the way.
int report_end(const wire::Stats& stats, const std::vector<Worker>& workers, const MbufCount& mbufs) {
  fputs(totals_table(stats).c_str(), stdout);
  bool good = mbufs.all_accounted();
  if (good && mbufs.missing > 0) {
    fmt::print("{} mbufs, {} kept by net_af_xdp, which returns none that wait for frames\n", mbufs.total,
               mbufs.missing);
  } else if (good) {
    fmt::print("{} mbufs, all returned\n", mbufs.total);
  } else {
    fmt::print("{} mbufs, {} MISSING\n", mbufs.total, mbufs.missing);
  }
  for (const Worker& worker : workers) {
    if (worker.counters.balanced()) continue;
    fmt::print("worker {}: received frames are NOT the sum of those sent and dropped\n", worker.id);
    good = false;
  }
  fflush(stdout);
  return good ? 0 : kFailed;
}

// False: it takes too long.
bool wait_for(const std::function<bool()>& done) {
  constexpr std::chrono::milliseconds kLook{10};
  for (std::chrono::milliseconds waited{0}; !done(); waited += kLook) {
    if (waited >= kMostLastWrite) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

int run_doctor(const CommandLine& line) {
  const std::optional<Config> config = load_config(line.options);
  if (!config) return kBadInput;
  const Result<doctor::Report> report = doctor::examine(doctor::look_at_process(line.eal, *config));
  if (!report) return print_text(stderr, fmt::format("dataplane: {}\n", report.error())), kBadInput;
  print_text(stdout, line.options.json ? as_json(*report) : as_text(*report));
  return report->count(doctor::Health::problem) == 0 ? 0 : kFailed;
}

// What can be told before anything is begun. 0, or the exit code; it has been said.
int check_input(const CommandLine& line, const std::optional<Config>& config) {
  if (!config) return kBadInput;
  if (Result<void> named = check_user(config->privileges); !named) return fail(named.error(), kBadInput);
  const std::vector<std::string> wrong_arguments = check_eal_arguments(line.eal, look_at_cpus(), "/sys");
  for (const std::string& error : wrong_arguments) log::error(kCannotStart, {{"error", error}});
  if (!wrong_arguments.empty()) return kBadInput;
  const Result<const filter::Kernels*> kernels = filter::choose_kernels();
  if (!kernels) return fail(kernels.error(), kBadInput);
  return 0;
}

int run_check(const CommandLine& line) {
  const int code = check_input(line, load_config(line.options));
  if (code == 0) fmt::print("the options and the configuration can be used; --doctor looks at the machine\n");
  return code;
}

bool names_cards(const std::vector<std::string>& eal) {
  return std::any_of(eal.begin(), eal.end(), [](const std::string& argument) {
    return argument.starts_with("--allow") || (argument.starts_with("-a") && !argument.starts_with("--"));
  });
}

int run_program(const std::string& program, const CommandLine& line) {
  const std::optional<Config> config = load_config(line.options);
  if (const int code = check_input(line, config); code != 0) return code;
  const Result<const filter::Kernels*> kernels = filter::choose_kernels();
  std::vector<uid_t> users;
  if (config->privileges.user) users.push_back(config->privileges.user->uid);
  const Result<StateDir> state = StateDir::open(config->state_dir, users);
  if (!state) return fail(state.error(), kFailed);
  // Before anybody can connect, and take it for started: from here on a signal stops it in order.
  const Fd stop_signals = block_stop_signals();
  if (!stop_signals) return fail(errno_error("cannot be told to stop (signalfd)").message, kFailed);
  Result<unix_socket::Listener> listener = listen_on(config->socket_path, !config->allow_uid.empty());
  if (!listener) return fail(listener.error(), kFailed);
  Result<unix_socket::Listener> panic_socket =
      listen_on(panic_socket_of(config->socket_path), !config->allow_uid.empty());
  if (!panic_socket) return fail(panic_socket.error(), kFailed);

  const std::optional<Eal> eal = Eal::start(program, line.eal);
  if (!eal) return kFailed;
  if (!config->ports && !config->drop_port && list_devices().empty()) {
    // Traffic would be let through by nobody, or by somebody else, and this program look well.
    if (names_cards(line.eal)) {
      return fail(
          "DPDK drives none of the cards that -a names, and says above why: dataplane ... -- --doctor looks at each",
          kFailed);
    }
    log::info("no ports: running on two virtual ones (net_null) that receive empty frames for ever");
    if (Result<void> added = add_virtual_ports(); !added) return fail(added.error(), kFailed);
  }
  if (Result<void> added = add_spread_rings(*config); !added) return fail(added.error(), kFailed);
  Diagnostics diagnostics;
  const PortPlan plan = plan_ports(*config, list_devices(), worker_nodes(), diagnostics);
  log::tell(diagnostics);
  if (!diagnostics.ok()) return kBadInput;
  Result<Devices> devices = Devices::configure(plan, *config, rte_lcore_count());
  if (!devices) return fail(devices.error(), kFailed);
  for (const std::string& warning : devices->warnings()) log::warning("ports", {{"text", warning}});

  std::vector<Worker> workers = make_workers(plan);
  Result<std::unique_ptr<SnapshotSlot>> slot = SnapshotSlot::make(rte_lcore_count());
  if (!slot) return fail(slot.error(), kFailed);
  Switches switches;
  const Result<bool> bypass = state->load_bypass();
  if (!bypass) log::error("what is saved of bypass cannot be read: it is off", {{"error", bypass.error()}});
  switches.bypass = bypass && *bypass;
  if (switches.bypass) {
    log::change("bypass is ON: everything passes until `controlctl bypass off`", {{"cause", "restored from disk"}});
  }
  WallClock clock(switches, line.options.now_unix_s);
  Ledger ledger;
  Publisher publisher(**slot, ledger, *state, places_of(workers), config->snapshot_memory);
  BypassSwitch bypass_switch(switches, *state);
  say_what_is_enforced(restore(publisher), **slot, *config, line.options.wait_for_snapshot);

  if (Result<void> started = devices->start(); !started) return fail(started.error(), kFailed);
  fputs(port_table(devices->rows()).c_str(), stdout);
  fputs(worker_table(workers).c_str(), stdout);
  fflush(stdout);

  realtime::Starter urgent;  // while this process may
  const Result<Privileges> privileges =
      reduce_privileges(config->privileges, drivers_of(*devices), {config->socket_path, *state});
  if (!privileges) return fail(privileges.error(), kFailed);
  for (const std::string& note : privileges->notes) log::warning("privileges", {{"note", note}});
  log::info("privileges", {{"left", privileges->text}});

  Control control({workers, publisher, bypass_switch, [&] { return devices->rx_missed(); },
                   static_cast<uint32_t>(devices->rows().size()), (*kernels)->name, config->sample_one_in,
                   [&] { return read_port_stats(devices->rows()); }});
  const TelemetryCommands telemetry_commands(control);
  const auto log = [&](log::Event event) { bypass_switch.log(std::move(event)); };
  Server server(
      *listener, config->allow_uid,
      [&](wire::Message request, Reply reply) { control.answer(std::move(request), std::move(reply)); }, log);
  const auto tick = [&] {
    bypass_switch.tick();
    answer_hangup();
  };
  if (const int error = clock.start(devices->watch_links(), tick); error != 0) {
    return fail(fmt::format("cannot start the clock thread: {}", rte_strerror(error)), kFailed);
  }
  ControlThread publisher_thread([&] { publisher.run(); });
  ControlThread disk_thread([&] { bypass_switch.run(); });
  ControlThread control_thread([&] {
    server.run(stop_signals.get());
    switches.stop.store(true, std::memory_order_relaxed);
  });
  Server panic_server(
      *panic_socket, config->allow_uid,
      [&](const wire::Message& request, Reply reply) { control.panic(request, std::move(reply)); }, log);
  ControlThread panic_thread([&] { panic_server.run(stop_signals.get()); });
  const auto start = [](ControlThread& thread, const char* name) {
    const int error = thread.start(name);
    if (error == 0) return;
    (void)fail(fmt::format("cannot start the thread {}: {}", name, rte_strerror(error)), kFailed);
    std::_Exit(kFailed);  // the others run: they would be waited for
  };
  if (!urgent) log::info("the panic switch has no real-time thread", {{"why", urgent.why_not()}});
  if (config->allow_uid.empty()) {
    urgent.run([&] { start(panic_thread, "weir-panic"); });
  } else {  // anybody may connect there, to be refused, and would take the workers' time
    start(panic_thread, "weir-panic");
  }
  start(publisher_thread, "weir-publish");
  start(disk_thread, "weir-disk");
  start(control_thread, "weir-control");
  std::vector<Pulse::Part> parts = {{"control", [&] { return server.turns(); }},
                                    {"panic switch", [&] { return panic_server.turns(); }},
                                    {"clock", [&] { return clock.turns(); }}};
  for (const Worker& worker : workers) {
    if (worker.routes.empty() && worker.spreads.empty()) continue;  // it returns at once
    parts.push_back({fmt::format("worker {}", worker.id), [&worker] { return worker.gauges.passes.get(); }});
  }
  const auto nudge = [&] {
    server.nudge();
    panic_server.nudge();
  };
  const auto service = [&] { return service_status(control.status(), config->pass_without_snapshot); };
  Heartbeat heartbeat({std::move(parts), nudge, service});
  ControlThread heartbeat_thread([&] { heartbeat.run(); });
  if (Heartbeat::is_wanted()) start(heartbeat_thread, "weir-heartbeat");
  log::info("running", {{"kernels", (*kernels)->name}, {"socket", config->socket_path}});
  run_workers(workers, {switches, **slot, config->pass_without_snapshot, line.options.wait_for_snapshot, **kernels,
                        config->idle, config->sample_one_in});
  heartbeat.stop();
  control_thread.join();
  panic_thread.join();
  clock.stop();  // it asks the ports, which go now
  publisher.stop();
  bypass_switch.stop();

  const wire::Stats stats = control.stats();
  const int code = report_end(stats, workers, devices->close());
  const auto is_written = [&] { return publisher.is_idle() && bypass_switch.is_idle(); };
  if (wait_for([&] { return is_written() && heartbeat.is_idle(); })) return code;
  if (!is_written()) {
    log::error("the disk does not answer: what is being written there is given up", {{"state_dir", config->state_dir}});
  }
  for (const std::string& path : {config->socket_path, panic_socket_of(config->socket_path)}) unlink(path.c_str());
  std::_Exit(code);
}

}  // namespace
}  // namespace weir::dataplane

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const weir::dataplane::CommandLine line = weir::dataplane::parse_command_line(arguments);
  if (line.exit_code) return *line.exit_code;
  if (line.options.doctor) return weir::dataplane::run_doctor(line);
  weir::log::start();
  if (line.options.check) return weir::dataplane::run_check(line);
  return weir::dataplane::run_program(argv[0], line);
}
