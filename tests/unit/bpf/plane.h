// A plane of a test's own in the kernel, what is published to it, and packets that ask it. Exit code 77, with the
// reason, where programs cannot be loaded.
#pragma once

#include <bpf/bpf.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "bpf/enforce/program.h"
#include "bpf/program/plane.h"
#include "control/compile/compile.h"
#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/unit/bpf/own_pins.h"

namespace weir::xdp {

inline std::string own_folder() {
  static unsigned made = 0;
  return std::string(kDefaultBpfDir) + "/weir-unit-" + std::to_string(getpid()) + "-" + std::to_string(made++);
}

// A plane in a folder of its own, which goes with it.
struct Plane {
  explicit Plane(std::string in = own_folder(), std::vector<std::string> interfaces = {}) : folder(std::move(in)) {
    auto opened = Enforcer::open({std::move(interfaces), Attach::any, folder});
    if (!opened) FAIL(opened.error());
    enforcer = std::move(*opened);
  }
  ~Plane() {
    (void)detach_pinned(folder, std::nullopt);
    enforcer.reset();
    rmdir(folder.c_str());
  }
  std::string folder;
  std::unique_ptr<Enforcer> enforcer;
};

constexpr uint64_t kEpoch = 0xabc;

inline control::Compiled compiled(const std::string& lists, uint64_t number) {
  Diagnostics diagnostics;
  const auto policy = control::parse_policy("test.yaml", "version: 1\nlists:\n" + lists, diagnostics);
  if (!policy) FAIL(format(diagnostics));
  auto result = control::compile(*policy, {kEpoch, number});
  if (!result) FAIL(result.error());
  return std::move(*result);
}

inline wire::Message message_of(control::Compiled from) {
  wire::PublishBody body;
  body.generation = from.generation;
  body.digest[0] = from.digest[0];
  body.digest[1] = from.digest[1];
  body.size_bytes = from.size_bytes;
  wire::Message message;
  message.body.assign(wire::bytes_of(body).begin(), wire::bytes_of(body).end());
  message.fd = std::move(from.snapshot);
  return message;
}

inline wire::Message publication(const std::string& lists, uint64_t number) {
  return message_of(compiled(lists, number));
}

inline std::string list(const std::string& name, const std::string& entry) {
  return "  - {name: " + name + ", action: drop, entries: [" + entry + "]}\n";
}

// A UDP frame from 198.18.0.last, so many times.
inline bool drops(const Enforcer& enforcer, uint8_t last, int times = 1) {
  uint8_t frame[60] = {};
  frame[12] = 8;
  const uint8_t ip[] = {0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, last, 192, 0, 2, 1};
  memcpy(frame + 14, ip, sizeof ip);
  LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = sizeof frame, .repeat = times);
  REQUIRE(bpf_prog_test_run_opts(enforcer.program_fd(), &run) == 0);
  return run.retval == XDP_DROP;
}

inline uint64_t matched_by(const Enforcer& enforcer, const std::string& name) {
  const Result<wire::Stats> all = enforcer.stats();
  if (!all) FAIL(all.error());
  for (const wire::ListStats& stats : all->lists) {
    if (wire::get_text(stats.name) == name) return stats.matched;
  }
  return UINT64_MAX;
}

// Each test returns this from before_tests(). From then on pins of this process go with it, however it ends. Tried in a
// process of its own: of what libbpf asks the kernel only once in a process, tests have the first answers.
inline int can_load_programs() {
  own_bpf_file_system();
  const pid_t child = fork();
  if (child == 0) {
    const std::string folder = own_folder();
    const auto enforcer = geteuid() == 0 ? Enforcer::open({{}, Attach::any, folder})
                                         : Result<std::unique_ptr<Enforcer>>(Error{"it needs root"});
    if (!enforcer) {
      fprintf(stderr, "skipped: %s: no XDP program can be loaded: %s\n", geteuid() == 0 ? "kernel" : "root",
              enforcer.error().c_str());
    }
    (void)detach_pinned(folder, std::nullopt);
    rmdir(folder.c_str());
    _exit(enforcer ? 0 : 77);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace weir::xdp
