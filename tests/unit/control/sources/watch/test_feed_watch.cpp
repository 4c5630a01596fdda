// Which changes of files are told, and when: renamed, written in place, gone, behind links.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "control/policy/read/feed_group.h"
#include "control/policy/read/feed_parts.h"
#include "control/sources/watch/feed_watch.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"
#include "tests/unit/own_clocks.h"

using namespace weir;
using namespace weir::control;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kQuiet{FeedWatch::kQuietMs};

// A watch, and how often each path was told. Time passes only while something is waited for.
struct Watched {
  explicit Watched(std::vector<std::string> paths, FeedWatch::Times times = {}) {
    auto started = FeedWatch::start(
        [this](std::vector<std::string> changed) {
          const std::lock_guard lock(mutex);
          for (const std::string& path : changed) told[path]++;
        },
        times);
    REQUIRE(started);
    watch = std::move(*started);
    std::vector<WatchedFile> files;
    for (const std::string& path : paths) files.push_back({path, identity_of(path)});
    watch->watch(files);
    (void)watch->is_being_written("");  // it has heard of them
  }
  int times(const std::string& path) {
    const std::lock_guard lock(mutex);
    return told[path];
  }
  // The watch's thread has done what is due: it looks at the clocks, and answers after what came before.
  void settle() {
    for (int i = 0; i < 3; i++) (void)watch->is_being_written("");
  }
  // Told so often, as time passes.
  bool is_told(const std::string& path, int often) {
    return clocks.pass_until(milliseconds(10), [&] { return times(path) == often; });
  }
  bool is_quiet(const std::string& path) {
    settle();
    const int before = times(path);
    for (int i = 0; i < 6; i++) {
      clocks.pass(kQuiet);
      settle();
    }
    return times(path) == before;
  }

  OwnClocks clocks;
  std::mutex mutex;
  std::map<std::string, int> told;
  std::unique_ptr<FeedWatch> watch;
};

