#pragma once

#include <sched.h>
#include <sys/mount.h>

namespace weir::xdp {

// A BPF file system for this process and what it starts: it ends with them. Without root, and in a chroot that is no
// mount point, it is the machine's.
inline void own_bpf_file_system() {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
  (void)mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700");
}

}  // namespace weir::xdp
