// A kernel that refuses: LD_PRELOAD of controld and the data plane. Which call fails, how and when, stands in a file of
// shared memory that WEIR_FAULTS names and tests/rig/faults/fault_rig.py writes. It adds no system calls of its own,
// but for closing descriptors that are to be lost, and sleeping in a call that is held: processes that a filter of
// system calls holds live under it. Calls that libc makes for itself (malloc, stdio, opendir) do not come here.
//
// The functions have other names in C++ than for the linker, so that they need not agree with what the headers declare.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tests/inject/fault_slots.h"

namespace weir::inject {
namespace {

constexpr int kMostFds = 65536;
std::atomic<uint8_t> kind_of_fd[kMostFds];
std::atomic<int8_t> clock_of_timer[kMostFds];  // clock + 1

// libc's own, found before anybody needs it in a process that may not look for it any more.
template <class Function>
class Real {
 public:
  constexpr explicit Real(const char* name) : name_(name) {}
  template <class... Arguments>
  auto operator()(Arguments... arguments) {
    return find()(arguments...);
  }
  Function* find() {
    if (function_ == nullptr) function_ = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    return function_;
  }

 private:
  const char* name_;
  Function* function_ = nullptr;
};

// A row a line.
// clang-format off
#define WEIR_REALS(row) \
  row(open, int(const char*, int, ...)) \
  row(openat, int(int, const char*, int, ...)) \
  row(close, int(int)) \
  row(socket, int(int, int, int)) \
  row(socketpair, int(int, int, int, int*)) \
  row(accept4, int(int, sockaddr*, socklen_t*, int)) \
  row(connect, int(int, const sockaddr*, socklen_t)) \
  row(memfd_create, int(const char*, unsigned)) \
  row(dup, int(int)) \
  row(dup2, int(int, int)) \
  row(fcntl, int(int, int, ...)) \
  row(eventfd, int(unsigned, int)) \
  row(timerfd_create, int(int, int)) \
  row(timerfd_settime, int(int, int, const itimerspec*, itimerspec*)) \
  row(signalfd, int(int, const void*, int)) \
  row(epoll_create1, int(int)) \
  row(epoll_ctl, int(int, int, int, void*)) \
  row(read, ssize_t(int, void*, size_t)) \
  row(pread, ssize_t(int, void*, size_t, off_t)) \
  row(write, ssize_t(int, const void*, size_t)) \
  row(pwrite, ssize_t(int, const void*, size_t, off_t)) \
  row(fsync, int(int)) \
  row(recv, ssize_t(int, void*, size_t, int)) \
  row(recvmsg, ssize_t(int, msghdr*, int)) \
  row(send, ssize_t(int, const void*, size_t, int)) \
  row(sendmsg, ssize_t(int, const msghdr*, int)) \
  row(poll, int(void*, unsigned long, int)) \
  row(epoll_wait, int(int, void*, int, int)) \
  row(epoll_pwait2, int(int, void*, int, const timespec*, const void*)) \
  row(mmap, void*(void*, size_t, int, int, int, off_t)) \
  row(ftruncate, int(int, off_t)) \
  row(syscall, long(long, ...)) \
  row(if_nametoindex, unsigned(const char*)) \
  row(if_indextoname, char*(unsigned, char*)) \
  row(pthread_create, int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)) \
  row(pthread_cond_clockwait, int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)) \
  row(pthread_cond_timedwait, int(pthread_cond_t*, pthread_mutex_t*, const timespec*)) \
  row(fork, pid_t()) \
  row(clock_gettime, int(clockid_t, timespec*))
// clang-format on
#define WEIR_REAL(name, ...) constinit Real<__VA_ARGS__> real_##name(#name);
WEIR_REALS(WEIR_REAL)
#undef WEIR_REAL

