#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "control/daemon/daemon.h"
#include "control/read/policy.h"

// One reload, from the policy file to the last target's acknowledgement.
namespace weir::control {

namespace {

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// Of those that sample what they drop.
std::vector<std::string> sockets_of(const std::vector<TargetSpec>& specs) {
  std::vector<std::string> sockets;
  for (const TargetSpec& spec : specs) {
    if (traits_of(spec.kind).why_no_samples == nullptr) sockets.push_back(spec.name);
  }
  return sockets;
}

// Interfaces of the XDP plane on which nothing is enforced, and why; empty: none.
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

// read -> compile -> number on disk -> publish -> last good on disk -> acknowledge. Returns early, with the reason, as
// soon as a step fails: what runs keeps running.
std::shared_ptr<const ReloadReport> Daemon::reload_once(int acknowledge_ms) {
  const Clock::time_point begin = Clock::now();
  auto report = std::make_shared<ReloadReport>();
  report->at = time(nullptr);
  const std::shared_ptr<const Running> old = running();
  const wire::Generation before = old ? old->publication->generation : wire::Generation{};
  report->generation = before;
  const auto finish = [&]() -> std::shared_ptr<const ReloadReport> {
    report->total_ms = ms_between(begin, Clock::now());
    report->ok = report->diagnostics.ok() && report->error.empty();
    fputs(format(report->diagnostics).c_str(), stderr);
    if (report->generation != before) {
      spdlog::info("generation {}: {} entries, {} bytes, {:.1f} ms", report->generation.number, report->entries,
                   report->snapshot_bytes, report->total_ms);
    }
    if (!report->ok) {
      const std::string policy_errors = fmt::format("errors in the policy: {}", report->diagnostics.errors());
      spdlog::error("reload: {}", report->error.empty() ? policy_errors : report->error);
    }
    return report;
  };

  std::optional<Policy> policy = read_policy(options_.config, report->diagnostics);
  if (!policy) return finish();
  report->phases.push_back({"read", ms_between(begin, Clock::now())});

  Result<Compiled> compiled = compile(*policy, numbers_.next(), options_.build_threads);
  if (!compiled) {
    report->error = compiled.error();
    return finish();
  }
  auto publication = std::make_shared<Publication>();
  publication->generation = compiled->generation;
  publication->snapshot = std::move(compiled->snapshot);
  publication->size_bytes = compiled->size_bytes;
  publication->digest = compiled->digest;
  auto next = std::make_shared<Running>();
  next->publication = publication;
  next->lists = summarise(*policy);
  next->report = std::move(compiled->report);
  next->memory_limit = policy->memory_bytes;
  next->published_at = time(nullptr);
  const std::vector<TargetSpec> specs = options_.targets.empty() ? policy->targets : options_.targets;
  if (!options_.state_dir && policy->state_dir != store_.state_dir()) {
    spdlog::warn("state_dir is now {}: {} stays in use until controld starts anew", policy->state_dir,
                 store_.state_dir());
  }
  const std::optional<CaptureSettings> capture = policy->capture;
  policy.reset();
  report->entries = next->report.entries;
  report->snapshot_bytes = next->report.snapshot_bytes;
  report->phases.insert(report->phases.end(), next->report.phases.begin(), next->report.phases.end());

  const Clock::time_point publishing = Clock::now();
  if (Result<void> committed = numbers_.commit(); !committed) {
    report->error = "no number for the new generation: " + committed.error();
    return finish();
  }
  set_targets(specs);
  publish(next);
  capture_.configure(capture, sockets_of(specs));
  report->generation = publication->generation;
  const Clock::time_point published = Clock::now();
  report->phases.push_back({"publish", ms_between(publishing, published)});

  const Result<void> kept = keep_in_force(specs);
  if (!kept) spdlog::error("who enforces is not kept beside the last good: {}", kept.error());
  Result<void> saved = store_.save(*publication, std::as_bytes(std::span(compiled->origins)));
  const double store_ms = ms_between(published, Clock::now());
  if (saved) capture_.stored(publication->generation);
  if (!saved) report->error = "published, but not kept as the last good: " + saved.error();
  compiled->origins = std::string();
  // What reading and compiling took goes back to the system: entries of the next policy need as much again.
  malloc_trim(0);

  if (acknowledge_ms > 0) acknowledge(*report, published, acknowledge_ms);
  report->phases.push_back({"store", store_ms});
  return finish();
}

void Daemon::acknowledge(ReloadReport& report, Clock::time_point published, int acknowledge_ms) {
  const Clock::time_point deadline = published + std::chrono::milliseconds(acknowledge_ms);
  Clock::time_point last = published;
  size_t missing = 0;
  const auto links = targets();
  for (const auto& target : links) {
    TargetOutcome outcome{target->socket(), target->wait_acknowledged(report.generation, deadline), ""};
    const TargetState state = target->state();
    if (outcome.acknowledged) {
      last = std::max(last, state.acknowledged_at);
      outcome.error = not_attached(state);
      outcome.acknowledged = outcome.error.empty();
      if (!outcome.acknowledged) missing++;
    } else {
      missing++;
      last = Clock::now();
      outcome.error =
          state.last_error.empty() ? fmt::format("no answer within {} ms", acknowledge_ms) : state.last_error;
    }
    report.targets.push_back(std::move(outcome));
  }
  report.phases.push_back({"acknowledge", ms_between(published, last)});
  if (missing != 0 && report.error.empty()) {
    report.error = fmt::format("{} of {} targets did not acknowledge", missing, links.size());
  }
}

}  // namespace weir::control
