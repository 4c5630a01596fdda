#include <fcntl.h>
#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "common/fd.h"
#include "dataplane/start/privileges.h"
#include "dataplane/start/syscall_filter.h"
#include "tests/catch.h"
#include "tests/unit/eventually.h"

using namespace weir;
using namespace weir::confine;
using namespace weir::dataplane;

namespace {

// What happened to a child process that ran body(): its wait status; body's answer is the exit code.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

struct Try {
  const char* name;
  bool (*works)();
};

bool can_execute() {
  char path[] = "/bin/true";
  char* arguments[] = {path, nullptr};
  return execv(path, arguments) == 0 || errno != EPERM;
}

bool can_map(int protection) {
  void* address = mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address != MAP_FAILED;
}

bool can_make_executable() {
  void* address = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mprotect(address, 4096, PROT_READ | PROT_EXEC) == 0;
}

bool has_socket(int family, int type) {
  return Fd(socket(family, type, 0)).get() >= 0;
}

bool can_start_thread() {
  std::atomic<bool> ran = false;
  std::thread([&] { ran = true; }).join();
  return ran;
}

// The call got into the kernel, whatever that thinks of /dev/null.
bool reaches(const std::function<long(int)>& call) {
  const Fd file(open("/dev/null", O_RDWR));
  return file && (call(file.get()) == 0 || errno != EPERM);
}

bool can_set_owner_ex() {
  const f_owner_ex owner = {F_OWNER_PID, getppid()};
  return reaches([&](int fd) { return fcntl(fd, F_SETOWN_EX, &owner); });
}

bool can_limit_parent() {
  rlimit limits = {};
  return prlimit(getppid(), RLIMIT_NOFILE, nullptr, &limits) == 0;
}

bool has_own_limits() {
  rlimit limits = {};
  return getrlimit(RLIMIT_NOFILE, &limits) == 0;
}

const Try kForbidden[] = {
    {"execve", can_execute},
    {"fork", [] { return fork() >= 0; }},
    {"ptrace", [] { return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0; }},
    {"mount", [] { return mount("none", "/tmp", "tmpfs", MS_RDONLY, nullptr) == 0 || errno != EPERM; }},
    {"AF_INET socket", [] { return has_socket(AF_INET, SOCK_STREAM); }},
    {"AF_PACKET socket", [] { return has_socket(AF_PACKET, SOCK_RAW); }},
    {"executable memory", [] { return can_map(PROT_READ | PROT_EXEC); }},
    {"mprotect to executable", can_make_executable},
    {"setuid", [] { return setuid(getuid()) == 0; }},
    {"chmod", [] { return chmod("/dev/null", 0666) == 0 || errno != EPERM; }},
    {"kill", [] { return kill(getpid(), 0) == 0; }},
    {"tgkill of another process", [] { return syscall(SYS_tgkill, getppid(), getppid(), 0) == 0; }},
    {"tkill", [] { return syscall(SYS_tkill, gettid(), 0) == 0; }},
    {"signals to another process", [] { return reaches([](int fd) { return fcntl(fd, F_SETOWN, getppid()); }); }},
    {"signals to another process, by an argument", can_set_owner_ex},
    {"TIOCSTI", [] { return reaches([](int fd) { return ioctl(fd, TIOCSTI, "x"); }); }},
    {"TIOCLINUX", [] { return reaches([](int fd) { return ioctl(fd, TIOCLINUX, "\2"); }); }},
    // The kernel looks at 32 bits of the request.
    {"TIOCSTI with upper bits",
     [] { return reaches([](int fd) { return syscall(SYS_ioctl, fd, TIOCSTI | 0x5500000000, "x"); }); }},
    {"PR_SET_DUMPABLE", [] { return prctl(PR_SET_DUMPABLE, 1) == 0; }},
    {"PR_SET_PTRACER", [] { return prctl(PR_SET_PTRACER, getppid()) == 0 || errno != EPERM; }},
    {"PR_SET_MM", [] { return prctl(PR_SET_MM, PR_SET_MM_BRK, 0, 0, 0) == 0 || errno != EPERM; }},
    {"limits of another process", can_limit_parent},
};

const Try kAllowed[] = {
    {"files", [] { return Fd(open("/proc/self/status", O_RDONLY)).get() >= 0; }},
    {"AF_UNIX socket", [] { return has_socket(AF_UNIX, SOCK_SEQPACKET); }},
    {"memory", [] { return can_map(PROT_READ | PROT_WRITE); }},
    {"threads", can_start_thread},
    {"limits", has_own_limits},
    {"signals to threads of its own", [] { return syscall(SYS_tgkill, getpid(), gettid(), 0) == 0; }},
    {"names of threads", [] { return prctl(PR_SET_NAME, "test") == 0; }},
    {"memory files", [] { return Fd(memfd_create("test", MFD_CLOEXEC)).get() >= 0; }},
};

// A field of /proc/self/task/*/status has this value in every thread.
bool every_thread_has(const std::string& field, const std::string& value) {
  size_t n_threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with(field + ":\t")) continue;
      if (line.substr(field.size() + 2) != value) return false;
      n_threads++;
    }
  }
  return n_threads > 0;
}

