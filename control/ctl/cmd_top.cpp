#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include <CLI/CLI.hpp>

#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/ctl/top_interval.h"

// Rates and times of the data planes, interval by interval.
namespace weir::control::ctl {

namespace {

constexpr size_t kTopLists = 10;
constexpr Table::Align kRight = Table::Align::right;

std::string number(const Json& value, int digits) {
  return value.is_null() ? "-" : fmt::format("{:.{}f}", value.get<double>(), digits);
}

std::string share(const Json& value) {
  return value.is_null() ? "-" : fmt::format("{:.1f} %", value.get<double>() * 100);
}

std::string workers_text(const Json& workers) {
  Table table({{"worker", kRight},
               {"lcore", kRight},
               {"busy", kRight},
               {"Mpps", kRight},
               {"burst", kRight},
               {"cycles", kRight},
               {"rx", kRight},
               {"parse", kRight},
               {"lookup", kRight},
               {"verdict", kRight},
               {"tx", kRight},
               {"us p50", kRight},
               {"p99", kRight},
               {"p99.9", kRight},
               {"max", kRight}});
  for (const Json& worker : workers) {
    if (worker.at("queues").get<uint64_t>() == 0) continue;
    const Json& cycles = worker.at("cycles_per_packet");
    const Json& latency = worker.at("latency_us");
    table.row({std::to_string(worker.at("worker").get<uint64_t>()), std::to_string(worker.at("lcore").get<uint64_t>()),
               share(worker.at("busy")), number(worker.at("mpps"), 3), number(worker.at("average_burst"), 1),
               number(cycles.at("total"), 1), number(cycles.at("rx"), 1), number(cycles.at("parse"), 1),
               number(cycles.at("lookup"), 1), number(cycles.at("verdict"), 1), number(cycles.at("tx"), 1),
               number(latency.at("p50"), 2), number(latency.at("p99"), 2), number(latency.at("p999"), 2),
               number(latency.at("max"), 2)});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string speed(const Json& port) {
  const uint64_t mbps = port.at("speed_mbps").get<uint64_t>();
  if (!port.at("link_up").get<bool>()) return "down";
  return mbps == 0 ? "up" : fmt::format("{} Gbit/s", static_cast<double>(mbps) / 1000);
}

std::string ports_text(const Json& ports) {
  Table table({{"port", kRight},
               {"name"},
               {"driver"},
               {"link"},
               {"rx Mpps", kRight},
               {"rx Gbit/s", kRight},
               {"missed", kRight},
               {"no mbuf", kRight},
               {"errors", kRight},
               {"tx Mpps", kRight},
               {"tx Gbit/s", kRight}});
  for (const Json& port : ports) {
    table.row({std::to_string(port.at("port").get<uint64_t>()), port.at("name").get<std::string>(),
               port.at("driver").get<std::string>(), speed(port), number(port.at("rx_mpps"), 3),
               number(port.at("rx_gbps"), 2), count(port.at("rx_missed").get<uint64_t>()),
               count(port.at("rx_nombuf").get<uint64_t>()),
               count(port.at("rx_errors").get<uint64_t>() + port.at("tx_errors").get<uint64_t>()),
               number(port.at("tx_mpps"), 3), number(port.at("tx_gbps"), 2)});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string lists_text(const Json& lists) {
  Table table({{"list"}, {"dropped/s", kRight}, {"would drop/s", kRight}, {"passed/s", kRight}, {"matched/s", kRight}});
  for (size_t i = 0; i < lists.size() && i < kTopLists; i++) {
    const Json& list = lists.at(i);
    table.row({list.at("name").get<std::string>(), number(list.at("dropped_pps"), 0),
               number(list.at("would_drop_pps"), 0), number(list.at("passed_pps"), 0),
               number(list.at("matched_pps"), 0)});
  }
  std::string text = table.empty() ? "" : "\n" + table.text();
  if (lists.size() > kTopLists) text += fmt::format("and {} more\n", lists.size() - kTopLists);
  return text;
}

std::string target_text(const Json& target) {
  const std::string socket = target.at("socket").get<std::string>();
  const std::string state = target.at("state").get<std::string>();
  if (state == "away") return fmt::format("{}: AWAY: {}\n", socket, target.at("last_error").get<std::string>());
  if (state == "silent") return fmt::format("{}: does not answer in time\n", socket);
  if (state != "measured") return fmt::format("{}: {}, no interval yet\n", socket, state);
  return fmt::format("{}: generation {}, {} Mpps, {} Gbit/s, passed {}, dropped {}, lost {} at rx, {} at tx\n", socket,
                     target.at("generation").at("number").get<uint64_t>(), number(target.at("mpps"), 3),
                     number(target.at("gbps"), 2), number(target.at("passed_mpps"), 3),
                     number(target.at("dropped_mpps"), 3), count(target.at("rx_missed").get<uint64_t>()),
                     count(target.at("tx_lost").get<uint64_t>())) +
         workers_text(target.at("workers")) + ports_text(target.at("ports")) + lists_text(target.at("lists"));
}

std::string text_of(const Json& interval) {
  std::string text;
  for (const Json& target : interval.at("targets")) text += (text.empty() ? "" : "\n") + target_text(target);
  return text.empty() ? "no targets\n" : text;
}

// Over what stands there, so that nothing flickers: home, every line cleared behind its end, then all below.
std::string redrawn(const std::string& text) {
  std::string all = "\x1b[H";
  for (const char c : text) {
    if (c == '\n') all += "\x1b[K";
    all += c;
  }
  return all + "\x1b[J";
}

void print_interval(const Context& context, const Json& interval, bool first) {
  const bool redraw = isatty(STDOUT_FILENO) == 1 && !context.once && !context.json;
  if (context.json) {
    fmt::print("{}", to_line(interval));
  } else if (redraw) {
    fmt::print("{}{}", first ? "\x1b[2J" : "", redrawn(text_of(interval)));
  } else {
    fmt::print("{}{}", first ? "" : "\n", text_of(interval));
  }
  fflush(stdout);
}

Result<Json> ask(const Context& context) {
  Result<Json> answer = call_controld(context.socket, {{"command", "telemetry"}});
  if (answer && answer->contains("error")) return Error{answer->at("error").get<std::string>()};
  return answer;
}

int run_intervals(const Context& context) {
  using Clock = std::chrono::steady_clock;
  const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(context.interval_s));
  Result<Json> before = ask(context);
  Clock::time_point due = Clock::now();
  for (bool first = true; before; first = false) {
    due = std::max(due + interval, Clock::now());
    std::this_thread::sleep_until(due);
    Result<Json> after = ask(context);
    if (!after) {
      before = std::move(after);
      break;
    }
    print_interval(context, interval_between(*before, *after), first);
    if (context.once) return kOk;
    before = std::move(after);
  }
  fmt::print(stderr, "controlctl: {}\n", before.error());
  return kUnreachable;
}

int run(const Context& context) {
  try {
    return run_intervals(context);
  } catch (const nlohmann::json::exception& e) {
    fmt::print(stderr, "controlctl: the answer of controld is not understood: {}\n", e.what());
    return kFailed;
  }
}

void options(CLI::App& app, Context& context) {
  app.add_flag("--once", context.once, "one interval, then exit");
  app.add_option("--interval", context.interval_s, "seconds")->check(CLI::Range(0.1, 3600.0))->capture_default_str();
}

}  // namespace

const Command kTop = {"top", "rates, load, cycles and latency of the data planes, every second", options, run};

}  // namespace weir::control::ctl