__attribute__((constructor)) void begin() {
#define WEIR_FIND(name, ...) real_##name.find();
  WEIR_REALS(WEIR_FIND)
#undef WEIR_FIND
  const char* path = getenv("WEIR_FAULTS");
  if (path == nullptr) return;
  const int fd = real_open(path, O_RDWR | O_CLOEXEC);
  struct stat status = {};
  if (fd < 0 || fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) < sizeof(Shared)) abort();
  void* memory = real_mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, off_t{0});
  if (memory == MAP_FAILED) abort();
  real_close(fd);
  auto* mapped = static_cast<Shared*>(memory);
  if (mapped->magic != kMagic + kCalls) abort();
  shared = mapped;
}

bool is_known(int fd) {
  return fd >= 0 && fd < kMostFds;
}

uint8_t kind_of(int fd) {
  return is_known(fd) ? kind_of_fd[fd].load(std::memory_order_relaxed) : uint8_t{0};
}

int set_kind(int fd, uint8_t kind) {
  if (is_known(fd)) kind_of_fd[fd].store(kind, std::memory_order_relaxed);
  return fd;
}

uint8_t kind_of_path(int folder, const char* path) {
  for (const char* system : {"/proc/", "/sys/", "/dev/"}) {
    if (strncmp(path, system, strlen(system)) == 0) return 0;
  }
  const bool is_state = strstr(path, "-state/") != nullptr || (folder != AT_FDCWD && path[0] != '/');
  if (is_state) return kState;
  const char* ending = strrchr(path, '.');
  return ending != nullptr && strcmp(ending, ".txt") == 0 ? kFile | kFeed : kFile;
}

uint8_t kind_of_socket(int family, int type) {
  if (family == AF_NETLINK) return kNetlink;
  if (family != AF_UNIX) return 0;
  return (type & 0xf) == SOCK_STREAM ? kStream : kPacket;
}

// Descriptors of a message are lost as where the receiver has none left (scm_detach_fds of net/core/scm.c).
void lose_descriptors(msghdr* message) {
  for (cmsghdr* item = CMSG_FIRSTHDR(message); item != nullptr; item = CMSG_NXTHDR(message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(item) + i * sizeof fd, sizeof fd);
      real_close(fd);
    }
  }
  message->msg_controllen = 0;
  message->msg_flags |= MSG_CTRUNC;
}

bool has_descriptors(msghdr* message) {
  const cmsghdr* item = CMSG_FIRSTHDR(message);
  return item != nullptr && item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_RIGHTS;
}

}  // namespace
}  // namespace weir::inject

using namespace weir::inject;

// --- waits for clocks that a test moves ---

namespace {

// A wait looks at the clocks so often.
constexpr int64_t kSlice_ns = 20'000'000, kForever_ns = INT64_MAX;

// Timers of descriptors that this thread has set.
struct Timer {
  int fd = -1;
  int clock = 0;
  itimerspec when = {};
  int64_t ahead = 0;  // of its clock, when it was set
};
constexpr int kMostTimers = 8;
thread_local Timer timers[kMostTimers];

void remember(int fd, int clock, const itimerspec& when) {
  Timer* to = nullptr;
  for (Timer& one : timers) {
    if (one.fd == fd || (to == nullptr && one.fd < 0)) to = &one;
    if (one.fd == fd) break;
  }
  if (to != nullptr) *to = {fd, clock, when, ahead_of(clock)};
}

void forget(int fd) {
  for (Timer& one : timers) {
    if (one.fd == fd) one.fd = -1;
  }
}

void follow_clocks() {
  for (Timer& one : timers) {
    if (one.fd < 0 || ahead_of(one.clock) == one.ahead) continue;
    one.ahead = ahead_of(one.clock);
    itimerspec moved = one.when;
    moved.it_value = of_kernel(one.when.it_value, one.clock);
    real_timerfd_settime(one.fd, 1, &moved, static_cast<itimerspec*>(nullptr));  // TFD_TIMER_ABSTIME
  }
}

int64_t kernel_ns() {
  timespec now = {};
  real_clock_gettime(CLOCK_MONOTONIC, &now);
  return ns_of(now);
}

// Returns the first result of wait(ns) that is not 0; 0: the time is over.
template <class Wait>
int in_slices(int64_t length_ns, Wait wait) {
  const int64_t begin = kernel_ns();
  while (true) {
    follow_clocks();
    const int64_t left =
        length_ns == kForever_ns ? kForever_ns : std::max<int64_t>(0, length_ns - (kernel_ns() - begin));
    const int n = wait(std::min(left, kSlice_ns));
    if (n != 0 || left <= kSlice_ns) return n;
  }
}

// pthread_cond_timedwait(3) by such a clock.
template <class Wait>
int until_moment(const timespec& moment, clockid_t clock, Wait wait) {
  while (true) {
    timespec now = {};
    real_clock_gettime(clock, &now);
    const int64_t end = ns_of(of_kernel(moment, clock)), slice = ns_of(now) + kSlice_ns;
    const timespec next = later({}, std::min(end, slice));
    const int done = wait(next);
    if (done != ETIMEDOUT || end <= slice) return done;
  }
}

}  // namespace

