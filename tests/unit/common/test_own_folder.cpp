// Folders that somebody else may write, or could have put in the place of ours.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/own_folder.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

using namespace weir;

namespace {

constexpr uid_t kStranger = 65534, kFriend = 65533;

std::string why(const std::string& path, std::span<const uid_t> others = {}) {
  const Result<void> checked = check_own_folder(path, "--socket", others);
  return checked ? "" : checked.error();
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a folder of our own is taken, and made where there is none") {
  const Folder folder;
  CHECK(why(folder / ".").empty());
  REQUIRE(make_own_folder(folder / "made/on/the/way", 0700, "--state-dir"));
  CHECK(why(folder / "made/on/the/way").empty());
  CHECK(why(folder / "made/../made/./on").empty());
  CHECK(says(why(folder / "absent"), "cannot look at"));
}

TEST_CASE("nothing is made in a folder that is refused") {
  const Folder folder;
  const std::string open = folder.make("open");
  REQUIRE(chmod(open.c_str(), 0777) == 0);
  CHECK_FALSE(make_own_folder(open + "/a/b", 0700, "--state-dir"));
  CHECK_FALSE(std::filesystem::exists(open + "/a"));
  REQUIRE(chmod(open.c_str(), 01777) == 0);
  CHECK(make_own_folder(open + "/a/b", 0700, "--state-dir"));
  if (geteuid() != 0) return;
  const std::string foreign = folder.make("foreign");
  REQUIRE(chown(foreign.c_str(), kStranger, kStranger) == 0);
  CHECK_FALSE(make_own_folder(foreign + "/a", 0700, "--state-dir"));
  CHECK_FALSE(std::filesystem::exists(foreign + "/a"));
}

TEST_CASE("a folder below one that cannot be read is told, and nothing is thrown") {
  const Folder folder;
  REQUIRE(chmod((folder / ".").c_str(), 0755) == 0);
  const std::string closed = folder.make("closed");
  REQUIRE(chmod(closed.c_str(), 0700) == 0);
  const auto ask = [&] {
    const Result<void> made = make_own_folder(closed + "/a/b", 0700, "--state-dir");
    return made ? std::string() : made.error();
  };
  if (geteuid() != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    const bool is_other = setresuid(kStranger, kStranger, kStranger) == 0;
    _exit(is_other && says(ask(), "cannot create folder " + closed + "/a: Permission denied") ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("names of what is in a folder") {
  const Folder folder;
  folder.write("a", "");
  folder.make("b");
  Result<std::vector<std::string>> names = names_in(folder / ".");
  REQUIRE(names);
  std::sort(names->begin(), names->end());
  CHECK(*names == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(names_in(folder / "c"));
}

TEST_CASE("a folder that others may write is refused, with its mode and the way out") {
  const Folder folder;
  const std::string open = folder.make("open");
  for (const mode_t mode : {0777u, 0757u, 01777u}) {
    REQUIRE(chmod(open.c_str(), mode) == 0);
    CHECK(says(why(open), "the folder " + open + " has mode " +
                              (mode == 01777u  ? "1777"
                               : mode == 0777u ? "0777"
                                               : "0757")));
    CHECK(says(why(open), "chmod go-w " + open + ", or name another folder with --socket"));
    CHECK_FALSE(make_own_folder(open, 0700, "--socket"));
    REQUIRE(mkdir((open + "/below").c_str(), 0700) == 0);
    // Nobody else can take a folder of ours out of a sticky one.
    CHECK(why(open + "/below").empty() == (mode == 01777u));
    rmdir((open + "/below").c_str());
  }
}

TEST_CASE("a link is followed when it is ours") {
  const Folder folder;
  const std::string open = folder.make("open"), closed = folder.make("closed");
  REQUIRE(chmod(open.c_str(), 0777) == 0);
  std::filesystem::create_symlink("closed", folder / "relative");
  std::filesystem::create_symlink(open, folder / "absolute");
  std::filesystem::create_symlink("round", folder / "round");
  CHECK(why(folder / "relative").empty());
  CHECK(says(why(folder / "absolute"), "has mode 0777"));
  CHECK(says(why(folder / "round"), "too many links"));
}

TEST_CASE("a folder of another user is refused, but where he may have one") {
  if (geteuid() != 0) {
    say_skipped("root: nobody else can be given a folder");
    return;
  }
  const Folder folder;
  const std::string theirs = folder.make("theirs"), sticky = folder.make("sticky");
  REQUIRE(mkdir((theirs + "/ours").c_str(), 0700) == 0);
  REQUIRE(chown(theirs.c_str(), kStranger, kStranger) == 0);
  CHECK(says(why(theirs), "the folder " + theirs + " belongs to user " + user_text(kStranger)));
  CHECK(says(why(theirs), "or name another folder with --socket"));
  CHECK(says(why(theirs + "/ours"), "the folder " + theirs + " belongs to user"));
  const uid_t others[] = {kFriend, kStranger};
  CHECK(why(theirs, others).empty());
  CHECK_FALSE(why(theirs, std::span(others).first(1)).empty());

  REQUIRE(chmod(sticky.c_str(), 01777) == 0);
  REQUIRE(mkdir((sticky + "/anybody").c_str(), 0755) == 0);
  REQUIRE(chown((sticky + "/anybody").c_str(), kStranger, kStranger) == 0);
  CHECK(says(why(sticky + "/anybody", others), "belongs to user"));
  std::filesystem::create_symlink(folder / "ours", sticky + "/link");
  folder.make("ours");
  REQUIRE(lchown((sticky + "/link").c_str(), kStranger, kStranger) == 0);
  CHECK(says(why(sticky + "/link"), "the link " + sticky + "/link belongs to user"));
}
