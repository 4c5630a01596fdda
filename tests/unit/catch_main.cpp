// The one translation unit with Catch2's main(): every unit test program links it. A failed test case keeps its
// folders. One whose time is over, or that is aborted, tells where all its threads are. An assertion in another thread
// than the tests' ends the program: Catch2 would race with itself.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/interfaces/catch_interfaces_capture.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
using Asserted = void;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
using Asserted = bool;
#endif

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

// A test program that the machine may not be able to run defines it (tests/catch.h).
__attribute__((weak)) int before_tests() {
  return 0;
}

namespace {

std::atomic<bool> has_failed = false;  // the test case that runs

const std::thread::id thread_of_tests = std::this_thread::get_id();
const pid_t process_of_tests = getpid();

// Tells the stacks of all threads (eu-stack(1), package elfutils), and ends as the signal does. A process of its own
// looks: nothing here may be counted on any more.
void tell_stacks(int number) {
  signal(number, SIG_DFL);
  if (getpid() != process_of_tests) return (void)raise(number);
  char pid[16];
  snprintf(pid, sizeof pid, "%d", getpid());
  if (const pid_t looks = fork(); looks == 0) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl("/usr/bin/eu-stack", "eu-stack", "-p", pid, nullptr);
    _exit(127);
  } else if (looks > 0) {
    prctl(PR_SET_PTRACER, looks);
    waitpid(looks, nullptr, 0);
  }
  raise(number);
}

struct OwnThread : Listener {
  using Listener::Listener;
  // Catch2 has handlers of its own while a section runs; they tell less.
  void sectionStarting(const Catch::SectionInfo& section) override {
    Listener::sectionStarting(section);
    has_handlers_ = false;
  }
  void assertionStarting(const Catch::AssertionInfo& asserted) override {
    if (std::this_thread::get_id() == thread_of_tests) {
      if (!std::exchange(has_handlers_, true)) {
        for (const int number : {SIGTERM, SIGABRT}) signal(number, tell_stacks);
      }
      return;
    }
    fprintf(stderr, "%s:%zu: a thread of its own asserts: hand the value to the test, or use must()\n",
            asserted.lineInfo.file, asserted.lineInfo.line);
    std::abort();
  }

 private:
  bool has_handlers_ = false;
};
CATCH_REGISTER_LISTENER(OwnThread)

struct Failures : Listener {
  using Listener::Listener;
  void testCaseStarting(const Catch::TestCaseInfo&) override { has_failed = false; }
  Asserted assertionEnded(const Catch::AssertionStats& stats) override {
    if (!stats.assertionResult.isOk()) has_failed = true;
    return Asserted();
  }
};
CATCH_REGISTER_LISTENER(Failures)

std::string name_of_test() {
  return Catch::getResultCapture().getCurrentTestName();
}

}  // namespace

namespace weir::test {

bool is_failing() {
  return has_failed || std::uncaught_exceptions() != 0;
}

void keep_evidence(const std::string& folder) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  std::string place = folder;
  if (const char* const evidence = std::getenv("WEIR_EVIDENCE"); evidence != nullptr) {
    std::string name = name_of_test();
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
    const std::filesystem::path of_test = std::filesystem::path(evidence) / program.filename() / name;
    const std::filesystem::path to = of_test / std::filesystem::path(folder).filename();
    std::error_code error;
    std::filesystem::create_directories(of_test, error);
    std::filesystem::rename(folder, to, error);
    if (!error) place = to;
  }
  fprintf(stderr, "evidence: %s\nagain: %s \"%s\"\n", place.c_str(), program.c_str(), name_of_test().c_str());
}

}  // namespace weir::test

int main(int argc, char** argv) {
  const int code = before_tests();
  return code != 0 ? code : Catch::Session().run(argc, argv);
}