#define WEIR_CALL(type, name, ...)                                                                      \
  extern "C" __attribute__((used, visibility("default"))) type weir_##name(__VA_ARGS__) __asm__(#name); \
  type weir_##name(__VA_ARGS__)

#define WEIR_TAKE_MODE(flags)                                       \
  mode_t mode = 0;                                                  \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list list;                                                   \
    va_start(list, flags);                                          \
    mode = va_arg(list, mode_t);                                    \
    va_end(list);                                                   \
  }

// --- what gives a descriptor ---

WEIR_CALL(int, open, const char* path, int flags, ...) {
  WEIR_TAKE_MODE(flags)
  const uint8_t kind = kind_of_path(AT_FDCWD, path);
  if (const int error = failing(kOpen, kind); error != 0) return fail_with(error);
  return set_kind(real_open(path, flags, mode), kind);
}

WEIR_CALL(int, open64, const char* path, int flags, ...) {
  WEIR_TAKE_MODE(flags)
  const uint8_t kind = kind_of_path(AT_FDCWD, path);
  if (const int error = failing(kOpen, kind); error != 0) return fail_with(error);
  return set_kind(real_open(path, flags | O_LARGEFILE, mode), kind);
}

WEIR_CALL(int, openat, int folder, const char* path, int flags, ...) {
  WEIR_TAKE_MODE(flags)
  const uint8_t kind = kind_of_path(folder, path);
  if (const int error = failing(kOpen, kind); error != 0) return fail_with(error);
  return set_kind(real_openat(folder, path, flags, mode), kind);
}

WEIR_CALL(int, openat64, int folder, const char* path, int flags, ...) {
  WEIR_TAKE_MODE(flags)
  const uint8_t kind = kind_of_path(folder, path);
  if (const int error = failing(kOpen, kind); error != 0) return fail_with(error);
  return set_kind(real_openat(folder, path, flags | O_LARGEFILE, mode), kind);
}

WEIR_CALL(int, close, int fd) {
  set_kind(fd, 0);
  if (is_known(fd)) clock_of_timer[fd].store(0, std::memory_order_relaxed);
  return real_close(fd);
}

WEIR_CALL(int, socket, int family, int type, int protocol) {
  const uint8_t kind = kind_of_socket(family, type);
  if (const int error = failing(kSocket, kind); error != 0) return fail_with(error);
  return set_kind(real_socket(family, type, protocol), kind);
}

WEIR_CALL(int, socketpair, int family, int type, int protocol, int* ends) {
  const uint8_t kind = kind_of_socket(family, type);
  if (const int error = failing(kSocket, kind); error != 0) return fail_with(error);
  const int done = real_socketpair(family, type, protocol, ends);
  if (done == 0) set_kind(ends[0], kind), set_kind(ends[1], kind);
  return done;
}

