// The file of a feed, which is read in parts, and whether it is text of that kind at all.
#include <random>

#include "control/policy/feeds/format.h"
#include "control/policy/feeds/reading.h"
#include "control/policy/read/feed_parts.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control {

using namespace std::string_literals;

TEST_CASE("a file in parts has the lines of the file") {
  const Folder folder;
  const size_t part = FeedParts::kPartBytes;
  const std::string texts[] = {"",
                               "\n",
                               "a",
                               "a\nb",
                               "a\r\nb\n",
                               std::string(part - 1, 'x') + "\nab\n",
                               std::string(part, 'x') + "\nab\n",
                               std::string(part + 1, 'x') + "\nab\n",
                               std::string(3 * part + 7, 'x') + "\nab",
                               std::string(3 * part + 7, 'x'),
                               "a\n" + std::string(2 * part, 'y') + "\nb\n" + std::string(part, 'z'),
                               [&] {
                                 std::string lines;
                                 for (size_t i = 0; lines.size() < 4 * part; i++)
                                   lines += std::string(i % 211, 'l') + "\n";
                                 return lines;
                               }()};
  for (const std::string& text : texts) {
    INFO(text.size() << " " << text.substr(0, 10));
    folder.write("a.txt", text);
    auto file = FeedParts::open(folder / "a.txt");
    REQUIRE(file);
    const auto scan = file->scan();
    REQUIRE(scan);
    CHECK(scan->size_bytes == text.size());
    CHECK(scan->ends_in_newline == (text.empty() || text.back() == '\n'));
    std::string found;
    const auto digest = file->visit([&](std::string_view bytes) {
      CHECK(!bytes.empty());
      CHECK(bytes.size() <= part);
      found += bytes;
      return true;
    });
    REQUIRE(digest);
    CHECK(*digest == scan->digest);
    CHECK((found == text));
    // Every line, cut where it is too long, is read by itself: none of these is an entry.
    uint64_t lines = 0, bad = 0;
    for (size_t from = 0; from < text.size(); lines++) {
      const size_t end = std::min(text.find('\n', from), text.size());
      bad += end > from ? 1 : 0;
      from = end + 1;
    }
    CHECK(scan->lines() == lines);
    for (const size_t at_once : {size_t{1000}, part}) {
      ListDraft list;
      feeds::Reading reading(&feeds::plain_format(), {});
      for (size_t from = 0; from < text.size(); from += at_once) {
        reading.read(std::string_view(text).substr(from, at_once), false, list);
      }
      reading.read({}, true, list);
      CHECK(list.feed.lines == lines);
      CHECK(list.feed.bad == bad);
      CHECK(reading.ends_in_newline() == scan->ends_in_newline);
      CHECK_FALSE(list.fault);
    }
  }
}

TEST_CASE("lines are counted as one by one") {
  const Folder folder;
  std::mt19937 random(3);
  for (const size_t size : {size_t{1}, size_t{2}, size_t{254}, size_t{255}, size_t{256}, size_t{257}, size_t{1000},
                            FeedParts::kPartBytes, 2 * FeedParts::kPartBytes + 77}) {
    for (const char* letters : {"\n\n\n\n", "a\n\r\n", "aaa\n"}) {
      std::string text;
      for (size_t i = 0; i < size; i++) text += letters[random() % 4];
      uint64_t newlines = 0, empty = 0;
      for (size_t i = 0; i < size; i++) {
        newlines += text[i] == '\n';
        empty += text[i] == '\n' && (i == 0 || text[i - 1] == '\n');
      }
      auto file = FeedParts::open(folder.write("a.txt", text));
      REQUIRE(file);
      const auto scan = file->scan();
      REQUIRE(scan);
      INFO(size << " " << letters);
      CHECK(scan->newlines == newlines);
      CHECK(scan->empty_lines == empty);
      CHECK(scan->size_bytes == size);
    }
  }
}

TEST_CASE("what feeds begin with is no other content") {
  for (const std::string& text : {""s, "198.18.0.1\n"s, "# <html>\n"s, "[2001:db8::7]:443\n"s, "\xef\xbb\xbf# x\n"s,
                                  "[ 2001:db8::7 ]\n"s, "BZ\n"s, "; {\n"s, "#\0\0\0\n198.18.0.1\n198.18.0.2\n"s}) {
    INFO(text);
    CHECK(feeds::content_of(text) == nullptr);
  }
  CHECK(feeds::content_of("\xef\xbb\xbf{\"a\": 1}") != nullptr);
}

}  // namespace weir::control
