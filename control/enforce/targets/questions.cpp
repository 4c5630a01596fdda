#include <algorithm>
#include <memory>
#include <utility>

#include "common/log/log.h"
#include "control/enforce/targets/target.h"

// What a target is asked while it enforces: its status and interfaces, what it counted and measured, samples of its
// traffic.
namespace weir::control {

void TargetLink::ask_for_stats() {
  ask(wire::Type::stats, {}, [this, ticket = stats_.asked](const wire::Message& message) {
    std::optional<wire::Stats> stats = wire::stats_from(message);
    if (!stats) return drop("its counters cannot be understood");
    state_.stats = std::move(stats);
    stats_.answered = ticket;
    tell_change();
  });
}

void TargetLink::ask_for_probes() {
  probes_due_ = Clock::now() + std::chrono::milliseconds(times_.refresh);
  ask(wire::Type::probes, {}, [this](const wire::Message& message) {
    const std::optional<wire::Probes> probes = wire::probes_from(message);
    if (!probes) return drop("what it tells of its filters cannot be understood");
    surroundings_.probed(*probes);
  });
}

// One request for the ports and one a worker; the first worker tells how many there are.
void TargetLink::ask_for_telemetry() {
  ask(wire::Type::ports, {}, [this, ticket = telemetry_.asked](const wire::Message& message) {
    std::optional<wire::Ports> ports = wire::ports_from(message);
    if (!ports) return drop("what it tells of its ports cannot be understood");
    auto telemetry = std::make_shared<TargetTelemetry>();
    telemetry->ports = std::move(*ports);
    ask_for_worker(std::move(telemetry), ticket);
  });
}

void TargetLink::ask_for_worker(std::shared_ptr<TargetTelemetry> so_far, uint64_t ticket) {
  const auto known = static_cast<uint32_t>(so_far->workers.size());
  const uint32_t all = !traits_.has_workers ? 0
                       : known == 0         ? 1
                                            : std::min(so_far->workers.front().body.workers, wire::kMaxWorkers);
  if (known >= all) {
    state_.telemetry = std::move(*so_far);
    telemetry_.answered = ticket;
    return tell_change();
  }
  wire::TelemetryRequest request;
  request.worker = known;
  ask(wire::Type::telemetry, wire::bytes_of(request), [this, so_far, ticket](const wire::Message& message) {
    std::optional<wire::Telemetry> worker = wire::telemetry_from(message);
    if (!worker) return drop("what it tells of its workers cannot be understood");
    so_far->workers.push_back(std::move(*worker));
    ask_for_worker(so_far, ticket);
  });
}

// After each status, and again at once while more is there.
bool TargetLink::is_traffic_wanted() {
  if (!is_traffic_due_ || !traits_.gives_traffic || !surroundings_.traffic_per_second) return false;
  return gives_traffic_ || surroundings_.traffic_per_second() != 0;
}

void TargetLink::ask_for_traffic() {
  is_traffic_due_ = false;
  const wire::TrafficRequest wanted = {surroundings_.traffic_per_second(), 0};
  gives_traffic_ = wanted.per_second != 0;
  ask(wire::Type::traffic, wire::bytes_of(wanted), [this](const wire::Message& message) {
    const std::optional<wire::Traffic> traffic = wire::traffic_from(message);
    if (!traffic) return drop("its samples of traffic cannot be understood");
    is_traffic_due_ = traffic->body.waiting != 0 && traffic->body.n_samples != 0;
    surroundings_.traffic(*traffic);
  });
}

void TargetLink::ask_status() {
  asked_for_status_ = status_.asked;
  if (traits_.has_interfaces) return ask_interfaces();
  ask(wire::Type::status, {}, [this](const wire::Message& message) { take_status(message); });
}

void TargetLink::ask_interfaces() {
  ask(wire::Type::interfaces, {}, [this](const wire::Message& message) {
    std::optional<std::vector<wire::InterfaceBody>> interfaces = wire::interfaces_from(message);
    if (!interfaces) return drop("what it tells of its interfaces cannot be understood");
    log_changes(state_.interfaces.value_or(std::vector<wire::InterfaceBody>()), *interfaces);
    state_.interfaces = std::move(interfaces);
    ask(wire::Type::status, {}, [this](const wire::Message& status) { take_status(status); });
  });
}

// What an operator should know without asking: where nothing is enforced, and where it costs more than it need.
void TargetLink::log_changes(const std::vector<wire::InterfaceBody>& before,
                             const std::vector<wire::InterfaceBody>& after) const {
  for (const wire::InterfaceBody& now : after) {
    const std::string interface = wire::get_text(now.name), error = wire::get_text(now.error);
    const auto same = [&](const wire::InterfaceBody& was) {
      return wire::get_text(was.name) == interface && was.index == now.index && was.attached == now.attached &&
             was.native == now.native && wire::get_text(was.error) == error && was.times == now.times &&
             wire::get_text(was.now) == wire::get_text(now.now);
    };
    if (std::any_of(before.begin(), before.end(), same)) continue;
    const auto by_name = std::find_if(before.begin(), before.end(), [&](const wire::InterfaceBody& was) {
      return wire::get_text(was.name) == interface;
    });
    if (by_name != before.end() && now.attached != 0 && now.times > by_name->times && by_name->times != 0) {
      log::change("xdp attached again",
                  {{"interface", interface},
                   {"target", name()},
                   {"cause", now.index == by_name->index ? "it was detached by somebody else" : "it was made anew"}});
    }
    if (now.now[0] != '\0') {
      log::warning("interface has another name now, and stays enforced",
                   {{"interface", interface}, {"name", wire::get_text(now.now)}, {"target", name()}});
    }
    if (now.attached == 0) {
      log::Event event{log::Level::warning, "xdp NOT attached", {}, false};
      event.fields = {{"interface", interface}, {"error", error}, {"target", name()}};
      log::write(event);
    } else if (now.native == 0) {
      log::change("xdp attached behind the driver: slower",
                  {{"interface", interface}, {"mode", "generic"}, {"target", name()}});
    } else {
      log::change("xdp attached", {{"interface", interface}, {"mode", "native"}, {"target", name()}});
    }
  }
}

}  // namespace weir::control
