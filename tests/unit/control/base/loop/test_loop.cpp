// The loop, its sources and owners; jobs of other threads; waits.
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "control/base/loop/callers.h"
#include "control/base/loop/loop.h"
#include "control/base/loop/waits.h"
#include "control/base/loop/worker.h"
#include "tests/catch.h"
#include "tests/unit/own_clocks.h"

using namespace weir;
using namespace weir::control;
using std::chrono::milliseconds;

namespace {

Clock::time_point soon() {
  return Clock::now() + std::chrono::seconds(20);
}

bool turn_for(Loop& loop, int ms) {
  return loop.run_until([] { return false; }, Clock::now() + milliseconds(ms));
}

}  // namespace

TEST_CASE("a descriptor calls back as long as it is ready, and not when its source is gone") {
  Loop loop;
  const Fd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  int calls = 0;
  Loop::Source source = loop.io(event.get(), EPOLLIN, [&](uint32_t ready) {
    CHECK(ready == EPOLLIN);
    calls++;
  });
  CHECK_FALSE(turn_for(loop, 5));
  CHECK(calls == 0);
  eventfd_write(event.get(), 1);
  CHECK(loop.run_until([&] { return calls == 3; }, soon()));
  source.reset();
  CHECK_FALSE(source);
  CHECK_FALSE(turn_for(loop, 5));
  CHECK(calls == 3);
}

TEST_CASE("a source may end in its own callback, and be replaced there") {
  Loop loop;
  std::string told = "first";
  Loop::Source source;
  source = loop.timer(Clock::now(), [&, text = std::string(100, 'x')] {
    source = loop.timer(Clock::now(), [&] {
      source.reset();
      told = "second";
    });
    told = text;  // what the callback owns is still there
  });
  CHECK(loop.run_until([&] { return told == std::string(100, 'x'); }, soon()));
  CHECK(loop.run_until([&] { return told == "second"; }, soon()));
}

TEST_CASE("a timer calls once, when it is due") {
  const OwnClocks clocks;
  Loop loop;
  const Clock::time_point begin = Clock::now();
  while (loop.turn(milliseconds(0))) {
  }
  int calls = 0, calls_before = 0;
  const Loop::Source source = loop.timer(begin + milliseconds(30), [&] { calls++; });
  {
    const Loop::Source before = loop.timer(begin + milliseconds(20), [&] { calls_before++; });
  }
  clocks.pass(milliseconds(29));
  CHECK_FALSE(loop.turn(milliseconds(1)));
  clocks.pass(milliseconds(1));
  CHECK(loop.turn(milliseconds(1)));
  CHECK(calls == 1);
  CHECK(calls_before == 0);
  clocks.pass(std::chrono::hours(1));
  CHECK_FALSE(loop.turn(milliseconds(1)));
  CHECK(calls == 1);
}

TEST_CASE("a timer of held clocks is due by the system's when they go on") {
  Loop loop;
  bool is_called = false;
  Loop::Source source;
  {
    const OwnClocks clocks;
    source = loop.timer(Clock::now() + milliseconds(1), [&] { is_called = true; });
    CHECK_FALSE(loop.run_until([&] { return is_called; }, Clock::now()));
    for (int i = 0; i < 5; i++) (void)loop.turn(milliseconds(1));
    CHECK_FALSE(is_called);
  }
  CHECK(loop.run_until([&] { return is_called; }, soon()));
}

TEST_CASE("a callback that throws is called again") {
  Loop loop;
  const Fd event(eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
  int calls = 0;
  const Loop::Source source = loop.io(event.get(), EPOLLIN, [&](uint32_t) {
    calls++;
    throw std::runtime_error("the test throws");
  });
  CHECK(loop.run_until([&] { return calls == 3; }, soon()));
}

TEST_CASE("a signal arrives as an event") {
  sigset_t mask, before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &mask, &before);
  {
    Loop loop;
    bool is_told = false;
    const Loop::Source source = loop.signal(SIGUSR2, [&] { is_told = true; });
    kill(getpid(), SIGUSR2);
    CHECK(loop.run_until([&] { return is_told; }, soon()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("jobs of other threads run here, each thread's in its order, and stop() ends the loop") {
  Loop loop;
  constexpr int kThreads = 3, kJobs = 1000;
  int next[kThreads] = {};
  bool in_order = true;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kJobs; i++) loop.post([&, t, i] { in_order = in_order && next[t]++ == i; });
    });
  }
  CHECK(loop.run_until([&] { return next[0] + next[1] + next[2] == kThreads * kJobs; }, soon()));
  CHECK(in_order);
  for (std::thread& thread : threads) thread.join();
  std::thread stopper([&] { loop.stop(); });
  loop.run();
  stopper.join();
  std::thread again([&] { loop.stop(); });
  CHECK_FALSE(loop.run_until([] { return false; }, Clock::time_point::max()));
  again.join();
}