WEIR_CALL(int, accept4, int fd, sockaddr* address, socklen_t* size, int flags) {
  if (const int error = failing(kAccept, kind_of(fd)); error != 0) return fail_with(error);
  return set_kind(real_accept4(fd, address, size, flags), kind_of(fd));
}

WEIR_CALL(int, connect, int fd, const sockaddr* address, socklen_t size) {
  if (const int error = failing(kConnect, kind_of(fd)); error != 0) return fail_with(error);
  return real_connect(fd, address, size);
}

WEIR_CALL(int, memfd_create, const char* name, unsigned flags) {
  const unsigned kind = strcmp(name, "weir-snapshot") == 0 ? kSnapshot : 0;
  if (const int error = failing(kMemfd, kind); error != 0) return fail_with(error);
  return set_kind(real_memfd_create(name, flags), 0);
}

WEIR_CALL(int, dup, int fd) {
  if (const int error = failing(kDup); error != 0) return fail_with(error);
  return set_kind(real_dup(fd), kind_of(fd));
}

WEIR_CALL(int, dup2, int fd, int to) {
  return set_kind(real_dup2(fd, to), kind_of(fd));
}

static int control_file(int fd, int command, long argument) {
  if (command != F_DUPFD && command != F_DUPFD_CLOEXEC) return real_fcntl(fd, command, argument);
  if (const int error = failing(kDup); error != 0) return fail_with(error);
  return set_kind(real_fcntl(fd, command, argument), kind_of(fd));
}

WEIR_CALL(int, fcntl, int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  return control_file(fd, command, argument);
}

WEIR_CALL(int, fcntl64, int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  return control_file(fd, command, argument);
}

WEIR_CALL(int, eventfd, unsigned value, int flags) {
  if (const int error = failing(kEvent); error != 0) return fail_with(error);
  return set_kind(real_eventfd(value, flags), 0);
}

WEIR_CALL(int, timerfd_create, int clock, int flags) {
  if (const int error = failing(kEvent); error != 0) return fail_with(error);
  const int fd = set_kind(real_timerfd_create(clock, flags), 0);
  if (is_known(fd)) clock_of_timer[fd].store(static_cast<int8_t>(clock + 1), std::memory_order_relaxed);
  return fd;
}

WEIR_CALL(int, signalfd, int fd, const void* mask, int flags) {
  if (const int error = failing(kEvent); error != 0) return fail_with(error);
  return set_kind(real_signalfd(fd, mask, flags), 0);
}

WEIR_CALL(int, epoll_create1, int flags) {
  if (const int error = failing(kEvent); error != 0) return fail_with(error);
  return set_kind(real_epoll_create1(flags), 0);
}

WEIR_CALL(int, epoll_ctl, int fd, int operation, int other, void* event) {
  if (const int error = failing(kWatch); error != 0) return fail_with(error);
  return real_epoll_ctl(fd, operation, other, event);
}

// --- what moves bytes ---

WEIR_CALL(ssize_t, read, int fd, void* to, size_t size) {
  const uint8_t kind = kind_of(fd);
  const int error = kind != 0 ? failing(kRead, kind) : 0;
  if (error != 0 && error < kShort) return fail_with<ssize_t>(error);
  return real_read(fd, to, kind == kPacket ? size : some_of(size, error));
}

WEIR_CALL(ssize_t, pread, int fd, void* to, size_t size, off_t at) {
  const uint8_t kind = kind_of(fd);
  const int error = kind != 0 ? failing(kRead, kind) : 0;
  if (error != 0 && error < kShort) return fail_with<ssize_t>(error);
  return real_pread(fd, to, some_of(size, error), at);
}

WEIR_CALL(ssize_t, pread64, int fd, void* to, size_t size, off_t at) {
  return weir_pread(fd, to, size, at);
}

