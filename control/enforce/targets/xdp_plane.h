#pragma once

#include <linux/capability.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bpf/enforce/server.h"
#include "common/confine/capabilities.h"
#include "control/base/loop/loop.h"
#include "control/base/loop/worker.h"
#include "control/policy/model/target.h"

namespace weir::control {

// Programs and maps, what the verifier lets them do, interfaces; and to compare a program that somebody else attached
// with ours, which the kernel lets CAP_SYS_ADMIN do alone.
constexpr confine::Capabilities kXdpCapabilities = confine::capability(CAP_BPF) | confine::capability(CAP_PERFMON) |
                                                   confine::capability(CAP_NET_ADMIN) |
                                                   confine::capability(CAP_SYS_ADMIN);

// The XDP plane of this machine, of which there is one for each folder of pins. Opened when somebody connects; reopened
// when its target changes, which the pinned programs do not notice. Opening asks the kernel's verifier and detaching
// waits for locks of the network: a thread of its own does that, and the loop's thread, which owns this, never waits.
class XdpPlane {
 public:
  XdpPlane(Loop& loop, std::string bpf_dir);
  XdpPlane(const XdpPlane&) = delete;
  // The thread, before a target needs it.
  Result<void> start() { return worker_.start(); }

  // From now on this target; true: it is another one, or one whose interfaces could not be detached, and connections
  // made before end. Interfaces that the last one
  // named and this one does not are detached: at once when there is no target any more, else after connect() has opened
  // the plane for those that stay. What was detached on demand is attached again.
  bool configure(const std::optional<TargetSpec>& target);

  // To a plane that enforces the target. Error: why it cannot be opened.
  void connect(std::function<void(Result<Fd>)> done);

  // Detaches the interface (empty: all, also those that are pinned from before and no target names), until configure()
  // is called or controld starts anew. Returns those that were attached. Waits for locks of the network, but for
  // nothing that the plane is busy with. Any thread.
  using Names = Result<std::vector<std::string>>;
  Names detach(const std::string& interface);

  // Interfaces with a pinned program that the target does not name.
  std::vector<std::string> left_over() const;

  // The panic switch: at once, whatever the plane is busy with. Error: nothing is pinned yet. Any thread.
  Result<void> bypass(bool on);

 private:
  // The worker's.
  void take_target(std::optional<TargetSpec> target);
  Result<Fd> connect_now();
  Result<void> open();
  void close();
  void detach_leaving();

  template <class Answer>
  void let_worker(std::function<Answer()> work, std::function<void(Answer)> done);

  const std::string bpf_dir_;
  Mailbox mailbox_;

  // The loop's.
  std::optional<TargetSpec> configured_;
  bool is_first_ = true;  // nothing was configured yet

  std::atomic<bool> has_target_ = false;
  std::atomic<bool> owes_detach_ = false;  // interfaces that left the policy, and could not be detached

  // The worker's.
  std::optional<TargetSpec> target_;
  std::vector<std::string> leaving_;  // to be detached when the plane is open
  std::unique_ptr<xdp::Server> server_;

  std::mutex mutex_;  // guards what follows; held for moments only
  xdp::Server* open_ = nullptr;

  Worker worker_;  // last: ends before what it uses
};

}  // namespace weir::control
