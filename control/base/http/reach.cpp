#include "control/base/http/reach.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>

namespace weir::control {
namespace {

using confine::k32Bits;
using confine::kAllBits;

// What libcurl, its TLS library and the C library's resolver take.
constexpr const char* kCalls[] = {
    // time, threads (the resolver is one), memory
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getcpu", "futex",
    "sched_yield", "sched_getaffinity", "rseq", "set_robust_list", "exit", "exit_group", "restart_syscall", "gettid",
    "getpid", "getppid", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "munmap", "mremap", "madvise", "brk",
    // files, which Landlock chooses
    "close", "read", "readv", "pread64", "lseek", "fstat", "stat", "lstat", "newfstatat", "statx", "access",
    "faccessat", "faccessat2", "getdents64", "readlink", "fcntl", "dup",
    // sockets, and waiting for them
    "bind", "connect", "shutdown", "getsockname", "getpeername", "getsockopt", "setsockopt", "sendto", "recvfrom",
    "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "write", "writev", "poll", "ppoll", "select", "pselect6", "pipe",
    "pipe2", "eventfd2", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    // who and where it is
    "getuid", "geteuid", "getgid", "getegid", "uname", "sysinfo", "getrandom", "getrlimit"};
constexpr confine::SystemCalls::Argument kCallsWith[] = {
    {"open", 1, O_ACCMODE, O_RDONLY},     {"openat", 2, O_ACCMODE, O_RDONLY}, {"mmap", 2, PROT_EXEC, 0},
    {"mprotect", 2, PROT_EXEC, 0},        {"socket", 0, kAllBits, AF_INET},   {"socket", 0, kAllBits, AF_INET6},
    {"socket", 0, kAllBits, AF_NETLINK},  // which addresses this machine has: the resolver sorts by it
    {"socketpair", 0, kAllBits, AF_UNIX}, {"ioctl", 1, k32Bits, FIONREAD},    {"clone", 0, CLONE_THREAD, CLONE_THREAD},
    {"prctl", 0, k32Bits, PR_SET_NAME},   {"prlimit64", 0, k32Bits, 0}};
// The filter cannot read the flags of clone3; told that there is none, glibc uses clone.
constexpr confine::SystemCalls::Failing kFailing[] = {{"clone3", ENOSYS}};

// Certificates of the system; names and how they are resolved; libraries that these two may load.
constexpr const char* kFiles[] = {"/etc/ssl",
                                  "/usr/share/ca-certificates",
                                  "/usr/local/share/ca-certificates",
                                  "/usr/lib/ssl",
                                  "/etc/resolv.conf",
                                  "/etc/hosts",
                                  "/etc/nsswitch.conf",
                                  "/etc/host.conf",
                                  "/etc/gai.conf",
                                  "/etc/services",
                                  "/run/systemd/resolve",
                                  "/run/resolvconf",
                                  "/run/NetworkManager",
                                  "/etc/ld.so.cache",
                                  "/usr/lib",
                                  "/lib",
                                  "/usr/lib64",
                                  "/lib64",
                                  "/dev/urandom",
                                  "/dev/random"};

constexpr uint32_t kDescriptors = 64;

}  // namespace

const confine::Reach kNetworkReach = {{kCalls, kCallsWith, kFailing}, kDescriptors, kFiles};

}  // namespace weir::control
