#include "dataplane/ports/port_stats.h"

#include <rte_ethdev.h>

#include <chrono>

#include "common/clock.h"

namespace weir::dataplane {

namespace {

wire::PortStats read_port(const PortRow& row) {
  wire::PortStats port;
  wire::set_text(port.name, row.name);
  wire::set_text(port.driver, row.driver);
  port.port = row.port;
  rte_eth_link link = {};
  if (rte_eth_link_get_nowait(row.port, &link) == 0) {
    port.link_up = link.link_status == RTE_ETH_LINK_UP;
    port.speed_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
  }
  rte_eth_stats stats = {};
  if (rte_eth_stats_get(row.port, &stats) != 0) return port;
  port.rx_packets = stats.ipackets;
  port.rx_bytes = stats.ibytes;
  port.tx_packets = stats.opackets;
  port.tx_bytes = stats.obytes;
  port.rx_missed = stats.imissed + (row.sockets ? row.sockets->dropped() : 0);
  port.rx_errors = stats.ierrors;
  port.tx_errors = stats.oerrors;
  port.rx_nombuf = stats.rx_nombuf;
  return port;
}

}  // namespace

wire::Ports read_port_stats(std::span<const PortRow> rows) {
  const auto now = Clock::now().time_since_epoch();
  wire::Ports ports;
  ports.taken_us = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  for (const PortRow& row : rows) ports.ports.push_back(read_port(row));
  return ports;
}

}  // namespace weir::dataplane
