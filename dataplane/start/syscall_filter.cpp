#include "dataplane/start/syscall_filter.h"

#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <type_traits>

namespace weir::dataplane {

namespace {

// By who makes them. Names, because a call that an older kernel or libseccomp does not know is no error.
constexpr const char* kCalls[] = {
    // time, threads and their scheduling
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getcpu", "futex",
    "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_getscheduler", "membarrier",
    "rseq", "set_robust_list", "exit", "exit_group", "restart_syscall", "gettid", "getpid", "getppid", "prctl",
    // signals: net_tap is told by one that frames are there; abort()
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack", "tgkill",
    // memory: snapshots, heaps, stacks, EAL giving huge pages back
    "munmap", "mremap", "madvise", "brk", "mbind", "get_mempolicy", "set_mempolicy", "mlock", "munlock", "mincore",
    "memfd_create", "ftruncate", "fallocate",
    // files: the state folder, /sys, /proc
    "open", "openat", "close", "read", "write", "pread64", "pwrite64", "readv", "writev", "lseek", "fsync", "fdatasync",
    "fstat", "stat", "lstat", "newfstatat", "statx", "fstatfs", "statfs", "access", "faccessat", "faccessat2",
    "getdents64", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "readlink",
    "readlinkat", "getcwd", "flock", "fcntl", "dup", "dup2", "dup3", "umask",
    // the control socket, memif, vhost-user, af_packet; netlink and the ioctl() calls of drivers
    "bind", "listen", "accept", "accept4", "connect", "shutdown", "getsockname", "getpeername", "getsockopt",
    "setsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "ioctl",
    // waiting
    "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "eventfd2", "timerfd_create", "timerfd_settime", "timerfd_gettime", "pipe", "pipe2", "signalfd4",
    // who and where we are
    "getuid", "geteuid", "getgid", "getegid", "getgroups", "uname", "sysinfo", "getrandom", "getrusage", "prlimit64",
    "getrlimit"};

// Only with such arguments. Nothing new becomes executable; new threads, and no new processes; no way out but the
// sockets that are open: what connects anew is memif, vhost-user and netlink.
struct Conditional {
  const char* call;
  scmp_arg_cmp when;  // argument number, comparison, mask or value, value under the mask
};
constexpr Conditional kConditional[] = {
    {"mmap", {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
    {"mprotect", {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
    {"clone", {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD}},
    {"socket", {0, SCMP_CMP_EQ, AF_UNIX, 0}},
    {"socket", {0, SCMP_CMP_EQ, AF_NETLINK, 0}},
    {"socketpair", {0, SCMP_CMP_EQ, AF_UNIX, 0}},
};

// What is tried by libraries that go on without it: it fails in every mode.
struct Failing {
  const char* call;
  uint16_t error;
};
constexpr Failing kFailing[] = {
    // A filter cannot read the flags of clone3, which lie in memory. Told that the kernel has none, glibc uses clone.
    {"clone3", ENOSYS},
    // libxdp, when it stops, to count the users of its program. The driver takes that off by netlink.
    {"bpf", EPERM},
};

uint32_t action_of(Seccomp mode) {
  if (mode == Seccomp::kill) return SCMP_ACT_KILL_PROCESS;
  return mode == Seccomp::log ? SCMP_ACT_LOG : SCMP_ACT_ERRNO(EPERM);
}

using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, decltype(&seccomp_release)>;

Error library_error(const char* what, int error) {
  return Error{std::string("cannot ") + what + ": " + strerror(error < 0 ? -error : error)};
}

// Adds one call, unless this libseccomp does not know its name.
int allow(const Filter& filter, const char* call, std::set<int>& allowed, const scmp_arg_cmp* when = nullptr) {
  const int number = seccomp_syscall_resolve_name(call);
  if (number == __NR_SCMP_ERROR) return 0;
  const int error = seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, number, when == nullptr ? 0 : 1, when);
  if (error == 0) allowed.insert(number);
  return error;
}

int allow_all(const Filter& filter, std::set<int>& allowed) {
  for (const char* call : kCalls) {
    if (const int error = allow(filter, call, allowed); error != 0) return error;
  }
  for (const Conditional& conditional : kConditional) {
    if (const int error = allow(filter, conditional.call, allowed, &conditional.when); error != 0) return error;
  }
  return 0;
}

}  // namespace

Result<size_t> filter_system_calls(Seccomp mode) {
  if (mode == Seccomp::off) return size_t{0};
  const Filter filter(seccomp_init(action_of(mode)), seccomp_release);
  if (!filter) return Error{"cannot make a filter of system calls: libseccomp gives none"};
  for (const Failing& failing : kFailing) {
    const int number = seccomp_syscall_resolve_name(failing.call);
    if (number != __NR_SCMP_ERROR) seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(failing.error), number, 0);
  }
  std::set<int> allowed;
  if (const int error = allow_all(filter, allowed); error != 0) {
    return library_error("write the filter of system calls", error);
  }
  seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a binary tree: many calls, few comparisons
  // Kernels before 5.16 slow filtered threads down against Speculative Store Bypass, a leak between code that must not
  // trust each other in one process: there is none here.
  seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_SSB, 1);
  if (const int error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1); error != 0) {
    return library_error("filter the system calls of every thread", error);
  }
  if (const int error = seccomp_load(filter.get()); error != 0) {
    return library_error("start the filter of system calls", error);
  }
  return allowed.size();
}

}  // namespace weir::dataplane
