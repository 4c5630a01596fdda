// What a line of a feed says beside its entry, and that no other bytes are taken for those that were read.
#include <zlib.h>

#include <filesystem>

#include "common/digest.h"
#include "control/enforce/past/feed_line.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control {
namespace {

using Columns = std::vector<std::pair<std::string, std::string>>;

Columns columns_of(const FeedLine& line) {
  Columns columns;
  for (const FeedColumn& column : line.columns) columns.emplace_back(column.name, column.value);
  return columns;
}

Digest digest_of_text(const std::string& text) {
  return weir::digest_of(std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("comments and columns of a line") {
  CHECK(understand_feed_line("192.0.2.1", "plain").comment.empty());
  CHECK(understand_feed_line("  192.0.2.0/24 ; SBL123\t", "plain").text == "192.0.2.0/24 ; SBL123");
  CHECK(understand_feed_line("192.0.2.0/24 ; SBL123\r", "spamhaus").comment == "SBL123");
  CHECK(understand_feed_line("192.0.2.1# why", "plain").comment == "why");
  CHECK(understand_feed_line("192.0.2.1 two words", "plain").comment == "two words");
  CHECK(understand_feed_line("add set 192.0.2.1", "ipset").comment.empty());
  CHECK(understand_feed_line("192.0.2.1 \x1b[31m\xc3", "plain").comment == "\x1b[31m\xc3");
  CHECK(understand_feed_line(std::string(10'000, 'x'), "plain").text.size() == 400);

  CHECK(columns_of(understand_feed_line("192.0.2.1,T-7,\"a, b\"", "csv", "ip,ticket,source")) ==
        Columns{{"ip", "192.0.2.1"}, {"ticket", "T-7"}, {"source", "a, b"}});
  CHECK(columns_of(understand_feed_line("192.0.2.1;T-7", "csv")) == Columns{{"1", "192.0.2.1"}, {"2", "T-7"}});
  CHECK(columns_of(understand_feed_line("192.0.2.1,T-7", "csv", "ip,ticket,source")) ==
        Columns{{"1", "192.0.2.1"}, {"2", "T-7"}});
  CHECK(columns_of(understand_feed_line(R"({"ip": "192.0.2.1", "score": 7, "more": {"x": 1}, "tags": ["t"]})",
                                        "json")) == Columns{{"ip", "192.0.2.1"}, {"score", "7"}});
  CHECK(understand_feed_line(R"({"ip": "192.0.2.1",)", "json").columns.empty());
}

TEST_CASE("lines of a file") {
  const Folder folder;
  std::string text = "# first\n";
  for (int line = 2; line <= 5000; line++) text += "10.0.0.1 ; " + std::to_string(line) + "\n";
  text += "10.0.0.2 ; last";
  const std::string path = folder.write("feed", text);
  const auto found = FeedLines().read(path, digest_of_text(text), "plain", {1, 2, 64, 65, 66, 4999, 5000, 5001, 5002});
  CHECK(found.size() == 8);
  for (const uint32_t line : {2u, 64u, 65u, 66u, 4999u, 5000u}) CHECK(found.at(line).comment == std::to_string(line));
  CHECK(found.at(1).text == "# first");
  CHECK(found.at(5001).comment == "last");

  // Line by line, at first and when it is known where they are; across blocks, and longer than a block.
  std::string all = "10.0.0.1 ; first\n" + std::string(200'000, 'x') + "\n\n";
  for (int line = 4; line <= 12'000; line++) all += "10.0.0.1 ; " + std::to_string(line) + "\n";
  const std::string large = folder.write("large", all);
  FeedLines reader;
  for (int round = 0; round < 2; round++) {
    for (uint32_t line = 1; line <= 12'001; line += line < 10 ? 1 : 7) {
      const auto one = reader.read(large, digest_of_text(all), "plain", {line});
      INFO(line);
      REQUIRE(one.contains(line) == (line <= 12'000));
      if (line >= 4 && line <= 12'000) CHECK(one.at(line).comment == std::to_string(line));
      if (line == 2) CHECK(one.at(line).text == std::string(400, 'x'));
      if (line == 3) CHECK(one.at(line).text.empty());
    }
    std::filesystem::last_write_time(large, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  folder.write("large", all + "10.0.0.9\n");
  CHECK(reader.read(large, digest_of_text(all), "plain", {4}).empty());

  CHECK(FeedLines().read(path, digest_of_text(text + "x"), "plain", {2}).empty());
  CHECK(FeedLines().read(folder / "none", digest_of_text(text), "plain", {2}).empty());
}

TEST_CASE("names of columns are in the first row, or in the last comment before it") {
  const Folder folder;
  const auto names = [&](const std::string& head) {
    const std::string text = head + "192.0.2.1,T-7\n";
    const auto lines = static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n'));
    const auto found = FeedLines().read(folder.write("table", text), digest_of_text(text), "csv", {lines});
    std::string all;
    for (const FeedColumn& column : found.at(lines).columns) all += column.name + " ";
    return all;
  };
  CHECK(names("") == "1 2 ");
  CHECK(names("ip,ticket\n") == "ip ticket ");
  CHECK(names("# made today\n# ip,ticket\n\n") == "ip ticket ");
  CHECK(names("# made today\nip,ticket\n192.0.2.9,T-1\n") == "ip ticket ");
  CHECK(names("ip,ticket,more\n") == "1 2 ");
}

TEST_CASE("a packed feed has no lines") {
  const Folder folder;
  const std::string path = folder / "feed.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "192.0.2.1\n192.0.2.2\n");
  gzclose(file);
  const std::string bytes = folder.read("feed.gz");
  CHECK(FeedLines().read(path, digest_of_text(bytes), "plain", {1}).empty());
}

}  // namespace weir::control
