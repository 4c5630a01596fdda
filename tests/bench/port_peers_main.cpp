// A minimal loop beside the data plane: one port, one queue, one core; rx, look the source up, drop or tx. Prints one
// JSON object: packets, nanoseconds of processor time, how many were listed, seconds and MiB that the table took.
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tests/bench/port_peers.h"

namespace weir::bench {
namespace {

constexpr uint16_t kDescriptors = 512;
constexpr unsigned kCache = 256, kEthernetBytes = 14;
constexpr unsigned kRoundsPerLook = 4096;  // bursts between two looks at the clock

struct Options {
  std::string peer;
  std::vector<std::string> lists;
  double warm_up_s = 1, seconds = 2;
  unsigned mbufs = 8192, data_room = 2176;
};

struct Counts {
  uint64_t packets = 0, listed = 0;
};

Result<void> open_port(uint16_t port, const Options& options) {
  rte_mempool* pool = rte_pktmbuf_pool_create("peer-mbufs", options.mbufs, kCache, 0,
                                              static_cast<uint16_t>(options.data_room), SOCKET_ID_ANY);
  if (pool == nullptr) return Error{"no memory for " + std::to_string(options.mbufs) + " mbufs"};
  const rte_eth_conf conf = {};
  if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
      rte_eth_rx_queue_setup(port, 0, kDescriptors, SOCKET_ID_ANY, nullptr, pool) != 0 ||
      rte_eth_tx_queue_setup(port, 0, kDescriptors, SOCKET_ID_ANY, nullptr) != 0 || rte_eth_dev_start(port) != 0) {
    return Error{"port 0 does not start"};
  }
  return {};
}

bool is_plain(const uint8_t* frame, bool is_v6) {
  return is_v6 ? frame[12] == 0x86 && frame[13] == 0xdd : frame[12] == 0x08 && frame[13] == 0x00;
}

void forward_burst(uint16_t port, PortPeer& peer, Counts& counts) {
  rte_mbuf *mbufs[kPeerBurst], *sent[kPeerBurst], *dropped[kPeerBurst];
  const uint8_t* headers[kPeerBurst];
  const uint16_t n = rte_eth_rx_burst(port, 0, mbufs, kPeerBurst);
  const bool is_v6 = peer.is_v6();
  uint64_t ip = 0;
  unsigned n_ip = 0;
  for (uint16_t i = 0; i < n; i++) {
    const auto* frame = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
    if (!is_plain(frame, is_v6)) continue;
    headers[n_ip++] = frame + kEthernetBytes;
    ip |= uint64_t{1} << i;
  }
  uint64_t listed = n_ip == 0 ? 0 : peer.listed(headers, n_ip);
  counts.packets += n;
  counts.listed += static_cast<uint64_t>(__builtin_popcountll(listed));
  if (listed == 0) {
    for (uint16_t done = rte_eth_tx_burst(port, 0, mbufs, n); done < n; done++) rte_pktmbuf_free(mbufs[done]);
    return;
  }
  uint16_t n_sent = 0, n_dropped = 0;
  for (uint16_t i = 0; i < n; i++) {
    const bool drop = (ip >> i & 1) != 0 && (listed & 1) != 0;
    if ((ip >> i & 1) != 0) listed >>= 1;
    (drop ? dropped[n_dropped++] : sent[n_sent++]) = mbufs[i];
  }
  rte_pktmbuf_free_bulk(dropped, n_dropped);
  for (uint16_t done = rte_eth_tx_burst(port, 0, sent, n_sent); done < n_sent; done++) rte_pktmbuf_free(sent[done]);
}

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Measured {
  Counts counts;
  double seconds;
};

Measured forward_for(uint16_t port, PortPeer& peer, double seconds) {
  Counts counts;
  const double began = thread_seconds();
  double now = began;
  while (now < began + seconds) {
    for (unsigned i = 0; i < kRoundsPerLook; i++) forward_burst(port, peer, counts);
    now = thread_seconds();
  }
  return {counts, now - began};
}

double heap_mib() {
  rte_malloc_socket_stats stats = {};
  rte_malloc_get_socket_stats(0, &stats);
  return static_cast<double>(stats.heap_allocsz_bytes) / (1 << 20);
}

Result<nlohmann::json> measure(const Options& options) {
  std::vector<Prefix> prefixes;
  for (const std::string& path : options.lists) {
    const Result<std::vector<Prefix>> more = read_prefixes(path);
    if (!more) return Error{more.error()};
    prefixes.insert(prefixes.end(), more->begin(), more->end());
  }
  if (Result<void> opened = open_port(0, options); !opened) return Error{opened.error()};
  const double mib_before = heap_mib();
  const auto began = std::chrono::steady_clock::now();
  const Result<std::unique_ptr<PortPeer>> peer = make_port_peer(options.peer, prefixes);
  if (!peer) return Error{peer.error()};
  const std::chrono::duration<double> build = std::chrono::steady_clock::now() - began;
  const double mib = heap_mib() - mib_before;
  forward_for(0, **peer, options.warm_up_s);
  const Measured run = forward_for(0, **peer, options.seconds);
  rte_eth_dev_stop(0);
  if (run.counts.packets == 0) return Error{"the port gave nothing"};
  return nlohmann::json{{"packets", run.counts.packets},
                        {"ns", run.seconds * 1e9 / static_cast<double>(run.counts.packets)},
                        {"dropped", static_cast<double>(run.counts.listed) / static_cast<double>(run.counts.packets)},
                        {"build_s", build.count()},
                        {"mib", mib}};
}

int run(int argc, char** argv) {
  const int used = rte_eal_init(argc, argv);
  if (used < 0) return 1;
  argv[used] = argv[0];
  Options options;
  CLI::App app("A minimal loop with a table of DPDK, beside the data plane; prints JSON.");
  app.add_option("--peer", options.peer, "io, acl, fib, fib6, hash, member_vbf, member_ht")->required();
  app.add_option("--list", options.lists, "file of addresses and prefixes; may be given again");
  app.add_option("--warm-up", options.warm_up_s);
  app.add_option("--seconds", options.seconds);
  app.add_option("--mbufs", options.mbufs);
  app.add_option("--data-room", options.data_room);
  CLI11_PARSE(app, argc - used, argv + used);
  const Result<nlohmann::json> found = measure(options);
  if (!found) {
    std::fprintf(stderr, "port_peers: %s\n", found.error().c_str());
    return 1;
  }
  std::printf("%s\n", found->dump().c_str());
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  const int code = weir::bench::run(argc, argv);
  rte_eal_cleanup();
  return code;
}
