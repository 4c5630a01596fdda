// Speaks to a data plane as controld does, for benchmarks. Prints one JSON object.
//   stats SOCKET                its counters, and the monotonic clock beside them
//   telemetry SOCKET            packets, cycles by stage and the histograms of passes and latencies of one worker,
//   since its start swap SOCKET SNAPSHOT...     publishes ready-made snapshots (STATE_DIR/snapshot.weir) in turns, at a
//   pace
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/telemetry.h"
#include "common/wire.h"
#include "control/compile/seal.h"
#include "filter/format/snapshot.h"

namespace weir::bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
constexpr int kTimeout_ms = 60'000;
constexpr size_t kMostSnapshotBytes = size_t{16} << 30;

int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

json json_of(const wire::Stats& stats) {
  const wire::Totals& totals = stats.body.totals;
  json lists = json::object();
  for (const wire::ListStats& list : stats.lists) {
    lists[wire::get_text(list.name)] = {{"matched", list.matched}, {"dropped", list.dropped}, {"passed", list.passed}};
  }
  return {{"packets", totals.packets},
          {"bytes", totals.bytes},
          {"passed", totals.passed},
          {"dropped", totals.dropped},
          {"tx_packets", totals.tx_packets},
          {"tx_lost", totals.tx_lost},
          {"capture_lost", totals.capture_lost},
          {"rx_missed", totals.rx_missed},
          {"generation", stats.body.generation.number},
          {"lists", lists}};
}

Result<json> ask_stats(int connection) {
  const Result<wire::Message> answer = wire::call(connection, wire::Type::stats);
  const int64_t read_ns = now_ns();
  if (!answer) return Error{answer.error()};
  const std::optional<wire::Stats> stats = wire::stats_from(*answer);
  if (!stats) return Error{"the data plane answered stats of another version"};
  json found = json_of(*stats);
  found["monotonic_ns"] = read_ns;
  return found;
}

Result<json> ask_telemetry(int connection, uint32_t worker) {
  wire::TelemetryRequest request;
  request.worker = worker;
  const Result<wire::Message> answer = wire::call(connection, wire::Type::telemetry, wire::bytes_of(request));
  if (!answer) return Error{answer.error()};
  const std::optional<wire::Telemetry> telemetry = wire::telemetry_from(*answer);
  if (!telemetry) return Error{"the data plane answered telemetry of another version"};
  json stages = json::object();
  for (uint32_t i = 0; i < wire::kStages; i++) {
    const wire::StageCost& cost = telemetry->body.stages[i];
    stages[wire::stage_name(static_cast<wire::Stage>(i))] = {{"cycles", cost.cycles}, {"packets", cost.packets}};
  }
  const auto buckets = [](const std::vector<Bucket>& histogram) {
    json pairs = json::array();
    for (const Bucket& bucket : histogram) pairs.push_back({bucket.upper, bucket.count});
    return pairs;
  };
  return json{{"tsc_hz", telemetry->body.tsc_hz},
              {"taken_cycles", telemetry->body.taken_cycles},
              {"packets", telemetry->body.packets},
              {"stages", stages},
              {"pass_cycles", buckets(telemetry->pass_cycles)},
              {"latency_cycles", buckets(telemetry->latency_cycles)}};
}

struct Ready {
  control::Sealed sealed;
  wire::PublishBody request;
};

// What a data plane has saved, as a sealed memory file, so that a publication costs the sender nothing.
Result<Ready> make_ready(const std::string& path) {
  Ready ready;
  const Result<std::string> bytes = read_file(path, kMostSnapshotBytes);
  if (!bytes) return Error{bytes.error()};
  weir_snapshot_header header;
  if (bytes->size() < sizeof header + sizeof ready.request.digest) return Error{path + " is cut off"};
  memcpy(&header, bytes->data(), sizeof header);
  const size_t size = bytes->size() - sizeof ready.request.digest;
  Result<control::Draft> draft = control::make_draft(size);
  if (!draft) return Error{draft.error()};
  memcpy(draft->mapping.bytes().data(), bytes->data(), size);
  Result<control::Sealed> sealed = control::seal(std::move(*draft));
  if (!sealed) return Error{sealed.error()};
  ready.sealed = std::move(*sealed);
  memcpy(ready.request.digest, ready.sealed.digest.data(), sizeof ready.request.digest);
  ready.request.generation = {header.epoch, header.number};
  ready.request.size_bytes = size;
  return ready;
}

