// Files in pieces: what of a file that changed is in the file before it.
#include <algorithm>
#include <random>

#include "control/sources/fleet/pieces.h"
#include "tests/catch.h"

namespace weir::control::fleet {
namespace {

// A feed: so many lines, each an address by chance.
std::string feed(size_t lines) {
  std::minstd_rand random(7);
  std::string text;
  for (size_t i = 0; i < lines; i++) {
    for (int part = 0; part < 4; part++) text += std::to_string(random() % 256) + (part == 3 ? "\n" : ".");
  }
  return text;
}

std::string joined(const std::vector<std::string_view>& pieces) {
  std::string text;
  for (const std::string_view piece : pieces) text += piece;
  return text;
}

std::string made_of(const std::string& before, const std::string& after, size_t& missing_pieces) {
  const Pieces pieces = pieces_of(cut(after, after.size()));
  const Older older(before, after.size());
  const std::vector<bool> missing = older.missing(pieces);
  missing_pieces = static_cast<size_t>(std::count(missing.begin(), missing.end(), true));
  std::string made(after.size(), '\0');
  older.fill(pieces, std::as_writable_bytes(std::span(made)));
  for (size_t n = 0, at = 0; n < pieces.all.size(); at += pieces.all[n++].bytes) {
    if (missing[n]) made.replace(at, pieces.all[n].bytes, after, at, pieces.all[n].bytes);
  }
  return made;
}

std::string refusal_of(const Pieces& pieces, uint64_t file_bytes) {
  const Result<Pieces> read = read_pieces(text_of(pieces), file_bytes);
  return read ? "" : read.error();
}

}  // namespace

TEST_CASE("pieces are the whole file, each within its limits") {
  for (const size_t lines : {size_t{0}, size_t{1}, size_t{100'000}, size_t{700'000}}) {
    const std::string text = feed(lines);
    const std::vector<std::string_view> pieces = cut(text, text.size());
    CHECK(joined(pieces) == text);
    CHECK(pieces.empty() == text.empty());
    for (size_t n = 0; n < pieces.size(); n++) {
      CHECK(pieces[n].size() <= 4 * 65536);
      if (n + 1 < pieces.size()) CHECK(pieces[n].size() >= 65536 / 4);
    }
    if (lines == 700'000) CHECK((pieces.size() > 80 && pieces.size() < 300));
  }
  const std::string same(3'000'000, 'a');  // no end is better than another
  CHECK(joined(cut(same, same.size())) == same);
  const std::string text = feed(700'000);
  CHECK(cut(text, uint64_t{1} << 30).size() < cut(text, text.size()).size());
}

TEST_CASE("a change in one place leaves the pieces elsewhere as they were") {
  const std::string before = feed(300'000);
  std::string after = before;
  SECTION("a line is new") {
    after.insert(after.size() / 2, "192.0.2.1\n");
  }
  SECTION("lines are gone") {
    after.erase(after.size() / 3, 1000);
  }
  SECTION("the begin is another") {
    after.replace(0, 100, "# changed\n");
  }
  SECTION("more comes behind") {
    after += feed(100);
  }
  size_t missing = 0;
  CHECK(made_of(before, after, missing) == after);
  CHECK(missing >= 1);
  CHECK(missing <= 3);
}

TEST_CASE("what is not here is missing") {
  const std::string after = feed(50'000);
  size_t missing = 0;
  CHECK(made_of("", after, missing) == after);
  CHECK(missing == cut(after, after.size()).size());
  CHECK(made_of(after, after, missing) == after);
  CHECK(missing == 0);
  CHECK(made_of(after, "", missing).empty());
}

TEST_CASE("lists of pieces are read as they were written, or not at all") {
  const std::string text = feed(50'000);
  const Pieces good = pieces_of(cut(text, text.size()));
  CHECK(refusal_of(good, text.size()).empty());
  CHECK(refusal_of(good, text.size() + 1).find("another size") != std::string::npos);
  Pieces changed = good;
  changed.all[0].digest = "AA";
  CHECK(refusal_of(changed, text.size()).find("no digest") != std::string::npos);
  changed = good;
  changed.all[0].bytes = 0;
  CHECK(refusal_of(changed, text.size()).find("empty") != std::string::npos);
  changed.all[0].bytes = kMostPiece + 1;
  CHECK(refusal_of(changed, text.size()).find("larger") != std::string::npos);
  changed.all.assign(kMostPieces + 1, good.all[0]);
  CHECK_FALSE(refusal_of(changed, text.size()).empty());
  CHECK_FALSE(read_pieces("{\"pieces\":7}"));
  CHECK_FALSE(read_pieces(std::string(kMostPiecesText + 1, ' ')));
}

}  // namespace weir::control::fleet
