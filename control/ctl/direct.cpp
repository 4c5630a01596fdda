#include "control/ctl/direct.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iterator>

#include "bpf/enforce/enforcer.h"
#include "common/again.h"
#include "common/clock.h"
#include "common/files.h"
#include "common/panic.h"
#include "common/paths.h"
#include "common/wire.h"
#include "control/ctl/line/out.h"
#include "control/enforce/publish/store.h"

namespace weir::control::ctl {

namespace {

constexpr std::chrono::milliseconds kAnswer{1500};  // a data plane answers at once, and says so when its disk does not
constexpr std::chrono::milliseconds kDisk{500};
const std::string kWritten = "written";
const std::string kNoAnswer = "no answer";

// An order that is on its way to a data plane.
struct Told {
  TargetOutcome* outcome;
  Fd connection;
  uint32_t sequence = 0;
};

void take(TargetOutcome& outcome, bool on, const Result<wire::Message>& answer) {
  const std::optional<wire::StatusBody> status = answer ? wire::body_as<wire::StatusBody>(*answer) : std::nullopt;
  if (!answer) {
    outcome.error = answer.error();
  } else if (!status || (status->bypass != 0) != on) {
    outcome.error = "it did not confirm";
  } else if (status->bypass_durable == 0) {
    outcome.error = "in force, not durable: " + wire::get_text(status->disk_error);
  } else {
    outcome.acknowledged = true;
  }
}

void send_order(Told& told, const std::string& socket, bool on) {
  Result<Fd> connection = wire::connect_panic(socket, 0);
  if (!connection) {
    told.outcome->error = "not reached: " + connection.error();
    return;
  }
  told.sequence = wire::next_sequence();
  const wire::BypassBody body{on ? 1u : 0u, 0};
  const Result<void> sent = wire::send(connection->get(), wire::Type::bypass, told.sequence, wire::bytes_of(body));
  if (!sent) {
    told.outcome->error = sent.error();
  } else {
    told.connection = std::move(*connection);
  }
}

void wait_for_reply(Told& told, bool on, int controld, Clock::time_point deadline) {
  pollfd ready[] = {{told.connection.get(), POLLIN, 0}, {controld, POLLIN, 0}};
  const int n = not_interrupted([&] {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    return poll(ready, std::size(ready), std::max(0, static_cast<int>(left.count())));
  });
  if (n <= 0 || ready[0].revents == 0) {
    told.outcome->error = "no answer";
    return;
  }
  take(*told.outcome, on, wire::answer_to(wire::Type::bypass, told.sequence, wire::receive(told.connection.get())));
}

Result<wire::Message> ask(const Fd& connection, wire::Type type, std::span<const std::byte> body = {}) {
  return wire::call(connection.get(), type, body);
}

void look_at_dataplane(TargetState& state, Look what) {
  const Result<Fd> connection = wire::connect(state.socket, static_cast<int>(kAnswer.count()));
  if (!connection) {
    state.last_error = connection.error();
    return;
  }
  const Result<wire::Message> status = ask(*connection, wire::Type::status);
  state.status = status ? wire::body_as<wire::StatusBody>(*status) : std::nullopt;
  state.connected = state.status.has_value();
  if (!state.connected) state.last_error = status ? "its status has a wrong size" : status.error();
  if (!state.connected || what == Look::status) return;
  if (const Result<wire::Message> stats = ask(*connection, wire::Type::stats)) state.stats = wire::stats_from(*stats);
  TargetTelemetry telemetry;
  const Result<wire::Message> ports = ask(*connection, wire::Type::ports);
  const std::optional<wire::Ports> known = ports ? wire::ports_from(*ports) : std::nullopt;
  if (known) telemetry.ports = *known;
  for (wire::TelemetryRequest request; request.worker < wire::kMaxWorkers; request.worker++) {
    const Result<wire::Message> answer = ask(*connection, wire::Type::telemetry, wire::bytes_of(request));
    std::optional<wire::Telemetry> worker = answer ? wire::telemetry_from(*answer) : std::nullopt;
    if (!worker) break;
    telemetry.workers.push_back(std::move(*worker));
    if (telemetry.workers.size() >= telemetry.workers.front().body.workers) break;
  }
  state.telemetry = std::move(telemetry);
}

void look_at_xdp(TargetState& state, const std::string& bpf_dir) {
  const Result<xdp::PinnedState> pinned = xdp::look_at_pinned(bpf_dir);
  state.has_interfaces = true;
  state.connected = static_cast<bool>(pinned);
  if (!pinned) {
    state.last_error = pinned.error();
    return;
  }
  state.status = pinned->status;
  state.interfaces.emplace();
  for (const xdp::InterfaceState& interface : pinned->interfaces) {
    wire::InterfaceBody& body = state.interfaces->emplace_back();
    wire::set_text(body.name, interface.name);
    wire::set_text(body.error, interface.error);
    body.index = interface.index;
    body.attached = interface.attached;
    body.native = interface.native;
  }
}

// All that the process does. It keeps nothing open: neither who reads what controlctl prints nor controld, which sees
// by its connection that controlctl gave up, waits for the disk.
[[noreturn]] void remember(const std::string& state_dir, Note note, int tell) {
  constexpr int kTell = STDERR_FILENO + 1;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(tell, kTell);
  close_range(kTell + 1, ~0u, 0);
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int number = 0; number < kTell; number++) dup2(nowhere, number);
  const Result<void> written =
      note == Note::off_is_told ? Store::forget_off(state_dir) : Store::set_bypass(state_dir, note == Note::on);
  const std::string text = written ? kWritten : written.error();
  (void)!write(kTell, text.data(), text.size());
  _exit(0);
}

}  // namespace

