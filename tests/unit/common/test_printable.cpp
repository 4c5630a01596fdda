// Text of strangers, as printers show it.
#include <string>

#include "common/diagnostic.h"
#include "common/printable.h"
#include "tests/catch.h"

namespace weir {

TEST_CASE("hidden characters and bad bytes become escapes, other text stays") {
  struct Row {
    std::string text;
    const char* line;   // printable()
    const char* lines;  // printable_lines()
  };
  const Row rows[] = {
      {"", "", ""},
      {"plain ~ text", "plain ~ text", "plain ~ text"},
      {"B\xc3\xb6se \xe2\x82\xac \xf0\x9f\x90\x9f", "B\xc3\xb6se \xe2\x82\xac \xf0\x9f\x90\x9f",
       "B\xc3\xb6se \xe2\x82\xac \xf0\x9f\x90\x9f"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd", "a\nb\tc\\rd"},
      {"\x1b[31m\x07", "\\x1b[31m\\x07", "\\x1b[31m\\x07"},
      {std::string("a\0b\x7f", 4), "a\\x00b\\x7f", "a\\x00b\\x7f"},
      {"\xc2\x80\xc2\x9b\xc2\xa0", "\\u0080\\u009b\xc2\xa0", "\\u0080\\u009b\xc2\xa0"},
      {"\xd8\x9c", "\\u061c", "\\u061c"},
      {"\xe2\x80\x8e\xe2\x80\x8f", "\\u200e\\u200f", "\\u200e\\u200f"},
      {"\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029", "\\u2028\\u2029"},
      {"\xe2\x80\xaa\xe2\x80\xae", "\\u202a\\u202e", "\\u202a\\u202e"},
      {"\xe2\x81\xa6\xe2\x81\xa9", "\\u2066\\u2069", "\\u2066\\u2069"},
      {"\xe2\x80\x8c\xe2\x80\x8d", "\xe2\x80\x8c\xe2\x80\x8d", "\xe2\x80\x8c\xe2\x80\x8d"},
      {"\xef\xbb\xbf\xc2\xad\xe2\x80\x8b", "\\ufeff\\u00ad\\u200b", "\\ufeff\\u00ad\\u200b"},
      {"\xf3\xa0\x81\x81", "\\udb40\\udc41", "\\udb40\\udc41"},
      {"\x9b"
       "31m",
       "\\x9b31m", "\\x9b31m"},
      {"\xff\xc0\x80\xed\xa0\x80\xc3", "\\xff\\xc0\\x80\\xed\\xa0\\x80\\xc3", "\\xff\\xc0\\x80\\xed\\xa0\\x80\\xc3"},
      {"\xf4\x90\x80\x80\xe0\x9f\xbf", "\\xf4\\x90\\x80\\x80\\xe0\\x9f\\xbf", "\\xf4\\x90\\x80\\x80\\xe0\\x9f\\xbf"},
  };
  for (const Row& row : rows) {
    INFO(row.line);
    CHECK(printable(row.text) == row.line);
    CHECK(printable_lines(row.text) == row.lines);
    CHECK(printable(printable(row.text)) == row.line);
  }
}

TEST_CASE("JSON keeps its text, and hides nothing in it") {
  CHECK(printable_json("{\"a\":\"\xc2\x9b\xe2\x80\xae\x7f\xc3\xb6\"}\n") ==
        "{\"a\":\"\\u009b\\u202e\\u007f\xc3\xb6\"}\n");
  CHECK(printable_json("\"\xf3\xa0\x81\x81\"") == "\"\\udb40\\udc41\"");
}

TEST_CASE("what is shortened ends with a whole character") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abcd", 3) == "abc");
  CHECK(shortened("a\xe2\x82\xac", 3) == "a");
  CHECK(shortened("a\xe2\x82\xac"
                  "b",
                  4) == "a\xe2\x82\xac");
  CHECK(shortened("\x80\x80\x80\x80\x80\x80", 5) == "\x80\x80\x80\x80\x80");
}

TEST_CASE("a diagnostic is three lines, whatever its texts hold") {
  const Diagnostic diagnostic{
      Severity::error, {"a\x1b.yaml", 2, 3}, "`x\ny\xc2\x9b` is wrong", "  - \te\x1b[31m \xe2\x80\xae", "no\r hint"};
  CHECK(format(diagnostic) ==
        "a\\x1b.yaml:2:3: error: `x\\ny\\u009b` is wrong\n    2 |   - \\te\\x1b[31m \\u202e\nhint: no\\r hint\n");
}

}  // namespace weir
