// What controld may do once it knows its targets: tried from inside, in processes of their own.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "common/confine/capabilities.h"
#include "common/paths.h"
#include "common/unix_socket.h"
#include "control/daemon/rights.h"
#include "control/enforce/targets/xdp_plane.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;
using confine::Seccomp;

namespace {

constexpr int kNoRights = 99;  // they could not be given up

// What became of a child that gave its rights up and then ran body().
int confined(const std::vector<TargetSpec>& targets, const std::string& config, Seccomp mode,
             const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(reduce_rights(config, targets, mode) ? body() : kNoRights);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

const std::vector<TargetSpec> kSocket = {dataplane_target("/run/weir/dataplane.sock")};
const std::vector<TargetSpec> kXdp = {xdp_target({"eth0"}, Attach::any)};

struct Call {
  const char* name;
  long number;
  long arguments[3];
};

// Pointers are null: a call that got as far as them would fail, and not end the process.
constexpr Call kForbidden[] = {
    {"execve", SYS_execve, {0, 0, 0}},
    {"fork", SYS_fork, {0, 0, 0}},
    {"ptrace", SYS_ptrace, {0, 0, 0}},
    {"mount", SYS_mount, {0, 0, 0}},
    {"umount", SYS_umount2, {0, 0, 0}},
    {"pivot_root", SYS_pivot_root, {0, 0, 0}},
    {"setns", SYS_setns, {-1, 0, 0}},
    {"unshare of mounts", SYS_unshare, {CLONE_NEWNS, 0, 0}},
    {"init_module", SYS_init_module, {0, 0, 0}},
    {"finit_module", SYS_finit_module, {-1, 0, 0}},
    {"kexec_load", SYS_kexec_load, {0, 0, 0}},
    {"keyctl", SYS_keyctl, {0, 0, 0}},
    {"add_key", SYS_add_key, {0, 0, 0}},
    {"perf_event_open", SYS_perf_event_open, {0, 0, 0}},
    {"userfaultfd", SYS_userfaultfd, {0, 0, 0}},
    {"io_uring_setup", SYS_io_uring_setup, {0, 0, 0}},
    {"process_vm_readv", SYS_process_vm_readv, {0, 0, 0}},
    {"open_by_handle_at", SYS_open_by_handle_at, {-1, 0, 0}},
    {"setuid", SYS_setuid, {0, 0, 0}},
    {"kill", SYS_kill, {0, 0, 0}},
    {"tkill", SYS_tkill, {0, 0, 0}},
    {"prctl PR_SET_DUMPABLE", SYS_prctl, {PR_SET_DUMPABLE, 1, 0}},
    {"TIOCSTI", SYS_ioctl, {-1, TIOCSTI, 0}},
    {"AF_INET socket", SYS_socket, {AF_INET, SOCK_STREAM, 0}},
    {"AF_PACKET socket", SYS_socket, {AF_PACKET, SOCK_RAW, 0}},
    {"executable memory", SYS_mprotect, {0, 0, PROT_READ | PROT_EXEC}},
};

}  // namespace

TEST_CASE("a system call that controld never makes ends it, or fails") {
  for (const Call& call : kForbidden) {
    INFO(call.name);
    const auto make = [&] {
      const long result = syscall(call.number, call.arguments[0], call.arguments[1], call.arguments[2]);
      return result < 0 && errno == EPERM ? 0 : 1;
    };
    const int killed = confined(kXdp, "/dev/null", Seccomp::kill, make);
    REQUIRE(WIFSIGNALED(killed));
    CHECK(WTERMSIG(killed) == SIGSYS);
    const int refused = confined(kXdp, "/dev/null", Seccomp::refuse, make);
    REQUIRE(WIFEXITED(refused));
    CHECK(WEXITSTATUS(refused) == 0);
  }
}

TEST_CASE("what controld does still works") {
  const Folder folder;
  const int status = confined(kSocket, "/dev/null", Seccomp::kill, [&] {
    const auto listener = unix_socket::Listener::open(folder / "s", unix_socket::Kind::stream, 0660, 4, getegid());
    if (!listener) return 1;
    if (!unix_socket::connect(folder / "s", unix_socket::Kind::stream, 1000)) return 2;
    bool ran = false;
    std::thread([&] { ran = true; }).join();
    if (!ran) return 3;
    if (Fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)).get() < 0) return 4;
    return Fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0)).get() < 0 ? 5 : 0;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("controld keeps the capabilities that its targets need, and no others") {
  if (geteuid() != 0) {
    say_skipped("root: there is nothing to give up");
    return;
  }
  const Folder folder;
  REQUIRE(mkdir((folder / "home").c_str(), 0700) == 0);
  folder.write("home/weir.yaml", "");
  REQUIRE(chown((folder / "home").c_str(), 65534, 65534) == 0);
  const confine::Capabilities reading = confine::capability(CAP_DAC_READ_SEARCH), had = confine::own_capabilities();
  const auto left = [&](const std::vector<TargetSpec>& targets, const std::string& config,
                        confine::Capabilities expected) {
    const int status = confined(targets, config, Seccomp::refuse,
                                [&] { return confine::own_capabilities() == (expected & had) ? 0 : 1; });
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  CHECK(left({}, "/dev/null", 0));
  CHECK(left(kSocket, "/dev/null", 0));
  CHECK(left(kXdp, "/dev/null", kXdpCapabilities));
  CHECK(left(kSocket, folder / "home/weir.yaml", reading));
}

TEST_CASE("the groups that may ask") {
  CHECK_FALSE(find_group("none", kReadGroup).value());
  CHECK_FALSE(find_group("no-such-group-here", kReadGroup));
  CHECK_FALSE(find_group("", "no-such-group-here").value());
  const group* own = getgrgid(getegid());
  if (own != nullptr) CHECK(find_group(own->gr_name, kReadGroup).value() == getegid());
  if (own != nullptr) CHECK(find_group("", own->gr_name).value() == getegid());
}
