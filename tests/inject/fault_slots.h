#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>

// Which call fails, how and when, and how far clocks are ahead: the memory that faults.so shares with
// tests/rig/faults/fault_rig.py, and what follows from it for a call.
namespace weir::inject {

// As CALLS of tests/rig/faults/fault_rig.py.
enum Call : unsigned {
  kOpen,    // open, openat
  kSocket,  // socket, socketpair
  kAccept,  // accept, accept4
  kConnect,
  kMemfd,     // memfd_create
  kDup,       // dup, fcntl(F_DUPFD...)
  kEvent,     // eventfd, timerfd_create, signalfd, epoll_create: what a loop waits by
  kWatch,     // epoll_ctl
  kRead,      // read, pread
  kWrite,     // write, pwrite
  kSync,      // fsync
  kReceive,   // recv, recvmsg
  kSend,      // send, sendmsg
  kRights,    // recvmsg of a message with descriptors
  kWait,      // poll, epoll_wait
  kMap,       // mmap
  kTruncate,  // ftruncate
  kBpf,       // bpf
  kName,      // if_nametoindex, if_indextoname
  kThread,    // pthread_create
  kFork,
  kCalls
};

// What a descriptor is, as KINDS. Others (0) do not fail: the kernel neither interrupts nor shortens what is done
// there. A feed is a file, too.
enum Kind : uint8_t { kFile = 1, kState = 2, kStream = 4, kPacket = 8, kNetlink = 16, kFeed = 32, kSnapshot = 64 };

// Instead of an error number. Held: it does what it does, after a wait until the slot is disarmed.
enum Special : int { kShort = 10'001, kLost = 10'002, kHeld = 10'003 };

enum Who : uint32_t { kEverybody, kProgram, kChildren };

struct Slot {
  std::atomic<uint32_t> armed;        // 0: nothing is counted, and nothing fails
  std::atomic<int32_t> error;         // error number or Special; 0: only counted
  std::atomic<uint32_t> who;          // Who
  std::atomic<uint32_t> kinds;        // mask of Kind; 0: any
  std::atomic<uint64_t> first, last;  // calls that fail, from 1
  std::atomic<uint64_t> every;        // of these: 1 each, 2 every other one
  std::atomic<uint64_t> calls, failed;
};
static_assert(sizeof(Slot) == 56);

struct Shared {
  uint64_t magic;  // kMagic + kCalls
  std::atomic<uint64_t> seed;
  std::atomic<int64_t> realtime_ns, monotonic_ns, boottime_ns;  // what clocks are ahead
  Slot slot[kCalls];
};
constexpr uint64_t kMagic = 0x57454952'46000000;  // "WEIRF"

inline Shared* shared = nullptr;  // null: nothing fails
inline bool is_child = false;

inline void hold(const Slot& slot) {
  constexpr timespec kPause = {0, 1'000'000};
  while (slot.armed.load(std::memory_order_acquire) != 0) nanosleep(&kPause, nullptr);
}

// The error number, or Special, that this call is to end with; 0: it goes on.
inline int failing(Call call, unsigned kind = 0) {
  if (shared == nullptr) return 0;
  Slot& slot = shared->slot[call];
  if (slot.armed.load(std::memory_order_acquire) == 0) return 0;
  const uint32_t who = slot.who, kinds = slot.kinds;
  if (who != kEverybody && who != (is_child ? kChildren : kProgram)) return 0;
  if (kinds != 0 && (kinds & kind) == 0) return 0;
  const uint64_t number = ++slot.calls;
  if (number < slot.first || number > slot.last) return 0;
  if ((number - slot.first) % std::max<uint64_t>(1, slot.every) != 0) return 0;
  const int error = slot.error;
  if (error != 0) slot.failed++;
  if (error != kHeld) return error;
  hold(slot);
  return 0;
}

template <class Answer = int>
Answer fail_with(int error) {
  errno = error;
  return static_cast<Answer>(-1);
}

// splitmix64.
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Bytes that a call does instead of so many; of a call that is not to be short: all.
inline size_t some_of(size_t size, int error) {
  if (error != kShort || size == 0) return size;
  return std::min(size, size_t{1} + mix(shared->seed + shared->slot[kRead].calls + shared->slot[kWrite].calls) % 997);
}

inline int64_t ahead_of(clockid_t clock) {
  if (shared == nullptr) return 0;
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
      return shared->realtime_ns;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
      return shared->monotonic_ns;
    case CLOCK_BOOTTIME:
      return shared->boottime_ns;
    default:
      return 0;
  }
}

inline int64_t ns_of(const timespec& time) {
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

inline timespec later(const timespec& time, int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t whole = ns_of(time) + ns;
  return {whole / kSecond, whole % kSecond};
}

// A moment of a clock that is ahead, as the kernel's own has it.
inline timespec of_kernel(const timespec& time, clockid_t clock) {
  const int64_t ahead = ahead_of(clock);
  if (ahead == 0 || ns_of(time) <= ahead) return ahead == 0 ? time : timespec{0, 1};
  return later(time, -ahead);
}

}  // namespace weir::inject
