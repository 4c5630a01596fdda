#include "tests/bench/xdp_traffic.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include "tests/bench/xdp_hosts.h"
#include "tests/bench/xdp_skeletons.h"

namespace weir::bench {
namespace {

constexpr uint32_t kFrameBytes4 = 60, kFrameBytes6 = 62;
constexpr size_t kIp = 14, kChecksum = kIp + 10, kLowerSource6 = kIp + 16;
constexpr uint32_t kBatch = 64;                // frames in flight, as NAPI takes them
constexpr uint32_t kFramesPerCall = 1u << 18;  // some 100 ms
constexpr size_t kSourceStride = 8;

// To a station, so that no receiver takes it for a broadcast; UDP 4000 -> 53 from 0.0.0.0 to 192.0.2.1.
std::vector<uint8_t> make_frame4(unsigned tags) {
  std::vector<uint8_t> frame = {0x52, 0x54, 0,  0, 0, 1, 0x52, 0x54, 0, 0,   0, 2, 0x08, 0x00, 0x45, 0, 0,  46, 0, 0, 0,
                                0,    64,   17, 0, 0, 0, 0,    0,    0, 192, 0, 2, 1,    0x0f, 0xa0, 0, 53, 0,  26};
  frame.resize(kFrameBytes4);
  uint32_t sum = 0;
  for (size_t i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(frame[kIp + i] << 8 | frame[kIp + i + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = ~((sum & 0xffff) + (sum >> 16));
  frame[kChecksum] = static_cast<uint8_t>(sum >> 8);
  frame[kChecksum + 1] = static_cast<uint8_t>(sum);
  constexpr uint8_t kTag[] = {0x81, 0x00, 0, 100};
  for (unsigned i = 0; i < tags; i++) frame.insert(frame.begin() + kIp - 2, std::begin(kTag), std::end(kTag));
  return frame;
}

// The same from ::1 (its upper half changes) to 2001:db8::1.
std::vector<uint8_t> make_frame6() {
  std::vector<uint8_t> frame = {0x52, 0x54, 0, 0, 0, 1, 0x52, 0x54, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0,    0, 0,  0,    8,
                                17,   64,   0, 0, 0, 0, 0,    0,    0, 0, 0, 0, 0,    0,    0,    0,    0, 0,  0x20, 1,
                                0x0d, 0xb8, 0, 0, 0, 0, 0,    0,    0, 0, 0, 0, 0,    1,    0x0f, 0xa0, 0, 53, 0,    8};
  frame.resize(kFrameBytes6);
  const uint64_t lower = __builtin_bswap64(kLowerHalf6);
  memcpy(&frame[kLowerSource6], &lower, sizeof lower);
  return frame;
}

bpf_test_run_opts run_options(const std::vector<uint8_t>& frame) {
  bpf_test_run_opts options = {};
  options.sz = sizeof options;
  options.data_in = frame.data();
  options.data_size_in = static_cast<uint32_t>(frame.size());
  return options;
}

double clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// {ns on a processor, ns waiting for one} of a task; zeros: it cannot be told.
std::pair<double, double> times_of(const std::string& task) {
  std::ifstream file("/proc/" + task + "/schedstat");
  double running = 0, waiting = 0;
  file >> running >> waiting;
  return {running, waiting};
}

// The thread that does a processor's soft interrupts when there are too many; empty: there is none to be seen.
std::string soft_interrupt_task(int cpu) {
  const std::string wanted = fmt::format("ksoftirqd/{}", cpu);
  DIR* folder = opendir("/proc");
  std::string found;
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
    std::ifstream file(fmt::format("/proc/{}/comm", entry->d_name));
    std::string name;
    if (std::getline(file, name) && name == wanted) found = entry->d_name;
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

Error bpf_error(const char* what, int result) {
  return Error{fmt::format("{}: {}", what, strerror(result < 0 ? -result : errno))};
}

}  // namespace

double thread_ns() {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

double wall_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}

void XdpTraffic::Destroy::operator()(xdp_generator* skeleton) const {
  xdp_generator::destroy(skeleton);
}

Result<XdpTraffic> XdpTraffic::open(const std::string& out, unsigned family, unsigned tags) {
  Skeleton skeleton(xdp_generator::open());
  if (!skeleton) return bpf_error("opening the generator", -errno);
  skeleton->rodata->family = family;
  skeleton->rodata->tags = tags;
  if (!out.empty()) {
    skeleton->rodata->out_interface = if_nametoindex(out.c_str());
    if (skeleton->rodata->out_interface == 0) return Error{"no interface " + out};
  }
  if (const int result = xdp_generator::load(skeleton.get()); result != 0) {
    return bpf_error("loading the generator", result);
  }
  const size_t size = XDP_SOURCES * kSourceStride;
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(skeleton->maps.sources), 0);
  if (address == MAP_FAILED) return bpf_error("mapping the sources", -errno);
  return XdpTraffic(std::move(skeleton), Mapping(address, size), family == 6 ? make_frame6() : make_frame4(tags));
}

void XdpTraffic::set_sources(std::span<const uint64_t> sources) {
  for (size_t i = 0; i < sources.size(); i++)
    memcpy(&sources_.bytes()[i * kSourceStride], &sources[i], sizeof sources[i]);
  skeleton_->bss->next_source = 0;
}

Result<void> XdpTraffic::call(int program_fd) {
  const uint32_t zero = 0;
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.callee), &zero, &program_fd, BPF_ANY) != 0) {
    return bpf_error("putting a program behind the generator", -errno);
  }
  skeleton_->bss->next_source = 0;
  skeleton_->bss->not_called = 0;
  return {};
}

Result<double> XdpTraffic::run(uint32_t frames) {
  bpf_test_run_opts options = run_options(frame_);
  options.repeat = static_cast<int>(frames);
  const double start = thread_ns();
  const int result = bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.vary), &options);
  const double spent = thread_ns() - start;
  if (result != 0) return bpf_error("BPF_PROG_TEST_RUN", result);
  if (skeleton_->bss->not_called != 0) return Error{"the generator could not call the program behind it"};
  return spent;
}

Result<uint32_t> XdpTraffic::verdict(uint64_t source) {
  set_sources({&source, 1});
  bpf_test_run_opts options = run_options(frame_);
  const int result = bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.vary), &options);
  if (result != 0) return bpf_error("BPF_PROG_TEST_RUN", result);
  return options.retval;
}

Result<XdpTraffic::Sent> XdpTraffic::send(double seconds) {
  const std::string soft_interrupts = soft_interrupt_task(sched_getcpu());
  const double start = wall_ns();
  const double waited = times_of("thread-self").second;
  const double helped = soft_interrupts.empty() ? 0 : times_of(soft_interrupts).first;
  Sent sent = {};
  while (sent.wall_ns < seconds * 1e9) {
    bpf_test_run_opts options = run_options(frame_);
    options.repeat = kFramesPerCall;
    options.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    options.batch_size = kBatch;
    const int result = bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.generate), &options);
    if (result != 0) return bpf_error("BPF_PROG_TEST_RUN with live frames", result);
    sent.frames += kFramesPerCall;
    sent.wall_ns = wall_ns() - start;
  }
  sent.core_ns = sent.wall_ns - (times_of("thread-self").second - waited);
  if (!soft_interrupts.empty()) sent.core_ns += times_of(soft_interrupts).first - helped;
  return sent;
}

}  // namespace weir::bench
