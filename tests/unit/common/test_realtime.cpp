#include <grp.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "common/realtime.h"
#include "tests/catch.h"

namespace weir::realtime {

namespace {

constexpr uid_t kNobody = 65534;

int policy_of_a_thread() {
  int policy = -1;
  std::thread([&] { policy = sched_getscheduler(0); }).join();
  return policy;
}

// The exit code of work() in a process that became nobody's after its starter was made.
template <class Work>
int as_nobody(Work work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Starter starter;
    if (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0) _exit(10);
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(11);
    _exit(work(starter));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool may_here() {
  const Starter starter;
  if (geteuid() == 0 && starter) return true;
  say_skipped("kernel: this user may have no real-time threads");  // root, too, in some containers
  return false;
}

}  // namespace

TEST_CASE("a thread is a real-time thread while it wants to be") {
  if (!may_here()) return;
  const int before = sched_getscheduler(0);
  {
    const Scope first;
    CHECK(sched_getscheduler(0) == (SCHED_RR | SCHED_RESET_ON_FORK));
    CHECK(policy_of_a_thread() == before);
  }
  CHECK(sched_getscheduler(0) == before);
}

TEST_CASE("who runs at a higher priority keeps it") {
  if (!may_here()) return;
  std::thread([] {
    sched_param high = {};
    high.sched_priority = 2;
    must(sched_setscheduler(0, SCHED_FIFO, &high) == 0);
    const auto is_kept = [] {
      sched_param now = {};
      return sched_getscheduler(0) == SCHED_FIFO && sched_getparam(0, &now) == 0 && now.sched_priority == 2;
    };
    {
      const Scope scope;
      must(is_kept());
    }
    must(is_kept());
    Starter starter;
    must(bool(starter));
    bool is_inherited = false;
    starter.run([&] { is_inherited = is_kept(); });
    must(is_inherited);
  }).join();
}

TEST_CASE("who gave up root starts one real-time thread after all, and others are none") {
  if (!may_here()) return;
  CHECK(as_nobody([](Starter& starter) {
          if (!starter) return 1;
          int policy = -1;
          starter.run([&] { policy = policy_of_a_thread(); });
          if (policy != SCHED_RR) return 2;
          return policy_of_a_thread() == SCHED_OTHER ? 0 : 3;
        }) == 0);
}

TEST_CASE("who has no right to real-time threads starts them as all others") {
  if (!may_here()) return;
  CHECK(as_nobody([](Starter&) {
          Starter late;
          if (late) return 1;
          int policy = -1;
          late.run([&] { policy = policy_of_a_thread(); });
          if (policy != SCHED_OTHER) return 2;
          return late.why_not().find("Operation not permitted") != std::string::npos ? 0 : 3;
        }) == 0);
}

TEST_CASE("a starter that has nothing to start ends") {
  const Starter starter;
}

}  // namespace weir::realtime
