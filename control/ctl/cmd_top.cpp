#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "control/ctl/client.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/ctl/top_interval.h"

// Rates and times of the data planes, interval by interval.
namespace weir::control::ctl {

namespace {

constexpr size_t kTopLists = 10;
constexpr Table::Align kRight = Table::Align::right;

struct Asked {
  bool once = false;
  double interval_s = 1;
};

std::string number(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

std::string number(const std::optional<double>& value, int digits) {
  return value ? number(*value, digits) : "-";
}

std::string share(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f} %", *value * 100) : "-";
}

std::string workers_text(const std::vector<WorkerInterval>& workers) {
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
  for (const WorkerInterval& worker : workers) {
    if (worker.queues == 0) continue;
    const CyclesPerPacket& cycles = worker.cycles_per_packet;
    const Percentiles& latency = worker.latency_us;
    table.row({std::to_string(worker.worker), std::to_string(worker.lcore), share(worker.busy), number(worker.mpps, 3),
               number(worker.average_burst, 1), number(cycles.total, 1), number(cycles.rx, 1), number(cycles.parse, 1),
               number(cycles.lookup, 1), number(cycles.verdict, 1), number(cycles.tx, 1), number(latency.p50, 2),
               number(latency.p99, 2), number(latency.p999, 2), number(latency.max, 2)});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string speed(const PortInterval& port) {
  if (!port.link_up) return "down";
  return port.speed_mbps == 0 ? "up" : fmt::format("{} Gbit/s", port.speed_mbps / 1000.0);
}

std::string ports_text(const std::vector<PortInterval>& ports) {
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
  for (const PortInterval& port : ports) {
    table.row({std::to_string(port.port), port.name, port.driver, speed(port), number(port.rx_mpps, 3),
               number(port.rx_gbps, 2), count(port.rx_missed), count(port.rx_nombuf),
               count(port.rx_errors + port.tx_errors), number(port.tx_mpps, 3), number(port.tx_gbps, 2)});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string lists_text(const std::vector<ListInterval>& lists) {
  Table table({{"list"}, {"dropped/s", kRight}, {"would drop/s", kRight}, {"passed/s", kRight}, {"matched/s", kRight}});
  for (size_t i = 0; i < lists.size() && i < kTopLists; i++) {
    const ListInterval& list = lists[i];
    table.row({list.name, number(list.dropped_pps, 0), number(list.would_drop_pps, 0), number(list.passed_pps, 0),
               number(list.matched_pps, 0)});
  }
  std::string text = table.empty() ? "" : "\n" + table.text();
  if (lists.size() > kTopLists) text += fmt::format("and {} more\n", lists.size() - kTopLists);
  return text;
}

std::string target_text(const TargetInterval& target) {
  if (target.state == "away") return fmt::format("{}: AWAY: {}\n", target.socket, target.last_error);
  if (target.state == "silent") return fmt::format("{}: does not answer in time\n", target.socket);
  if (!target.measured) return fmt::format("{}: {}, no interval yet\n", target.socket, target.state);
  const TargetInterval::Measured& measured = *target.measured;
  return fmt::format("{}: generation {}, {} Mpps, {} Gbit/s, passed {}, dropped {}, lost {} at rx, {} at tx\n",
                     target.socket, target.generation.number, number(measured.mpps, 3), number(measured.gbps, 2),
                     number(measured.passed_mpps, 3), number(measured.dropped_mpps, 3), count(measured.rx_missed),
                     count(measured.tx_lost)) +
         workers_text(measured.workers) + ports_text(measured.ports) + lists_text(measured.lists);
}

std::string text_of(const Interval& interval) {
  std::string text;
  for (const TargetInterval& target : interval.targets) text += (text.empty() ? "" : "\n") + target_text(target);
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

void print_interval(const Context& context, const Asked& asked, const Interval& interval, bool first) {
  const bool redraw = isatty(STDOUT_FILENO) == 1 && !asked.once && !context.json;
  if (context.json) {
    fmt::print("{}", write_json(interval).line());
  } else if (redraw) {
    fmt::print("{}{}", first ? "\x1b[2J" : "", redrawn(text_of(interval)));
  } else {
    fmt::print("{}{}", first ? "" : "\n", text_of(interval));
  }
  fflush(stdout);
}

// Empty: there is no answer, or it is not understood; code says what it means, and the user was told.
std::optional<TelemetryAnswer> measure(const Context& context, int& code) {
  code = kUnreachable;
  const std::optional<Document> answer = ask(context, {"telemetry"});
  if (!answer) return std::nullopt;
  if (const std::optional<std::string> error = answer->text("error")) {
    fmt::print(stderr, "controlctl: {}\n", *error);
    return std::nullopt;
  }
  Result<TelemetryAnswer> telemetry = read_json<TelemetryAnswer>(*answer);
  if (telemetry) return std::move(*telemetry);
  code = not_understood(telemetry.error());
  return std::nullopt;
}

int run(const Context& context, const Asked& asked) {
  using Clock = std::chrono::steady_clock;
  const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(asked.interval_s));
  int code = kOk;
  std::optional<TelemetryAnswer> before = measure(context, code);
  Clock::time_point due = Clock::now();
  for (bool first = true; before; first = false) {
    due = std::max(due + interval, Clock::now());
    std::this_thread::sleep_until(due);
    std::optional<TelemetryAnswer> after = measure(context, code);
    if (!after) break;
    print_interval(context, asked, interval_between(*before, *after), first);
    if (asked.once) return kOk;
    before = std::move(after);
  }
  return code;
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  options.flag("--once", asked->once, "one interval, then exit");
  options.number("--interval", "S", asked->interval_s, "seconds").range(0.1, 3600);
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace

const Command kTop = {"top",
                      Group::look,
                      "rates, load, cycles and latency of the data planes, every second",
                      "On a terminal it draws over the last interval until Ctrl-C. With --json it prints an object an "
                      "interval, each on a line.",
                      configure,
                      [](MemberTable& table) {
                        table.add<Interval>("top");
                        table.add<TelemetryAnswer>("telemetry");
                      }};

}  // namespace weir::control::ctl
