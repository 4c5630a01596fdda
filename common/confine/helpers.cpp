#include "common/confine/helpers.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "common/again.h"
#include "common/clock.h"
#include "common/confine/capabilities.h"
#include "common/confine/files_only.h"
#include "common/confine/system_calls.h"
#include "common/files.h"

namespace weir::confine {

namespace {

constexpr uid_t kNobody = 65534;
constexpr std::byte kReady[1] = {};  // what the process that makes helpers says first

struct Order {
  uint32_t job;  // place in the list
  uint64_t shared_bytes, memory_bytes;
};

// With the two descriptors that a helper gets, one behind the other: its socket, and its memory.
struct OrderMessage {
  OrderMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  OrderMessage(const OrderMessage&) = delete;

  Order order = {};
  iovec part = {&order, sizeof order};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header = {};
};

bool send_order(int to, const Order& order, int socket, int memory) {
  OrderMessage message;
  message.order = order;
  cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int descriptors[] = {socket, memory};
  memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
  return send_again([&] { return sendmsg(to, &message.header, MSG_NOSIGNAL); }) == sizeof order;
}

// --- in the process that makes them, and in a helper ---

// Both descriptors stay empty when one was lost on the way, because there was no room for it: who sent them sees their
// other ends close. False: the other side is gone.
bool receive_order(int from, Order& order, std::array<Fd, 2>& descriptors) {
  OrderMessage message;
  const ssize_t got = not_interrupted([&] { return recvmsg(from, &message.header, MSG_CMSG_CLOEXEC); });
  if (got != sizeof order) return false;
  order = message.order;
  const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  const size_t came = rights == nullptr ? 0 : (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < std::min(came, descriptors.size()); i++) {
    int fd = -1;
    memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
    descriptors[i] = Fd(fd);
  }
  if (came != descriptors.size()) descriptors = {};
  return true;
}

// What it takes to work on what lies in memory, and to say so, be it after a pause.
constexpr const char* kCalls[] = {"recvfrom",   "sendto",         "munmap",       "mremap",          "madvise",
                                  "brk",        "futex",          "rt_sigreturn", "getpid",          "rt_sigprocmask",
                                  "gettid",     "getrandom",      "nanosleep",    "clock_nanosleep", "exit",
                                  "exit_group", "restart_syscall"};
constexpr SystemCalls::Argument kCallsWith[] = {{"mmap", 2, PROT_EXEC, 0}, {"mprotect", 2, PROT_EXEC, 0}};

[[noreturn]] void help(const Job& job, const Order& order, Fd socket, Fd memory) {
  void* shared = mmap(nullptr, order.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (shared == MAP_FAILED) _exit(1);
  memory.reset();
  prctl(PR_SET_NAME, job.name);
  const rlim_t most_open = job.reach == nullptr ? 0 : job.reach->descriptors;
  const rlimit none = {0, 0}, descriptors = {most_open, most_open},
               memory_limit = {order.memory_bytes, order.memory_bytes};
  const rlimit time_limit = {job.cpu_seconds, job.cpu_seconds};
  for (const auto resource : {RLIMIT_FSIZE, RLIMIT_CORE}) setrlimit(resource, &none);
  // Where the kernel has no Landlock it may read what anybody may.
  if (job.reach != nullptr) (void)read_only_these(job.reach->files);
  setrlimit(RLIMIT_NOFILE, &descriptors);
  setrlimit(RLIMIT_CPU, &time_limit);
  if (!kIsSanitized) {
    setrlimit(RLIMIT_DATA, &memory_limit);
    // Where the kernel has no filters there is less to hold it, but it still holds nothing.
    if (job.reach == nullptr) {
      (void)filter_exactly({kCalls, kCallsWith, {}}, Seccomp::kill);
    } else {
      (void)filter_exactly(job.reach->calls, Seccomp::refuse);
    }
  }
  job.work(socket.get(), {static_cast<std::byte*>(shared), order.shared_bytes});
  _exit(0);
}

// Whom root becomes, where there is such a user (a container may know root alone), and nobody has a capability left.
bool become_nobody() {
  if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0 ||
                         setresuid(kNobody, kNobody, kNobody) != 0)) {
    errno = 0;
  }
  return forbid_gaining() && keep_only(0);
}

[[noreturn]] void make_helpers(std::span<const Job* const> jobs, int socket, pid_t parent) {
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  const int kept = 3;
  if (dup2(socket, kept) != kept || close_range(kept + 1, ~0u, 0) != 0 || !become_nobody()) _exit(1);
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "weir-helpers");
  // It ends when nobody holds the other end of its socket. What a terminal or systemd sends to all of a service is the
  // program's to answer.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) signal(number, SIG_IGN);
  if (getppid() != parent || !tell(kept, kReady)) _exit(0);
  while (true) {
    Order order = {};
    std::array<Fd, 2> descriptors;
    if (!receive_order(kept, order, descriptors)) _exit(0);
    if (descriptors[0] && fork() == 0) {
      close(kept);
      help(*jobs[order.job], order, std::move(descriptors[0]), std::move(descriptors[1]));
    }
  }
}

}  // namespace

