#include "common/confine/capabilities.h"

#include <cap-ng.h>
#include <linux/capability.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <iterator>
#include <optional>
#include <set>
#include <thread>

#include "common/clock.h"
#include "common/own_folder.h"
#include "common/thread.h"

namespace weir::confine {

namespace {

constexpr int kMaxCapability = 63;  // bits of the kernel's sets
constexpr int kAnswerSeconds = 10;  // a thread that does not take a signal by then blocks it
constexpr int kMaxRounds = 100;     // over the list of threads, until no new one appears

// What the signal handler runs, and how it says that it did. Raw system calls only: a handler may not lock or allocate.
std::atomic<bool (*)()> g_work;  // false: the kernel refused it
std::atomic<int> g_refused;
sem_t g_answered;

void on_signal(int) {
  const int saved = errno;
  if (!g_work.load()()) g_refused++;
  sem_post(&g_answered);
  errno = saved;
}

// A real-time signal that nobody uses. net_tap takes some of them, from the lowest.
std::optional<int> unused_signal() {
  for (int number = SIGRTMAX; number >= SIGRTMIN; number--) {
    struct sigaction current = {};
    if (sigaction(number, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) return number;
  }
  return std::nullopt;
}

std::set<pid_t> threads() {
  std::set<pid_t> ids;
  const Result<std::vector<std::string>> names = names_in("/proc/self/task");
  if (!names) return ids;
  for (const std::string& name : *names) {
    pid_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    ids.insert(id);
  }
  return ids;
}

bool has_ended(pid_t id) {
  return syscall(SYS_tgkill, getpid(), id, 0) != 0;
}

// A thread that is on its way out takes no signal any more, and is still found for some time after it was joined.
// sem_timedwait() would go by the time of the day, which may jump meanwhile.
Result<void> ask_thread(pid_t id, int signal_number) {
  constexpr std::chrono::microseconds kLook{100};
  if (syscall(SYS_tgkill, getpid(), id, signal_number) != 0) return {};  // it has ended
  const auto deadline = Clock::now() + std::chrono::seconds(kAnswerSeconds);
  while (sem_trywait(&g_answered) != 0) {
    if (has_ended(id)) {
      sem_trywait(&g_answered);  // it may have answered before it ended
      return {};
    }
    if (Clock::now() > deadline) {
      return Error{"thread " + std::to_string(id) + " of this process does not take signals"};
    }
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

// Until every thread has done it: one that is asked may just have made another.
Result<void> ask_all(int signal_number) {
  std::set<pid_t> done = {gettid()};
  for (int round = 0; round < kMaxRounds; round++) {
    bool all = true;
    for (const pid_t id : threads()) {
      if (!done.insert(id).second) continue;
      all = false;
      if (Result<void> asked = ask_thread(id, signal_number); !asked) return asked;
    }
    if (all) return done.size() > 1 || !threads().empty() ? Result<void>() : Error{"/proc is not there"};
  }
  return Error{"threads appear faster than they can be asked"};
}

Result<void> in_every_thread(bool (*work)()) {
  const std::optional<int> number = unused_signal();
  if (!number) return Error{"every real-time signal is in use"};
  g_work = work;
  g_refused = 0;
  sem_init(&g_answered, 0, 0);
  struct sigaction handler = {};
  handler.sa_handler = on_signal;
  handler.sa_flags = SA_RESTART;
  sigaction(*number, &handler, nullptr);
  if (!work()) g_refused++;
  Result<void> asked = ask_all(*number);
  signal(*number, asked ? SIG_DFL : SIG_IGN);  // of a thread that may still answer, the signal must not end us
  if (asked && g_refused > 0) return Error{"the kernel refuses it to " + std::to_string(g_refused) + " threads"};
  return asked;
}

bool forbid_gaining_here() {
  for (int number = 0; number <= kMaxCapability; number++) {
    if (prctl(PR_CAPBSET_READ, number) == 1) prctl(PR_CAPBSET_DROP, number);
  }
  prctl(PR_SET_KEEPCAPS, 1);
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

struct Sets {
  __user_cap_data_struct word[_LINUX_CAPABILITY_U32S_3];
};

bool read_sets(Sets& sets) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  return syscall(SYS_capget, &header, sets.word) == 0;
}

std::atomic<Capabilities> g_kept;

// Ambient capabilities go with the permitted ones.
bool keep_only_here() {
  Sets sets = {};
  if (!read_sets(sets)) return false;
  const Capabilities kept = g_kept.load();
  for (size_t i = 0; i < std::size(sets.word); i++) {
    sets.word[i].permitted &= static_cast<uint32_t>(kept >> (32 * i));
    sets.word[i].effective = sets.word[i].permitted;
    sets.word[i].inheritable = 0;
  }
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  return syscall(SYS_capset, &header, sets.word) == 0;
}

}  // namespace

Capabilities own_capabilities() {
  Sets sets = {};
  if (!read_sets(sets)) return 0;
  return Capabilities{sets.word[1].permitted} << 32 | sets.word[0].permitted;
}

std::string names_of(Capabilities capabilities) {
  std::string names;
  for (int number = 0; number <= kMaxCapability; number++) {
    if ((capabilities & capability(number)) == 0) continue;
    const char* name = capng_capability_to_name(static_cast<unsigned>(number));
    names += (names.empty() ? "" : ", ") + (name != nullptr ? std::string(name) : std::to_string(number));
  }
  return names.empty() ? "none" : names;
}

Capabilities capability_named(const std::string& name) {
  const int number = capng_name_to_capability(name.c_str());
  return number < 0 || number > kMaxCapability ? 0 : capability(number);
}

Result<bool> works_without(const std::function<bool()>& work) {
  bool works = false;
  Result<std::thread> thread = start_thread([&] {
    Sets none = {};
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    works = syscall(SYS_capset, &header, none.word) == 0 && work();
  });
  if (!thread) return Error{thread.error()};
  thread->join();
  return works;
}

Result<void> forbid_gaining() {
  return in_every_thread(forbid_gaining_here);
}

Result<void> keep_only(Capabilities kept) {
  g_kept = kept;
  return in_every_thread(keep_only_here);
}

}  // namespace weir::confine