TEST_CASE("mail for an object that is gone is dropped") {
  Loop loop;
  int told = 0;
  auto mailbox = std::make_unique<Mailbox>(loop);
  mailbox->post([&] { told++; });
  const auto kept = mailbox->guarded([&] { told += 10; });
  kept();
  CHECK(told == 10);
  mailbox.reset();
  kept();
  CHECK_FALSE(turn_for(loop, 5));
  CHECK(told == 10);
}

TEST_CASE("a worker does its jobs in turn, and drops what it has not begun") {
  std::atomic<int> done = 0;
  {
    Loop loop;
    const Mailbox mailbox(loop);
    Worker worker;
    std::vector<int> order;
    for (int i = 0; i < 10; i++) worker.submit([&, i] { mailbox.post([&, i] { order.push_back(i); }); });
    CHECK(loop.run_until([&] { return order.size() == 10; }, soon()));
    CHECK(std::is_sorted(order.begin(), order.end()));
    std::promise<void> go_on;
    worker.submit([&] {
      done++;
      go_on.get_future().wait();
      done++;
    });
    REQUIRE(eventually([&] { return done == 1; }));
    worker.submit([&] { done += 100; });
    worker.stop();
    go_on.set_value();
  }
  CHECK(done == 2);
}

TEST_CASE("who waits is called once: when it is so, at the deadline, or when all is over") {
  Loop loop;
  Waits waits(loop);
  bool is_so = false;
  std::string told;
  waits.add([&] { return is_so; }, soon(), [&] { told += "so "; });
  waits.add([] { return true; }, soon(), [&] { told += "already "; });
  CHECK(told.empty());  // nobody is called back while he asks
  CHECK(loop.run_until([&] { return told == "already "; }, soon()));
  waits.check();
  CHECK(told == "already ");
  is_so = true;
  waits.check();
  waits.check();
  CHECK(told == "already so ");
  waits.add([] { return false; }, Clock::now() + milliseconds(5),
            [&] {
              told += "late ";
              waits.add([] { return false; }, soon(), [&] { told += "nested "; });
            });
  CHECK(loop.run_until([&] { return told.ends_with("late "); }, soon()));
  waits.end_all();
  CHECK(told == "already so late nested ");
}

TEST_CASE("a loop finds no descriptor for its first timer, and needs none") {
  Loop loop;
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const Fd last(dup(STDERR_FILENO));  // the lowest number that was free: below it there is none
  const rlimit none_left = {static_cast<rlim_t>(last.get()) + 1, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  bool is_called = false;
  const Loop::Source timer = loop.timer(Clock::now(), [&] { is_called = true; });
  const bool is_done = loop.run_until([&] { return is_called; }, soon());
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(is_done);
}

TEST_CASE("a caller is answered once, and its deadline ends with the answer") {
  Loop loop;
  Callers callers;
  int given_up = 0, deadlines = 0, late = 0;
  const auto add = [&] {
    const Callers::Id id = callers.add([&] { given_up++; });
    callers.keep_until_answered(id, loop.timer(Clock::now(), [&, id] {
      deadlines++;
      late += callers.take(id);
    }));
    return id;
  };
  const Callers::Id answered = add();
  add();
  CHECK(callers.take(answered));
  CHECK_FALSE(callers.take(answered));
  // A marker that is set by a later turn than the one in which both deadlines are over.
  bool is_after = false;
  Loop::Source last;
  const Loop::Source marker = loop.timer(Clock::now() + milliseconds(2), [&] {
    last = loop.timer(Clock::now() + milliseconds(2), [&] { is_after = true; });
  });
  CHECK(loop.run_until([&] { return is_after; }, soon()));
  CHECK(deadlines == 1);
  CHECK(late == 1);
  add();
  callers.give_up_all();
  CHECK(given_up == 1);
  callers.give_up_all();
  CHECK(given_up == 1);
}