Result<std::unique_ptr<Helpers>> Helpers::start(std::vector<const Job*> jobs) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno_error("cannot make a socket pair");
  Fd ours(ends[0]), theirs(ends[1]);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return errno_error("cannot make a process that parses");
  if (child == 0) make_helpers(jobs, theirs.get(), parent);
  theirs.reset();
  std::unique_ptr<Helpers> helpers(new Helpers(std::move(jobs), std::move(ours), child));
  std::byte ready[1];
  if (hear(helpers->socket_.get(), ready) == 0) return Error{"the process that makes parsers ended at its start"};
  return helpers;
}

Helpers::~Helpers() {
  shutdown(socket_.get(), SHUT_RDWR);
  waitpid(pid_, nullptr, 0);
}

Result<Helper> Helpers::make(const Job& job, size_t shared_bytes, uint64_t memory_bytes) const {
  const auto number = std::find(jobs_.begin(), jobs_.end(), &job);
  if (number == jobs_.end()) return Error{std::string("there is no process that could make a ") + job.name};
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno_error("cannot make a socket pair");
  Fd ours(ends[0]), theirs(ends[1]);
  const Fd memory(memfd_create(job.name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ftruncate(memory.get(), static_cast<off_t>(shared_bytes)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errno_error("cannot make memory to parse in");
  }
  void* address = mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (address == MAP_FAILED) return errno_error("cannot map memory to parse in");
  Mapping shared(address, shared_bytes);
  const Order order = {static_cast<uint32_t>(number - jobs_.begin()), shared_bytes, memory_bytes};
  if (!send_order(socket_.get(), order, theirs.get(), memory.get())) {
    const bool is_gone = errno == EPIPE || errno == ECONNRESET;
    return is_gone ? Error{"the process that makes parsers is gone: start controld anew"}
                   : errno_error("cannot ask for a process that parses");
  }
  return Helper{std::move(ours), std::move(shared)};
}

bool tell(int socket, std::span<const std::byte> bytes) {
  return send_again([&] { return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); }) ==
         static_cast<ssize_t>(bytes.size());
}

size_t hear(int socket, std::span<std::byte> to) {
  const ssize_t got = not_interrupted([&] { return recv(socket, to.data(), to.size(), 0); });
  return got < 0 ? 0 : static_cast<size_t>(got);
}

Result<void> ask(const Helper& helper, std::span<const std::byte> bytes) {
  if (tell(helper.socket.get(), bytes) || errno == EPIPE || errno == ECONNRESET) return {};
  return errno_error("cannot ask the process that parses it");
}

Result<size_t> receive(const Helper& helper, std::span<std::byte> to, Clock::time_point deadline) {
  while (true) {
    pollfd ready = {helper.socket.get(), POLLIN, 0};
    const int polled = not_interrupted([&] {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      return poll(&ready, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    });
    if (polled == 0) return Error{"the process that parses it does not answer"};
    const ssize_t got = not_interrupted([&] { return recv(helper.socket.get(), to.data(), to.size(), MSG_DONTWAIT); });
    if (got > 0) return static_cast<size_t>(got);
    if (got < 0 && errno == EAGAIN) continue;
    return Error{"the process that parses it ended"};
  }
}

}  // namespace weir::confine
