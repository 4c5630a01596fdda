#include <fmt/format.h>

#include <algorithm>

#include "common/clock.h"
#include "common/log/log.h"
#include "control/daemon/daemon.h"

// The targets: one link to each, what they are asked and told besides publications, and what they tell of these.
namespace weir::control {

namespace {

// Interfaces on which nothing is enforced, and why; empty: none.
std::string not_attached(const TargetState& state) {
  std::string text;
  if (!state.interfaces) return text;
  for (const wire::InterfaceBody& interface : *state.interfaces) {
    if (interface.attached != 0) continue;
    text += fmt::format("{}not attached to {}: {}", text.empty() ? "" : "; ", wire::get_text(interface.name),
                        wire::get_text(interface.error));
  }
  return text;
}

}  // namespace

// Links of targets that stay are kept, with their connections.
void Daemon::set_targets(const std::vector<TargetSpec>& specs) {
  bool is_renewed[kTargetKinds] = {};
  for (size_t kind = 0; kind < kTargetKinds; kind++) {
    const TargetFunctions& functions = functions_of(static_cast<TargetKind>(kind));
    std::vector<TargetSpec> of_kind;
    for (const TargetSpec& spec : specs) {
      if (spec.kind == static_cast<TargetKind>(kind)) of_kind.push_back(spec);
    }
    is_renewed[kind] = functions.configure != nullptr && functions.configure(planes_, of_kind);
  }
  panic_->set_targets(specs);
  std::vector<std::shared_ptr<TargetLink>> links;
  for (const TargetSpec& spec : specs) {
    const auto same = [&](const auto& link) { return link->name() == spec.name; };
    if (std::any_of(links.begin(), links.end(), same)) continue;
    const auto found = std::find_if(targets_.begin(), targets_.end(), same);
    const bool stays = found != targets_.end() && !is_renewed[static_cast<size_t>(spec.kind)];
    links.push_back(stays ? *found : make_link(spec));
  }
  for (const auto& link : targets_) {
    if (std::find(links.begin(), links.end(), link) != links.end()) continue;
    link->stop();
    rates_.forget(link->name());
  }
  targets_ = std::move(links);
  shadow_.tell_targets();
}

std::vector<TargetSpec> Daemon::specs() const {
  std::vector<TargetSpec> specs;
  for (const auto& link : targets_) specs.push_back(link->spec());
  return specs;
}

std::shared_ptr<TargetLink> Daemon::make_link(const TargetSpec& spec) {
  const TargetFunctions& functions = functions_of(spec.kind);
  TargetLink::Surroundings surroundings;
  surroundings.connect = [this, spec, &functions](std::function<void(Result<Fd>)> done) {
    functions.connect(planes_, spec, std::move(done));
  };
  surroundings.greet = [this, name = spec.name](bool bypass, const TargetLink::Done& done) {
    panic_->greet(name, bypass, [this, done] { mailbox_.post(done); });
  };
  surroundings.lost = [this, name = spec.name](const std::string& error) {
    panic_->lose(name, error);
    rates_.forget(name);
  };
  surroundings.changed = [this] { check_waits(); };
  surroundings.bypass_changed = [this] { panic_->look_again(); };
  surroundings.shadow_told = [this](const wire::Shadow& told) { shadow_.take(told); };
  surroundings.probed = [this, name = spec.name](const wire::Probes& probes) { take_probes(name, probes); };
  surroundings.is_ahead = [this, name = spec.name](wire::Generation seen) { take_ahead(name, seen); };
  surroundings.traffic_per_second = [this] { return running_ != nullptr && traffic_wanted_ ? kTrafficPerSecond : 0; };
  surroundings.traffic = [this, name = spec.name](const wire::Traffic& traffic) {
    reservoir_.take(name, traffic, unix_now_ns());
  };
  TargetTimes times = options_.times;
  times.retry = std::max(times.retry, functions.least_retry_ms);
  return std::make_shared<TargetLink>(loop_, spec, std::move(surroundings), times);
}

bool Daemon::is_settled() const {
  const auto is_settled = [this](const std::shared_ptr<TargetLink>& target) {
    const TargetState& state = target->state();
    const bool is_away = !state.connected && state.is_tried;
    return is_away || target->is_settled(running_->publication->generation);
  };
  return running_ != nullptr && std::all_of(targets_.begin(), targets_.end(), is_settled);
}

// last: when the last one told so.
std::vector<TargetOutcome> Daemon::outcomes(wire::Generation generation, Clock::time_point& last) const {
  std::vector<TargetOutcome> all;
  for (const auto& target : targets_) {
    const TargetState& state = target->state();
    TargetOutcome outcome{target->name(), target->has(generation), ""};
    if (outcome.acknowledged) {
      last = std::max(last, state.acknowledged_at);
      outcome.error = not_attached(state);
      if (outcome.error.empty() && state.status && state.status->snapshot_durable == 0) {
        outcome.error = "enforced, not durable: " + wire::get_text(state.status->disk_error);
      }
      outcome.acknowledged = outcome.error.empty();
    } else {
      last = Clock::now();
      outcome.error =
          state.last_error.empty() ? fmt::format("no answer within {} ms", options_.acknowledge_ms) : state.last_error;
    }
    all.push_back(std::move(outcome));
  }
  return all;
}

// Later, when whoever changed something is done with it.
void Daemon::check_waits() {
  if (std::exchange(is_check_posted_, true)) return;
  mailbox_.post([this] {
    is_check_posted_ = false;
    waits_.check();
  });
}

// A disk that failed and a crash: what was published last is not remembered here, but there.
void Daemon::take_ahead(const std::string& target, wire::Generation seen) {
  constexpr std::chrono::seconds kAtMostOnce{10};  // whatever a target says
  if (running_ == nullptr || running_->from_last_good || Clock::now() < next_jump_) return;
  next_jump_ = Clock::now() + kAtMostOnce;
  log::warning("target enforces what was published and could not be remembered: going past it",
               {{"target", target}, {"generation", seen.number}});
  maker_thread_.submit([this, seen] { maker_.pass(seen); });
  reload([](const std::shared_ptr<const ReloadAnswer>&) {},
         {.why = fmt::format("target {} enforces generation {}, which was not remembered", target, seen.number)});
}

void Daemon::take_confirmation(const std::string& target, bool on) {
  for (const auto& link : targets_) {
    if (link->name() == target) link->take_bypass(on);
  }
}

void Daemon::warn_of_left_over() const {
  for (const std::string& name : planes_.xdp.left_over()) {
    log::warning(
        "xdp: a pinned program still enforces on an interface that no target names: `controlctl detach` takes it off",
        {{"interface", name}, {"bpf_dir", options_.bpf_dir}});
  }
}

void Daemon::detach(const std::string& interface, std::function<void(XdpPlane::Names)> done) {
  panic_->detach(interface, [this, done = std::move(done)](const XdpPlane::Names& off) {
    mailbox_.post([off, done] { done(off); });
  });
}

void Daemon::bypass(bool on, std::function<void(const PanicSwitch::Report&)> done) {
  panic_->order(on, [this, done = std::move(done)](const PanicSwitch::Report& report) {
    mailbox_.post([done, report] { done(report); });
  });
}

void Daemon::refresh(Counters counters, Clock::time_point deadline, std::function<void(const Refreshed&)> done) {
  struct Asked {
    std::shared_ptr<TargetLink> link;
    bool was_connected;
    uint64_t status = 0, stats = 0, telemetry = 0;  // tickets
    bool is_fresh() const {
      return was_connected && link->has_status(status) && link->has_stats(stats) && link->has_telemetry(telemetry);
    }
    bool is_over() const { return is_fresh() || !link->state().connected; }
  };
  auto asked = std::make_shared<std::vector<Asked>>();
  for (const auto& link : targets_) {
    Asked& one = asked->emplace_back(Asked{link, link->state().connected});
    if (!one.was_connected) continue;
    if (counters == Counters::status) {
      one.status = link->ask_status_anew();
      continue;
    }
    one.stats = link->ask_stats();
    if (counters == Counters::stats_and_telemetry) one.telemetry = link->ask_telemetry();
  }
  waits_.add([asked] { return std::all_of(asked->begin(), asked->end(), [](const Asked& a) { return a.is_over(); }); },
             deadline,
             [asked, done = std::move(done)] {
               Refreshed fresh;
               for (const Asked& one : *asked) fresh.emplace_back(one.link, one.is_fresh());
               done(fresh);
             });
}

void Daemon::read_drops(uint64_t after, bool follow, std::function<void()> done) {
  constexpr std::chrono::milliseconds kDropsWait{1000};
  if (!follow) return done();
  capture_.follow();
  waits_.add([this, after] { return capture_.log().added() > after; }, Clock::now() + kDropsWait, std::move(done));
}

}  // namespace weir::control
