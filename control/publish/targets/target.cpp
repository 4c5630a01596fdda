#include "control/publish/targets/target.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weir::control {

namespace {
void set_timeout(int socket, int timeout_ms) {
  const timeval timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

std::string reason_of(const wire::PublishedBody& answer) {
  return fmt::format("refused in step {}: {}", wire::step_name(answer.failed_step),
                     std::string_view(answer.reason, strnlen(answer.reason, sizeof answer.reason)));
}
}  // namespace

TargetLink::TargetLink(std::string socket, TargetTimes times)
    : TargetLink(
          socket, [socket, times] { return wire::connect(socket, times.answer); }, false, times) {}

TargetLink::TargetLink(std::string name, Connect connect, TargetTimes times)
    : TargetLink(std::move(name), std::move(connect), true, times) {}

TargetLink::TargetLink(std::string name, Connect connect, bool is_xdp, TargetTimes times)
    : socket_(std::move(name)),
      connect_(std::move(connect)),
      is_xdp_(is_xdp),
      times_(times),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  state_.socket = socket_;
  state_.is_xdp = is_xdp_;
  state_.last_error = "not reached yet";
  thread_ = std::thread([this] { run(); });
}

TargetLink::~TargetLink() {
  stop();
  thread_.join();
}

void TargetLink::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (connection_) shutdown(connection_.get(), SHUT_RDWR);  // ends a wait for a target that hangs
    changed_.notify_all();
  }
  wake();
}

void TargetLink::publish(std::shared_ptr<const Publication> publication) {
  {
    std::lock_guard lock(mutex_);
    wanted_ = std::move(publication);
    wanted_is_news_ = true;
  }
  wake();
}

void TargetLink::bypass(bool on) {
  {
    std::lock_guard lock(mutex_);
    wanted_bypass_ = on;
    bypass_is_news_ = true;
  }
  wake();
}

TargetState TargetLink::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

bool TargetLink::wait_acknowledged(wire::Generation generation, Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  // A refusal is an answer too: nobody waits for what will not come.
  const auto answered = [&] {
    return stopping_ || state_.acknowledged == generation ||
           (state_.connected && !wanted_is_news_ && !state_.publishing);
  };
  changed_.wait_until(lock, deadline, answered);
  return state_.acknowledged == generation;
}

bool TargetLink::wait_bypass(bool on, Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  const auto confirmed = [&] {
    return state_.connected && !bypass_is_news_ && state_.status && (state_.status->bypass != 0) == on;
  };
  changed_.wait_until(lock, deadline, [&] { return stopping_ || confirmed(); });
  return confirmed();
}

bool TargetLink::refresh_stats(Clock::time_point deadline) {
  return refresh(stats_, deadline);
}

bool TargetLink::refresh_telemetry(Clock::time_point deadline) {
  return refresh(telemetry_, deadline);
}

bool TargetLink::refresh(Fresh& fresh, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!state_.connected) return false;
  const uint64_t mine = ++fresh.asked;
  wake();
  changed_.wait_until(lock, deadline, [&] { return stopping_ || fresh.answered >= mine || !state_.connected; });
  return fresh.answered >= mine;
}

void TargetLink::run() {
  while (true) {
    switch (next_task()) {
      case Task::connect:
        if (!connect()) wait_for_event(times_.retry);
        break;
      case Task::bypass:
        send_bypass();
        break;
      case Task::publish:
        send_publication();
        break;
      case Task::stats:
        ask_stats();
        break;
      case Task::telemetry:
        ask_telemetry();
        break;
      case Task::status:
        ask_status();
        break;
      case Task::idle:
        wait_for_event(times_.refresh);
        break;
      case Task::stop:
        return;
    }
  }
}

// Reaches the target and asks what it enforces.
bool TargetLink::connect() {
  Result<Fd> connection = connect_();
  if (!connection) {
    drop(connection.error());
    return false;
  }
  {
    std::lock_guard lock(mutex_);
    connection_ = std::move(*connection);
    if (stopping_) return false;
  }
  ask_status();
  std::lock_guard lock(mutex_);
  if (!state_.connected) return false;
  spdlog::info("target {}: connected, version {}", socket_, state_.status->version);
  return true;
}

TargetLink::Task TargetLink::next_task() {
  std::lock_guard lock(mutex_);
  if (stopping_) return Task::stop;
  if (!connection_) return Task::connect;
  if (bypass_is_news_) return Task::bypass;  // the panic switch goes first
  if (wanted_is_news_) return Task::publish;
  if (stats_.wanted()) return Task::stats;
  if (telemetry_.wanted()) return Task::telemetry;
  if (Clock::now() >= status_due_) return Task::status;
  return Task::idle;
}

