#include "control/daemon/tell.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "common/files.h"

namespace weir::control {

namespace {

uint64_t count_shapes(const Running& running, uint8_t family) {
  return static_cast<uint64_t>(std::count_if(running.report.shapes.begin(), running.report.shapes.end(),
                                             [&](const ShapeReport& report) { return report.shape.family == family; }));
}

std::vector<std::pair<std::string, Limit>> limits_of(const Running& running) {
  return {{"lists", {running.lists.size(), WEIR_MAX_LISTS}},
          {"shapes_v4", {count_shapes(running, 4), WEIR_MAX_SHAPES_PER_FAMILY}},
          {"shapes_v6", {count_shapes(running, 6), WEIR_MAX_SHAPES_PER_FAMILY}},
          {"conditions_of_a_key", {running.report.longest_chain, WEIR_MAX_CHAIN}},
          {"overlay_keys", {running.overlay.keys, most_overlay_keys(running.overlay.of_base)}},
          {"snapshot_bytes", {running.report.snapshot_bytes, running.memory_limit}}};
}

std::vector<FilterRate> rates_of(const Daemon& daemon, const Running& running) {
  return filter_rates_of(daemon.rates(), running.stands_on->publication->digest, running.publication->digest);
}

// Of this process, from the kernel (VmRSS, VmHWM).
Memory memory() {
  uint64_t rss_kib = 0, peak_kib = 0;
  if (Result<std::string> text = read_file("/proc/self/status", 64 * 1024); text) {
    if (const char* line = strstr(text->c_str(), "VmRSS:")) sscanf(line, "VmRSS: %" SCNu64, &rss_kib);
    if (const char* line = strstr(text->c_str(), "VmHWM:")) sscanf(line, "VmHWM: %" SCNu64, &peak_kib);
  }
  return {rss_kib * 1024, peak_kib * 1024};
}

// Adds the names of those that the policy has no more.
void add_former(const Running& running, const ListCounters& counted, std::vector<std::string>& former) {
  for (const auto& [name, counters] : counted) {
    const auto is_it = [&wanted = name](const ListDetails& list) { return list.name == wanted; };
    if (std::any_of(running.lists.begin(), running.lists.end(), is_it)) continue;
    if (std::find(former.begin(), former.end(), name) == former.end()) former.push_back(name);
  }
}

}  // namespace

std::vector<TargetStatus> target_statuses(Daemon& daemon, wire::Generation generation) {
  std::vector<TargetStatus> targets;
  for (const auto& target : daemon.targets()) targets.push_back(status_of(target->state(), generation));
  return targets;
}

StatusAnswer status_answer(Daemon& daemon) {
  const std::shared_ptr<const Running> running = daemon.running();
  StatusAnswer answer;
  answer.config = daemon.options().config;
  answer.state_dir = daemon.state_dir();
  answer.pid = getpid();
  answer.starting = daemon.last_reload() == nullptr;
  answer.disk_error = daemon.disk_error();
  answer.bypass = daemon.bypass_on();
  answer.fleet = daemon.fleet_standing();
  if (running != nullptr) {
    answer.generation = running->publication->generation;
    answer.published_at = running->published_at;
    answer.from_last_good = running->from_last_good;
    answer.entries = running->report.entries;
    answer.shapes = running->report.shapes;
    answer.false_positives = rates_of(daemon, *running);
    answer.limits = limits_of(*running);
    answer.refused = refused_feeds(*running->book);
    answer.warned = warned_feeds(*running->book);
  }
  answer.targets = target_statuses(daemon, answer.generation);
  answer.reloading = daemon.reload_phase();
  if (const Progress& progress = daemon.progress(); !answer.reloading.empty() && progress.of != 0) {
    answer.progress = {std::min<uint64_t>(progress.done, progress.of), progress.of, progress.unit.load()};
  }
  answer.notice = daemon.notice();
  if (daemon.last_reload() != nullptr) answer.last_reload = *daemon.last_reload();
  answer.capture = daemon.capture();
  answer.memory = memory();
  answer.metrics = daemon.metrics_place();
  return answer;
}

StatsAnswer stats_answer(Daemon& daemon, const Daemon::Refreshed& all) {
  const std::shared_ptr<const Running> running = daemon.running();
  StatsAnswer answer;
  answer.generation = running->publication->generation;
  for (const ListDetails& list : running->lists) list_of(answer.lists, list.name);  // also those nobody counted yet
  for (const auto& [target, is_fresh] : all) add(answer, stats_of(target->state(), is_fresh));
  add_former(*running, answer.lists, answer.former);
  answer.capture = daemon.capture();
  return answer;
}

TelemetryAnswer telemetry_answer(Daemon& daemon, const Daemon::Refreshed& all) {
  TelemetryAnswer answer;
  const std::shared_ptr<const Running> running = daemon.running();
  answer.generation = running->publication->generation;
  for (const auto& [target, is_fresh] : all) {
    answer.targets.push_back(measures_of(target->state(), is_fresh));
    add_former(*running, answer.targets.back().stats.lists, answer.former);
  }
  return answer;
}

ListAnswer list_answer(Daemon& daemon, const std::string& name) {
  const std::shared_ptr<const Running> running = daemon.running();
  ListAnswer answer;
  answer.generation = running->publication->generation;
  for (const ListDetails& list : running->lists) {
    if (name.empty() || list.name == name) answer.lists.push_back(list);
  }
  return answer;
}

FeedsAnswer feeds_answer(Daemon& daemon) {
  const std::shared_ptr<const Running> running = daemon.running();
  FeedsAnswer answer{running->publication->generation, feeds_of(*running->book)};
  for (const FetchedFeed& fetched : running->fetched) {
    const auto of_list = [&](const FeedDetails& feed) { return feed.list == fetched.list; };
    const auto feed = std::find_if(answer.feeds.begin(), answer.feeds.end(), of_list);
    if (feed == answer.feeds.end()) continue;
    const FetchState* known = daemon.fetcher().state_of(fetched.path);
    feed->fetch = {known == nullptr ? FetchState() : *known, fetched.every_s};
    feed->fetch->url = shown_url(fetched.url);
  }
  return answer;
}

ShapesAnswer shapes_answer(Daemon& daemon) {
  const std::shared_ptr<const Running> running = daemon.running();
  return {running->report, running->publication->generation, rates_of(daemon, *running)};
}

ShadowAnswer shadow_answer(Daemon& daemon) {
  ShadowAnswer answer;
  if (daemon.running() != nullptr) answer.generation = daemon.running()->publication->generation;
  answer.on = daemon.shadow().is_on();
  answer.ended = daemon.shadow().why_ended();
  const std::shared_ptr<const Shadowing> shadow = daemon.shadow().latest();
  if (shadow == nullptr) return answer;
  const Publication& candidate = *shadow->base->publication;
  answer.file = shadow->path;
  answer.one_in = shadow->one_in;
  answer.at = shadow->at;
  answer.candidate = candidate.generation;
  answer.beside = shadow->beside;
  answer.digest = digest_text(candidate.digest);
  answer.entries = shadow->base->report.entries;
  answer.snapshot_bytes = candidate.size_bytes;
  answer.flows = daemon.shadow().flows().rows();
  answer.diagnostics = shadow->diagnostics;
  size_t missing = 0;
  for (const auto& link : daemon.targets()) {
    const TargetState& state = link->state();
    const bool acknowledged = answer.on ? link->judges_by_shadow() : link->is_shadow_settled();
    std::string error = acknowledged ? "" : state.shadow_error;
    if (!acknowledged && error.empty()) error = state.connected ? "no answer yet" : state.last_error;
    if (!acknowledged) missing++;
    add(answer, state.socket, acknowledged, state.shadow, error);
  }
  answer.ok = missing == 0;
  if (missing != 0) answer.error = fmt::format("{} of {} targets do not", missing, daemon.targets().size());
  return answer;
}

PromoteAnswer promote_answer(Daemon& daemon, const ReloadAnswer& reload, const std::string& judged_digest) {
  PromoteAnswer answer;
  answer.reload = reload;
  answer.judged_digest = judged_digest;
  const Publication& enforced = *daemon.running()->publication;
  answer.enforced_digest = digest_text((enforced.base != nullptr ? *enforced.base : enforced).digest);
  if (enforced.base != nullptr) answer.overlay_digest = digest_text(enforced.digest);
  return answer;
}

HistoryAnswer history_answer(Daemon& daemon, std::vector<HistoryRow> past) {
  return {daemon.running()->publication->generation, daemon.notice(), std::move(past)};
}

DropsAnswer drops_answer(Daemon& daemon, const DropLog::Page& page) {
  const Capture& samples = daemon.samples();
  DropsAnswer answer;
  answer.sampling = samples.is_sampling();
  answer.next = fmt::format("{}-{}", samples.log().id(), page.last);
  answer.more = page.last < samples.log().added();
  answer.missed = page.missed;
  answer.counts = samples.log_counts();
  for (const Drop* drop : page.drops) answer.drops.push_back(line_of(*drop));
  return answer;
}

}  // namespace weir::control
