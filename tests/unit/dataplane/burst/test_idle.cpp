// Idle workers, on ports that this file plays: it defines DPDK's functions for interrupts and bursts itself.
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "dataplane/burst/idle.h"
#include "dataplane/burst/spread.h"
#include "dataplane/burst/worker.h"
#include "filter/probe/dispatch.h"
#include "tests/catch.h"

using namespace weir::dataplane;
namespace wire = weir::wire;

namespace {

constexpr uint16_t kIn = 3, kRings = 4;

// The machine's interrupts.
struct {
  std::vector<uint16_t> added, enabled;  // ports
  uint16_t without = UINT16_MAX;         // a port that has none
  bool refuses = false;                  // to enable any
  int waits = 0;
} interrupts;

// Receptions of the port, and room in its rings.
struct {
  std::array<rte_mbuf, 8> frames{};
  uint16_t at_once = 1;        // frames in each reception that has some
  int left = 0;                // receptions that have some
  uint16_t room = UINT16_MAX;  // of each ring
  uint64_t handed_on = 0, freed = 0;
  Switches* stop = nullptr;  // when no reception is left
} traffic;

uint16_t receive(void*, rte_mbuf** frames, uint16_t) {
  if (traffic.left == 0) {
    if (traffic.stop != nullptr) traffic.stop->stop = true;
    return 0;
  }
  traffic.left--;
  for (uint16_t i = 0; i < traffic.at_once; i++) frames[i] = &traffic.frames[i];
  return traffic.at_once;
}

uint16_t take(void*, rte_mbuf**, uint16_t n) {
  const uint16_t taken = std::min(n, traffic.room);
  traffic.handed_on += taken;
  return taken;
}

void play_ports() {
  static void* queues[RTE_MAX_QUEUES_PER_PORT] = {};
  for (const uint16_t port : {kIn, kRings}) {
    rte_eth_fp_ops[port].rx_pkt_burst = receive;
    rte_eth_fp_ops[port].tx_pkt_burst = take;
    rte_eth_fp_ops[port].rxq = rte_eth_fp_ops[port].txq = {queues, queues};
  }
  static uint8_t bytes[60] = {};  // no IP: queue 0
  for (rte_mbuf& frame : traffic.frames) {
    frame.buf_addr = bytes;
    frame.data_len = sizeof bytes;
    frame.pkt_len = sizeof bytes;
  }
  traffic = {traffic.frames, 1, 0, UINT16_MAX, 0, 0, nullptr};
  interrupts = {};
}

struct Worker1 {
  std::unique_ptr<Worker> worker = std::make_unique<Worker>();
  std::unique_ptr<SnapshotSlot> slot;

  Worker1() {
    play_ports();
    auto made = SnapshotSlot::make(1);
    REQUIRE(made);
    slot = std::move(*made);
  }
  Idle idle(IdleMode mode) {
    return {{.mode = mode, .pause_us = 0, .sleep_us = 0},
            0,
            polled_queues(worker->routes, worker->spreads),
            *slot,
            worker->gauges};
  }
  wire::Rest rest() const { return worker->gauges.rest.load(); }
};

Route route_of(uint16_t port) {
  Route route;
  route.in = {port, 0};
  return route;
}

constexpr Spread kSpread = {{kIn, 0}, kRings, 2};

// As often as it takes: the first passes only poll, and the TSC has no rate here, so that any time is long.
void rest_often(Idle& idle) {
  for (uint64_t now = 1; now < 100; now++) idle.rest(now);
}

}  // namespace

extern "C" {
int rte_eth_dev_rx_intr_ctl_q(uint16_t port, uint16_t, int, int, void*) {
  if (port == interrupts.without) return -ENOTSUP;
  interrupts.added.push_back(port);
  return 0;
}
int rte_eth_dev_rx_intr_enable(uint16_t port, uint16_t) {
  if (interrupts.refuses) return -EIO;
  interrupts.enabled.push_back(port);
  return 0;
}
int rte_eth_dev_rx_intr_disable(uint16_t port, uint16_t) {
  std::erase(interrupts.enabled, port);
  return 0;
}
int rte_epoll_wait(int, rte_epoll_event*, int, int) {
  interrupts.waits++;
  return 0;
}
int rte_eth_dev_get_name_by_port(uint16_t, char* name) {
  snprintf(name, RTE_ETH_NAME_MAX_LEN, "played");
  return 0;
}
void rte_pktmbuf_free_bulk(rte_mbuf**, unsigned n) {
  traffic.freed += n;
}
}

TEST_CASE("a worker that only hands frames on waits for the interrupts of their port") {
  Worker1 one;
  one.worker->spreads = {kSpread};
  Idle idle = one.idle(IdleMode::interrupt);
  CHECK(one.rest() == wire::Rest::interrupt);
  CHECK(interrupts.added == std::vector<uint16_t>{kIn});
  rest_often(idle);
  CHECK(interrupts.waits > 0);
}

TEST_CASE("where the port of a spread has no interrupts, its worker sleeps a little at a time") {
  Worker1 one;
  one.worker->routes = {route_of(kRings)};
  one.worker->spreads = {kSpread};
  interrupts.without = kIn;
  Idle idle = one.idle(IdleMode::interrupt);
  CHECK(one.rest() == wire::Rest::sleep);
  rest_often(idle);
  CHECK(interrupts.waits == 0);
}

TEST_CASE("a worker waits for no interrupt of an empty set") {
  Worker1 one;
  Idle idle = one.idle(IdleMode::interrupt);
  CHECK(one.rest() == wire::Rest::sleep);
}

TEST_CASE("a worker whose interrupts are refused later sleeps a little at a time from then on") {
  Worker1 one;
  one.worker->routes = {route_of(kRings), route_of(kIn)};
  Idle idle = one.idle(IdleMode::interrupt);
  REQUIRE(one.rest() == wire::Rest::interrupt);
  interrupts.refuses = true;
  rest_often(idle);
  CHECK(interrupts.waits == 0);
  CHECK(one.rest() == wire::Rest::sleep);
  CHECK(interrupts.enabled.empty());
}

TEST_CASE("a spread counts what its rings refuse") {
  Worker1 one;
  traffic.left = 2;
  traffic.at_once = 5;
  CHECK(spread_burst(kSpread, one.worker->counters) == 5);
  CHECK(one.worker->counters.rx_lost.get() == 0);
  traffic.room = 3;
  CHECK(spread_burst(kSpread, one.worker->counters) == 5);
  CHECK(traffic.handed_on == 8);
  CHECK(one.worker->counters.rx_lost.get() == 2);
  CHECK(traffic.freed == 2);
  CHECK(spread_burst(kSpread, one.worker->counters) == 0);
}

TEST_CASE("a pass that hands frames on is not idle, however few they are") {
  Worker1 one;
  Switches switches;
  one.worker->spreads = {kSpread};
  traffic.left = 1000;
  traffic.stop = &switches;
  const auto kernels = weir::filter::choose_kernels();
  REQUIRE(kernels);
  run(*one.worker, {.switches = switches,
                    .slot = *one.slot,
                    .pass_without_snapshot = true,
                    .wait_for_snapshot = false,
                    .kernels = **kernels,
                    .idle = {.mode = IdleMode::interrupt, .pause_us = 0, .sleep_us = 0},
                    .sample_one_in = 0});
  CHECK(traffic.handed_on == 1000);
  CHECK(one.worker->gauges.rests.get() == 0);
  CHECK(interrupts.waits == 0);
}
