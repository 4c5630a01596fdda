#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/result.h"

// A list of the system calls that a program makes, and no others, for every thread (seccomp(2)).
namespace weir::confine {

// What meets a call that is not on the list: it fails with EPERM; the process ends with SIGSYS; it is only logged;
// nothing.
enum class Seccomp : uint8_t { refuse, kill, log, off };

// What a program needs besides what each of ours does: threads, memory that is not executable, files, Unix sockets,
// waiting, the time. By names, because a call that an older kernel or libseccomp does not know is no error. Never, for
// nobody: typing into a terminal (TIOCSTI, TIOCLINUX), signals to other processes, prctl() but for names of threads.
struct SystemCalls {
  // A call that is allowed with such an argument; of several rows, one has to hold. The kernel reads most arguments as
  // 32 bits, whatever stands in the upper ones: the mask says which bits count.
  struct Argument {
    const char* call;
    unsigned number;  // of the argument, from 0
    uint64_t mask;
    uint64_t value;  // under the mask
  };
  struct Failing {
    const char* call;
    uint16_t error;
  };
  std::span<const char* const> allowed;
  std::span<const Argument> allowed_with;
  std::span<const Failing> failing;  // in every mode: what is tried by libraries that go on without it
};
constexpr uint64_t k32Bits = 0xffffffff;
constexpr uint64_t kAllBits = ~uint64_t{0};

// Sets no_new_privs too. How many calls are on the list; with `off` 0 and nothing changes.
Result<size_t> filter_system_calls(const SystemCalls& calls, Seccomp mode);

// The same without what each program of ours does: these calls alone. For processes that do one thing.
Result<void> filter_exactly(const SystemCalls& calls, Seccomp mode);

// "seccomp on (132 system calls)"
std::string seccomp_text(Seccomp mode, size_t n_calls);

}  // namespace weir::confine
