// A failed unit test keeps its folder. This program runs its own hidden cases, which fail on purpose.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "tests/catch.h"
#include "tests/unit/eventually.h"
#include "tests/unit/folder.h"

TEST_CASE("fails by a check", "[.]") {
  const Folder folder;
  folder.write("left", "by a check");
  CHECK(std::getenv("WEIR_EVIDENCE") == nullptr);
}

TEST_CASE("fails by an exception", "[.]") {
  const Folder folder;
  folder.write("left", "by an exception");
  if (std::getenv("WEIR_EVIDENCE") != nullptr) throw std::runtime_error("on purpose");
}

TEST_CASE("passes", "[.]") {
  const Folder folder;
  folder.write("left", "by nobody");
}

TEST_CASE("asserts in a thread of its own", "[.]") {
  std::thread([] { CHECK(true); }).join();
}

TEST_CASE("a thread of a test's own that asserts ends the program, with its place") {
  const Folder folder;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "'" + self.string() + "' 'asserts in a thread of its own' >'" + (folder / "output") + "' 2>&1";
  CHECK(std::system(command.c_str()) != 0);
  CHECK_THAT(folder.read("output"), Catch::Matchers::ContainsSubstring("a thread of its own asserts"));
}

namespace {

std::atomic<bool> stands_there = false;

__attribute__((noinline)) void stands_for_ever() {
  stands_there = true;
  while (stands_there) a_moment();
}

}  // namespace

TEST_CASE("hangs", "[.]") {
  std::thread(stands_for_ever).detach();
  CHECK(eventually([] { return stands_there.load(); }));
  raise(SIGTERM);  // as meson does when the time is over
}

TEST_CASE("a test whose time is over tells where its threads are") {
  if (access("/usr/bin/eu-stack", X_OK) != 0)
    return say_skipped("package: no eu-stack: scripts/setup test installs it");
  const Folder folder;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  CHECK(std::system(("'" + self.string() + "' hangs >'" + (folder / "output") + "' 2>&1").c_str()) != 0);
  CHECK_THAT(folder.read("output"), Catch::Matchers::ContainsSubstring("stands_for_ever"));
}

TEST_CASE("a failed test keeps its folder, with its place and the command that runs it again") {
  struct Row {
    const char *test, *slug, *left;
  };
  constexpr Row kRows[] = {{"fails by a check", "fails-by-a-check", "by a check"},
                           {"fails by an exception", "fails-by-an-exception", "by an exception"},
                           {"passes", "passes", nullptr}};
  const Folder folder;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  for (const Row& row : kRows) {
    INFO(row.test);
    const std::string place = folder / "evidence", output = folder / "output";
    const std::string command =
        "WEIR_EVIDENCE='" + place + "' '" + self.string() + "' '" + row.test + "' >'" + output + "' 2>&1";
    const int status = std::system(command.c_str());
    const std::string told = folder.read("output");
    INFO(told);
    REQUIRE(WIFEXITED(status));
    CHECK((WEXITSTATUS(status) == 0) == (row.left == nullptr));
    const std::filesystem::path of_test = std::filesystem::path(place) / self.filename() / row.slug;
    if (row.left == nullptr) {
      CHECK_FALSE(std::filesystem::exists(of_test));
      CHECK(told.find("evidence: ") == std::string::npos);
      continue;
    }
    REQUIRE(std::filesystem::exists(of_test));
    const std::filesystem::path kept = std::filesystem::directory_iterator(of_test)->path();
    std::ifstream file(kept / "left");
    CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == row.left);
    CHECK(told.find("evidence: " + kept.string() + "\n") != std::string::npos);
    CHECK(told.find("again: " + self.string() + " \"" + row.test + "\"\n") != std::string::npos);
  }
}
