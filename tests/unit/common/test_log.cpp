#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/log/log.h"
#include "common/log/where.h"
#include "tests/catch.h"

using namespace weir;

namespace {

std::string text(log::Fields fields) {
  return log::text_of({log::Level::info, "an event", std::move(fields)});
}

// What is written to stderr meanwhile.
template <class Body>
std::string stderr_of(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd in(ends[0]), before(dup(STDERR_FILENO));
  struct stat status = {};
  REQUIRE(fstat(ends[1], &status) == 0);
  setenv("JOURNAL_STREAM", (std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino)).c_str(), 1);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  log::start();
  std::string got;
  std::thread reader([&] {
    char chunk[4096];
    for (ssize_t n = 0; (n = read(in.get(), chunk, sizeof chunk)) > 0;) got.append(chunk, static_cast<size_t>(n));
  });
  body();
  dup2(before.get(), STDERR_FILENO);  // the last writer's end
  reader.join();
  unsetenv("JOURNAL_STREAM");
  log::start();
  return got;
}

}  // namespace

TEST_CASE("values that are plain stand as they are, others in quotes") {
  CHECK(text({}) == "an event");
  CHECK(text({{"generation", 17u}, {"up", true}, {"socket", "/run/weir/dataplane.sock"}}) ==
        "an event generation=17 up=yes socket=/run/weir/dataplane.sock");
  CHECK(text({{"cause", "asked for"}, {"empty", ""}, {"url", "https://e.net/?a=1"}}) ==
        R"(an event cause="asked for" empty="" url="https://e.net/?a=1")");
  CHECK(text({{"interfaces", "xdp:eth0,eth1"}, {"took", log::milliseconds(38.06)}}) ==
        "an event interfaces=xdp:eth0,eth1 took=38.1ms");
}

TEST_CASE("nothing in a value ends a line, forges a field or moves a cursor") {
  CHECK(text({{"name", "a\n<3>forged"}}) == R"(an event name="a\n<3>forged")");
  CHECK(text({{"name", "a\" generation=\"9"}}) == R"(an event name="a\" generation=\"9")");
  CHECK(text({{"name", "\\"}}) == R"(an event name="\\")");
  CHECK(text({{"name", "\x1b[2J\r\t\x7f"}}) == R"(an event name="\x1b[2J\r\t\x7f")");
  CHECK(text({{"name", std::string("a\0b", 3)}}) == R"(an event name="a\x00b")");
  CHECK(text({{"name", "B\xc3\xb6se \xe2\x82\xac \xf0\x9f\x90\x9f"}}) ==
        "an event name=\"B\xc3\xb6se \xe2\x82\xac \xf0\x9f\x90\x9f\"");
  CHECK(text({{"name", "\xc2\x85\xe2\x80\xa8\xe2\x80\xae"}}) == R"(an event name="\u0085\u2028\u202e")");
  CHECK(text({{"name", "\xff\xc0\x80\xed\xa0\x80\xc3"}}) == R"(an event name="\xff\xc0\x80\xed\xa0\x80\xc3")");
  for (unsigned c = 0; c < 256; c++) {
    const std::string line = text({{"name", std::string(3, static_cast<char>(c))}});
    for (const char one : line) CHECK((one >= ' ' && one <= '~'));
  }
}

TEST_CASE("a line is as long as a pipe takes at once") {
  const std::string long_text(100'000, '\n');
  const std::string line = text({{"a", long_text}, {"b", long_text}, {"c", long_text}, {"d", 1}});
  CHECK(line.size() < 4096 - 64);
  CHECK(line.find("...\" ") != std::string::npos);
  CHECK(line.ends_with(" cut=yes"));
}

TEST_CASE("where levels are wanted") {
  log::Surroundings now;
  now.device = 25;
  now.inode = 4711;
  now.pid = 99;
  CHECK(log::where_of(now) == log::Where::elsewhere);
  now.journal_stream = "25:4711";
  CHECK(log::where_of(now) == log::Where::journal);
  now.journal_stream = "25:4712";  // stderr was redirected since
  CHECK(log::where_of(now) == log::Where::elsewhere);
  now.exec_pid = "98";  // a child of what systemd started
  CHECK(log::where_of(now) == log::Where::elsewhere);
  now.exec_pid = "99";
  CHECK(log::where_of(now) == log::Where::journal);
  now.is_file = true;  // StandardError=append:
  CHECK(log::where_of(now) == log::Where::elsewhere);
  now.is_terminal = true;
  now.journal_stream = "25:4711";
  CHECK(log::where_of(now) == log::Where::terminal);
}

TEST_CASE("levels, the limit and its exception, on stderr") {
  const std::string got = stderr_of([] {
    log::debug("not told");
    log::error("an error", {{"of", "it"}});
    log::warning("a warning");
    log::info("an info");
    for (int i = 0; i < 20; i++) log::notice("a notice", {{"subject", "x"}, {"number", i}});
    for (int i = 0; i < 20; i++) log::change("a change", {{"subject", "x"}});
    Diagnostics diagnostics;
    diagnostics.add({Severity::warning, {"weir.yaml", 3, 1}, "list\n'a' is empty", "  - name: a", "fill it"});
    log::tell(diagnostics);
  });
  std::string expected = "<3>an error of=it\n<4>a warning\n<6>an info\n";
  for (int i = 0; i < 5; i++) expected += "<5>a notice subject=x number=" + std::to_string(i) + "\n";
  for (int i = 0; i < 20; i++) expected += "<5>a change subject=x\n";
  expected += R"(<4>configuration place=weir.yaml:3:1 text="list\n'a' is empty" hint="fill it")"
              "\n";
  CHECK(got == expected);
}

TEST_CASE("lines of several threads are whole") {
  const std::string got = stderr_of([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
      threads.emplace_back([t] {
        for (int i = 0; i < 500; i++) log::change("a change", {{"thread", t}, {"text", std::string(1000, 'x')}});
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  size_t lines = 0;
  for (size_t at = 0; at < got.size(); lines++) {
    const size_t end = got.find('\n', at);
    REQUIRE(end != std::string::npos);
    REQUIRE(got.compare(at, 19, "<5>a change thread=") == 0);
    REQUIRE(end - at == std::string("<5>a change thread=0 text=").size() + 1000);
    at = end + 1;
  }
  CHECK(lines == 2000);
}
