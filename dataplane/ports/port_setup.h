#pragma once

#include <rte_ethdev.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "dataplane/ports/packet_sockets.h"
#include "dataplane/ports/port_plan.h"

struct rte_mempool;

// One port on its way from plan to running.
namespace weir::dataplane {

// A port as it runs, for the table at the start.
struct PortRow {
  uint16_t port;
  std::string name, driver, mac, link;
  int numa_node;  // kNoNode: a virtual port
  uint16_t rx_queues, tx_queues;
  uint16_t rx_descriptors, tx_descriptors;
  uint16_t mtu;
  std::string rss;  // hash functions that the driver took; empty: none
  bool promiscuous, scattered, spread;
  std::shared_ptr<const PacketSockets> sockets;  // net_af_packet, once it has started; others: null
};

struct PortSetup {
  PlannedPort planned;
  PortRow row = {};
  rte_eth_dev_info info = {};
  rte_eth_conf conf = {};
  std::vector<uint8_t> rss_key;  // conf refers to it
};

std::string port_name(uint16_t port);
Error port_error(const PortRow& row, const std::string& what, int error);
// On the vdev bus: what it says about its limits is not to be trusted.
bool is_virtual(const rte_eth_dev_info& info);
// Bytes of a frame around its MTU.
uint32_t frame_overhead(const rte_eth_dev_info& info);

// Reads what the device offers and chooses from it. scattered: some port may receive frames of several mbufs.
Result<void> choose_setup(PortSetup& setup, uint32_t data_room, std::vector<std::string>& warnings);
// any_scattered: some port of the plan receives frames of several mbufs, so this one must send them. interrupts: of its
// receive queues, where the driver has them.
Result<void> configure_port(PortSetup& setup, bool any_scattered, bool interrupts, std::vector<std::string>& warnings);
Result<void> set_up_queues(const PortSetup& setup, rte_mempool* pool);
// And reads back what the device really gives.
Result<void> start_port(PortRow& row, bool promiscuous);

}  // namespace weir::dataplane