std::optional<wire::Message> TargetLink::call(wire::Type type, std::span<const std::byte> body, int fd,
                                              int timeout_ms) {
  set_timeout(connection_.get(), timeout_ms);
  Result<wire::Message> answer = wire::call(connection_.get(), type, body, fd);
  if (answer) return std::move(*answer);
  drop(answer.error());
  return std::nullopt;
}

void TargetLink::send_bypass() {
  wire::BypassBody body;
  {
    std::lock_guard lock(mutex_);
    body.on = *wanted_bypass_ ? 1 : 0;
    bypass_is_news_ = false;
    // A new connection to a target that is as it should be.
    if (state_.status && (state_.status->bypass != 0) == (body.on != 0)) return changed_.notify_all();
  }
  std::optional<wire::Message> answer = call(wire::Type::bypass, wire::bytes_of(body), -1, times_.answer);
  if (!answer) return;
  spdlog::warn("target {}: bypass is {}", socket_, body.on != 0 ? "ON, everything passes" : "off");
  take_status(*answer);
}

void TargetLink::send_publication() {
  std::shared_ptr<const Publication> publication;
  {
    std::lock_guard lock(mutex_);
    publication = wanted_;
    wanted_is_news_ = false;
    if (state_.status->generation == publication->generation) {  // it came back with it
      state_.acknowledged = publication->generation;
      state_.acknowledged_at = Clock::now();
      state_.last_error.clear();
      return changed_.notify_all();
    }
    state_.publishing = true;
  }
  wire::PublishBody body;
  body.generation = publication->generation;
  body.digest[0] = publication->digest[0];
  body.digest[1] = publication->digest[1];
  body.size_bytes = publication->size_bytes;
  std::optional<wire::Message> message =
      call(wire::Type::publish, wire::bytes_of(body), publication->snapshot.get(), times_.publish);
  if (!message) return;
  const std::optional<wire::PublishedBody> answer = wire::body_as<wire::PublishedBody>(*message);
  if (!answer) return drop("its answer to a publication has a wrong size");

  std::lock_guard lock(mutex_);
  state_.publishing = false;
  state_.answer = answer;
  state_.status->generation = answer->generation;
  status_due_ = Clock::now();  // the snapshot's size changed
  if (answer->ok != 0 && answer->generation == publication->generation) {
    state_.acknowledged = publication->generation;
    state_.acknowledged_at = Clock::now();
    state_.last_error.clear();
    spdlog::info("target {}: enforces generation {}, after {:.1f} ms", socket_, answer->generation.number,
                 answer->total_us / 1000.0);
  } else {
    set_error(reason_of(*answer));
  }
  changed_.notify_all();
}

void TargetLink::ask_stats() {
  uint64_t asked = 0;
  {
    std::lock_guard lock(mutex_);
    asked = stats_.asked;
  }
  std::optional<wire::Message> answer = call(wire::Type::stats, {}, -1, times_.answer);
  if (!answer) return;
  std::optional<wire::Stats> stats = wire::stats_from(*answer);
  if (!stats) return drop("its counters cannot be understood");
  std::lock_guard lock(mutex_);
  state_.stats = std::move(stats);
  stats_.answered = asked;
  changed_.notify_all();
}

void TargetLink::ask_telemetry() {
  uint64_t asked = 0;
  {
    std::lock_guard lock(mutex_);
    asked = telemetry_.asked;
  }
  std::optional<TargetTelemetry> telemetry = receive_telemetry();
  if (!telemetry) return;
  std::lock_guard lock(mutex_);
  state_.telemetry = std::move(telemetry);
  telemetry_.answered = asked;
  changed_.notify_all();
}

// One request for the ports and one a worker; the first worker tells how many there are.
std::optional<TargetTelemetry> TargetLink::receive_telemetry() {
  TargetTelemetry all;
  std::optional<wire::Message> answer = call(wire::Type::ports, {}, -1, times_.answer);
  if (!answer) return std::nullopt;
  std::optional<wire::Ports> ports = wire::ports_from(*answer);
  if (!ports) return drop("what it tells of its ports cannot be understood"), std::nullopt;
  all.ports = std::move(*ports);
  if (is_xdp_) return all;  // has no workers
  wire::TelemetryRequest request;
  do {
    answer = call(wire::Type::telemetry, wire::bytes_of(request), -1, times_.answer);
    if (!answer) return std::nullopt;
    std::optional<wire::Telemetry> worker = wire::telemetry_from(*answer);
    if (!worker) return drop("what it tells of its workers cannot be understood"), std::nullopt;
    all.workers.push_back(std::move(*worker));
  } while (++request.worker < std::min(all.workers.front().body.workers, wire::kMaxWorkers));
  return all;
}

