// Every thread is asked to give something up: threads that end meanwhile, and threads that do not listen.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

#include "common/confine/capabilities.h"
#include "tests/catch.h"
#include "tests/unit/own_clocks.h"

namespace weir::confine {

namespace {

// The exit code of work() in a process of its own, which may lose what it will.
template <class Work>
int in_a_process(Work work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(work());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// It takes no signal, from before this returns.
template <class Work>
std::thread deaf_thread(Work work) {
  std::promise<void> blocked;
  std::thread thread([&blocked, work] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    blocked.set_value();
    work();
  });
  blocked.get_future().wait();
  return thread;
}

}  // namespace

TEST_CASE("what is forbidden is forbidden in a thread that runs") {
  CHECK(in_a_process([] {
          std::promise<void> go;
          std::promise<int> told;
          std::thread other([&, wait = go.get_future()]() mutable {
            wait.wait();
            told.set_value(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
          });
          const bool good = static_cast<bool>(forbid_gaining());
          go.set_value();
          const int here = told.get_future().get();
          other.join();
          return good && here == 1 ? 0 : 1;
        }) == 0);
}

TEST_CASE("a thread that ends before it takes the signal is not waited for") {
  CHECK(in_a_process([] {
          // Once it was asked.
          std::thread ends = deaf_thread([] {
            (void)eventually([] {
              sigset_t asked;
              bool is_so = false;
              sigpending(&asked);
              for (int number = SIGRTMIN; number <= SIGRTMAX; number++) is_so |= sigismember(&asked, number) == 1;
              return is_so;
            });
          });
          const bool good = static_cast<bool>(forbid_gaining());
          ends.join();
          return good ? 0 : 1;
        }) == 0);
}

TEST_CASE("a thread that listens to no signal is named as an error") {
  CHECK(in_a_process([] {
          const OwnClocks clocks;
          deaf_thread([&] { (void)clocks.pass_until(std::chrono::seconds(1), [] { return false; }); }).detach();
          const Result<void> forbidden = forbid_gaining();
          return !forbidden && forbidden.error().find("does not take signals") != std::string::npos ? 0 : 1;
        }) == 0);
}

}  // namespace weir::confine
