#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/clock.h"
#include "common/confine/system_calls.h"
#include "common/fd.h"
#include "common/result.h"

// Processes for work on anybody's bytes: they hold nothing but a socket and the memory that goes to and fro, are nobody
// where the program is root, and may make no system call beyond what that takes.
namespace weir::confine {

// A sanitizer has memory and system calls of its own: a helper's limits would be its end.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // by g++
#elif defined(__has_feature)
constexpr bool kIsSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);  // by clang
#else
constexpr bool kIsSanitized = false;
#endif

// What a helper may do beside computing in its memory and speaking on its socket. A system call that is not among
// these fails, where that of a helper without a reach ends it: libraries try things, and go on without them.
struct Reach {
  SystemCalls calls;
  uint32_t descriptors;                // open at once
  std::span<const char* const> files;  // and folders, which it may read, where the kernel has Landlock
};

// What a helper does; with its end the process ends.
struct Job {
  const char* name;      // of the process; at most 15 characters
  uint32_t cpu_seconds;  // whoever loops is ended then, also when nobody waits for it any more
  void (*work)(int socket, std::span<std::byte> shared);
  const Reach* reach = nullptr;  // null: none
};

// Our end of one. It ends when this goes.
struct Helper {
  Fd socket;  // SOCK_SEQPACKET
  Mapping shared;
};

// Makes helpers: a process that was forked while there were no threads, sees nobody's bytes itself, and ends with this.
class Helpers {
 public:
  static Result<std::unique_ptr<Helpers>> start(std::vector<const Job*> jobs);
  Helpers(const Helpers&) = delete;
  ~Helpers();
  // job: one of those that it was started with. shared_bytes: > 0. memory_bytes: what it may take besides.
  Result<Helper> make(const Job& job, size_t shared_bytes, uint64_t memory_bytes) const;
  pid_t pid() const { return pid_; }

 private:
  Helpers(std::vector<const Job*> jobs, Fd socket, pid_t pid)
      : jobs_(std::move(jobs)), socket_(std::move(socket)), pid_(pid) {}
  const std::vector<const Job*> jobs_;
  const Fd socket_;
  const pid_t pid_;
};

// One message on the socket of a helper, from either end; made again as send_again() does. False: the other side is
// gone, or does not listen, or the kernel has no memory.
bool tell(int socket, std::span<const std::byte> bytes);
// In the program, before receive(). An error when the system did not take it; that the helper is gone shows in
// receive().
Result<void> ask(const Helper& helper, std::span<const std::byte> bytes);
// What the other end says next, in the helper: how many bytes of `to`; 0: it is gone.
size_t hear(int socket, std::span<std::byte> to);
// What a helper says next: how many bytes of `to`. Error: it ended, or says nothing until the deadline.
Result<size_t> receive(const Helper& helper, std::span<std::byte> to, Clock::time_point deadline);

}  // namespace weir::confine
