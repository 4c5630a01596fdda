// The far end of a data plane under test: sends numbered packets at a pace on port 0, takes back what passed on port 1
// and what was dropped on port 2, and keeps the books (ledger.h). With --rate 0 it first finds the highest rate that
// passes without loss and then runs at --load of it, until SIGINT or --max-seconds. Prints one JSON object per line:
// ready, rate, result. Exit 0 when it could measure, whatever it found.
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tests/bench/pacer.h"

namespace weir::bench {
namespace {

using nlohmann::json;

constexpr uint16_t kPorts = 3;
constexpr uint16_t kDescriptors = 1024;  // net_memif ignores it: its rings are sized by rsize=
constexpr double kWindow_s = 0.050;      // around a swap, to both sides

struct Options {
  double rate = 0;  // packets per second; 0 = find it
  double load = 0.7;
  double trial_seconds = 2;
  double confirm_seconds = 10;
  double max_seconds = 120;
  double quantum_us = 200;
  uint32_t flows = 1024;
};

// The highest rate that passes without loss, in steps of a quarter and then to 6 %. A rate is refused after two trials
// with loss, so that one interruption of the machine does not decide; it is also refused when this loop cannot keep it
// up for the time that it was not away. At last it must hold in one long trial, or give way by a quarter: what the
// machine takes from the worker once a minute, a short trial does not meet. The trial should be as long as the run that
// follows.

struct Found {
  double rate = 0;
  bool bound_by_sender = false;
  json trials = json::array();
};

Found find_rate(Pacer& pacer, const Options& options) {
  Found found;
  auto passes = [&](double rate, int attempts, double seconds) {
    for (int attempt = 0; attempt < attempts && !stop; attempt++) {
      const Run run = pacer.run(rate, seconds, options.quantum_us, Pacer::Until::loss);
      const double awake = std::max(run.seconds - run.away_seconds, 1e-9);
      const bool kept_up = static_cast<double>(run.sent) / awake > 0.97 * rate;
      found.trials.push_back({{"rate", rate},
                              {"sent_per_s", run.sent_per_s()},
                              {"lost", run.ledger.lost()},
                              {"missed", run.missed},
                              {"away_share", run.away_seconds / run.seconds}});
      if (run.lost() == 0 && kept_up) return true;
      found.bound_by_sender = run.lost() == 0;
    }
    return false;
  };
  double good = 0, bad = 0;
  for (double rate = 0.5e6; bad == 0 && !stop; rate *= 1.25)
    (passes(rate, 2, options.trial_seconds) ? good : bad) = rate;
  while (good > 0 && bad > good * 1.06 && !stop) {
    const double middle = (good + bad) / 2;
    (passes(middle, 2, options.trial_seconds) ? good : bad) = middle;
  }
  while (good > 0 && !stop && !passes(good, 1, options.confirm_seconds)) good /= 1.25;
  found.rate = good;
  return found;
}

// The longest pauses around every moment (TSC), in us, over all of them.
json longest_pauses(const Pacer& pacer, const Run& run, const std::vector<uint64_t>& moments) {
  Pauses longest;
  const auto reach = static_cast<ptrdiff_t>(kWindow_s / kBucket_s), last = std::ssize(run.pauses) - 1;
  for (const uint64_t moment : moments) {
    const auto middle = static_cast<ptrdiff_t>(pacer.to_seconds(moment - run.start) / kBucket_s);
    for (ptrdiff_t i = std::max<ptrdiff_t>(0, middle - reach); i <= std::min(last, middle + reach); i++) {
      longest.arrival = std::max(longest.arrival, run.pauses[i].arrival);
      longest.while_here = std::max(longest.while_here, run.pauses[i].while_here);
      longest.away = std::max(longest.away, run.pauses[i].away);
    }
  }
  return {{"windows", moments.size()},
          {"gap_us", longest.arrival},
          {"gap_here_us", longest.while_here},
          {"away_us", longest.away}};
}

json report(const Pacer& pacer, const Run& run, double rate) {
  const std::vector<Ledger::Change>& changes = run.ledger.changes();
  std::vector<uint64_t> swaps, between;
  size_t in_traffic = 0;
  const auto apart = [&](uint64_t from, uint64_t to) { return pacer.to_seconds(to - from) >= 4 * kWindow_s; };
  for (size_t i = 0; i < changes.size(); i++) {
    swaps.push_back(changes[i].seen_at);
    in_traffic += changes[i].in_traffic;
    // Halfway between two swaps that are far enough apart: a window like the others, without a swap.
    if (i > 0 && apart(changes[i - 1].seen_at, changes[i].seen_at)) {
      between.push_back(changes[i - 1].seen_at + (changes[i].seen_at - changes[i - 1].seen_at) / 2);
    }
  }
  const auto near_swap = [&](double moment_s) {
    return std::any_of(swaps.begin(), swaps.end(), [&](uint64_t swap) {
      return std::abs(moment_s - pacer.to_seconds(swap - run.start)) <= kWindow_s;
    });
  };
  uint64_t lost_near_swaps = 0, missed_near_swaps = 0;
  for (const uint64_t lost : run.ledger.lost_at()) lost_near_swaps += near_swap(pacer.to_seconds(lost - run.start));
  for (size_t bucket = 0; bucket < run.pauses.size(); bucket++) {
    const uint32_t missed = run.pauses[bucket].missed;
    if (missed > 0 && near_swap(static_cast<double>(bucket) * kBucket_s)) missed_near_swaps += missed;
  }
  return {{"event", "result"},
          {"rate", rate},
          {"seconds", run.seconds},
          {"sent", run.sent},
          {"received", run.ledger.received()},
          {"lost", run.ledger.lost()},
          {"lost_near_swaps", lost_near_swaps},
          {"missed", run.missed},
          {"missed_near_swaps", missed_near_swaps},
          {"skipped", run.skipped},
          {"surplus", run.ledger.surplus()},
          {"foreign", run.foreign},
          {"sent_per_s", run.sent_per_s()},
          {"away_seconds", run.away_seconds},
          {"changes", run.ledger.change_count()},
          {"changes_in_traffic", in_traffic},
          {"at_swaps", longest_pauses(pacer, run, swaps)},
          {"elsewhere", longest_pauses(pacer, run, between)}};
}

void print(const json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

std::string start_port(uint16_t port, rte_mempool* pool) {
  // A drop_port only sends: net_memif connects two ends whose queues fit each other.
  const uint16_t tx_queues = port == kDropped ? 0 : 1;
  rte_eth_conf conf = {};
  if (rte_eth_dev_configure(port, 1, tx_queues, &conf) != 0 ||
      rte_eth_rx_queue_setup(port, 0, kDescriptors, rte_socket_id(), nullptr, pool) != 0 ||
      (tx_queues > 0 && rte_eth_tx_queue_setup(port, 0, kDescriptors, rte_socket_id(), nullptr) != 0) ||
      rte_eth_dev_start(port) != 0) {
    return "cannot start port " + std::to_string(port);
  }
  return "";
}

bool links_up() {
  for (uint16_t port = 0; port < kPorts; port++) {
    rte_eth_link link = {};
    if (rte_eth_link_get_nowait(port, &link) != 0 || link.link_status != RTE_ETH_LINK_UP) return false;
  }
  return true;
}

// Empty, or what is wrong.
std::string measure(const Options& options) {
  if (rte_eth_dev_count_avail() != kPorts) return "needs three ports: out, passed, dropped";
  // Every ring can be full of our packets only on the data plane's side: memif copies, so a burst per port is plenty.
  rte_mempool* pool = rte_pktmbuf_pool_create("pacer", 8191, 256, 0, RTE_PKTMBUF_HEADROOM + 2048, rte_socket_id());
  if (pool == nullptr) return "cannot make the mbuf pool";
  for (uint16_t port = 0; port < kPorts; port++) {
    if (std::string error = start_port(port, pool); !error.empty()) return error;
  }
  Pacer pacer(pool, options.flows);
  constexpr double kLinkSeconds = 20;
  for (const uint64_t start = rte_rdtsc(); !links_up();) {
    if (stop || pacer.seconds_since(start) > kLinkSeconds) return "the links did not come up";
    rte_delay_us_sleep(1000);
  }
  print({{"event", "ready"}});
  double rate = options.rate;
  if (rate == 0) {
    Found found = find_rate(pacer, options);
    if (found.rate == 0) return "no rate passes without loss: " + found.trials.dump();
    rate = found.rate * options.load;
    print({{"event", "rate"},
           {"found", found.rate},
           {"bound_by_sender", found.bound_by_sender},
           {"rate", rate},
           {"trials", found.trials}});
  } else {
    print({{"event", "rate"}, {"rate", rate}});
  }
  const Run run = pacer.run(rate, options.max_seconds, options.quantum_us);
  print(report(pacer, run, rate));
  for (uint16_t port = 0; port < kPorts; port++) {
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
  }
  return "";
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using weir::bench::Options;
  const int used = rte_eal_init(argc, argv);
  if (used < 0) return 1;
  Options options;
  CLI::App app("sends numbered packets through a data plane and keeps the books");
  app.add_option("--rate", options.rate, "packets per second; 0: find the highest without loss");
  app.add_option("--load", options.load, "share of the found rate to run at");
  app.add_option("--trial-seconds", options.trial_seconds, "length of one trial of the search");
  app.add_option("--confirm-seconds", options.confirm_seconds, "length of the last trial of the search");
  app.add_option("--max-seconds", options.max_seconds, "the paced run ends by itself after so long");
  app.add_option("--quantum-us", options.quantum_us, "packets are sent in batches this far apart");
  app.add_option("--flows", options.flows, "source addresses 10.0.0.0 + 0 .. flows-1");
  CLI11_PARSE(app, argc - used, argv + used);
  std::signal(SIGINT, [](int) { weir::bench::stop = true; });
  std::signal(SIGTERM, [](int) { weir::bench::stop = true; });
  const std::string error = weir::bench::measure(options);
  if (!error.empty()) std::fprintf(stderr, "pacer: %s\n", error.c_str());
  rte_eal_cleanup();
  return error.empty() ? 0 : 1;
}
