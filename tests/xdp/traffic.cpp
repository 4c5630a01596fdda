// Sends frames whose right verdict is known out of an interface, as fast as the kernel can make them, and counts those
// that come through behind the XDP program on another one, where they end. Prints a JSON line a second, and one at the
// end, after --packets or at SIGTERM or SIGINT: {"made", "made_to_pass", "came_of_pass", "came_of_drop", "seconds"}.

#include "tests/xdp/traffic.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "traffic.skel.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kAtOnce = 1 << 17;    // frames made by one system call, which is slow to begin; at most
constexpr double kMostWaitSeconds = 10;  // without one: those to pass have not come

volatile sig_atomic_t stopped = 0;

// A UDP frame of 60 bytes without addresses.
std::vector<uint8_t> frame_template() {
  std::vector<uint8_t> frame(60);
  std::fill_n(frame.begin(), 6, uint8_t{0xff});
  frame[6] = 2;
  frame[12] = 0x08;  // IPv4
  uint8_t* ip = frame.data() + 14;
  ip[0] = 0x45;
  ip[3] = 46;  // total length
  ip[8] = 64;
  ip[9] = 17;
  ip[25] = 26;  // UDP length
  return frame;
}

traffic_counts sum_of(int map) {
  std::vector<traffic_counts> each(static_cast<size_t>(std::max(1, libbpf_num_possible_cpus())));
  const uint32_t zero = 0;
  traffic_counts sum = {};
  if (bpf_map_lookup_elem(map, &zero, each.data()) != 0) return sum;
  for (const traffic_counts& one : each) {
    sum.made += one.made;
    sum.made_to_pass += one.made_to_pass;
    sum.came_of_pass += one.came_of_pass;
    sum.came_of_drop += one.came_of_drop;
  }
  return sum;
}

int fail(const std::string& what) {
  fmt::print(stderr, "xdp_traffic: {}: {}\n", what, strerror(errno));
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Traffic whose right verdicts are known, for a running XDP program."};
  std::string behind, interface;
  double packets = 1e8, pause_ms = 0;
  app.add_option("--packets", packets, "to make")->capture_default_str();
  app.add_option("--pause-ms", pause_ms, "after at most 131,072 of them")->capture_default_str();
  app.add_option("OUT", interface, "interface to send out of")->required();
  app.add_option("IN", behind, "interface that the program is on: where they come in")->required();
  CLI11_PARSE(app, argc, argv);
  struct sigaction stop = {};
  stop.sa_handler = [](int) { stopped = 1; };
  sigaction(SIGTERM, &stop, nullptr);
  sigaction(SIGINT, &stop, nullptr);

  const std::unique_ptr<traffic_bpf, void (*)(traffic_bpf*)> skeleton(traffic_bpf__open(), traffic_bpf__destroy);
  if (!skeleton) return fail("cannot open the programs");
  skeleton->rodata->out_interface = static_cast<int>(if_nametoindex(interface.c_str()));
  if (skeleton->rodata->out_interface == 0) return fail("no interface " + interface);
  if (traffic_bpf__load(skeleton.get()) != 0) return fail("cannot load the programs");
  LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = static_cast<int>(if_nametoindex(behind.c_str())),
              .attach_point = BPF_TC_INGRESS);
  LIBBPF_OPTS(bpf_tc_opts, arrive, .prog_fd = bpf_program__fd(skeleton->progs.arrive), .flags = BPF_TC_F_REPLACE,
              .handle = 1, .priority = 1);
  if (const int made = bpf_tc_hook_create(&hook); made != 0 && made != -EEXIST) return fail("cannot wait at " + behind);
  if (bpf_tc_attach(&hook, &arrive) != 0) return fail("cannot wait at " + behind);

  const std::vector<uint8_t> frame = frame_template();
  const int map = bpf_map__fd(skeleton->maps.counts);
  const Clock::time_point start = Clock::now();
  const auto tell = [&](double seconds) {
    const traffic_counts sum = sum_of(map);
    fmt::print(
        "{{\"made\": {}, \"made_to_pass\": {}, \"came_of_pass\": {}, \"came_of_drop\": {}, \"seconds\": {:.3f}}}\n",
        sum.made, sum.made_to_pass, sum.came_of_pass, sum.came_of_drop, seconds);
    fflush(stdout);
  };
  double told = 0, seconds = 0, progress = 0;
  uint64_t made = 0;
  while (stopped == 0 && static_cast<double>(made) < packets) {
    LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(), .data_size_in = static_cast<uint32_t>(frame.size()),
                .repeat = kAtOnce, .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 64);
    if (bpf_prog_test_run_opts(bpf_program__fd(skeleton->progs.make), &run) != 0 && errno != EINTR) {
      return fail("cannot make frames");
    }
    const uint64_t before = std::exchange(made, sum_of(map).made);
    if (pause_ms > 0) usleep(static_cast<useconds_t>(pause_ms * 1000));
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (made != before) progress = seconds;
    if (seconds > progress + kMostWaitSeconds) break;
    if (seconds >= told + 1) tell(told = seconds);
  }
  usleep(100'000);  // what is on its way
  tell(seconds);
  return 0;
}
