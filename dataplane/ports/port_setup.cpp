#include "dataplane/ports/port_setup.h"

#include <fmt/format.h>
#include <net/if.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ether.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>

#include "common/fd.h"
#include "dataplane/ports/links.h"
#include "dataplane/ports/rss.h"

namespace weir::dataplane {

namespace {

constexpr size_t kRssKeyBytes = 40;         // of a driver that does not tell
constexpr uint32_t kEthernetOverhead = 18;  // header and FCS, of a driver that does not tell

std::string text_of(const PortRow& row) {
  return fmt::format("port {} ({})", row.port, row.name);
}

uint16_t ring_size(uint16_t asked, uint16_t preferred, uint16_t fallback) {
  return asked != 0 ? asked : preferred != 0 ? preferred : fallback;
}

// SIOCGIFMTU or SIOCSIFMTU on the kernel interface behind a port (net_tap, net_af_packet, net_af_xdp); 0 or errno.
int interface_mtu(unsigned interface, unsigned long request, int& mtu) {
  ifreq query = {};
  const Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (any.get() < 0 || if_indextoname(interface, query.ifr_name) == nullptr) return errno;
  query.ifr_mtu = mtu;
  if (ioctl(any.get(), request, &query) != 0) return errno;
  mtu = query.ifr_mtu;
  return 0;
}

uint16_t current_mtu(const PortSetup& setup) {
  int of_interface = 0;
  if (setup.info.if_index != 0 && interface_mtu(setup.info.if_index, SIOCGIFMTU, of_interface) == 0) {
    return static_cast<uint16_t>(std::min<int>(of_interface, UINT16_MAX));
  }
  uint16_t mtu = RTE_ETHER_MTU;
  rte_eth_dev_get_mtu(setup.row.port, &mtu);
  return mtu;
}

void choose_rss(PortSetup& setup, std::vector<std::string>& warnings) {
  if (setup.planned.rx_queues < 2 || setup.row.spread) return;
  const uint64_t offered = setup.info.flow_type_rss_offloads & wanted_rss();
  if (offered == 0) {
    warnings.push_back(text_of(setup.row) +
                       " has no RSS on addresses: the device alone decides which queue gets a frame");
    return;
  }
  setup.rss_key = random_rss_key(setup.info.hash_key_size != 0 ? setup.info.hash_key_size : kRssKeyBytes);
  setup.conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  setup.conf.rx_adv_conf.rss_conf.rss_key = setup.rss_key.data();
  setup.conf.rx_adv_conf.rss_conf.rss_key_len = static_cast<uint8_t>(setup.rss_key.size());
  setup.conf.rx_adv_conf.rss_conf.rss_hf = offered;
  setup.row.rss = rss_names(offered);
}

// Frames that do not fit one mbuf need scattered receive.
void choose_scatter(PortSetup& setup, uint32_t data_room, std::vector<std::string>& warnings) {
  const uint32_t room = data_room - RTE_PKTMBUF_HEADROOM;
  if (setup.planned.rx_queues == 0 || setup.row.mtu + frame_overhead(setup.info) <= room) return;
  if ((setup.info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) == 0) {
    warnings.push_back(
        fmt::format("{} may lose frames above {} bytes: raise mempool.data_room to {} (the driver does "
                    "not report scattered receive)",
                    text_of(setup.row), room, setup.row.mtu + frame_overhead(setup.info) + RTE_PKTMBUF_HEADROOM));
    return;
  }
  setup.conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
  setup.row.scattered = true;
}

// The driver sets it; of a virtual port on a kernel interface that is the interface's, whose limits the driver does not
// know (net_tap and net_af_packet say 1500).
Result<void> set_mtu(PortSetup& setup, std::vector<std::string>& warnings) {
  PortRow& row = setup.row;
  const uint16_t mtu = setup.planned.mtu;
  if (mtu == 0) return {};
  const bool by_interface = is_virtual(setup.info) && setup.info.if_index != 0;
  const bool takes_it = mtu <= setup.info.max_mtu && mtu + frame_overhead(setup.info) <= setup.info.max_rx_pktlen;
  if (!takes_it && !by_interface && is_virtual(setup.info)) {
    warnings.push_back(text_of(row) +
                       ": its driver sets no such MTU; how long frames may be is decided by its other end");
    return {};
  }
  int of_interface = mtu;
  const int error = takes_it || !by_interface ? rte_eth_dev_set_mtu(row.port, mtu)
                                              : interface_mtu(setup.info.if_index, SIOCSIFMTU, of_interface);
  if (error != 0 && !(is_virtual(setup.info) && error == -ENOTSUP)) {
    return port_error(row, fmt::format("set an MTU of {}", mtu), error);
  }
  if (!takes_it && row.driver == "net_tap") {  // it compares with the MTU that ethdev knows
    warnings.push_back(fmt::format("{}: net_tap of this DPDK receives such frames, but sends none above {} bytes",
                                   text_of(row), setup.info.max_rx_pktlen));
  }
  return {};
}

// What the drivers that refuse a queue most often need.
std::string queue_hint(const PortRow& row) {
  if (row.driver == "net_pcap") {
    return "; infinite_rx needs mempool.mbufs above the capture's number of frames, times the queues, and a "
           "mempool.data_room for its longest frame";
  }
  if (row.driver == "net_af_packet") return "; its framesz must fit mempool.data_room";
  if (row.driver == "net_af_xdp") {  // the driver itself says which, in the lines above
    return "; an XDP program that is on the interface already must go first (ip link set dev INTERFACE xdp off), and "
           "`descriptors` must be a power of 2";
  }
  return "; choose other `descriptors`, or leave them out for what the driver prefers";
}

}  // namespace

std::string port_name(uint16_t port) {
  char name[RTE_ETH_NAME_MAX_LEN] = "?";
  rte_eth_dev_get_name_by_port(port, name);
  return name;
}

Error port_error(const PortRow& row, const std::string& what, int error) {
  return Error{text_of(row) + ": cannot " + what + ": " + rte_strerror(error < 0 ? -error : error)};
}

bool is_virtual(const rte_eth_dev_info& info) {
  const rte_bus* bus = info.device == nullptr ? nullptr : rte_dev_bus(info.device);
  return bus == nullptr || std::string(rte_bus_name(bus)) == "vdev";
}

uint32_t frame_overhead(const rte_eth_dev_info& info) {
  const bool tells = info.max_mtu != UINT16_MAX && info.max_rx_pktlen > info.max_mtu;
  return tells ? info.max_rx_pktlen - info.max_mtu : kEthernetOverhead;
}

Result<void> choose_setup(PortSetup& setup, uint32_t data_room, std::vector<std::string>& warnings) {
  PortRow& row = setup.row;
  const PlannedPort& planned = setup.planned;
  row.port = planned.port;
  row.name = port_name(planned.port);
  row.numa_node = rte_eth_dev_socket_id(planned.port);
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
  row.mtu = planned.mtu != 0 ? planned.mtu : current_mtu(setup);
  row.spread = planned.is_spread;
  choose_rss(setup, warnings);
  choose_scatter(setup, data_room, warnings);
  return {};
}

Result<void> configure_port(PortSetup& setup, bool any_scattered, bool interrupts, std::vector<std::string>& warnings) {
  PortRow& row = setup.row;
  const bool sends_segments = (setup.info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  if (any_scattered && row.tx_queues > 0 && !sends_segments) {
    return Error{text_of(row) +
                 ": its driver does not send frames of several mbufs, and another port receives such; raise "
                 "mempool.data_room above the longest frame, or lower `mtu`"};
  }
  if (any_scattered && row.tx_queues > 0) setup.conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  setup.conf.intr_conf.rxq = interrupts && row.rx_queues > 0 ? 1 : 0;
  int error = rte_eth_dev_configure(row.port, row.rx_queues, row.tx_queues, &setup.conf);
  if (error != 0 && setup.conf.intr_conf.rxq != 0) {  // a driver that refuses them; its worker says so (idle.h)
    setup.conf.intr_conf.rxq = 0;
    error = rte_eth_dev_configure(row.port, row.rx_queues, row.tx_queues, &setup.conf);
  }
  if (error != 0) return port_error(row, "configure it", error);
  error = rte_eth_dev_adjust_nb_rx_tx_desc(row.port, &row.rx_descriptors, &row.tx_descriptors);
  if (error != 0) return port_error(row, "choose the ring sizes", error);
  return set_mtu(setup, warnings);
}

Result<void> set_up_queues(const PortSetup& setup, rte_mempool* pool) {
  const PortRow& row = setup.row;
  const auto node = static_cast<unsigned>(row.numa_node);  // kNoNode is SOCKET_ID_ANY
  rte_eth_rxconf rx = setup.info.default_rxconf;
  rx.offloads = setup.conf.rxmode.offloads;
  for (uint16_t queue = 0; queue < row.rx_queues; queue++) {
    const int error = rte_eth_rx_queue_setup(row.port, queue, row.rx_descriptors, node, &rx, pool);
    if (error != 0) {
      Error failure = port_error(row, "set up receive queue " + std::to_string(queue), error);
      failure.message += queue_hint(row);
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

Result<void> start_port(PortRow& row, bool promiscuous) {
  if (const int error = rte_eth_dev_start(row.port); error != 0) return port_error(row, "start it", error);
  // A port that cannot has one peer anyway, and gets all that it sends.
  if (row.rx_queues > 0) promiscuous ? rte_eth_promiscuous_enable(row.port) : rte_eth_promiscuous_disable(row.port);
  row.promiscuous = rte_eth_promiscuous_get(row.port) == 1;
  row.link = link_text(row.port);
  if (rte_eth_dev_info info = {}; row.driver == "net_af_packet" && rte_eth_dev_info_get(row.port, &info) == 0) {
    row.sockets = std::make_shared<const PacketSockets>(info.if_index);
  }
  rte_ether_addr mac = {};
  char text[RTE_ETHER_ADDR_FMT_SIZE] = "-";
  if (rte_eth_macaddr_get(row.port, &mac) == 0) rte_ether_format_addr(text, sizeof text, &mac);
  row.mac = text;
  rte_eth_rss_conf rss = {};
  if (!row.rss.empty() && rte_eth_dev_rss_hash_conf_get(row.port, &rss) == 0) row.rss = rss_names(rss.rss_hf);
  return {};
}

}  // namespace weir::dataplane
