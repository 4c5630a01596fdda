#include "dataplane/devices.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <random>

namespace weir::dataplane {

namespace {

constexpr size_t kRssKeyBytes = 40;         // of a driver that does not tell
constexpr uint32_t kEthernetOverhead = 18;  // header and FCS, of a driver that does not tell

std::string port_name(uint16_t port) {
  char name[RTE_ETH_NAME_MAX_LEN] = "?";
  rte_eth_dev_get_name_by_port(port, name);
  return name;
}

int node_of(uint16_t port) {
  const int node = rte_eth_dev_socket_id(port);
  return node >= 0 ? node : static_cast<int>(rte_socket_id());  // virtual ports have none
}

Error port_error(const PortRow& row, const std::string& what, int error) {
  return Error{"port " + std::to_string(row.port) + " (" + row.name + "): cannot " + what + ": " +
               rte_strerror(error < 0 ? -error : error)};
}

// A repeated random 16-bit pattern: swapping source and destination gives the same hash (Woo and Park, "Scalable TCP
// session monitoring with symmetric receive-side scaling", 2012), and nobody outside can aim at a queue. The same on
// every port: the two directions of a flow come in by different ones.
std::vector<uint8_t> symmetric_rss_key(size_t key_bytes) {
  static const unsigned pattern = std::random_device()();
  std::vector<uint8_t> key(key_bytes);
  for (size_t i = 0; i < key_bytes; i++) key[i] = static_cast<uint8_t>(pattern >> (i % 2 * 8));
  return key;
}

// One port on its way from plan to running.
struct Setup {
  const PlannedPort& planned;
  PortRow row;
  rte_eth_dev_info info = {};
  rte_eth_conf conf = {};
  std::vector<uint8_t> rss_key;
};

uint16_t ring_size(uint16_t asked, uint16_t preferred, uint16_t fallback) {
  return asked != 0 ? asked : preferred != 0 ? preferred : fallback;
}

void choose_rss(Setup& setup, std::vector<std::string>& warnings) {
  if (setup.planned.rx_queues < 2) return;
  const uint64_t offered = setup.info.flow_type_rss_offloads & RTE_ETH_RSS_IP;
  if (offered == 0) {
    warnings.push_back("port " + std::to_string(setup.row.port) + " (" + setup.row.name +
                       ") has no RSS on addresses: the device alone decides which queue gets a frame");
    return;
  }
  setup.rss_key = symmetric_rss_key(setup.info.hash_key_size != 0 ? setup.info.hash_key_size : kRssKeyBytes);
  setup.conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  setup.conf.rx_adv_conf.rss_conf.rss_key = setup.rss_key.data();
  setup.conf.rx_adv_conf.rss_conf.rss_key_len = static_cast<uint8_t>(setup.rss_key.size());
  setup.conf.rx_adv_conf.rss_conf.rss_hf = offered;
  setup.row.rss = true;
}

// Frames that do not fit one mbuf need scattered receive, and then transmit of several segments.
void choose_offloads(Setup& setup, uint32_t data_room, std::vector<std::string>& warnings) {
  uint16_t mtu = RTE_ETHER_MTU;
  rte_eth_dev_get_mtu(setup.row.port, &mtu);
  const bool tells = setup.info.max_mtu != UINT16_MAX && setup.info.max_rx_pktlen > setup.info.max_mtu;
  const uint32_t overhead = tells ? setup.info.max_rx_pktlen - setup.info.max_mtu : kEthernetOverhead;
  if (mtu + overhead <= data_room - RTE_PKTMBUF_HEADROOM) return;
  if ((setup.info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) == 0) {
    warnings.push_back("port " + std::to_string(setup.row.port) + " (" + setup.row.name + ") may lose frames above " +
                       std::to_string(data_room - RTE_PKTMBUF_HEADROOM) +
                       " bytes: raise mempool.data_room (the driver does not report scattered receive)");
    return;
  }
  setup.conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
  setup.conf.txmode.offloads |= setup.info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
}

Result<void> configure_port(Setup& setup, uint32_t data_room, std::vector<std::string>& warnings) {
  PortRow& row = setup.row;
  const PlannedPort& planned = setup.planned;
  if (const int error = rte_eth_dev_info_get(row.port, &setup.info); error != 0) {
    return port_error(row, "read what it offers", error);
  }
  row.driver = setup.info.driver_name;
  row.rx_queues = planned.rx_queues;
  row.tx_queues = planned.tx_queues;
  row.rx_descriptors =
      ring_size(planned.descriptors, setup.info.default_rxportconf.ring_size, RTE_ETH_DEV_FALLBACK_RX_RINGSIZE);
  row.tx_descriptors =
      ring_size(planned.descriptors, setup.info.default_txportconf.ring_size, RTE_ETH_DEV_FALLBACK_TX_RINGSIZE);
  choose_rss(setup, warnings);
  choose_offloads(setup, data_room, warnings);
  int error = rte_eth_dev_configure(row.port, planned.rx_queues, planned.tx_queues, &setup.conf);
  if (error != 0) return port_error(row, "configure it", error);
  error = rte_eth_dev_adjust_nb_rx_tx_desc(row.port, &row.rx_descriptors, &row.tx_descriptors);
  if (error != 0) return port_error(row, "choose the ring sizes", error);
  return {};
}

Result<void> set_up_queues(const Setup& setup, rte_mempool* pool) {
  const PortRow& row = setup.row;
  const unsigned node = static_cast<unsigned>(row.numa_node);
  rte_eth_rxconf rx = setup.info.default_rxconf;
  rx.offloads = setup.conf.rxmode.offloads;
  for (uint16_t queue = 0; queue < row.rx_queues; queue++) {
    const int error = rte_eth_rx_queue_setup(row.port, queue, row.rx_descriptors, node, &rx, pool);
    if (error != 0) {
      Error failure = port_error(row, "set up receive queue " + std::to_string(queue), error);
      failure.message +=
          "; net_pcap's infinite_rx needs mempool.mbufs above the capture's number of frames, times the "
          "queues, and a mempool.data_room for its longest frame";
      return failure;
    }
  }
  rte_eth_txconf tx = setup.info.default_txconf;
  tx.offloads = setup.conf.txmode.offloads;
  for (uint16_t queue = 0; queue < row.tx_queues; queue++) {
    const int error = rte_eth_tx_queue_setup(row.port, queue, row.tx_descriptors, node, &tx);
    if (error != 0) return port_error(row, "set up transmit queue " + std::to_string(queue), error);
  }
  return {};
}

// Rings whose mbufs may come from the pool of the node: its receive rings, and every transmit ring.
uint64_t descriptors_for(const std::vector<Setup>& setups, int numa_node) {
  uint64_t descriptors = 0;
  for (const Setup& setup : setups) {
    const PortRow& row = setup.row;
    if (row.numa_node == numa_node) descriptors += uint64_t{row.rx_queues} * row.rx_descriptors;
    descriptors += uint64_t{row.tx_queues} * row.tx_descriptors;
  }
  return descriptors;
}

}  // namespace

std::vector<Device> list_devices() {
  std::vector<Device> devices;
  for (uint16_t port = rte_eth_find_next(0); port < RTE_MAX_ETHPORTS;
       port = rte_eth_find_next(static_cast<uint16_t>(port + 1))) {
    rte_eth_dev_info info = {};
    if (rte_eth_dev_info_get(port, &info) != 0) continue;
    devices.push_back({port, port_name(port), info.max_rx_queues, info.max_tx_queues});
  }
  return devices;
}

Result<void> add_virtual_ports() {
  for (const char* name : {"net_null0", "net_null1"}) {
    const int error = rte_eal_hotplug_add("vdev", name, "");
    if (error != 0) {
      return Error{std::string("cannot make the virtual port ") + name + ": " + rte_strerror(-error) +
                   "; is the net_null driver of DPDK installed?"};
    }
  }
  return {};
}

Result<Devices> Devices::configure(const PortPlan& plan, const Config& config, unsigned n_lcores) {
  Devices devices;
  std::vector<Setup> setups;
  setups.reserve(plan.ports.size());
  for (const PlannedPort& planned : plan.ports) {
    Setup& setup = setups.emplace_back(Setup{planned, {}, {}, {}, {}});
    setup.row.port = planned.port;
    setup.row.name = port_name(planned.port);
    setup.row.numa_node = node_of(planned.port);
    Result<void> configured = configure_port(setup, config.data_room, devices.warnings_);
    if (!configured) return Error{configured.error()};
  }
  for (const Setup& setup : setups) {
    const int node = setup.row.numa_node;
    if (setup.row.rx_queues > 0 && !devices.pools_.has(node)) {
      const uint32_t mbufs = config.mbufs.value_or(MbufPools::size_for(descriptors_for(setups, node), n_lcores));
      Result<void> added = devices.pools_.add(node, mbufs, config.data_room);
      if (!added) return Error{added.error()};
    }
    rte_mempool* pool = setup.row.rx_queues > 0 ? devices.pools_.on(node) : nullptr;
    Result<void> ready = set_up_queues(setup, pool);
    if (!ready) return Error{ready.error()};
    devices.rows_.push_back(setup.row);
  }
  return devices;
}

Result<void> Devices::start() {
  for (const PortRow& row : rows_) {
    const int error = rte_eth_dev_start(row.port);
    if (error != 0) return port_error(row, "start it", error);
    if (row.rx_queues > 0) rte_eth_promiscuous_enable(row.port);  // a port that cannot has one peer anyway
  }
  return {};
}

uint64_t Devices::rx_missed() const {
  uint64_t missed = 0;
  for (const PortRow& row : rows_) {
    rte_eth_stats stats = {};
    if (rte_eth_stats_get(row.port, &stats) == 0) missed += stats.imissed + stats.rx_nombuf;
  }
  return missed;
}

MbufCount Devices::close() {
  for (const PortRow& row : rows_) {
    rte_eth_dev_stop(row.port);
    rte_eth_dev_close(row.port);
  }
  const MbufCount count = pools_.count_mbufs();
  pools_.free();
  return count;
}

}  // namespace weir::dataplane