Place find_place(const std::string& controld_socket) {
  std::optional<Place> place = read_place(place_of(controld_socket));
  if (place) return std::move(*place);
  return {"", "", xdp::kDefaultBpfDir, {dataplane_target(default_dataplane_socket())}};
}

Result<void> may_go_around(const std::string& controld_socket, const std::string& command) {
  if (!is_hidden(place_of(controld_socket))) return {};
  return Error{"without controld only root may reach its targets: sudo controlctl " + command};
}

std::vector<TargetOutcome> bypass_directly(const Place& place, bool on, int controld) {
  std::vector<TargetOutcome> outcomes;
  for (const TargetSpec& target : place.targets) outcomes.push_back({target.name, false, ""});
  std::vector<Told> told;
  for (size_t i = 0; i < outcomes.size(); i++) {
    if (place.targets[i].kind == TargetKind::dataplane) {
      send_order(told.emplace_back(Told{&outcomes[i], Fd(), 0}), place.targets[i].name, on);
      continue;
    }
    const Result<void> switched = xdp::bypass_pinned(place.bpf_dir, on);
    outcomes[i].acknowledged = static_cast<bool>(switched);
    if (!switched) outcomes[i].error = "not reached: " + switched.error();
  }
  const Clock::time_point deadline = Clock::now() + kAnswer;
  for (Told& one : told) {
    if (one.connection) wait_for_reply(one, on, controld, deadline);
  }
  return outcomes;
}

Remembering::Remembering(const Place& place, Note note) {
  if (place.state_dir.empty()) {  // nobody ever knew of it
    result_ = Result<void>();
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result_ = errno_error("cannot make a pipe");
    return;
  }
  told_.reset(ends[0]);
  const Fd tell(ends[1]);
  const pid_t child = fork();
  if (child < 0) result_ = errno_error("cannot start a process that writes it");
  if (child != 0) return;
  remember(place.state_dir, note, tell.get());
}

bool Remembering::wait(std::chrono::milliseconds most) {
  if (result_) return true;
  pollfd ready = {told_.get(), POLLIN, 0};
  const int n = not_interrupted([&] { return poll(&ready, 1, static_cast<int>(most.count())); });
  if (n <= 0) return false;
  char text[512];
  const ssize_t got = not_interrupted([&] { return read(told_.get(), text, sizeof text); });
  const std::string said(text, static_cast<size_t>(std::max<ssize_t>(0, got)));
  if (said == kWritten) {
    result_ = Result<void>();
  } else {
    result_ = Error{said.empty() ? "the process that writes it ended" : said};
  }
  return true;
}

Result<void> Remembering::result() {
  return wait(kDisk) ? *result_ : Error{"the disk has not answered yet"};
}

std::vector<TargetState> look_directly(const Place& place, Look what) {
  std::vector<TargetState> states;
  for (const TargetSpec& target : place.targets) {
    TargetState& state = states.emplace_back();
    state.socket = target.name;
    if (target.kind == TargetKind::dataplane) {
      look_at_dataplane(state, what);
    } else {
      look_at_xdp(state, place.bpf_dir);
    }
    if (state.status) state.acknowledged = state.status->generation;
  }
  return states;
}

void say_direct(const std::string& why, const char* what) {
  print(stderr, "controlctl: no controld answers ({}): {}\n", why.substr(0, why.find('\n')), what);
}

}  // namespace weir::control::ctl
