#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
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
};

// One thread's at a time.
class Enforcer {
 public:
  // Adopts what is pinned in bpf_dir, or loads the program and pins its maps, then attaches to the interfaces that are
  // there. Interfaces that cannot be attached are no error here: see interfaces(). Error: BPF is not to be had, bpf_dir
  // is no BPF file system, the verifier refuses the program, or what is pinned is of another version.
  static Result<std::unique_ptr<Enforcer>> open(Options options);
  ~Enforcer();  // leaves everything as it is: it goes on enforcing
  Enforcer(const Enforcer&) = delete;

  // A wire::Type::publish message with a sealed memfd: checks it, fills the idle group, swaps, frees the old one.
  wire::PublishedBody publish(const wire::Message& message);
  wire::StatusBody status() const;
  wire::Stats stats() const;
  wire::Ports ports() const;
  const std::vector<InterfaceState>& interfaces() const;
  void bypass(bool on);  // any thread; one store
  void drop_without_snapshot(bool drop);

  // Once a second, or so: tells the program the clock, attaches to interfaces that appeared, forgets those that went.
  void tend();
  // Detaches from the interface: nothing is enforced there from now on, and tend() leaves it alone.
  Result<void> detach(const std::string& interface);

  // Tests and replays: the time that `expires` is compared with; 0: the wall clock.
  void fix_clock(uint64_t now_unix_s);
  // Of the program, for BPF_PROG_TEST_RUN.
  int program_fd() const;

 private:
  struct Parts;
  explicit Enforcer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Detaches the interface, or all of them, when no controld runs: takes the pinned links away. Returns their names.
Result<std::vector<std::string>> detach_pinned(const std::string& bpf_dir, std::optional<std::string> interface);
// Interfaces that have a pinned link, whoever pinned it. None when there is no such folder.
Result<std::vector<std::string>> pinned_interfaces(const std::string& bpf_dir);

}  // namespace weir::xdp