std::string hex(Capabilities capabilities) {
  char text[17];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(capabilities));
  return text;
}

}  // namespace

TEST_CASE("the filter refuses what a running data plane never does") {
  for (const Try& call : kForbidden) {
    INFO(call.name);
    const int status = in_child([&] { return filter_system_calls(Seccomp::refuse) ? call.works() : 9; });
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("the filter lets a data plane do its work, also in kill mode") {
  for (const Try& call : kAllowed) {
    INFO(call.name);
    const int status = in_child([&] { return filter_system_calls(Seccomp::kill) ? call.works() : 9; });
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 1);
  }
}

TEST_CASE("kill ends the process, log and off change nothing") {
  const int killed = in_child([] { return filter_system_calls(Seccomp::kill) ? fork() : 9; });
  REQUIRE(WIFSIGNALED(killed));
  CHECK(WTERMSIG(killed) == SIGSYS);
  for (const Seccomp mode : {Seccomp::log, Seccomp::off}) {
    const int status = in_child([&] { return filter_system_calls(mode) ? has_socket(AF_INET, SOCK_DGRAM) : 9; });
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 1);
  }
}

TEST_CASE("the filter holds in threads that ran before it") {
  const int status = in_child([] {
    std::atomic<int> stage = 0;
    bool refused = false;
    std::thread before([&] {
      while (stage == 0) a_moment();
      refused = !has_socket(AF_INET, SOCK_STREAM);
    });
    if (!filter_system_calls(Seccomp::refuse)) return 9;
    stage = 1;
    before.join();
    return refused ? 0 : 1;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("every thread gives its capabilities up, those too that ran before") {
  if (geteuid() != 0) {
    say_skipped("root: there is nothing to give up");
    return;
  }
  const int status = in_child([] {
    const Capabilities kept = capability(CAP_NET_RAW);
    std::atomic<bool> stop = false;
    const auto wait = [&] {
      while (!stop) a_moment();
    };
    std::array<std::thread, 3> before = {std::thread(wait), std::thread(wait), std::thread(wait)};
    if (!forbid_gaining() || !keep_only(kept)) return 9;
    std::thread after(wait);
    int wrong = 0;
    wrong += !every_thread_has("CapPrm", hex(kept));
    wrong += !every_thread_has("CapEff", hex(kept));
    wrong += !every_thread_has("CapBnd", hex(0));
    wrong += !every_thread_has("NoNewPrivs", "1");
    stop = true;
    for (std::thread& thread : before) thread.join();
    after.join();
    return wrong;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("what drivers need is added up, and most need nothing") {
  CHECK(needed_by(std::vector<std::string>{"net_af_packet", "net_tap", "net_memif", "net_virtio_user"}) == 0);
  CHECK(needed_by(std::vector<std::string>{"net_af_xdp"}) == capability(CAP_NET_ADMIN));
  CHECK(needed_by(std::vector<std::string>{"mlx5_pci", "net_null"}) ==
        (capability(CAP_NET_ADMIN) | capability(CAP_NET_RAW)));
}

TEST_CASE("names of capabilities") {
  CHECK(capability_named("net_admin") == capability(CAP_NET_ADMIN));
  CHECK(capability_named("net-admin") == 0);
  CHECK(names_of(capability(CAP_NET_ADMIN) | capability(CAP_NET_RAW)) == "net_admin, net_raw");
  CHECK(names_of(0) == "none");
}

TEST_CASE("a data plane that is root stays so only when it is told") {
  PrivilegeSettings settings;
  const Result<void> unsaid = check_user(settings);
  CHECK(static_cast<bool>(unsaid) == (geteuid() != 0));
  if (!unsaid) CHECK(unsaid.error().find("privileges: {user: NAME}") != std::string::npos);
  settings.user = find_user("root");
  CHECK(check_user(settings));
}
