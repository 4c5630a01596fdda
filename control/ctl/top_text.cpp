#include "control/ctl/top_text.h"

#include <fmt/format.h>

#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace {

constexpr size_t kTopLists = 10;
constexpr Table::Align kRight = Table::Align::right;
// Names that leave 80 columns to the rest of their row.
constexpr size_t kPortName = 18, kListName = 30;

std::string number(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

std::string number(const std::optional<double>& value, int digits) {
  return value ? number(*value, digits) : "-";
}

std::string share(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f} %", *value * 100) : "-";
}

// 98 pps, 12.3 kpps
std::string with_unit(double per_second, const char* unit) {
  const std::string value = scaled(per_second);
  return value + (value.find(' ') == std::string::npos ? " " : "") + unit;
}

// Of a name that is too long the beginning.
std::string fitted(const std::string& name, size_t size, Width width) {
  return width == Width::wide || name.size() <= size ? name : name.substr(0, size - 2) + "..";
}

std::string workers_text(const std::vector<WorkerInterval>& workers, Width width) {
  const bool wide = width == Width::wide;
  std::vector<Table::Column> columns = {{"worker", kRight}, {"lcore", kRight}, {"busy", kRight},
                                        {"pps", kRight},    {"burst", kRight}, {"cycles", kRight}};
  if (wide) {
    for (const char* stage : {"rx", "parse", "lookup", "verdict", "tx"}) columns.push_back({stage, kRight});
  }
  columns.push_back({"us p50", kRight});
  columns.push_back({"p99", kRight});
  if (wide) columns.push_back({"p99.9", kRight});
  columns.push_back({"max", kRight});
  Table table(columns);
  for (const WorkerInterval& worker : workers) {
    if (worker.queues == 0) continue;
    const CyclesPerPacket& cycles = worker.cycles_per_packet;
    const Percentiles& latency = worker.latency_us;
    std::vector<std::string> row = {
        std::to_string(worker.worker), std::to_string(worker.lcore),    share(worker.busy),
        scaled(worker.mpps * 1e6),     number(worker.average_burst, 1), number(cycles.total, 1)};
    if (wide) {
      for (const auto& stage : {cycles.rx, cycles.parse, cycles.lookup, cycles.verdict, cycles.tx}) {
        row.push_back(number(stage, 1));
      }
    }
    row.push_back(number(latency.p50, 2));
    row.push_back(number(latency.p99, 2));
    if (wide) row.push_back(number(latency.p999, 2));
    row.push_back(number(latency.max, 2));
    table.row(row);
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string speed(const PortInterval& port) {
  if (!port.link_up) return "down";
  return port.speed_mbps == 0 ? "up" : fmt::format("{:g}G", port.speed_mbps / 1000.0);
}

std::string ports_text(const std::vector<PortInterval>& ports, Width width) {
  const bool wide = width == Width::wide;
  std::vector<Table::Column> columns = {{"port", kRight}, {"name"}};
  if (wide) columns.push_back({"driver"});
  columns.push_back({"link"});
  columns.push_back({"rx pps", kRight});
  columns.push_back({"rx bit/s", kRight});
  if (wide) {
    for (const char* reason : {"missed", "no mbuf", "errors"}) columns.push_back({reason, kRight});
  } else {
    columns.push_back({"lost", kRight});
  }
  columns.push_back({"tx pps", kRight});
  columns.push_back({"tx bit/s", kRight});
  Table table(columns);
  for (const PortInterval& port : ports) {
    std::vector<std::string> row = {std::to_string(port.port), fitted(port.name, kPortName, width)};
    if (wide) row.push_back(port.driver);
    row.push_back(speed(port));
    row.push_back(scaled(port.rx_mpps * 1e6));
    row.push_back(scaled(port.rx_gbps * 1e9));
    const uint64_t errors = port.rx_errors + port.tx_errors;
    if (wide) {
      for (const uint64_t lost : {port.rx_missed, port.rx_nombuf, errors}) row.push_back(count(lost));
    } else {
      row.push_back(scaled(static_cast<double>(port.rx_missed + port.rx_nombuf + errors)));
    }
    row.push_back(scaled(port.tx_mpps * 1e6));
    row.push_back(scaled(port.tx_gbps * 1e9));
    table.row(row);
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string lists_text(const std::vector<ListInterval>& lists, Width width) {
  Table table({{"list"}, {"dropped/s", kRight}, {"would drop/s", kRight}, {"passed/s", kRight}, {"matched/s", kRight}});
  size_t shown = 0, more = 0, former = 0;
  for (const ListInterval& list : lists) {
    if (list.former) {
      former++;
    } else if (shown == kTopLists) {
      more++;
    } else {
      shown++;
      table.row({fitted(list.name, kListName, width), scaled(list.dropped_pps), scaled(list.would_drop_pps),
                 scaled(list.passed_pps), scaled(list.matched_pps)});
    }
  }
  std::string text = table.empty() ? "" : "\n" + table.text();
  if (more > 0) text += fmt::format("and {} more\n", more);
  if (former > 0 && width == Width::wide) text += fmt::format("{} of former policies\n", plural(former, "list"));
  return text;
}

std::string percent(double part) {
  return fmt::format("{:.0f} %", part * 100);
}

// More than half, and clearly more than one of n does when each has as much: of 2 that is 75 %, of 8 56 %.
bool is_most_of(double part, size_t n) {
  return n >= 2 && part >= 0.5 + 0.5 / static_cast<double>(n);
}

constexpr uint64_t kFewestPackets = 1000;  // of an interval, below which nothing is uneven
constexpr double kHeavySource = 0.25;      // of all packets

struct Busiest {
  const WorkerInterval* worker = nullptr;
  const QueueInterval* queue = nullptr;
  size_t queues = 0;
  uint64_t packets = 0;  // of all queues

  void look_at(const WorkerInterval& of) {
    for (const QueueInterval& one : of.queue_packets) {
      queues++;
      packets += one.packets;
      if (queue != nullptr && queue->packets >= one.packets) continue;
      worker = &of;
      queue = &one;
    }
  }
  bool is_most() const { return packets >= kFewestPackets && is_most_of(share(), queues); }
  double share() const { return static_cast<double>(queue->packets) / static_cast<double>(packets); }
};

// Who gets, or sends, most; empty when nobody does.
std::string uneven_text(const TargetInterval::Measured& measured) {
  std::string text;
  Busiest of_all;
  for (const WorkerInterval& worker : measured.workers) of_all.look_at(worker);
  if (of_all.is_most()) {
    text += fmt::format("worker {}: queue {}:{} gets {} of all packets\n", of_all.worker->worker, of_all.queue->port,
                        of_all.queue->queue, percent(of_all.share()));
  }
  for (const WorkerInterval& worker : measured.workers) {
    Busiest own;
    own.look_at(worker);
    if (!own.is_most() || (of_all.is_most() && of_all.queue == own.queue)) continue;
    text += fmt::format("worker {}: queue {}:{} gets {} of its packets\n", worker.worker, own.queue->port,
                        own.queue->queue, percent(own.share()));
  }
  for (const SourceInterval& source : measured.sources) {
    if (source.share < kHeavySource || measured.packets < kFewestPackets) break;
    text += fmt::format("source {} sends about {}\n", source.source, percent(source.share));
  }
  return text;
}

std::string target_text(const TargetInterval& target, Width width) {
  if (target.state == "away") return fmt::format("{}: AWAY: {}\n", target.socket, target.last_error);
  if (target.state == "silent") return fmt::format("{}: does not answer in time\n", target.socket);
  if (!target.measured) return fmt::format("{}: {}, no interval yet\n", target.socket, target.state);
  const TargetInterval::Measured& measured = *target.measured;
  const auto packets = [](double mpps) { return with_unit(mpps * 1e6, "pps"); };
  return fmt::format("{}: generation {}; lost {} at rx, {} at tx\n{}, {}: passed {}, dropped {}\n", target.socket,
                     target.generation.number, scaled(static_cast<double>(measured.rx_missed)),
                     scaled(static_cast<double>(measured.tx_lost)), packets(measured.mpps),
                     with_unit(measured.gbps * 1e9, "bit/s"), packets(measured.passed_mpps),
                     packets(measured.dropped_mpps)) +
         uneven_text(measured) + workers_text(measured.workers, width) + ports_text(measured.ports, width) +
         lists_text(measured.lists, width);
}

}  // namespace

std::string text_of(const Interval& interval, Width width) {
  std::string text;
  for (const TargetInterval& target : interval.targets) text += (text.empty() ? "" : "\n") + target_text(target, width);
  return text.empty() ? "no targets\n" : text;
}

}  // namespace weir::control::ctl