WEIR_CALL(ssize_t, write, int fd, const void* from, size_t size) {
  const uint8_t kind = kind_of(fd);
  const int error = kind != 0 ? failing(kWrite, kind) : 0;
  if (error != 0 && error < kShort) return fail_with<ssize_t>(error);
  return real_write(fd, from, kind == kPacket ? size : some_of(size, error));
}

WEIR_CALL(ssize_t, pwrite, int fd, const void* from, size_t size, off_t at) {
  const uint8_t kind = kind_of(fd);
  const int error = kind != 0 ? failing(kWrite, kind) : 0;
  if (error != 0 && error < kShort) return fail_with<ssize_t>(error);
  return real_pwrite(fd, from, some_of(size, error), at);
}

WEIR_CALL(ssize_t, pwrite64, int fd, const void* from, size_t size, off_t at) {
  return weir_pwrite(fd, from, size, at);
}

WEIR_CALL(int, fsync, int fd) {
  if (const int error = failing(kSync, kind_of(fd)); error != 0) return fail_with(error);
  return real_fsync(fd);
}

WEIR_CALL(ssize_t, recv, int fd, void* to, size_t size, int flags) {
  const uint8_t kind = kind_of(fd);
  const int error = kind != 0 ? failing(kReceive, kind) : 0;
  if (error != 0 && error < kShort) return fail_with<ssize_t>(error);
  return real_recv(fd, to, kind == kStream ? some_of(size, error) : size, flags);
}

WEIR_CALL(ssize_t, recvmsg, int fd, msghdr* message, int flags) {
  const uint8_t kind = kind_of(fd);
  const int error = kind != 0 ? failing(kReceive, kind) : 0;
  if (error != 0 && error < kShort) return fail_with<ssize_t>(error);
  const ssize_t got = real_recvmsg(fd, message, flags);
  if (got <= 0 || !has_descriptors(message)) return got;
  if (failing(kRights, kind) == kLost) {
    lose_descriptors(message);
  } else if (is_child) {  // its socket is the first
    int first = -1;
    memcpy(&first, CMSG_DATA(CMSG_FIRSTHDR(message)), sizeof first);
    set_kind(first, kPacket);
  }
  return got;
}

WEIR_CALL(ssize_t, send, int fd, const void* from, size_t size, int flags) {
  const uint8_t kind = kind_of(fd);
  const int error = kind != 0 ? failing(kSend, kind) : 0;
  if (error != 0 && error < kShort) return fail_with<ssize_t>(error);
  return real_send(fd, from, kind == kStream ? some_of(size, error) : size, flags);
}

WEIR_CALL(ssize_t, sendmsg, int fd, const msghdr* message, int flags) {
  const uint8_t kind = kind_of(fd);
  const int error = kind != 0 ? failing(kSend, kind) : 0;
  if (error != 0 && error < kShort) return fail_with<ssize_t>(error);
  return real_sendmsg(fd, message, flags);
}

WEIR_CALL(int, poll, void* fds, unsigned long n, int timeout_ms) {
  if (const int error = failing(kWait); error != 0) return fail_with(error);
  return real_poll(fds, n, timeout_ms);
}

