// Runs the frames of a capture through the XDP program that is pinned in a folder, as the kernel runs it but without an
// interface (BPF_PROG_TEST_RUN). For scripts/replay --plane xdp. Writes a letter a frame, in order: p passed, d
// dropped,
// - not run. Prints JSON: {"packets", "too_short", "seconds"}; with --seconds the capture loops, and a line a second
// says how many frames have run.

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#define PCAP_DONT_INCLUDE_PCAP_BPF_H  // its bpf_insn is another one
#include <pcap/pcap.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "bpf/enforce/enforcer.h"
#include "bpf/enforce/program.h"
#include "bpf/program/plane.h"
#include "common/clock.h"
#include "common/files.h"

namespace weir::xdp {
namespace {

using Frame = std::vector<uint8_t>;

constexpr size_t kLeastFrame = 14;  // the kernel runs no shorter one

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Result<std::vector<Frame>> read_frames(const std::string& path) {
  char why[PCAP_ERRBUF_SIZE] = {};
  pcap_t* capture = pcap_open_offline(path.c_str(), why);
  if (capture == nullptr) return Error{path + ": " + why};
  std::vector<Frame> frames;
  pcap_pkthdr* header;
  const u_char* bytes;
  int read = 0;
  while ((read = pcap_next_ex(capture, &header, &bytes)) == 1) frames.emplace_back(bytes, bytes + header->caplen);
  if (read == PCAP_ERROR) return Error{path + ": " + pcap_geterr(capture)};
  pcap_close(capture);
  return frames;
}

// The clock of the pinned program, fixed while this lives.
class FixedClock {
 public:
  static Result<FixedClock> set(const std::string& bpf_dir, uint64_t now) {
    const Fd map(bpf_obj_get(pin_path(bpf_dir, "weir_state").c_str()));
    if (!map) return errno_error("cannot open weir_state in " + bpf_dir);
    void* address = mmap(nullptr, sizeof(weir_state), PROT_READ | PROT_WRITE, MAP_SHARED, map.get(), 0);
    if (address == MAP_FAILED) return errno_error("cannot map weir_state");
    FixedClock clock;
    clock.mapping_ = Mapping(address, sizeof(weir_state));
    clock.state().fixed_now_s = now;
    return clock;
  }
  FixedClock(FixedClock&&) = default;
  ~FixedClock() {
    if (mapping_) state().fixed_now_s = 0;
  }

 private:
  FixedClock() = default;
  weir_state& state() { return *reinterpret_cast<weir_state*>(mapping_.bytes().data()); }
  Mapping mapping_;
};

// The verdict. A frame a system call: with more turns in one, the kernel first changes its dispatcher for XDP programs
// and waits for an RCU grace period.
Result<uint32_t> run(int program, const Frame& frame) {
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_size_in = static_cast<uint32_t>(frame.size()),
              .repeat = 1);
  if (bpf_prog_test_run_opts(program, &options) != 0) {
    return errno_error("the kernel cannot run a frame of " + std::to_string(frame.size()) + " bytes");
  }
  return options.retval;
}

Result<uint64_t> run_once(int program, const std::vector<Frame>& frames, std::string& verdicts) {
  uint64_t too_short = 0;
  for (const Frame& frame : frames) {
    if (frame.size() < kLeastFrame) {
      verdicts += '-';
      too_short++;
      continue;
    }
    const Result<uint32_t> verdict = run(program, frame);
    if (!verdict) return Error{verdict.error()};
    verdicts += *verdict == XDP_DROP ? 'd' : 'p';
  }
  return too_short;
}

Result<uint64_t> run_for(int program, const std::vector<Frame>& frames, double seconds) {
  const Clock::time_point start = Clock::now();
  uint64_t packets = 0;
  double told = 0;
  for (bool any = true; any;) {
    any = false;
    for (const Frame& frame : frames) {
      if (frame.size() < kLeastFrame) continue;
      if (const Result<uint32_t> verdict = run(program, frame); !verdict) return Error{verdict.error()};
      packets++;
      any = true;
      const double now = seconds_since(start);
      if (now >= told + 1 || now >= seconds) {
        fmt::print("{:.3f} {}\n", now, packets);
        fflush(stdout);
        told = now;
      }
      if (now >= seconds) return packets;
    }
  }
  return packets;
}

int fail(const std::string& message) {
  fmt::print(stderr, "run_capture: {}\n", message);
  return 2;
}

}  // namespace
}  // namespace weir::xdp

int main(int argc, char** argv) {
  using namespace weir::xdp;
  CLI::App app{"Runs the frames of a capture through a pinned XDP program."};
  std::string bpf_dir = kDefaultBpfDir, capture, out;
  std::optional<uint64_t> now;
  double seconds = 0;
  app.add_option("--bpf-dir", bpf_dir, "where the program is pinned")->capture_default_str();
  app.add_option("--now", now, "fixes its clock, in Unix seconds");
  app.add_option("--verdicts", out, "file for a letter a frame");
  app.add_option("--seconds", seconds, "loop for so long");
  app.add_option("CAPTURE", capture, "pcap or pcapng")->required();
  CLI11_PARSE(app, argc, argv);

  const weir::Fd program(bpf_obj_get(pin_path(bpf_dir, "weir").c_str()));
  if (!program) return fail(weir::errno_error("no program is pinned in " + bpf_dir).message);
  const weir::Result<std::vector<Frame>> frames = read_frames(capture);
  if (!frames) return fail(frames.error());
  std::optional<FixedClock> clock;
  if (now) {
    weir::Result<FixedClock> fixed = FixedClock::set(bpf_dir, *now);
    if (!fixed) return fail(fixed.error());
    clock.emplace(std::move(*fixed));
  }
  const weir::Clock::time_point start = weir::Clock::now();
  if (seconds > 0) {
    const weir::Result<uint64_t> packets = run_for(program.get(), *frames, seconds);
    if (!packets) return fail(packets.error());
    fmt::print("{{\"packets\": {}, \"too_short\": 0, \"seconds\": {:.6f}}}\n", *packets, seconds_since(start));
    return 0;
  }
  std::string verdicts;
  const weir::Result<uint64_t> too_short = run_once(program.get(), *frames, verdicts);
  if (!too_short) return fail(too_short.error());
  const double took = seconds_since(start);
  if (!out.empty()) {
    std::ofstream file(out, std::ios::binary);
    file << verdicts;
    if (!file.flush()) return fail("cannot write " + out);
  }
  fmt::print("{{\"packets\": {}, \"too_short\": {}, \"seconds\": {:.6f}}}\n", frames->size() - *too_short, *too_short,
             took);
  return 0;
}
