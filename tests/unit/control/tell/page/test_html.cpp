#include "control/tell/page/html.h"
#include "tests/catch.h"

using namespace weir::control::page;

TEST_CASE("what is no markup of ours cannot become markup") {
  struct Row {
    std::string text, html;
  };
  const Row rows[] = {
      {"", ""},
      {"plain text, 1.2", "plain text, 1.2"},
      {"<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"},
      {"\" onload='x'", "&quot; onload=&#39;x&#39;"},
      {"a&amp;b", "a&amp;amp;b"},
      {"two\nlines", "two\nlines"},
      {std::string("nul\0, bell\a, escape\x1b[2J", 23), "nul\\x00, bell\\x07, escape\\x1b[2J"},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xff\xfe", "\\xff\\xfe"},
      {"cut \xe2\x82", "cut \\xe2\\x82"},
      {"\xc0\xbc longer than needed: <", "\\xc0\\xbc longer than needed: &lt;"},
      {"\xe0\x80\xbc", "\\xe0\\x80\\xbc"},
      {"\xed\xa0\x80 surrogate", "\\xed\\xa0\\x80 surrogate"},
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
      {"turned \xe2\x80\xae round \xe2\x81\xa6", "turned \\u202e round \\u2066"},
      {"\xc2\x85 C1", "\\u0085 C1"},
  };
  for (const Row& row : rows) CHECK(escaped(row.text) == row.html);
}

TEST_CASE("a byte that ends text early ends nothing of ours") {
  for (int byte = 0; byte < 256; byte++) {
    const std::string html = escaped(std::string(1, static_cast<char>(byte)) + "<\"'>");
    INFO(byte);
    CHECK(html.ends_with("&lt;&quot;&#39;&gt;"));
  }
}

TEST_CASE("places in drawings are short") {
  const auto tenths = [](double number) {
    Html html;
    html.tenths(number);
    return html.take();
  };
  CHECK(tenths(0) == "0");
  CHECK(tenths(12.34) == "12.3");
  CHECK(tenths(12.96) == "13");
  CHECK(tenths(599.99) == "600");
}
