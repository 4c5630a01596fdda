// Former generations on disk: each file once, nothing that holds other bytes, and the least needed goes first.
#include <sys/stat.h>

#include "common/digest.h"
#include "control/enforce/publish/history_files.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control {
namespace {

constexpr uint64_t kEpoch = 5, kPlenty = 1 << 20;

HistoryFiles::Feed feed_of(const std::string& path, const std::string& text) {
  return {path, digest_of(std::as_bytes(std::span(text)))};
}

struct Kept {
  Folder folder;
  HistoryFiles files{folder.path()};

  void keep(uint64_t number, const std::vector<HistoryFiles::Feed>& feeds, uint64_t most_bytes = kPlenty) const {
    for (const char* name : {"book.weir", "snapshot.weir"}) {
      const std::string bytes(1000, 'b');
      REQUIRE(Store::write_file(folder / name, {kEpoch, number}, std::as_bytes(std::span(bytes))));
    }
    REQUIRE(files.keep({kEpoch, number}, "version: 1\n"));
    files.keep_more({kEpoch, number}, feeds, most_bytes);
  }
  bool has_feed(uint64_t number, const HistoryFiles::Feed& feed) const {
    return !files.feed_path(number, feed.digest).empty();
  }
  bool has_snapshot(uint64_t number) const { return bool(files.open_snapshot({kEpoch, number})); }
};

ino_t inode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_ino;
}

}  // namespace

TEST_CASE("a feed that several generations have is there once, also when its file is gone") {
  const Kept kept;
  const std::string text = "192.0.2.1\n";
  const HistoryFiles::Feed feed = feed_of(kept.folder.write("feed", text), text);
  kept.keep(1, {feed, feed});
  kept.folder.write("feed", "192.0.2.2\n");
  kept.keep(2, {feed});
  REQUIRE((kept.has_feed(1, feed) && kept.has_feed(2, feed)));
  CHECK(inode_of(kept.files.feed_path(1, feed.digest)) == inode_of(kept.files.feed_path(2, feed.digest)));
  CHECK(inode_of(kept.files.feed_path(1, feed.digest)) != inode_of(feed.path));
  kept.files.trim({2}, kPlenty);
  CHECK_FALSE(kept.has_feed(1, feed));
  CHECK(kept.folder.read("history/" +
                         std::filesystem::path(kept.files.feed_path(2, feed.digest)).filename().string()) == text);
}

TEST_CASE("what was fetched is linked, since it is replaced and never changed") {
  const Kept kept;
  const std::string text = "192.0.2.1\n";
  const HistoryFiles::Feed feed = feed_of(kept.folder.write("feeds/list.feed", text), text);
  kept.keep(1, {feed});
  CHECK(inode_of(kept.files.feed_path(1, feed.digest)) == inode_of(feed.path));
}

TEST_CASE("a file that holds something else, is too large, or is none is not kept") {
  const Kept kept;
  const std::string text(1000, 'x');
  const HistoryFiles::Feed other = feed_of(kept.folder.write("other", "else"), text);
  const HistoryFiles::Feed fetched = feed_of(kept.folder.write("feeds/other.feed", "else"), text + "y");
  const HistoryFiles::Feed gone = feed_of(kept.folder / "gone", "gone");
  const HistoryFiles::Feed large = feed_of(kept.folder.write("large", text + "z"), text + "z");
  const HistoryFiles::Feed folder = feed_of(kept.folder.make("folder"), "folder");
  kept.keep(1, {other, fetched, gone, large, folder}, 4000);
  for (const HistoryFiles::Feed& feed : {other, fetched, gone, large, folder}) CHECK_FALSE(kept.has_feed(1, feed));
  size_t n_files = 0;
  for (const auto& file : std::filesystem::directory_iterator(kept.folder / "history")) n_files += file.exists();
  CHECK(n_files == 3);  // policy, book, snapshot
}

TEST_CASE("only the snapshot of the generation itself is kept") {
  const Kept kept;
  kept.keep(1, {});
  CHECK(kept.has_snapshot(1));
  // The store still has that of 1.
  REQUIRE(Store::write_file(kept.folder / "book.weir", {kEpoch, 2}, {}));
  REQUIRE(kept.files.keep({kEpoch, 2}, "version: 1\n"));
  kept.files.keep_more({kEpoch, 2}, {}, kPlenty);
  CHECK_FALSE(kept.has_snapshot(2));
  CHECK(kept.has_snapshot(1));
}

TEST_CASE("what is only told of goes before what one can go back to, and the last two stay") {
  const Kept kept;
  std::vector<HistoryFiles::Feed> feeds;
  for (uint64_t number = 1; number <= 5; number++) {
    const std::string text = std::string(2000, 'a') + std::to_string(number);
    feeds.push_back(feed_of(kept.folder.write("feed", text), text));
    kept.keep(number, {feeds.back()});
  }
  const std::vector<uint64_t> all = {1, 2, 3, 4, 5};
  CHECK(kept.files.trim(all, kPlenty) == 1);
  CHECK((kept.has_feed(1, feeds[0]) && kept.has_snapshot(1)));
  // Each takes 2,001 and 1,064 bytes for what is told of, 1,064 and 75 for the way back.
  CHECK(kept.files.trim(all, 16'000) == 1);
  CHECK_FALSE((kept.has_feed(1, feeds[0]) || kept.has_snapshot(1)));
  CHECK(kept.files.has(1));
  CHECK((kept.has_feed(3, feeds[2]) && kept.has_snapshot(3)));
  CHECK(kept.files.trim(all, 11'000) == 1);
  CHECK((kept.files.has(1) && !kept.has_feed(4, feeds[3]) && kept.has_feed(5, feeds[4])));
  CHECK(kept.files.trim(all, 4'000) == 3);
  CHECK_FALSE((kept.files.has(2) || kept.has_feed(5, feeds[4]) || kept.has_snapshot(5)));
  CHECK(kept.files.trim(all, 1) == 4);
  CHECK((kept.files.has(4) && kept.files.has(5)));
}

}  // namespace weir::control