WEIR_CALL(int, epoll_wait, int fd, void* events, int most, int timeout_ms) {
  if (const int error = failing(kWait); error != 0) return fail_with(error);
  return in_slices(timeout_ms < 0 ? kForever_ns : timeout_ms * int64_t{1'000'000}, [&](int64_t slice_ns) {
    return real_epoll_wait(fd, events, most, static_cast<int>((slice_ns + 999'999) / 1'000'000));
  });
}

WEIR_CALL(int, epoll_pwait2, int fd, void* events, int most, const timespec* timeout, const void* signals) {
  if (const int error = failing(kWait); error != 0) return fail_with(error);
  return in_slices(timeout == nullptr ? kForever_ns : ns_of(*timeout), [&](int64_t slice_ns) {
    const timespec slice = later({}, slice_ns);
    return real_epoll_pwait2(fd, events, most, &slice, signals);
  });
}

// --- memory, programs of the kernel, processes ---

WEIR_CALL(void*, mmap, void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  if (const int error = failing(kMap); error != 0) {
    errno = error;
    return MAP_FAILED;
  }
  return real_mmap(at, size, protection, flags, fd, offset);
}

WEIR_CALL(void*, mmap64, void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  return weir_mmap(at, size, protection, flags, fd, offset);
}

WEIR_CALL(int, ftruncate, int fd, off_t size) {
  if (const int error = failing(kTruncate); error != 0) return fail_with(error);
  return real_ftruncate(fd, size);
}

WEIR_CALL(int, ftruncate64, int fd, off_t size) {
  return weir_ftruncate(fd, size);
}

WEIR_CALL(long, syscall, long number, ...) {
  va_list list;
  va_start(list, number);
  long argument[6];
  for (long& one : argument) one = va_arg(list, long);
  va_end(list);
  if (number == SYS_bpf) {
    if (const int error = failing(kBpf); error != 0) return fail_with<long>(error);
  }
  return real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

WEIR_CALL(unsigned, if_nametoindex, const char* name) {
  if (const int error = failing(kName); error != 0) return errno = error, 0u;
  return real_if_nametoindex(name);
}

WEIR_CALL(char*, if_indextoname, unsigned index, char* name) {
  if (const int error = failing(kName); error != 0) return errno = error, nullptr;
  return real_if_indextoname(index, name);
}

WEIR_CALL(int, pthread_create, pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
          void* argument) {
  if (const int error = failing(kThread); error != 0) return error;
  return real_pthread_create(thread, attributes, body, argument);
}

WEIR_CALL(pid_t, fork, void) {
  if (const int error = failing(kFork); error != 0) return fail_with(error);
  const pid_t pid = real_fork();
  if (pid == 0) is_child = true;
  return pid;
}

// --- clocks ---

WEIR_CALL(int, clock_gettime, clockid_t clock, timespec* now) {
  const int done = real_clock_gettime(clock, now);
  if (const int64_t ahead = ahead_of(clock); done == 0 && ahead != 0) *now = later(*now, ahead);
  return done;
}

WEIR_CALL(int, gettimeofday, timeval* now, void*) {
  timespec time = {};
  const int done = weir_clock_gettime(CLOCK_REALTIME, &time);
  *now = {time.tv_sec, time.tv_nsec / 1000};
  return done;
}

WEIR_CALL(time_t, time, time_t* to) {
  timespec now = {};
  weir_clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}

WEIR_CALL(int, timerfd_settime, int fd, int flags, const itimerspec* when, itimerspec* before) {
  itimerspec moved = *when;
  const bool is_off = when->it_value.tv_sec == 0 && when->it_value.tv_nsec == 0;
  const int clock = is_known(fd) ? clock_of_timer[fd].load(std::memory_order_relaxed) - 1 : -1;
  const bool is_moment = (flags & 1) != 0 && !is_off && clock >= 0;  // TFD_TIMER_ABSTIME
  if (is_moment) moved.it_value = of_kernel(when->it_value, clock);
  is_moment ? remember(fd, clock, *when) : forget(fd);
  return real_timerfd_settime(fd, flags, &moved, before);
}

WEIR_CALL(int, pthread_cond_clockwait, pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
          const timespec* until) {
  return until_moment(
      *until, clock, [&](const timespec& next) { return real_pthread_cond_clockwait(condition, mutex, clock, &next); });
}

WEIR_CALL(int, pthread_cond_timedwait, pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return until_moment(*until, CLOCK_REALTIME,
                      [&](const timespec& next) { return real_pthread_cond_timedwait(condition, mutex, &next); });
}
