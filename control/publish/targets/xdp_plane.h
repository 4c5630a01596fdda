#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bpf/enforce/server.h"
#include "control/loop/loop.h"
#include "control/loop/worker.h"
#include "control/model/target.h"

namespace weir::control {

// The XDP plane of this machine, of which there is one for each folder of pins. Opened when somebody connects; reopened
// when its target changes, which the pinned programs do not notice. Opening asks the kernel's verifier and detaching
// waits for locks of the network: a thread of its own does that, and the loop's thread, which owns this, never waits.
class XdpPlane {
 public:
  XdpPlane(Loop& loop, std::string bpf_dir);
  XdpPlane(const XdpPlane&) = delete;

  // From now on this target; true: it is another one, and connections made before end. Interfaces that the last one
  // named and this one does not are detached: at once when there is no target any more, else after connect() has opened
  // the plane for those that stay. What was detached on demand is attached again.
  bool configure(const std::optional<TargetSpec>& target);

  // To a plane that enforces the target. Error: why it cannot be opened.
  void connect(std::function<void(Result<Fd>)> done);

  // Detaches the interface (empty: all, also those that are pinned from before and no target names), until configure()
  // is called or controld starts anew. Tells those that were attached.
  using Names = Result<std::vector<std::string>>;
  void detach(const std::string& interface, int timeout_ms, std::function<void(Names)> done);

  // Interfaces with a pinned program that the target does not name.
  std::vector<std::string> left_over() const;

  // The panic switch: at once, whatever the plane is busy with. Error: the plane is not open. Any thread.
  Result<void> bypass(bool on);

 private:
  // The worker's.
  void take_target(std::optional<TargetSpec> target);
  Result<Fd> connect_now();
  Names detach_now(const std::string& interface, int timeout_ms);
  Result<void> open();
  void close();
  void detach_leaving();

  template <class Answer>
  void let_worker(std::function<Answer()> work, std::function<void(Answer)> done);

  const std::string bpf_dir_;
  Mailbox mailbox_;

  // The loop's.
  std::optional<TargetSpec> configured_;
  bool is_detached_ = false;  // something, on demand

  // The worker's.
  std::optional<TargetSpec> target_;
  std::vector<std::string> leaving_;   // to be detached when the plane is open
  std::vector<std::string> detached_;  // on demand; "": all
  std::unique_ptr<xdp::Server> server_;

  std::mutex mutex_;  // guards what follows; held for moments only
  xdp::Server* open_ = nullptr;

  Worker worker_;  // last: ends before what it uses
};

}  // namespace weir::control
