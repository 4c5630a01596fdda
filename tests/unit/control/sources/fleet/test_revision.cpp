// What a revision may consist of, and the bytes of its files.
#include "control/sources/fleet/pieces.h"
#include "control/sources/fleet/revision.h"
#include "tests/catch.h"

namespace weir::control::fleet {
namespace {

const std::string kDigest(64, 'a');

Revision revision_of(std::vector<BlobFile> files) {
  Revision revision;
  revision.number = 3;
  revision.policy = "weir.yaml";
  revision.files = std::move(files);
  return revision;
}

BlobFile file_of(const std::string& path) {
  return {path, kDigest, 10};
}

std::string refusal_of(const Revision& revision) {
  const Result<Revision> read = read_revision(text_of(revision));
  return read ? "" : read.error();
}

}  // namespace

TEST_CASE("the files of a revision stay in its folder") {
  for (const char* inside : {"weir.yaml", "feeds/a.txt", "a/b/c", "..a", "a..b/c", ".hidden"})
    CHECK(is_path_inside(inside));
  for (const std::string outside :
       {"", "/", "/a", "a/", "..", "a/..", "../a", "a/../../b", ".", "./a", "a//b", "a/./b", "a\nb"}) {
    CHECK_FALSE(is_path_inside(outside));
  }
  CHECK_FALSE(is_path_inside(std::string(201, 'a')));
}

TEST_CASE("a revision is read as it was written, or not at all") {
  const Revision good = revision_of({file_of("weir.yaml"), file_of("feeds/a.txt")});
  const Result<Revision> read = read_revision(text_of(good));
  REQUIRE(read);
  CHECK(text_of(*read) == text_of(good));

  CHECK(refusal_of(revision_of({file_of("feeds/a.txt")})).find("no policy file") != std::string::npos);
  CHECK(refusal_of(revision_of({file_of("weir.yaml"), file_of("../a")})).find("leads out") != std::string::npos);
  CHECK(refusal_of(revision_of({file_of("weir.yaml"), file_of("weir.yaml")})).find("two files") != std::string::npos);
  CHECK(refusal_of(revision_of({file_of("weir.yaml"), file_of("weir.yaml/a")})).find("in a file") != std::string::npos);
  Revision changed = good;
  changed.files[1].digest = "AA";
  CHECK(refusal_of(changed).find("no digest") != std::string::npos);
  changed = good;
  changed.files[1].bytes = kMostBlob + 1;
  CHECK(refusal_of(changed).find("larger") != std::string::npos);
  changed = good;
  changed.files[1].packed_bytes = kMostPacked + 1;
  CHECK(refusal_of(changed).find("larger") != std::string::npos);
  changed = good;
  changed.files[1].url = "http://192.0.2.1/a";
  CHECK(refusal_of(changed).empty());
  changed = good;
  changed.number = 0;
  CHECK(refusal_of(changed).find("no number") != std::string::npos);
  changed = good;
  changed.files.assign(kMostFiles + 1, file_of("weir.yaml"));
  CHECK(refusal_of(changed).find("1000 files") != std::string::npos);
}

TEST_CASE("bytes are packed, and known by their digest") {
  const std::string text = "abc";
  CHECK(sha256_of(std::as_bytes(std::span(text))) ==  // FIPS 180-2, appendix B.1
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (const std::string& bytes : {std::string(), std::string("a"), std::string(2'000'000, 'x')}) {
    const std::string packed = pack(bytes);
    std::string back(bytes.size(), '\0');
    REQUIRE(unpack(packed, std::as_writable_bytes(std::span(back))));
    CHECK(back == bytes);
    std::string longer(bytes.size() + 1, '\0');
    CHECK_FALSE(unpack(packed, std::as_writable_bytes(std::span(longer))));
    if (!bytes.empty()) {
      std::string shorter(bytes.size() - 1, '\0');
      CHECK_FALSE(unpack(packed, std::as_writable_bytes(std::span(shorter))));
    }
    CHECK_FALSE(unpack(packed.substr(0, packed.size() - 1), std::as_writable_bytes(std::span(back))));
  }
}

}  // namespace weir::control::fleet
