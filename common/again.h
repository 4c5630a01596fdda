#pragma once

#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <thread>

// System calls that are made again.
namespace weir {

// What call(), one system call, returns: it is made again while it returns -1 because a signal interrupted it.
// A call that waits for some time takes what is left of it anew, or a moment in which it ends.
template <class Call>
auto not_interrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

// The kernel has no memory for a message at this moment.
inline bool is_out_of_buffers(int error) {
  return error == ENOBUFS || error == ENOMEM;
}

// What call(), a send(2) or sendmsg(2), returns: it is made again where a signal interrupts it, and some times, with
// pauses, where the kernel has no memory for it. It holds its thread for 5 ms at most.
template <class Call>
ssize_t send_again(Call call) {
  constexpr int kMostPauses = 5;
  constexpr std::chrono::milliseconds kPause{1};
  for (int pauses = 0;; pauses++) {
    const ssize_t sent = not_interrupted(call);
    if (sent >= 0 || !is_out_of_buffers(errno) || pauses == kMostPauses) return sent;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace weir
