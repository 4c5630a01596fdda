// Speaks to a data plane as controld does, for benchmarks. Prints one JSON object.
//   stats SOCKET    its counters, and the monotonic clock beside them
#include <fmt/format.h>

#include <chrono>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/wire.h"

namespace weir::bench {
namespace {

using nlohmann::json;
constexpr int kTimeout_ms = 60'000;

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
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
          {"malformed", totals.malformed},
          {"not_ip", totals.not_ip},
          {"incomplete", totals.incomplete},
          {"default_passed", totals.default_passed},
          {"tx_packets", totals.tx_packets},
          {"tx_lost", totals.tx_lost},
          {"capture_lost", totals.capture_lost},
          {"rx_missed", totals.rx_missed},
          {"generation", stats.body.generation.number},
          {"lists", lists}};
}

Result<json> ask_stats(const std::string& socket) {
  const Result<Fd> connection = wire::connect(socket, kTimeout_ms);
  if (!connection) return Error{connection.error()};
  const Result<wire::Message> answer = wire::call(connection->get(), wire::Type::stats);
  const int64_t read_ns = now_ns();
  if (!answer) return Error{answer.error()};
  const std::optional<wire::Stats> stats = wire::stats_from(*answer);
  if (!stats) return Error{"the data plane answered stats of another version"};
  json found = json_of(*stats);
  found["monotonic_ns"] = read_ns;
  return found;
}

int run(int argc, char** argv) {
  std::string socket;
  CLI::App app("Asks a data plane, for benchmarks.");
  app.require_subcommand(1);
  CLI::App* stats = app.add_subcommand("stats", "counters, and the monotonic clock beside them");
  stats->add_option("socket", socket)->required();
  CLI11_PARSE(app, argc, argv);
  const Result<json> found = ask_stats(socket);
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
