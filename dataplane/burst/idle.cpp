#include "dataplane/burst/idle.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_pause.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "common/log/log.h"

namespace weir::dataplane {

namespace {

constexpr uint32_t kPassesBeforePause = 64;  // gaps within traffic are shorter
constexpr uint32_t kShortestPauseNs = 100;
constexpr uint32_t kUsBeforeSleep = 1000;  // traffic that pauses for less would be woken up for again and again
constexpr uint32_t kShortestSleepUs = 5;
// A worker that waits for an interrupt looks up this often: it is told to stop by a variable, and a driver may lose
// one.
constexpr int kLongestWaitMs = 20;
constexpr int kMaxEvents = 8;

void sleep_us(uint32_t us) noexcept {
  const timespec duration = {us / 1'000'000, static_cast<long>(us % 1'000'000) * 1000};
  nanosleep(&duration, nullptr);
}

}  // namespace

std::vector<PortQueue> polled_queues(const std::vector<Route>& routes, const std::vector<Spread>& spreads) {
  std::vector<PortQueue> queues;
  for (const Route& route : routes) queues.push_back(route.in);
  for (const Spread& spread : spreads) queues.push_back(spread.in);
  return queues;
}

Idle::Idle(const IdleConfig& config, uint32_t worker, std::vector<PortQueue> queues, SnapshotSlot& slot,
           WorkerGauges& gauges)
    : config_(config),
      worker_(worker),
      queues_(std::move(queues)),
      slot_(slot),
      gauges_(gauges),
      cycles_per_us_(rte_get_tsc_hz() / 1'000'000) {
  switch (config.mode) {
    case IdleMode::poll:
      mode_ = wire::Rest::poll;
      break;
    case IdleMode::pause:
      mode_ = wire::Rest::pause;
      break;
    case IdleMode::interrupt:
      mode_ = add_interrupts() ? wire::Rest::interrupt : wire::Rest::sleep;
      prctl(PR_SET_TIMERSLACK, 1);  // ns; of this thread: sleeps end when they should
      break;
  }
  gauges_.rest.store(mode_, std::memory_order_relaxed);
}

// Every queue of the worker into this thread's epoll set. False: not every one raises interrupts, or there is none.
bool Idle::add_interrupts() {
  for (const PortQueue queue : queues_) {
    int error = rte_eth_dev_rx_intr_ctl_q(queue.port, queue.queue, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, nullptr);
    if (error == 0) error = rte_eth_dev_rx_intr_enable(queue.port, queue.queue);
    if (error == 0) error = rte_eth_dev_rx_intr_disable(queue.port, queue.queue);
    if (error == 0) continue;
    say_no_interrupts(queue.port, error);
    return false;
  }
  return !queues_.empty();
}

void Idle::say_no_interrupts(uint16_t port, int error) const {
  char name[RTE_ETH_NAME_MAX_LEN] = "?";
  rte_eth_dev_get_name_by_port(port, name);
  log::info("no receive interrupts: when idle the worker sleeps a little at a time instead",
            {{"worker", worker_},
             {"port", port},
             {"name", name},
             {"error", rte_strerror(-error)},
             {"most_us", config_.sleep_us}});
}

// A queue that refuses would leave the worker asleep over its frames: from then on the worker sleeps a little at a
// time.
void Idle::arm() noexcept {
  for (const PortQueue queue : queues_) {
    const int error = rte_eth_dev_rx_intr_enable(queue.port, queue.queue);
    if (error == 0) continue;
    disarm();
    say_no_interrupts(queue.port, error);
    mode_ = wire::Rest::sleep;
    gauges_.rest.store(mode_, std::memory_order_relaxed);
    return;
  }
  armed_ = true;
}

void Idle::disarm() noexcept {
  for (const PortQueue queue : queues_) rte_eth_dev_rx_intr_disable(queue.port, queue.queue);
  armed_ = false;
}

void Idle::frames_came() noexcept {
  empty_passes_ = 0;
  pause_cycles_ = 0;
  sleep_us_ = 0;
  if (armed_) disarm();
}

void Idle::rest(uint64_t now) noexcept {
  if (mode_ == wire::Rest::poll) return;
  if (empty_passes_++ == 0) since_ = now;
  if (empty_passes_ <= kPassesBeforePause) return;
  const bool long_idle = now - since_ > kUsBeforeSleep * cycles_per_us_;
  if (mode_ == wire::Rest::pause || !long_idle) return pause();
  mode_ == wire::Rest::sleep ? sleep() : wait_for_interrupt();
}

void Idle::pause() noexcept {
  const uint64_t shortest = cycles_per_us_ * kShortestPauseNs / 1000;
  pause_cycles_ = std::clamp(2 * pause_cycles_, shortest, config_.pause_us * cycles_per_us_);
  const uint64_t end = rte_rdtsc() + pause_cycles_;
  while (rte_rdtsc() < end) rte_pause();
  gauges_.rests.add(1);
}

// Offline while it sleeps: nobody waits for its quiescent state.
void Idle::sleep() noexcept {
  sleep_us_ = std::clamp(2 * sleep_us_, std::min(kShortestSleepUs, config_.sleep_us), config_.sleep_us);
  slot_.offline(worker_);
  sleep_us(sleep_us_);
  slot_.online(worker_);
  gauges_.rests.add(1);
}

void Idle::wait_for_interrupt() noexcept {
  if (!armed_) return arm();  // and one more look: what came before raises no interrupt
  rte_epoll_event events[kMaxEvents];
  slot_.offline(worker_);
  rte_epoll_wait(RTE_EPOLL_PER_THREAD, events, kMaxEvents, kLongestWaitMs);
  slot_.online(worker_);
  disarm();
  gauges_.rests.add(1);
}

void rest_before_first_snapshot(const IdleConfig& config) noexcept {
  constexpr uint32_t kUs = 5000;  // no port is looked at, so nothing is late
  config.mode == IdleMode::poll ? rte_pause() : sleep_us(kUs);
}

}  // namespace weir::dataplane
