#include "dataplane/start/syscall_filter.h"

#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>

namespace weir::dataplane {

namespace {

using confine::SystemCalls;

// By who makes them.
constexpr const char* kCalls[] = {
    // DPDK's threads
    "sched_setaffinity", "sched_getparam", "sched_getscheduler",
    // EAL giving huge pages back
    "mbind", "get_mempolicy", "set_mempolicy", "mlock", "munlock", "mincore"};

// No way out but the sockets that are open: what connects anew is memif, vhost-user and netlink.
constexpr SystemCalls::Argument kCallsWith[] = {
    {"socket", 0, confine::kAllBits, AF_NETLINK},
    {"prctl", 0, confine::k32Bits, PR_SET_TIMERSLACK},  // of workers that sleep
};

constexpr SystemCalls::Failing kFailing[] = {
    // libxdp, when it stops, to count the users of its program. The driver takes that off by netlink.
    {"bpf", EPERM},
};

}  // namespace

Result<size_t> filter_system_calls(confine::Seccomp mode) {
  return confine::filter_system_calls({kCalls, kCallsWith, kFailing}, mode);
}

}  // namespace weir::dataplane
