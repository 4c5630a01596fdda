#pragma once

#include <string>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "common/fd.h"

namespace weir::xdp {

// One interface that the program should be attached to. The link is pinned: it holds the program there when nobody
// runs, and vanishes with the interface.
class Attachment {
 public:
  // program_fd: adopted links that run another program get this one, without a gap.
  Attachment(std::string interface, Attach attach, std::string bpf_dir, int program_fd);

  // Attaches where it can, adopts what is pinned, forgets what went. Says how it is in state().
  void tend();
  // For good: tend() leaves the interface alone.
  Result<void> detach();
  const InterfaceState& state() const { return state_; }

 private:
  bool is_in_wanted_mode() const;
  Result<void> adopt();
  Result<void> attach_now();
  Result<void> link(uint32_t flags);
  void fail(std::string error);

  const Attach attach_;
  const std::string pin_;
  const int program_fd_;
  Fd link_;
  bool wanted_ = true;
  InterfaceState state_;
};

}  // namespace weir::xdp
