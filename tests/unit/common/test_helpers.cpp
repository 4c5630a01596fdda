// Processes that hold nothing: what they can do, and what becomes of those that try more.
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "common/confine/helpers.h"
#include "tests/catch.h"
#include "tests/unit/eventually.h"

using namespace weir;
using namespace weir::confine;
using std::chrono::steady_clock;

namespace {

constexpr size_t kShared = 4096;
constexpr uint64_t kMemory = uint64_t{64} << 20;

// What a helper tries when it is asked to, by the place in this list; it says `t` when it comes back from it.
struct Attempt {
  const char* name;
  void (*run)();
};
constexpr Attempt kForbidden[] = {
    {"open a file", [] { (void)open("/etc/passwd", O_RDONLY); }},
    {"make a file", [] { (void)open("/tmp/weir-helper", O_WRONLY | O_CREAT, 0600); }},
    {"a socket of the network", [] { (void)socket(AF_INET, SOCK_STREAM, 0); }},
    {"a Unix socket", [] { (void)socket(AF_UNIX, SOCK_STREAM, 0); }},
    {"connect", [] { (void)connect(3, nullptr, 0); }},
    {"a process", [] { (void)syscall(SYS_fork); }},
    {"a thread", [] { (void)syscall(SYS_clone, 0, 0, 0, 0, 0); }},
    {"a program", [] { (void)syscall(SYS_execve, nullptr, nullptr, nullptr); }},
    {"a signal", [] { (void)kill(getppid(), 0); }},
    {"ptrace", [] { (void)syscall(SYS_ptrace, 0, 0, 0, 0); }},
    {"prctl", [] { (void)prctl(PR_SET_DUMPABLE, 1); }},
    {"descriptors", [] { (void)dup(0); }},
    {"executable memory", [] { (void)syscall(SYS_mmap, nullptr, 4096, 7, 0x22, -1, 0); }},
};

void answer(int socket, std::span<std::byte> shared) {
  uint32_t number = 0;
  while (recv(socket, &number, sizeof number, 0) == sizeof number) {
    if (number < std::size(kForbidden)) kForbidden[number].run();
    shared.front() = std::byte{42};
    (void)send(socket, "t", 1, MSG_NOSIGNAL);
  }
}
void crash(int, std::span<std::byte>) {
  int* volatile nowhere = nullptr;
  *nowhere = 1;
}
void take_memory(int socket, std::span<std::byte>) {
  for (size_t taken = 0; taken < 4 * kMemory; taken += 1 << 20) {
    void* volatile more = malloc(1 << 20);  // clang takes none that nobody reads
    if (more == nullptr) _exit(1);
    memset(more, 1, 1 << 20);
  }
  (void)send(socket, "t", 1, MSG_NOSIGNAL);
}
void sleep_on(int socket, std::span<std::byte>) {
  char byte = 0;
  (void)recv(socket, &byte, 1, 0);
}
void loop(int, std::span<std::byte> shared) {
  while (shared.size() == kShared) *const_cast<volatile std::byte*>(shared.data()) = std::byte{1};
}

int refused_sends = 0;  // how many of the next ones the kernel has no memory for, in each process

bool is_refused() {
  if (refused_sends == 0) return false;
  refused_sends--;
  errno = ENOBUFS;
  return true;
}

void answer_when_there_is_memory(int socket, std::span<std::byte> shared) {
  std::byte asked[4];
  if (hear(socket, asked) == 0) return;
  refused_sends = std::to_integer<int>(shared.front());
  constexpr std::byte kTold[] = {std::byte{'t'}};
  (void)tell(socket, kTold);
}

// What one with a reach may do, a letter for each that works.
void try_reach(int socket, std::span<std::byte>) {
  std::string works;
  const auto try_it = [&](char letter, bool is_done) { works += is_done ? letter : '-'; };
  try_it('r', Fd(open("/etc/hosts", O_RDONLY | O_CLOEXEC)).get() >= 0);
  try_it('o', Fd(open("/etc/passwd", O_RDONLY | O_CLOEXEC)).get() >= 0);
  try_it('w', Fd(open("/tmp/weir-helper", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).get() >= 0);
  try_it('n', Fd(::socket(AF_INET, SOCK_STREAM, 0)).get() >= 0);
  try_it('u', Fd(::socket(AF_UNIX, SOCK_STREAM, 0)).get() >= 0);
  try_it('p', syscall(SYS_fork) >= 0);
  try_it('x', syscall(SYS_mmap, nullptr, 4096, 7, 0x22, -1, 0) != -1);
  (void)send(socket, works.data(), works.size(), MSG_NOSIGNAL);
}
constexpr const char* kReachCalls[] = {"open", "close", "sendto", "exit_group", "brk", "write"};
constexpr SystemCalls::Argument kReachCallsWith[] = {
    {"openat", 2, O_ACCMODE, O_RDONLY}, {"socket", 0, kAllBits, AF_INET}, {"mmap", 2, PROT_EXEC, 0}};
constexpr const char* kReachFiles[] = {"/etc/hosts", "/nowhere"};
constexpr Reach kReach = {{kReachCalls, kReachCallsWith, {}}, 64, kReachFiles};
constexpr Job kTryReach = {"test-reach", 10, try_reach, &kReach};

constexpr Job kAnswer = {"test-answer", 10, answer}, kCrash = {"test-crash", 10, crash},
              kTakeMemory = {"test-memory", 10, take_memory}, kSleep = {"test-sleep", 10, sleep_on},
              kLoop = {"test-loop", 1, loop}, kPatient = {"test-patient", 10, answer_when_there_is_memory},
              kUnknown = {"test-unknown", 1, loop};

std::unique_ptr<Helpers> start() {
  Result<std::unique_ptr<Helpers>> helpers =
      Helpers::start({&kAnswer, &kCrash, &kTakeMemory, &kSleep, &kLoop, &kPatient, &kTryReach});
  REQUIRE(helpers);
  return std::move(*helpers);
}

Helper make(const Helpers& helpers, const Job& job) {
  Result<Helper> helper = helpers.make(job, kShared, kMemory);
  REQUIRE(helper);
  return std::move(*helper);
}

// "": it answered.
std::string failure_of(const Helper& helper, std::chrono::seconds time = std::chrono::seconds(60)) {
  std::byte answer = {};
  const Result<size_t> got = receive(helper, std::span(&answer, 1), steady_clock::now() + time);
  if (got) CHECK(answer == std::byte{'t'});
  return got ? "" : got.error();
}

void ask(const Helper& helper, uint32_t number) {
  REQUIRE(send(helper.socket.get(), &number, sizeof number, MSG_NOSIGNAL) == sizeof number);
}

constexpr const char* kEnded = "the process that parses it ended";

}  // namespace

// Instead of libc's.
extern "C" __attribute__((used, visibility("default"))) ssize_t send(int socket, const void* from, size_t size,
                                                                     int flags) {
  return is_refused() ? -1 : syscall(SYS_sendto, socket, from, size, flags, nullptr, 0);
}
extern "C" __attribute__((used, visibility("default"))) ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  return is_refused() ? -1 : syscall(SYS_sendmsg, socket, message, flags);
}