void put(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

// In place; open until it goes.
struct Writer {
  explicit Writer(const std::string& path, int flags = O_TRUNC)
      : fd(open(path.c_str(), O_WRONLY | O_CREAT | flags, 0644)) {
    REQUIRE(fd);
  }
  void write(const std::string& text) const {
    REQUIRE(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  Fd fd;
};

}  // namespace

TEST_CASE("a file that is renamed into place is told at once, and once") {
  const Folder folder;
  const std::string path = folder.write("feeds/a", "1"), other = folder.write("feeds/b", "1");
  Watched watched({path, other});
  put(path, "2");
  CHECK(eventually([&] { return watched.times(path) == 1; }));  // no time passes
  CHECK(watched.is_quiet(path));
  CHECK(watched.times(other) == 0);
}

TEST_CASE("a file that is written in place is told when its writer has closed it, and not while he pauses") {
  const Folder folder;
  const std::string path = folder.write("a", "1\n2\n");
  Watched watched({path});
  {
    const Writer writer(path);
    CHECK(eventually([&] { return watched.watch->is_being_written(path); }));
    writer.write("1\n");
    CHECK(watched.is_quiet(path));
    CHECK(watched.watch->is_being_written(path));
    CHECK_FALSE(watched.watch->is_being_written(path, 10));  // so long he has not written
    writer.write("2\n");
    CHECK(watched.watch->is_being_written(path, 10'000));
    CHECK(watched.times(path) == 0);
  }
  CHECK_FALSE(watched.watch->is_being_written(path));
  CHECK(watched.is_told(path, 1));
  CHECK(watched.is_quiet(path));
}

TEST_CASE("a file that is opened anew for each line is told when nobody does any more") {
  const Folder folder;
  const std::string path = folder.write("a", "");
  Watched watched({path});
  for (int i = 0; i < 20; i++) {
    Writer(path, O_APPEND).write("line\n");
    watched.settle();
    watched.clocks.pass(kQuiet / 2);
  }
  CHECK(watched.times(path) == 0);
  CHECK(watched.is_told(path, 1));
  CHECK(watched.is_quiet(path));
}

TEST_CASE("a file that appears, that goes, and that is exchanged in between") {
  const Folder folder;
  const std::string path = folder / "a";
  Watched watched({path});
  SECTION("renamed into place") {
    put(path, "1");
  }
  SECTION("made by its writer") {
    const Writer writer(path);
    CHECK(watched.is_quiet(path));
    writer.write("1");
  }
  SECTION("linked") {
    folder.write("b", "1");
    std::filesystem::create_hard_link(folder / "b", path);
  }
  SECTION("in a folder that appears later") {
    std::filesystem::create_directories(folder / "later");
    watched.watch->watch({{folder / "new/a", std::nullopt}});
    (void)watched.watch->is_being_written("");
    std::filesystem::create_directories(folder / "tmp");
    folder.write("tmp/a", "1");
    std::filesystem::rename(folder / "tmp", folder / "new");
    CHECK(watched.is_told(folder / "new/a", 1));
    return;
  }
  CHECK(watched.is_told(path, 1));
  std::filesystem::remove(path);
  CHECK(watched.is_quiet(path));
  put(path, "2");
  CHECK(watched.is_told(path, 2));
  std::filesystem::remove(path);
  CHECK(watched.is_told(path, 3));
}

TEST_CASE("links on the way are followed, as they are exchanged") {
  const Folder folder;
  folder.write("v1/a", "1");
  folder.write("v2/a", "2");
  std::filesystem::create_directory_symlink("v1", folder / "current");
  std::filesystem::create_symlink("current/a", folder / "a");
  Watched watched({folder / "a"});
  std::filesystem::create_directory_symlink("v2", folder / "current.new");
  std::filesystem::rename(folder / "current.new", folder / "current");
  CHECK(watched.is_told(folder / "a", 1));
  put(folder / "v2/a", "3");
  CHECK(watched.is_told(folder / "a", 2));
  put(folder / "v1/a", "4");
  CHECK(watched.is_quiet(folder / "a"));
  std::filesystem::create_symlink("a", folder / "circle");  // a -> circle -> a
  std::filesystem::remove(folder / "a");
  std::filesystem::create_symlink("circle", folder / "a");
  CHECK(watched.is_told(folder / "a", 3));
}

TEST_CASE("what changed before it was watched is told; what was read meanwhile is not") {
  const Folder folder;
  const std::string path = folder.write("a", "1");
  Watched watched({});
  const auto read = identity_of(path);
  put(path, "2");
  watched.watch->watch({{path, read}});
  CHECK(watched.is_told(path, 1));
  {
    Writer(path).write("3");
    watched.watch->watch({{path, identity_of(path)}});
  }
  CHECK(watched.is_quiet(path));
  watched.watch->watch({});
  put(path, "4");
  CHECK(watched.is_quiet(path));
}

TEST_CASE("a folder that is exchanged for another") {
  const Folder folder;
  const std::string path = folder.write("feeds/a", "1");
  folder.write("next/a", "2");
  Watched watched({path});
  std::filesystem::rename(folder / "feeds", folder / "old");
  std::filesystem::rename(folder / "next", folder / "feeds");
  CHECK(watched.clocks.pass_until(milliseconds(10), [&] { return watched.times(path) != 0; }));
  // On a machine that stood still between the two, it was told that the file is gone, and then that it is another one.
  CHECK(eventually([&] { return watched.is_quiet(path); }));
  const int before = watched.times(path);
  put(path, "3");
  CHECK(watched.is_told(path, before + 1));
}

TEST_CASE("a folder that is exchanged while its name is looked for is not overlooked") {
  constexpr int kRounds = 1000;
  const Folder folder;
  const std::string path = folder.write("feeds/a", "1");
  Watched watched({path});
  int overlooked = 0;
  for (int round = 0; round < kRounds; round++) {
    watched.watch->watch({{path, std::nullopt}});  // what it watched on the way of the round before is let go
    (void)watched.watch->is_being_written("");
    folder.write("next/a", "1");
    std::filesystem::rename(folder / "feeds", folder / "old");
    for (int i = 0; i < round % 100 * 300; i++) asm volatile("");  // for a moment there is no such folder
    std::filesystem::rename(folder / "next", folder / "feeds");
    (void)watched.watch->is_being_written("");  // it has heard of both
    const Writer writer(path, O_APPEND);
    writer.write("2");
    if (!watched.watch->is_being_written(path)) overlooked++;
    std::filesystem::remove_all(folder / "old");
  }
  CHECK(overlooked == 0);
}

TEST_CASE("what the kernel does not tell is found by looking") {
  const Folder folder;
  const std::string path = folder.write("a", "1");
  Watched watched({path}, {.sweep_ms = 20, .settled_ms = 200});
  char* bytes = nullptr;
  {
    const Fd fd(open(path.c_str(), O_RDWR));
    bytes = static_cast<char*>(mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    REQUIRE(bytes != MAP_FAILED);
  }
  CHECK(watched.is_quiet(path));
  bytes[0] = '2';  // inotify(7): not of mmap(2)
  REQUIRE(msync(bytes, 1, MS_SYNC) == 0);
  CHECK(watched.is_told(path, 1));
  CHECK(watched.is_quiet(path));
  munmap(bytes, 1);
}

TEST_CASE("the way of a path") {
  const Folder folder;
  folder.write("v1/a", "1");
  std::filesystem::create_directory_symlink("v1", folder / "current");
  std::filesystem::create_directory_symlink(folder / "current", folder / "absolute");
  const std::string root = std::filesystem::canonical(folder.path()).string();
  const auto way = [&](const std::string& path) { return waypoints_of(root + "/" + path); };
  CHECK(way("v1/a") == std::vector<Waypoint>{{root + "/v1", "a"}});
  CHECK(way("v1/../v1/./a") == std::vector<Waypoint>{{root + "/v1", "a"}});
  CHECK(way("current/a") == std::vector<Waypoint>{{root, "current"}, {root + "/v1", "a"}});
  CHECK(way("absolute/a").size() >= 3);
  CHECK(way("absolute/a").back() == Waypoint{root + "/v1", "a"});
  CHECK(way("none/of/it") == std::vector<Waypoint>{{root, "none"}});
  std::filesystem::create_symlink("circle", folder / "circle");
  CHECK(way("circle").size() == 41);  // 40 are followed, as by the kernel
}

TEST_CASE("what a pattern or a folder stands for is told when it is other files") {
  const Folder folder;
  put(folder / "a.txt", "1\n");
  Watched watched({});
  for (const std::string& path : {folder / "*.txt", folder / ""}) {
    const Result<std::vector<std::string>> names = feed_names(path);
    REQUIRE(names);
    watched.watch->watch({{path, identity_of(*names), true}});
    (void)watched.watch->is_being_written("");
    CHECK(watched.is_quiet(path));

    put(folder / "b.txt", "2\n");  // renamed
    REQUIRE(watched.is_told(path, 1));
    put(folder / "b.txt", "3\n");  // the same names
    CHECK(watched.is_quiet(path));
    {
      const Writer writer(folder / "c.txt");
      writer.write("4\n");
      CHECK(watched.is_quiet(path));  // it is not closed yet
    }
    REQUIRE(watched.is_told(path, 2));
    std::filesystem::remove(folder / "b.txt");
    std::filesystem::remove(folder / "c.txt");
    REQUIRE(watched.is_told(path, 3));
  }
}

TEST_CASE("who opened a file before it was watched writes to it, and it is told when he has closed it") {
  const Folder folder;
  const std::string path = folder.write("a.txt", "1\n");
  Watched watched({});
  auto writer = std::make_unique<Writer>(path);
  CHECK(watched.watch->is_being_written(path));
  CHECK(watched.is_quiet(path));
  writer.reset();  // without a change since
  REQUIRE(watched.is_told(path, 1));
  CHECK_FALSE(watched.watch->is_being_written(path));

  const std::string other = folder.write("b.txt", "1\n");
  const Fd reader(open(other.c_str(), O_RDONLY));
  CHECK_FALSE(watched.watch->is_being_written(other));
}

TEST_CASE("what changed before its content was taken is told once it is known what was taken") {
  const Folder folder;
  const std::string path = folder.write("a.txt", "1\n");
  const auto as_read = identity_of(path);
  Watched watched({});
  CHECK_FALSE(watched.watch->is_being_written(path));  // as a start asks
  put(path, "2\n");
  REQUIRE(watched.is_told(path, 1));  // and nobody could use it
  watched.watch->watch({{path, as_read}});
  REQUIRE(watched.is_told(path, 2));
  watched.watch->watch({{path, identity_of(path)}});
  CHECK(watched.is_quiet(path));
}
