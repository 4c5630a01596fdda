#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/probes.h"
#include "common/result.h"
#include "common/shadow.h"
#include "common/telemetry.h"
#include "common/wire.h"

// The XDP plane: a program on interfaces, and its pinned maps (docs/operate/xdp.md). What is pinned enforces on its
// own: whoever opens it again, after a crash or an update, goes on where the last one stopped.
namespace weir::xdp {

enum class Attach : uint8_t {
  any,      // in the driver where it can, else generic
  native,   // in the driver
  generic,  // behind the driver, on socket buffers: slower, everywhere
};

constexpr const char* kDefaultBpfDir = "/sys/fs/bpf";

struct Options {
  std::vector<std::string> interfaces;  // may be missing now; none: the maps are kept for programs that others attach
  Attach attach = Attach::any;
  std::string bpf_dir = kDefaultBpfDir;   // in a BPF file system; one enforcer each
  std::optional<bool> multi_buffer = {};  // frames may lie in several buffers; empty: as the interfaces' MTUs ask for
};

// How one interface is doing.
struct InterfaceState {
  std::string name;
  uint32_t index = 0;  // 0: there is no such interface now
  bool attached = false;
  bool native = false;  // where attached
  std::string error;    // why it is not attached; empty = well
  std::string now;      // its name now: it may have been renamed, and stays enforced
  uint32_t times = 0;   // that it was attached by this enforcer
};

// Publications come from one thread, and all else from one thread.
class Enforcer {
 public:
  // Adopts what is pinned in bpf_dir, or loads the program and pins its maps, then attaches to the interfaces that are
  // there. Interfaces that cannot be attached are no error here: see interfaces(). Error: BPF is not to be had, bpf_dir
  // is no BPF file system, the verifier refuses the program, or what is pinned is of another version.
  static Result<std::unique_ptr<Enforcer>> open(Options options);
  ~Enforcer();  // leaves everything as it is, but for a shadow, which ends: it goes on enforcing
  Enforcer(const Enforcer&) = delete;

  // A wire::Type::publish message with a sealed memfd: checks it, fills the idle group, swaps, frees the old one.
  wire::PublishedBody publish(const wire::Message& message);
  wire::StatusBody status() const;
  Result<wire::Stats> stats() const;  // Error: the kernel does not give its counters
  Result<wire::Probes> probes();      // Error: the same
  wire::Ports ports() const;
  const std::vector<InterfaceState>& interfaces() const;
  // Samples as asked from now on, and those that wait, as many as a message holds: the body of the answer. Error: the
  // kernel does not give its counters.
  Result<std::vector<std::byte>> samples(const wire::SamplingBody& wanted);
  // The same of all frames that a snapshot judges.
  Result<std::vector<std::byte>> traffic(const wire::TrafficRequest& wanted);
  // A wire::Type::shadow message that begins a shadow, or ends it; publications' thread. What the shadow has counted,
  // and samples that were not told yet; the other thread. Error: the kernel does not give its counters.
  Result<wire::Shadow> shadow(const wire::Message& message);
  Result<wire::Shadow> shadow();
  void bypass(bool on);  // any thread; one store
  void drop_without_snapshot(bool drop);

  // Once a second, or so, and when interfaces changed: tells the program the clock, attaches to interfaces that
  // appeared, or that somebody detached, forgets those that went.
  void tend();
  // Something is not attached as it was: tend() has something to do. Costs a system call an interface.
  bool is_disturbed() const;
  // As detach_on_demand(), for one of its interfaces.
  Result<void> detach(const std::string& interface);

  // Tests and replays: the time that `expires` is compared with; 0: the wall clock.
  void fix_clock(uint64_t now_unix_s);
  // Of the program that is attached, or would be, for BPF_PROG_TEST_RUN.
  int program_fd() const;

 private:
  struct Parts;
  explicit Enforcer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Takes the pinned links of the interface away, or of all of them; then also the maps, unless those stay. Returns the
// names. Any thread.
enum class Maps { stay, go };
Result<std::vector<std::string>> detach_pinned(const std::string& bpf_dir, std::optional<std::string> interface,
                                               Maps maps = Maps::go);
// The same on demand: the interface, or all, is marked, so that no enforcer attaches to it again, whoever runs or will.
Result<std::vector<std::string>> detach_on_demand(const std::string& bpf_dir, std::optional<std::string> interface,
                                                  Maps maps = Maps::go);
// Interfaces that have a pinned link, whoever pinned it. None when there is no such folder.
Result<std::vector<std::string>> pinned_interfaces(const std::string& bpf_dir);
// Was it detached on demand? Empty: any.
bool is_detached(const std::string& bpf_dir, const std::string& interface);
// Runs the interface's program on one frame in the kernel (BPF_PROG_TEST_RUN), beside all traffic. True: it drops it.
// frame: from its Ethernet header on. Error: the interface has no program of weir, or the kernel does not run it.
Result<bool> drops_frame(const std::string& interface, std::span<const std::byte> frame);
// Enforcers attach again to what was detached on demand.
void forget_detached(const std::string& bpf_dir);

// The panic switch, for who has no enforcer open: one store in the pinned map. Error: nothing is pinned.
Result<void> bypass_pinned(const std::string& bpf_dir, bool on);
// What is pinned tells of itself; index 0: the interface is gone.
struct PinnedState {
  wire::StatusBody status;
  std::vector<InterfaceState> interfaces;
};
Result<PinnedState> look_at_pinned(const std::string& bpf_dir);

}  // namespace weir::xdp
