#include "common/confine/system_calls.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <type_traits>

namespace weir::confine {

namespace {

using Argument = SystemCalls::Argument;

// By who makes them.
constexpr const char* kEverybodys[] = {
    // time, threads
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getcpu", "futex",
    "sched_yield", "sched_getaffinity", "membarrier", "rseq", "set_robust_list", "exit", "exit_group",
    "restart_syscall", "gettid", "getpid", "getppid",
    // signals: net_tap is told by one that frames are there; abort()
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack",
    // memory: snapshots, heaps, stacks
    "munmap", "mremap", "madvise", "brk", "memfd_create", "ftruncate", "fallocate",
    // files: the state folder, /sys, /proc
    "open", "openat", "close", "read", "write", "pread64", "pwrite64", "readv", "writev", "lseek", "fsync", "fdatasync",
    "fstat", "stat", "lstat", "newfstatat", "statx", "fstatfs", "statfs", "access", "faccessat", "faccessat2",
    "getdents64", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "readlink",
    "readlinkat", "getcwd", "flock", "fcntl", "dup", "dup2", "dup3", "umask",
    // sockets; netlink and the ioctl() calls of drivers
    "bind", "listen", "accept", "accept4", "connect", "shutdown", "getsockname", "getpeername", "getsockopt",
    "setsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "ioctl",
    // waiting
    "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "eventfd2", "timerfd_create", "timerfd_settime", "timerfd_gettime", "pipe", "pipe2", "signalfd4",
    // who and where we are
    "getuid", "geteuid", "getgid", "getegid", "getgroups", "uname", "sysinfo", "getrandom", "getrusage", "getrlimit"};

// Nothing new becomes executable; new threads, and no new processes. Of prctl what threads ask for themselves: not
// PR_SET_DUMPABLE, with which /proc/self/mem would let a process write into its code.
constexpr Argument kEverybodysWith[] = {
    {"mmap", 2, PROT_EXEC, 0},          {"mprotect", 2, PROT_EXEC, 0},        {"clone", 0, CLONE_THREAD, CLONE_THREAD},
    {"socket", 0, kAllBits, AF_UNIX},   {"socketpair", 0, kAllBits, AF_UNIX}, {"prctl", 0, k32Bits, PR_SET_NAME},
    {"prctl", 0, k32Bits, PR_GET_NAME}, {"prlimit64", 0, k32Bits, 0},  // of ourselves
};

constexpr SystemCalls::Failing kEverybodysFailing[] = {
    // A filter cannot read the flags of clone3, which lie in memory. Told that the kernel has none, glibc uses clone.
    {"clone3", ENOSYS},
};

// Not even of calls that are allowed otherwise: typing into a terminal, having signals sent to others.
constexpr Argument kNever[] = {
    {"ioctl", 1, k32Bits, TIOCSTI},   {"ioctl", 1, k32Bits, TIOCLINUX}, {"ioctl", 1, k32Bits, FIOSETOWN},
    {"ioctl", 1, k32Bits, SIOCSPGRP}, {"fcntl", 1, k32Bits, F_SETOWN},  {"fcntl", 1, k32Bits, F_SETOWN_EX},
};

uint32_t action_of(Seccomp mode) {
  if (mode == Seccomp::kill) return SCMP_ACT_KILL_PROCESS;
  return mode == Seccomp::log ? SCMP_ACT_LOG : SCMP_ACT_ERRNO(EPERM);
}

using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, decltype(&seccomp_release)>;

Error library_error(const char* what, int error) {
  return Error{std::string("cannot ") + what + ": " + strerror(error < 0 ? -error : error)};
}

// Adds one call, unless this libseccomp does not know its name. 0, or an error number.
int add(const Filter& filter, uint32_t action, const char* call, const Argument* with, std::set<int>& added) {
  const int number = seccomp_syscall_resolve_name(call);
  if (number == __NR_SCMP_ERROR) return 0;
  scmp_arg_cmp when = {};
  if (with != nullptr) when = {with->number, SCMP_CMP_MASKED_EQ, with->mask, with->value & with->mask};
  const int error = seccomp_rule_add_array(filter.get(), action, number, with == nullptr ? 0 : 1, &when);
  if (error == 0) added.insert(number);
  return error;
}

Result<void> load(const Filter& filter) {
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
  return {};
}

Result<Filter> make(uint32_t otherwise) {
  Filter filter(seccomp_init(otherwise), seccomp_release);
  if (!filter) return Error{"cannot make a filter of system calls: libseccomp gives none"};
  return filter;
}

// A filter of its own: in one with the others, a call that is allowed with any argument would win. Of several filters
// the strictest answer holds.
Result<void> forbid(std::span<const Argument> never, Seccomp mode) {
  const Result<Filter> filter = make(SCMP_ACT_ALLOW);
  if (!filter) return Error{filter.error()};
  std::set<int> ignored;
  for (const Argument& row : never) {
    if (const int error = add(*filter, action_of(mode), row.call, &row, ignored); error != 0) {
      return library_error("write the filter of arguments", error);
    }
  }
  return load(*filter);
}

// 0, or an error number.
int add_all(const Filter& filter, const SystemCalls& calls, std::set<int>& allowed) {
  std::set<int> ignored;
  for (const SystemCalls::Failing& row : calls.failing) {
    (void)add(filter, SCMP_ACT_ERRNO(row.error), row.call, nullptr, ignored);
  }
  for (const char* call : calls.allowed) {
    if (const int error = add(filter, SCMP_ACT_ALLOW, call, nullptr, allowed); error != 0) return error;
  }
  for (const Argument& row : calls.allowed_with) {
    if (const int error = add(filter, SCMP_ACT_ALLOW, row.call, &row, allowed); error != 0) return error;
  }
  return 0;
}

}  // namespace

Result<size_t> filter_system_calls(const SystemCalls& calls, Seccomp mode) {
  if (mode == Seccomp::off) return size_t{0};
  if (Result<void> done = forbid(kNever, mode); !done) return Error{done.error()};
  const Result<Filter> filter = make(action_of(mode));
  if (!filter) return Error{filter.error()};
  const Argument own_signals[] = {{"tgkill", 0, k32Bits, static_cast<uint64_t>(getpid())}};  // abort() and its like
  std::set<int> allowed;
  for (const SystemCalls& some :
       {SystemCalls{kEverybodys, kEverybodysWith, kEverybodysFailing}, SystemCalls{{}, own_signals, {}}, calls}) {
    if (const int error = add_all(*filter, some, allowed); error != 0) {
      return library_error("write the filter of system calls", error);
    }
  }
  if (Result<void> loaded = load(*filter); !loaded) return Error{loaded.error()};
  return allowed.size();
}

Result<void> filter_exactly(const SystemCalls& calls, Seccomp mode) {
  const Result<Filter> filter = make(action_of(mode));
  if (!filter) return Error{filter.error()};
  std::set<int> allowed;
  if (const int error = add_all(*filter, calls, allowed); error != 0) {
    return library_error("write the filter of system calls", error);
  }
  return load(*filter);
}

std::string seccomp_text(Seccomp mode, size_t n_calls) {
  constexpr const char* kWords[] = {"on", "kill", "log", "off"};
  std::string text = std::string("seccomp ") + kWords[static_cast<size_t>(mode)];
  if (mode != Seccomp::off) text += " (" + std::to_string(n_calls) + " system calls)";
  return text;
}

}  // namespace weir::confine
