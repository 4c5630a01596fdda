#pragma once

#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace weir {

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
  for (int pauses = 0;;) {
    const ssize_t sent = call();
    if (sent >= 0) return sent;
    if (errno == EINTR) continue;
    if (!is_out_of_buffers(errno) || pauses++ == kMostPauses) return sent;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace weir
