// controlctl prints parts of answers: each shape of a part has a row.
#include <algorithm>
#include <random>
#include <sstream>

#include "control/ctl/explain_text.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::ctl;

namespace {

const Origin kOrigin = {"c2", "feeds/c2.txt", 17, "203.0.113.7", WEIR_AS_SOURCE};

}  // namespace

TEST_CASE("parts of answers as people read them") {
  const Origin added = {"bans", "controlctl add", 0, "192.0.2.1", WEIR_AS_SOURCE | WEIR_AS_DESTINATION};
  const CaptureState off;
  CaptureState failing, writing;
  failing.on = writing.on = true;
  failing.error = "no room";
  writing.counts.sampled = 20'000;
  writing.counts.written = 12;
  writing.counts.limited = 8;
  ShapeReport plain = {}, explained = {};
  plain.shape.layout = explained.shape.layout = WEIR_LAYOUT_LINE8;
  explained.layout_why = "0.5 % wanted";
  explained.bits_per_key = 11.64;
  const std::pair<std::string, std::string> rows[] = {
      {generation_text({}), "none"},
      {generation_text({0x0123456789abcdef, 7}), "7 (epoch 0123456789abcdef)"},
      {joined({}), "-"},
      {joined({"a"}), "a"},
      {joined({"a", "b", "c"}), "a, b, c"},
      {directions_text(0), "-"},
      {directions_text(WEIR_AS_DESTINATION), "dst"},
      {directions_text(WEIR_AS_SOURCE | WEIR_AS_DESTINATION), "src, dst"},
      {layout_text(plain), "line8"},
      {layout_text(explained), "line8: 0.5 % wanted"},
      {bits_per_key_text(plain), "-"},
      {bits_per_key_text(explained), "11.6"},
      {place_text(kOrigin), "feeds/c2.txt:17"},
      {place_text(added), "controlctl add"},
      {verdict_text({"pass", "default", {}, {}, {}}), "pass by default: no list decides"},
      {verdict_text({"drop", "c2", kOrigin, {"c2"}, {}}), "drop by list c2: 203.0.113.7 (feeds/c2.txt:17)"},
      {verdict_text({"drop", "c2", {}, {"c2"}, {}}), "drop by list c2"},
      {verdict_text({"pass", "default", {}, {"w", "x"}, {"w", "x"}}),
       "pass by default: no list decides; only monitored by w, x"},
      {capture_text(off), "off"},
      {capture_text(failing), "FAILS: no room"},
      {capture_text(writing), "on; 12 of 20,000 samples written, 8 past a list's limit, 0 lost"},
      {moment_text({}), ""},
      {moment_text({12, 0, "", {}}), "generation 12"},
      {moment_text({12, 1'780'000'000, "reload: asked for", {}}),
       "generation 12, of 2026-05-28T20:26:40Z (reload: asked for)"},
      {moment_text({0, 1'780'000'000, "", 4'000'000'000u}), "2026-05-28T20:26:40Z (by 4000000000)"},
      {one_line("policy.yaml:3: wrong\nhint: write it so\nmore"), "policy.yaml:3: wrong; write it so more"},
  };
  for (const auto& [found, expected] : rows) CHECK(found == expected);
}

TEST_CASE("what a filter said of a key, with the places of its bits") {
  AskedKey line, ribbon;
  line.layout = "line8";
  line.place.page = 12;
  line.place.lines = {{3, {5, 77}}, {9, {0, 64}}};
  CHECK(bits_text(line) == "page 12, line 3: bits 5 77; line 9: bits 0 64");
  ribbon.layout = "ribbon";
  ribbon.place.page = 1;
  ribbon.place.lines = {{0, {2}}};
  CHECK(bits_text(ribbon) == "page 1, line 0: bits 2 of each word");
  struct Row {
    bool hit;
    uint32_t rule;
    const char *of_bits, *of_ribbon;
  };
  const Row rows[] = {{false, 0, "not set", "they do not add up"},
                      {true, 0, "all set (false positive)", "they add up (false positive)"},
                      {true, 4, "all set", "they add up"}};
  for (const Row& row : rows) {
    line.filter_hit = ribbon.filter_hit = row.hit;
    line.rule = ribbon.rule = row.rule;
    CHECK(filter_said(line) == std::string(row.of_bits));
    CHECK(filter_said(ribbon) == std::string(row.of_ribbon));
  }
}

TEST_CASE("columns of a table are as wide as their widest cell, and hold nothing that a terminal obeys") {
  Table table({{"list"}, {"entries", Table::Align::right}});
  CHECK(table.empty());
  CHECK(table.text() == "list  entries\n");
  table.row({"drop", "12"});
  table.row({"a-long-name", "1,234,567"});
  table.row({"\x1b[2J", ""});
  CHECK_FALSE(table.empty());
  const std::string text = table.text();
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.starts_with("list           entries\ndrop                12\na-long-name  1,234,567\n"));
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) CHECK(text[at - 1] != ' ');
}

