// What a node keeps of its fleet on disk.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "control/sources/fleet/pieces.h"
#include "control/sources/fleet/store.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control::fleet {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

BlobFile file_of(const std::string& path, const std::string& text) {
  return {path, sha256_of(bytes_of(text)), text.size()};
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("what was followed is read again, and another fleet's is not") {
  const Folder folder;
  const Store store(folder / "fleet");
  REQUIRE(store.read("edge"));
  CHECK(store.read("edge")->turn == 0);
  Followed followed;
  followed.fleet = "edge";
  followed.turn = 7;
  followed.revision = 3;
  followed.policy = "/x/weir.yaml";
  REQUIRE(store.write(followed));
  CHECK(store.read("edge")->turn == 7);
  CHECK(store.read("edge")->policy == "/x/weir.yaml");
  CHECK(store.read("core")->turn == 0);
  followed.turn = UINT64_MAX;  // as older versions kept it
  followed.head_id = "zz";
  REQUIRE(store.write(followed));
  CHECK(store.read("edge")->turn == 0);
  CHECK(store.read("edge")->head_id.empty());
  CHECK(store.read("edge")->revision == 3);
  std::ofstream(folder / "fleet/followed") << "{\"fleet\": ";
  CHECK(store.read("edge")->turn == 0);
}

TEST_CASE("a revision is laid out of bytes that are what their digest says") {
  const Folder folder;
  const Store store(folder / "fleet");
  const std::string policy = "version: 1\n", feed = "192.0.2.1\n";
  Revision revision;
  revision.number = 3;
  revision.policy = "weir.yaml";
  revision.files = {file_of("weir.yaml", policy), file_of("feeds/a.txt", feed), file_of("feeds/b.txt", feed)};
  CHECK(store.missing(revision).size() == 2);  // two files have the same bytes
  CHECK_FALSE(store.put(revision.files[0], bytes_of(feed)));
  CHECK_FALSE(store.put(revision.files[0], bytes_of(policy + " ")));
  CHECK_FALSE(store.put(revision.files[0], bytes_of("version: 2\n")));
  CHECK(store.missing(revision).size() == 2);
  REQUIRE(store.put(revision.files[0], bytes_of(policy)));
  CHECK_FALSE(store.lay_out(revision));  // not all is here
  REQUIRE(store.put(revision.files[1], bytes_of(feed)));
  CHECK(store.missing(revision).empty());
  const Result<std::string> path = store.lay_out(revision);
  REQUIRE(path);
  CHECK(read(*path) == policy);
  CHECK(read(folder / "fleet/3/feeds/b.txt") == feed);
  REQUIRE(store.lay_out(revision));  // once more, after a crash

  Revision next = revision;
  next.number = 4;
  next.files.pop_back();
  const std::string other = "version: 1\nlists: []\n";
  next.files[0] = file_of("weir.yaml", other);
  REQUIRE(store.missing(next).size() == 1);
  REQUIRE(store.put(next.files[0], bytes_of(other)));
  REQUIRE(store.lay_out(next));
  CHECK(store.bytes_of(3, "feeds/b.txt") == feed);
  CHECK(store.bytes_of(4, "feeds/b.txt").empty());
  store.keep_only({4});
  CHECK_FALSE(std::filesystem::exists(folder / "fleet/3"));
  CHECK(std::filesystem::exists(folder / "fleet/4/feeds/a.txt"));
  CHECK(store.missing(next).empty());
  CHECK(store.missing(revision).size() == 1);  // its policy went with it

  const Result<std::string> none = store.empty_policy();
  REQUIRE(none);
  CHECK(read(*none).find("lists: []") != std::string::npos);
}

}  // namespace weir::control::fleet
