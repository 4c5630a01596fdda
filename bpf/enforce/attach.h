#pragma once

#include <string>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "common/fd.h"

namespace weir::xdp {

// What is attached to an interface, by the driver or behind it.
struct Running {
  uint32_t id = 0;  // 0: nothing
  bool native = false;
};

// One interface that the program should be attached to. The link is pinned: it holds the program there when nobody
// runs, and vanishes with the interface. It follows the interface, whatever that is called later.
class Attachment {
 public:
  // program_fd: adopted links that run another program get this one, without a gap.
  Attachment(std::string interface, Attach attach, std::string bpf_dir, int program_fd);

  // Attaches where it can, adopts what is pinned, forgets what went; leaves alone what was detached on demand. Says how
  // it is in state().
  void tend();
  // Takes this program from now on; links run it when this returns. Error: one goes on with the former program, until
  // tend() can replace it.
  Result<void> use(int program_fd);
  // tend() has something to do: what state() says is not so any more.
  bool is_disturbed() const;
  const InterfaceState& state() const { return state_; }

 private:
  Result<void> look();  // Error: the kernel does not tell how things are
  bool is_in_wanted_mode(const Running& running) const;
  void let_go();
  Result<void> adopt();
  Result<void> attach_now(const Running& running);
  Result<bool> link(uint32_t flags);
  void fail(std::string error);

  const Attach attach_;
  const std::string bpf_dir_;
  const std::string pin_;
  int program_fd_;
  Fd link_;
  std::vector<Fd> former_;  // of interfaces that had the name before, and were renamed
  InterfaceState state_;
};

// What a pinned link of this name tells.
InterfaceState state_of_link(const Fd& link, const std::string& name);

}  // namespace weir::xdp