void TargetLink::ask_status() {
  if (is_xdp_) ask_interfaces();
  if (!connection_) return;
  if (std::optional<wire::Message> answer = call(wire::Type::status, {}, -1, times_.answer)) take_status(*answer);
}

// What an operator should know without asking: where nothing is enforced, and where it costs more than it need.
void TargetLink::log_changes(const std::vector<wire::InterfaceBody>& before,
                             const std::vector<wire::InterfaceBody>& after) const {
  for (const wire::InterfaceBody& now : after) {
    const std::string name = wire::get_text(now.name), error = wire::get_text(now.error);
    const auto same = [&](const wire::InterfaceBody& was) {
      return wire::get_text(was.name) == name && was.index == now.index && was.attached == now.attached &&
             was.native == now.native && wire::get_text(was.error) == error;
    };
    if (std::any_of(before.begin(), before.end(), same)) continue;
    if (now.attached == 0) {
      spdlog::warn("target {}: NOT attached to {}: {}", socket_, name, error);
    } else if (now.native == 0) {
      spdlog::warn("target {}: attached to {}, generic: behind the driver, slower", socket_, name);
    } else {
      spdlog::info("target {}: attached to {}, native", socket_, name);
    }
  }
}

void TargetLink::ask_interfaces() {
  const std::optional<wire::Message> answer = call(wire::Type::interfaces, {}, -1, times_.answer);
  if (!answer) return;
  std::optional<std::vector<wire::InterfaceBody>> interfaces = wire::interfaces_from(*answer);
  if (!interfaces) return drop("what it tells of its interfaces cannot be understood");
  std::lock_guard lock(mutex_);
  log_changes(state_.interfaces.value_or(std::vector<wire::InterfaceBody>()), *interfaces);
  state_.interfaces = std::move(interfaces);
}

void TargetLink::take_status(const wire::Message& message) {
  std::optional<wire::StatusBody> status = wire::body_as<wire::StatusBody>(message);
  if (!status) return drop("its status has a wrong size");
  status->version[sizeof status->version - 1] = '\0';
  status->isa[sizeof status->isa - 1] = '\0';
  std::lock_guard lock(mutex_);
  if (state_.acknowledged.epoch != 0 && status->generation != state_.acknowledged) {
    state_.acknowledged = {};
    // While connected: somebody else published to it. Not fought over, the next reload brings ours again.
    if (state_.connected) {
      set_error(fmt::format("enforces generation {} of epoch {:016x}, which is not ours", status->generation.number,
                            status->generation.epoch));
    }
  }
  if (!state_.connected) state_.last_error.clear();
  state_.connected = true;
  state_.status = status;
  status_due_ = Clock::now() + std::chrono::milliseconds(times_.refresh);
  changed_.notify_all();
}

void TargetLink::drop(const std::string& error) {
  std::lock_guard lock(mutex_);
  connection_.reset();
  state_.connected = false;
  state_.publishing = false;
  wanted_is_news_ = wanted_ != nullptr;  // tried again on the next connection
  bypass_is_news_ = wanted_bypass_.has_value();
  if (!stopping_) set_error(error);
  changed_.notify_all();
}

void TargetLink::set_error(const std::string& error) {
  if (error == state_.last_error) return;  // 5 attempts a second would fill the log
  state_.last_error = error;
  spdlog::warn("target {}: {}", socket_, error);
}

// Sleeps until another thread wants something, the target closes, or the time is over.
void TargetLink::wait_for_event(int timeout_ms) {
  pollfd events[2] = {{wake_.get(), POLLIN, 0}, {connection_.get(), POLLIN, 0}};  // -1 is skipped
  poll(events, 2, timeout_ms);
  uint64_t count = 0;
  if (read(wake_.get(), &count, sizeof count) < 0 && errno != EAGAIN) {
    spdlog::error("target {}: cannot read an eventfd: {}", socket_, strerror(errno));
  }
  if (events[1].revents != 0) drop("closed by the target");  // it never speaks unasked
}

void TargetLink::wake() const {
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof one) < 0) spdlog::error("target {}: cannot wake its thread", socket_);
}

}  // namespace weir::control