TEST_CASE("a message that the kernel has no memory for is sent a moment later: at the start, to helpers, from them") {
  refused_sends = 2;
  const auto helpers = start();  // a process that was forked, and says that it is there
  refused_sends = 2;
  const Helper helper = make(*helpers, kPatient);
  CHECK(refused_sends == 0);
  helper.shared.bytes()[0] = std::byte{2};
  refused_sends = 2;
  const uint32_t number = 1000;
  REQUIRE(ask(helper, std::as_bytes(std::span(&number, 1))));
  CHECK(refused_sends == 0);
  CHECK(failure_of(helper) == "");
}

TEST_CASE("a helper shares memory, and answers as often as it is asked") {
  const auto helpers = start();
  const Helper helper = make(*helpers, kAnswer);
  for (int i = 0; i < 3; i++) {
    helper.shared.bytes()[0] = std::byte{0};
    ask(helper, 1000);
    CHECK(failure_of(helper) == "");
    CHECK(helper.shared.bytes()[0] == std::byte{42});
  }
  CHECK_FALSE(helpers->make(kUnknown, kShared, kMemory));
}

TEST_CASE("a helper that tries what it must not ends, and the next one works") {
  if (kIsSanitized) return say_skipped("sanitizer: the filter of system calls");
  const auto helpers = start();
  for (uint32_t number = 0; number < std::size(kForbidden); number++) {
    INFO(kForbidden[number].name);
    const Helper helper = make(*helpers, kAnswer);
    ask(helper, number);
    CHECK(failure_of(helper) == kEnded);
  }
  CHECK_FALSE(std::filesystem::exists("/tmp/weir-helper"));
  const Helper helper = make(*helpers, kAnswer);
  ask(helper, 1000);
  CHECK(failure_of(helper) == "");
}

