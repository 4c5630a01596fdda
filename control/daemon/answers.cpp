#include "control/daemon/answers.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "common/files.h"
#include "control/answer/capture_json.h"
#include "control/answer/stats.h"
#include "control/answer/telemetry.h"

namespace weir::control {

namespace {

Json phases_json(const std::vector<PhaseTime>& phases) {
  Json json = Json::object();
  for (const PhaseTime& phase : phases) json[phase.name] = phase.milliseconds;
  return json;
}

Json outcomes_json(const std::vector<TargetOutcome>& outcomes) {
  Json json = Json::array();
  for (const TargetOutcome& target : outcomes) {
    json.push_back({{"socket", target.socket}, {"acknowledged", target.acknowledged}, {"error", target.error}});
  }
  return json;
}

Json reload_json(const ReloadReport& report) {
  Json json = {{"ok", report.ok},
               {"generation", to_json(report.generation)},
               {"at", report.at},
               {"phases", phases_json(report.phases)},
               {"total_ms", report.total_ms},
               {"entries", report.entries},
               {"snapshot_bytes", report.snapshot_bytes},
               {"targets", outcomes_json(report.targets)},
               {"errors", report.diagnostics.errors()},
               {"warnings", report.diagnostics.warnings()},
               {"diagnostics", to_json(report.diagnostics)}};
  if (!report.error.empty()) json["error"] = report.error;
  return json;
}

Json interface_json(const wire::InterfaceBody& interface) {
  const bool attached = interface.attached != 0;
  return {{"name", wire::get_text(interface.name)},
          {"index", interface.index},
          {"attached", attached},
          {"mode", !attached               ? ""
                   : interface.native != 0 ? "native"
                                           : "generic"},
          {"error", wire::get_text(interface.error)}};
}

Json target_json(const TargetState& state, wire::Generation running) {
  Json json = {{"socket", state.socket},
               {"connected", state.connected},
               {"acknowledged", state.acknowledged == running},
               {"last_error", state.last_error}};
  const wire::StatusBody status = state.status.value_or(wire::StatusBody{});
  json["version"] = status.version;
  json["generation"] = to_json(status.generation);
  json["bypass"] = status.bypass != 0;
  json["workers"] = status.workers;
  json["ports"] = status.ports;
  json["isa"] = status.isa;
  json["snapshot_bytes"] = status.snapshot_bytes;
  json["snapshot_limit_bytes"] = status.snapshot_limit_bytes;
  json["huge_pages"] = status.huge_pages != 0;
  json["start_time"] = status.start_time_unix;
  if (!state.is_xdp) return json;
  json["interfaces"] = Json::array();
  if (!state.interfaces) return json;
  for (const wire::InterfaceBody& interface : *state.interfaces)
    json["interfaces"].push_back(interface_json(interface));
  return json;
}

Json used_of(uint64_t used, uint64_t max) {
  return {{"used", used}, {"max", max}};
}

uint64_t count_shapes(const Running& running, uint8_t family) {
  return static_cast<uint64_t>(std::count_if(running.report.shapes.begin(), running.report.shapes.end(),
                                             [&](const ShapeReport& report) { return report.shape.family == family; }));
}

// Of this process, from the kernel (VmRSS, VmHWM).
Json memory() {
  uint64_t rss_kib = 0, peak_kib = 0;
  if (Result<std::string> text = read_file("/proc/self/status", 64 * 1024); text) {
    if (const char* line = strstr(text->c_str(), "VmRSS:")) sscanf(line, "VmRSS: %" SCNu64, &rss_kib);
    if (const char* line = strstr(text->c_str(), "VmHWM:")) sscanf(line, "VmHWM: %" SCNu64, &peak_kib);
  }
  return {{"rss_bytes", rss_kib * 1024}, {"peak_bytes", peak_kib * 1024}};
}

Json reload(Daemon& daemon, const Json&) {
  return reload_json(*daemon.reload());
}

Json status(Daemon& daemon, const Json&) {
  const std::shared_ptr<const Running> running = daemon.running();
  const wire::Generation generation = running->publication->generation;
  Json targets = Json::array();
  for (const auto& target : daemon.targets()) targets.push_back(target_json(target->state(), generation));
  Json shapes = Json::array();
  for (const ShapeReport& shape : running->report.shapes) shapes.push_back(to_json(shape));
  return {{"config", daemon.options().config},
          {"state_dir", daemon.state_dir()},
          {"pid", getpid()},
          {"generation", to_json(generation)},
          {"published_at", running->published_at},
          {"from_last_good", running->from_last_good},
          {"entries", running->report.entries},
          {"bypass", daemon.bypass_on()},
          {"targets", std::move(targets)},
          {"shapes", std::move(shapes)},
          {"last_reload", reload_json(*daemon.last_reload())},
          {"capture", to_json(daemon.capture())},
          {"limits",
           {{"lists", used_of(running->lists.size(), WEIR_MAX_LISTS)},
            {"shapes_v4", used_of(count_shapes(*running, 4), WEIR_MAX_SHAPES_PER_FAMILY)},
            {"shapes_v6", used_of(count_shapes(*running, 6), WEIR_MAX_SHAPES_PER_FAMILY)},
            {"conditions_of_a_key", used_of(running->report.longest_chain, WEIR_MAX_CHAIN)},
            {"snapshot_bytes", used_of(running->report.snapshot_bytes, running->memory_limit)}}},
          {"memory", memory()}};
}

Json explain(Daemon& daemon, const Json& request) {
  if (!request.contains("key")) return {{"error", "explain needs a key: an address, or address:port"}};
  const wire::Generation generation = daemon.running()->publication->generation;
  const Result<Explanation> explanation = daemon.explain(request["key"].get<std::string>());
  if (!explanation) return {{"error", explanation.error()}};
  Json json = to_json(*explanation);
  json["generation"] = to_json(generation);
  return json;
}

Json shapes(Daemon& daemon, const Json&) {
  const std::shared_ptr<const Running> running = daemon.running();
  const CompileReport& report = running->report;
  Json all = Json::array();
  for (const ShapeReport& shape : report.shapes) all.push_back(to_json(shape));
  return {{"generation", to_json(running->publication->generation)},
          {"shapes", std::move(all)},
          {"probes_v4", report.probes_v4},
          {"probes_v6", report.probes_v6},
          {"entries", report.entries},
          {"sets", report.sets},
          {"rules", report.rules},
          {"snapshot_bytes", report.snapshot_bytes},
          {"proved_entries", report.proved_entries},
          {"proved_strangers", report.proved_strangers}};
}

Json capture(Daemon& daemon, const Json&) {
  return to_json(daemon.capture());
}

Json list(Daemon& daemon, const Json& request) {
  const std::shared_ptr<const Running> running = daemon.running();
  Json all = Json::array();
  const std::string name = request.contains("name") ? request["name"].get<std::string>() : "";
  for (const ListSummary& summary : running->lists) {
    if (name.empty() || summary.name == name) all.push_back(to_json(summary));
  }
  if (!name.empty() && all.empty()) return {{"error", fmt::format("no list is called '{}'", name)}};
  return {{"generation", to_json(running->publication->generation)}, {"lists", std::move(all)}};
}

Json bypass(Daemon& daemon, const Json& request) {
  if (!request.contains("on")) return {{"error", "bypass needs on: true or false"}};
  const bool on = request["on"].get<bool>();
  const Result<std::vector<TargetOutcome>> outcomes = daemon.bypass(on);
  if (!outcomes) return {{"error", outcomes.error()}, {"bypass", on}};
  const bool ok = std::all_of(outcomes->begin(), outcomes->end(), [](const auto& o) { return o.acknowledged; });
  Json json = {{"ok", ok}, {"bypass", on}, {"targets", outcomes_json(*outcomes)}};
  if (!ok) json["error"] = "not every target confirmed";
  return json;
}

Json detach(Daemon& daemon, const Json& request) {
  const std::string interface = request.contains("interface") ? request["interface"].get<std::string>() : "";
  const Result<std::vector<std::string>> off = daemon.detach(interface);
  if (!off) return {{"error", off.error()}};
  return {{"ok", true}, {"controld", true}, {"detached", *off}};
}

struct Command {
  const char* name;
  Json (*run)(Daemon&, const Json&);
};
constexpr Command kCommands[] = {
    {"reload", reload}, {"status", status}, {"explain", explain},     {"shapes", shapes},   {"stats", stats},
    {"list", list},     {"bypass", bypass}, {"telemetry", telemetry}, {"capture", capture}, {"detach", detach},
};

}  // namespace

Json answer(Daemon& daemon, const Json& request) {
  const std::string name = request.contains("command") ? request["command"].get<std::string>() : "";
  spdlog::debug("API: {}", name);
  std::string known;
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(daemon, request);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", command.name);
  }
  return {{"error", fmt::format("unknown command '{}'; known: {}", name, known)}};
}

}  // namespace weir::control