struct SwapOptions {
  std::vector<std::string> snapshots;
  double per_second = 1;
  unsigned count = 10;
  bool misnamed = false;  // under numbers that are not the snapshots': refused by the last check
};

Result<wire::StatusBody> ask_status(int connection) {
  const Result<wire::Message> answer = wire::call(connection, wire::Type::status);
  if (!answer) return Error{answer.error()};
  const std::optional<wire::StatusBody> status = wire::body_as<wire::StatusBody>(*answer);
  if (!status) return Error{"the data plane answered status of another version"};
  return *status;
}

constexpr uint64_t kOtherNumber = 1 << 20;  // no snapshot here has such a one

// Publishes whichever snapshot is not enforced, `count` times. A refusal is an answer and counted by its step: what is
// published is not always meant to be taken.
Result<json> swap(int connection, const SwapOptions& options) {
  std::vector<Ready> ready;
  for (const std::string& path : options.snapshots) {
    Result<Ready> one = make_ready(path);
    if (!one) return Error{one.error()};
    ready.push_back(std::move(*one));
  }
  const Result<wire::StatusBody> status = ask_status(connection);
  if (!status) return Error{status.error()};
  size_t next = 0;
  json total_us = json::array(), grace_us = json::array(), failed_steps = json::object();
  unsigned enforced = 0;
  const auto period =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / options.per_second));
  Clock::time_point due = Clock::now();
  if (ready[0].request.generation == status->generation) next = 1;
  for (unsigned i = 0; i < options.count; i++) {
    std::this_thread::sleep_until(due);
    due = std::max(due + period, Clock::now());  // late ones do not come in a heap
    const Ready& one = ready[next];
    wire::PublishBody request = one.request;
    request.allow_older = 1;
    if (options.misnamed) request.generation.number += kOtherNumber;
    const Result<wire::Message> answer =
        wire::call(connection, wire::Type::publish, wire::bytes_of(request), one.sealed.fd.get());
    if (!answer) return Error{answer.error()};
    const std::optional<wire::PublishedBody> published = wire::body_as<wire::PublishedBody>(*answer);
    if (!published) return Error{"the data plane answered publish of another version"};
    total_us.push_back(published->total_us);
    if (published->ok != 0) {
      grace_us.push_back(published->grace_us);
      enforced++;
    } else {
      const std::string step = wire::step_name(published->failed_step);
      failed_steps[step] = failed_steps.value(step, 0) + 1;
    }
    // After a refusal the same one again: what is enforced already would be acknowledged without work.
    if (one.request.generation == published->generation) next = (next + 1) % ready.size();
  }
  std::this_thread::sleep_until(due);  // what the last one does to a worker belongs to it
  return json{{"published", options.count},
              {"enforced", enforced},
              {"failed_steps", failed_steps},
              {"total_us", total_us},
              {"grace_us", grace_us}};
}

int run(int argc, char** argv) {
  std::string socket;
  SwapOptions swap_options;
  uint32_t worker = 0;
  CLI::App app("Speaks to a data plane, for benchmarks; prints JSON.");
  app.require_subcommand(1);
  CLI::App* stats = app.add_subcommand("stats", "counters, and the monotonic clock beside them");
  CLI::App* telemetry = app.add_subcommand("telemetry", "cycles by stage and the passes of a worker");
  telemetry->add_option("--worker", worker);
  CLI::App* swapping = app.add_subcommand("swap", "publishes ready-made snapshots in turns");
  for (CLI::App* command : {stats, telemetry, swapping}) command->add_option("socket", socket)->required();
  swapping->add_option("snapshots", swap_options.snapshots)->required()->expected(2, 16);
  swapping->add_option("--per-second", swap_options.per_second)->check(CLI::Range(0.01, 1000.0));
  swapping->add_option("--count", swap_options.count);
  swapping->add_flag("--misnamed", swap_options.misnamed);
  CLI11_PARSE(app, argc, argv);

  const Result<Fd> connection = wire::connect(socket, kTimeout_ms);
  const Result<json> found = !connection           ? Result<json>(Error{connection.error()})
                             : stats->parsed()     ? ask_stats(connection->get())
                             : telemetry->parsed() ? ask_telemetry(connection->get(), worker)
                                                   : swap(connection->get(), swap_options);
  if (!found) {
    fmt::print(stderr, "plane_client: {}\n", found.error());
    return 1;
  }
  fmt::print("{}\n", found->dump());
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  return weir::bench::run(argc, argv);
}