TEST_CASE("a helper that crashes, takes too much, sleeps or loops is an error of what it does") {
  const auto helpers = start();
  CHECK(failure_of(make(*helpers, kCrash)) == kEnded);
  if (kIsSanitized) {
    say_skipped("sanitizer: limits of memory");
  } else {
    CHECK(failure_of(make(*helpers, kTakeMemory)) == kEnded);
  }
  CHECK(failure_of(make(*helpers, kSleep), std::chrono::seconds(1)) == "the process that parses it does not answer");
  CHECK(failure_of(make(*helpers, kLoop)) == kEnded);
  const Helper helper = make(*helpers, kAnswer);
  ask(helper, 1000);
  CHECK(failure_of(helper) == "");
}

// It has room for one of the two that it is sent. In a process of its own, where it begins with such a limit.
TEST_CASE("what makes helpers outlives that it has no descriptors for one") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rlimit before = {};
    if (close_range(3, ~0u, 0) != 0 || getrlimit(RLIMIT_NOFILE, &before) != 0) _exit(1);
    const rlimit few = {5, before.rlim_max};  // 0 to 2, its socket, and one more
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(2);
    const auto helpers = Helpers::start({&kAnswer});
    if (!helpers || setrlimit(RLIMIT_NOFILE, &before) != 0) _exit(3);
    for (int i = 0; i < 3; i++) {
      const Result<Helper> helper = (*helpers)->make(kAnswer, kShared, kMemory);
      if (!helper) _exit(4);  // what makes them is gone
      (void)tell(helper->socket.get(), std::as_bytes(std::span(&kShared, 1)));
      if (failure_of(*helper) != kEnded) _exit(5);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("without the process that makes them there are no helpers, which is said") {
  const auto helpers = start();
  kill(helpers->pid(), SIGKILL);
  std::string error;
  (void)eventually([&] {
    const Result<Helper> helper = helpers->make(kAnswer, kShared, kMemory);
    error = helper ? "" : helper.error();
    return !helper;
  });
  CHECK(error == "the process that makes parsers is gone: start controld anew");
}

TEST_CASE("one with a reach may do what is in it, and nothing else") {
  if (kIsSanitized) return say_skipped("sanitizer: the filter of system calls");
  const bool has_landlock = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
  const auto helpers = start();
  const Helper helper = make(*helpers, kTryReach);
  std::byte answer[16] = {};
  const Result<size_t> got = receive(helper, answer, steady_clock::now() + std::chrono::seconds(60));
  REQUIRE(got);
  const std::string works(reinterpret_cast<const char*>(answer), *got);
  CHECK(works == (has_landlock ? "r--n---" : "ro-n---"));
}
