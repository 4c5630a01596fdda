#include "dataplane/serve/report.h"

#include <fmt/format.h>

namespace weir::dataplane {

namespace {

void add_row(std::string& table, std::string_view name, uint64_t value) {
  table += fmt::format("  {:<22}{:>16}\n", name, value);
}

// Rows that are nearly always zero are shown when they are not.
void add_row_if(std::string& table, std::string_view name, uint64_t value) {
  if (value != 0) add_row(table, name, value);
}

}  // namespace

std::string port_table(const std::vector<PortRow>& rows) {
  std::string table = fmt::format("{:>4}  {:<20} {:<14} {:>4}  {:<9} {:>5}  {:<9} {:<11} {}\n", "port", "name",
                                  "driver", "node", "link", "mtu", "rx/tx", "rings", "mac");
  for (const PortRow& row : rows) {
    table += fmt::format("{:>4}  {:<20} {:<14} {:>4}  {:<9} {:>5}  {:<9} {:<11} {}\n", row.port, row.name, row.driver,
                         row.numa_node < 0 ? "-" : std::to_string(row.numa_node), row.link, row.mtu,
                         fmt::format("{}/{}", row.rx_queues, row.tx_queues),
                         fmt::format("{}/{}", row.rx_descriptors, row.tx_descriptors), row.mac);
    std::string more = row.promiscuous ? "promiscuous" : "not promiscuous";
    if (row.scattered) more += ", frames in several mbufs";
    if (row.spread) more = "hands frames on to workers (spread)";
    if (!row.rss.empty()) more += ", rss: " + row.rss;
    table += "      " + more + "\n";
  }
  return table;
}

std::string worker_table(const std::vector<Worker>& workers) {
  std::string table;
  for (const Worker& worker : workers) {
    table += fmt::format("worker {} on lcore {}:", worker.id, worker.lcore);
    if (worker.routes.empty() && worker.spreads.empty()) table += " no queue is left for it";
    for (const Spread& spread : worker.spreads) {
      table += fmt::format("  {}.{} -> {}.0-{}", spread.in.port, spread.in.queue, spread.rings, spread.n - 1);
    }
    for (const Route& route : worker.routes) {
      table += fmt::format("  {}.{} -> ", route.in.port, route.in.queue);
      table += route.sink ? "sink" : fmt::format("{}.{}", route.out.port, route.out.queue);
      if (route.has_capture) table += fmt::format(" (dropped: {}.{})", route.capture.port, route.capture.queue);
    }
    table += "\n";
  }
  return table;
}

std::string totals_table(const wire::Stats& stats) {
  const wire::Totals& totals = stats.body.totals;
  std::string table = "totals\n";
  add_row(table, "packets", totals.packets);
  add_row(table, "bytes", totals.bytes);
  add_row(table, "passed", totals.passed);
  add_row(table, "dropped", totals.dropped);
  add_row(table, "malformed", totals.malformed);
  add_row(table, "not_ip", totals.not_ip);
  add_row(table, "incomplete", totals.incomplete);
  add_row(table, "default_passed", totals.default_passed);
  add_row(table, "default_dropped", totals.default_dropped);
  add_row_if(table, "bypassed", totals.bypassed);
  add_row_if(table, "no_snapshot_passed", totals.no_snapshot_passed);
  add_row_if(table, "no_snapshot_dropped", totals.no_snapshot_dropped);
  add_row(table, "tx_packets", totals.tx_packets);
  add_row(table, "tx_lost", totals.tx_lost);
  add_row_if(table, "capture_lost", totals.capture_lost);
  add_row(table, "rx_missed", totals.rx_missed);
  if (stats.lists.empty()) return table;
  table += fmt::format("{:<34}{:>16}{:>16}{:>16}{:>16}\n", "list", "matched", "dropped", "passed", "would_drop");
  for (const wire::ListStats& list : stats.lists) {
    table += fmt::format("  {:<32}{:>16}{:>16}{:>16}{:>16}\n", wire::get_text(list.name), list.matched, list.dropped,
                         list.passed, list.would_drop);
  }
  return table;
}

}  // namespace weir::dataplane