namespace {

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

}  // namespace

TEST_CASE("a table that fits is printed as it is; nobody at a terminal gets all of it") {
  Table table({{"list"}, {"bad", Table::Align::right}, {"feed"}});
  table.row({"c2", "0", "feeds/c2.txt"});
  const std::string whole = "list  bad  feed\nc2      0  feeds/c2.txt\n";
  CHECK(table.text(0) == whole);
  CHECK(table.text(23) == whole);
}

TEST_CASE(
    "a table on a narrow terminal leaves out what says nothing, then folds texts, then leaves out the last columns") {
  Table table({{"list"}, {"bad", Table::Align::right}, {"comment"}});
  table.row({"c2", "0", "of the abuse desk, ticket 4711"});
  CHECK(table.text(40) ==
        "list  comment\nc2    of the abuse desk, ticket 4711\n(left out for want of room: bad; --wide shows all)\n");
  table.row({"other", "7", "a/path/that/has/no/blank/at/all/in/it"});
  CHECK(table.text(30) ==
        "list   bad  comment\n"
        "c2       0  of the abuse desk,\n"
        "            ticket 4711\n"
        "other    7  a/path/that/has/\n"
        "            no/blank/at/all/\n"
        "            in/it\n");
  CHECK(table.text(24) ==
        "list   bad\nc2       0\nother    7\n(left out for want of room: comment; --wide shows all)\n");
}

TEST_CASE("no line of a table is wider than the terminal, and no word of its first column is lost") {
  std::mt19937 random(7);
  const auto draw = [&](unsigned most) { return std::uniform_int_distribution<unsigned>(0, most)(random); };
  for (int turn = 0; turn < 500; turn++) {
    const size_t n = 1 + draw(8);
    std::vector<Table::Column> columns;
    for (size_t c = 0; c < n; c++)
      columns.push_back({"title", draw(1) == 0 ? Table::Align::left : Table::Align::right});
    columns.front().align = Table::Align::left;
    Table table(columns);
    std::string first;
    for (unsigned rows = draw(5); rows > 0; rows--) {
      std::vector<std::string> cells;
      for (size_t c = 0; c < n; c++)
        cells.push_back(std::string(columns[c].align == Table::Align::left ? draw(60) : draw(12), 'x'));
      first += cells.front();
      table.row(cells);
    }
    const unsigned most = 60 + draw(60);
    const std::string text = table.text(most);
    INFO(text);
    CHECK(widest_line(text.substr(0, text.find("(left out"))) <= most);
    CHECK(static_cast<size_t>(std::count(text.begin(), text.end(), 'x')) >= first.size());
  }
}

TEST_CASE("entries of which others follow are a table of their own") {
  Origin partly = kOrigin;
  partly.alone = false;
  partly.entry = "203.0.113.7:443";
  const std::string whole = table_of({kOrigin, partly}, true, origin_table()).text();
  const std::string rest = table_of({kOrigin, partly}, false, origin_table()).text();
  CHECK(whole == "list  entry        match  written at\nc2    203.0.113.7  src    feeds/c2.txt:17\n");
  CHECK(rest == "list  entry            match  written at\nc2    203.0.113.7:443  src    feeds/c2.txt:17\n");
}
