// Plain feeds, line by line: each deviation that real lists have, and those they do not have yet.
#include <string>
#include <string_view>

#include "control/read/feeds/format.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;
using namespace std::string_literals;

namespace {

ListDraft read(std::string_view text, feeds::Options options = {}) {
  ListDraft list;
  feeds::find_format("plain")->read(text, options, list);
  return list;
}

// The entries, as "FIRST[-LAST][:PORT] " each; bad lines as "!LINE ".
std::string described(std::string_view text) {
  const ListDraft list = read(text);
  std::string all;
  const auto describe = [&](const auto& entry) {
    all += to_string(entry.first);
    if (entry.last != entry.first) all += "-" + to_string(entry.last);
    if (entry.port != 0) all += ":" + std::to_string(entry.port);
    all += " ";
  };
  for (const auto& entry : list.v4) describe(entry);
  for (const auto& entry : list.v6) describe(entry);
  for (const BadLine& bad : list.feed.samples) all += "!" + std::to_string(bad.line) + " ";
  CHECK(list.feed.entries == list.entries());
  return all;
}

struct Row {
  std::string text;
  const char* expected;
};

}  // namespace

TEST_CASE("lines of a plain feed") {
  const Row rows[] = {
      {"", ""},
      {"\n\n", ""},
      {"192.0.2.1", "192.0.2.1 "},
      {"192.0.2.1\n", "192.0.2.1 "},
      {"192.0.2.1\r\n192.0.2.2\r\n192.0.2.3", "192.0.2.1 192.0.2.2 192.0.2.3 "},
      {"192.0.2.1\r192.0.2.2\n", "192.0.2.1 "},  // CR is a blank: it ends no line
      {"192.0.2.1\r\r\n", "192.0.2.1 "},
      {" \t\v\f\r 192.0.2.1 \t\v\f\r\n", "192.0.2.1 "},
      {"   \n\t\n\r\n", ""},
      {"\xef\xbb\xbf"s + "192.0.2.1\n", "192.0.2.1 "},
      {"\xef\xbb\xbf"s + "# comment\n192.0.2.1\n", "192.0.2.1 "},
      {"192.0.2.1\n\xef\xbb\xbf"s + "192.0.2.2\n", "192.0.2.1 !2 "},  // a BOM is one at the start only
      {"# 192.0.2.1\n; 192.0.2.2\n  # 192.0.2.3\n", ""},
      {"#\xe2\x80\x93\0\n"s, ""},
      {"192.0.2.1# remark\n192.0.2.2;65\n192.0.2.3\t# remark\n192.0.2.0/24 ; SBL1\n",
       "192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.0-192.0.2.255 "},
      {"192.0.2.1\t10\n192.0.2.2 80\n192.0.2.3 anything 192.0.2.4\n", "192.0.2.1 192.0.2.2 192.0.2.3 "},
      {"192.0.2.1 \xff\xfe\0\n"s, "192.0.2.1 "},  // further words are not read
      {"192.0.2.1-192.0.2.9\n", "192.0.2.1-192.0.2.9 "},
      {"192.0.2.1 - 192.0.2.9\n192.0.2.1- 192.0.2.9\n192.0.2.1 -192.0.2.9\n192.0.2.1\t-\r192.0.2.9\n",
       "192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 "},
      {"192.0.2.1 - 192.0.2.9 , 0 , name\n192.0.2.1-192.0.2.9 - x\n", "192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 "},
      {"192.0.2.1 -\n192.0.2.1-\n192.0.2.1 - # 192.0.2.9\n- 192.0.2.9\n-\n", "!1 !2 !3 !4 !5 "},
      {"192.0.2.1 - name\n", "!1 "},
      {"192.0.2.9 - 192.0.2.1\n192.0.2.1 - 2001:db8::1\n", "!1 !2 "},
      {"2001:db8::1 - 2001:db8::9\n", "2001:db8::1-2001:db8::9 "},
      {"192.0.2.1,foo\n192.0.2.1, foo\n", "!1 !2 "},
      {"192.0.2.7:4554\n[2001:db8::7]:443\n2001:418::/32\n",
       "192.0.2.7:4554 2001:db8::7:443 2001:418::-2001:418:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"192.0.2.0/255.255.255.0\n192.0.2.0/0.0.0.255\n", "192.0.2.0-192.0.2.255 !2 "},
      {"88.135.33.0/22\n", "88.135.32.0-88.135.35.255 "},  // host bits: cleared without a word
      {"192.0.2.1/32\n2001:db8::1/128\n", "192.0.2.1 2001:db8::1 "},
      {"2001:DB8::A\n", "2001:db8::a "},
      {"::    # dns\n", ":: "},
      {"240.0.0.1\n", "240.0.0.1 "},
      {"001.002.003.004\n192.0.2.01\n", "!1 !2 "},
      {"192.0.2.7:0\n192.0.2.7:66086\n", "!1 !2 "},
      {"::ffff:192.0.2.1\nfe80::1%eth0\n[2001:db8::1]\n192.0.2.0/33\n", "!1 !2 !3 !4 "},
      {"0.0.0.0/0\n::/0\n0.0.0.0-255.255.255.255\n", "!1 !2 !3 "},
      {"example.org\n/izuku.sh\nC91.196.152.28 # remark\n\"192.0.2.1\",\"80\"\nsocks4://192.0.2.1:80\n",
       "!1 !2 !3 !4 !5 "},
      {"192.0.2.1\0\n"s, "!1 "},
      {"\xc2\xa0"s + "192.0.2.1\n", "!1 "},  // a no-break space is no ASCII blank
      {std::string(100'000, 'x') + "\n192.0.2.1\n", "192.0.2.1 !1 "},
      {"192.0.2.1" + std::string(100'000, ' ') + "x\n", "192.0.2.1 "},
      {std::string(100'000, '#') + "\n192.0.2.1\n", "192.0.2.1 "},
  };
  for (const Row& row : rows) {
    INFO(row.text.substr(0, 200));
    CHECK(described(row.text) == row.expected);
  }
}

TEST_CASE("a feed is counted: lines, entries, bad lines, and the first five of those") {
  const ListDraft list = read("# head\n192.0.2.1\n\nbad-1\nbad-2 \x1b[31m\xff\n192.0.2.01 # x\n2001:db8::1\nbad-4\n" +
                              std::string(200, 'y') + "\nbad-6\nbad-7");
  CHECK(list.feed.lines == 11);
  CHECK(list.feed.entries == 2);
  CHECK(list.feed.bad == 7);
  REQUIRE(list.feed.samples.size() == 5);
  CHECK(list.feed.samples[0].line == 4);
  CHECK(list.feed.samples[0].text == "bad-1");
  CHECK(list.feed.samples[1].text == "bad-2 ?[31m?");  // printable ASCII: it is shown to people and put into JSON
  CHECK(list.feed.samples[2].text == "192.0.2.01 # x");
  CHECK(list.feed.samples[2].reason == "leading zero in an octet");
  CHECK(list.feed.samples[4].line == 9);
  CHECK(list.feed.samples[4].text == std::string(80, 'y'));
  CHECK(read("").feed.lines == 0);
  CHECK(read("\n").feed.lines == 1);
  CHECK(read("192.0.2.1").feed.lines == 1);
}

TEST_CASE("entries of a feed know their line, their directions and that they are from the feed") {
  const ListDraft list = read("\n192.0.2.1\n192.0.2.0/24 # slow path\n2001:db8::1\n",
                              {.directions = WEIR_AS_SOURCE | WEIR_AS_DESTINATION, .allow_any = false});
  REQUIRE(list.v4.size() == 2);
  REQUIRE(list.v6.size() == 1);
  CHECK(list.v4[0].line == 2);
  CHECK(list.v4[1].line == 3);
  CHECK(list.v6[0].line == 4);
  for (const auto& entry : list.v4) {
    CHECK(entry.source == 1);
    CHECK(entry.directions == 3);
  }
  CHECK(list.v6[0].source == 1);
  CHECK(list.v6[0].directions == 3);
}

TEST_CASE("allow_any makes /0 an entry") {
  const ListDraft list = read("0.0.0.0/0\n::/0\n", {.directions = WEIR_AS_SOURCE, .allow_any = true});
  CHECK(list.feed.bad == 0);
  REQUIRE(list.v4.size() == 1);
  REQUIRE(list.v6.size() == 1);
  CHECK(list.v4[0].last == 0xffff'ffff);
  CHECK(list.v6[0].last == ~Ipv6{0});
}

TEST_CASE("formats are found by name") {
  REQUIRE(feeds::find_format("auto") != nullptr);
  CHECK(feeds::find_format("auto")->name == "plain"s);
  CHECK(feeds::find_format("csv") == nullptr);
  CHECK(feeds::find_format("") == nullptr);
  for (const feeds::Format& format : feeds::formats()) CHECK(feeds::find_format(format.name) == &format);
}
