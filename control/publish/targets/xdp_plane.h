#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bpf/enforce/server.h"
#include "control/model/target.h"

namespace weir::control {

// The XDP plane of this machine, of which there is one for each folder of pins. Opened when somebody connects; reopened
// when its target changes, which the pinned programs do not notice. Any thread.
class XdpPlane {
 public:
  explicit XdpPlane(std::string bpf_dir) : bpf_dir_(std::move(bpf_dir)) {}

  // True when configure() with the same would change nothing.
  bool is_configured(const std::optional<TargetSpec>& target) const;
  // From now on this target. Interfaces that the last one named and this one does not are detached: at once when there
  // is no target any more, else after connect() has opened the plane for those that stay. What was detached on demand
  // is attached again.
  void configure(std::optional<TargetSpec> target);

  // To a plane that enforces the target. Error: why it cannot be opened.
  Result<Fd> connect();

  // Detaches the interface (empty: all, also those that are pinned from before and no target names), until configure()
  // is called or controld starts anew. Returns those that were attached.
  Result<std::vector<std::string>> detach(const std::string& interface, int timeout_ms);

  // Interfaces with a pinned program that the target does not name.
  std::vector<std::string> left_over() const;

 private:
  Result<void> open();    // mutex_ is held
  void detach_leaving();  // mutex_ is held

  const std::string bpf_dir_;
  mutable std::mutex mutex_;
  std::optional<TargetSpec> target_;
  std::vector<std::string> leaving_;   // to be detached when the plane is open
  std::vector<std::string> detached_;  // on demand; "": all
  std::unique_ptr<xdp::Server> server_;
};

}  // namespace weir::control
