// Plain feeds, line by line: each deviation that real lists have, and those they do not have yet.
#include <string>
#include <string_view>

#include "control/policy/feeds/reading.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;
using namespace std::string_literals;

namespace {

ListDraft read(std::string_view text, feeds::Options options = {}) {
  ListDraft list;
  feeds::read_text(feeds::plain_format(), text, options, list);
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
  for (const LineSample& bad : list.feed.samples) all += "!" + std::to_string(bad.line) + " ";
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
      {"192.0.2.1\r192.0.2.2\n", "!1 "},  // CR is a blank: it ends no line
      {"192.0.2.1\r\r\n", "192.0.2.1 "},
      {" \t\v\f\r 192.0.2.1 \t\v\f\r\n", "192.0.2.1 "},
      {"   \n\t\n\r\n", ""},
      {"\xef\xbb\xbf"s + "192.0.2.1\n", "192.0.2.1 "},
      {"\xef\xbb\xbf"s + "# comment\n192.0.2.1\n", "192.0.2.1 "},
      {"192.0.2.1\n\xef\xbb\xbf"s + "192.0.2.2\n", "192.0.2.1 !2 "},  // a BOM is one at the start only
      {"# 192.0.2.1\n; 192.0.2.2\n  # 192.0.2.3\n", ""},
      {"#\xe2\x80\x93\0\n"s, ""},
      {"192.0.2.1# remark\n192.0.2.2;65\n192.0.2.3\t# remark\n192.0.2.0/24 ; SBL1\n",
       "192.0.2.1 192.0.2.3 192.0.2.0-192.0.2.255 !2 "},
      {"192.0.2.1\t10\n192.0.2.2 80\n192.0.2.3 anything 192.0.2.4\n", "192.0.2.1 192.0.2.2 192.0.2.3 "},
      {"192.0.2.1 \xff\xfe\0\n"s, "192.0.2.1 "},  // further words are not read
      {"192.0.2.1-192.0.2.9\n", "192.0.2.1-192.0.2.9 "},
      {"192.0.2.1 - 192.0.2.9\n192.0.2.1- 192.0.2.9\n192.0.2.1 -192.0.2.9\n192.0.2.1\t-\r192.0.2.9\n",
       "192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 "},
      {"192.0.2.1 - 192.0.2.9 , 0 , name\n192.0.2.1-192.0.2.9 - x\n", "192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 "},
      // A hyphen that no address follows begins a remark.
      {"192.0.2.1 -\n192.0.2.2-\n192.0.2.3 - # 192.0.2.9\n- 192.0.2.9\n-\n", "192.0.2.1 192.0.2.2 192.0.2.3 !4 !5 "},
      {"192.0.2.1 - name\n192.0.2.2 -name\n192.0.2.3- name\n192.0.2.4-name\n192.0.2.5 -- added 2026-01-02\n",
       "192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4 192.0.2.5 "},
      {"192.0.2.1 - 9 attacks\n192.0.2.2 - 12:30:45\n192.0.2.3 - 1.5 stars\n", "!1 !2 !3 "},
      {"192.0.2.0/24 - remark\n192.0.2.7:443 - remark\n[2001:db8::7]:443 - remark\n2001:db8::8 - bad:c0de\n",
       "192.0.2.0-192.0.2.255 192.0.2.7:443 2001:db8::7:443 2001:db8::8 "},
      {"192.0.2.1-192.0.2.9-remark\n192.0.2.1-192.0.2.9-\n", "192.0.2.1-192.0.2.9 192.0.2.1-192.0.2.9 "},
      // One that was to follow, and is broken, makes a bad line: it was more than one address that was meant.
      {"192.0.2.1 - 192.0.2.299\n192.0.2.1-192.0.2.09\n192.0.2.1-192.0.2.9,0\n192.0.2.1-192.0.2.9/24\n"
       "192.0.2.1-192.0.2.2-192.0.2.3\n",
       "!1 !2 !3 !4 !5 "},
      {"192.0.2.0/24 - 192.0.4.0/24\n192.0.2.1:80 - 192.0.2.2:80\n2001:db8::1 - 2001:db8::12345\n", "!1 !2 !3 "},
      {"xn--sf-eka.digital\nname - 192.0.2.1\n", "!1 !2 "},
      {"192.0.2.9 - 192.0.2.1\n192.0.2.1 - 2001:db8::1\n", "!1 !2 "},
      {"2001:db8::1 - 2001:db8::9\n", "2001:db8::1-2001:db8::9 "},
      {"192.0.2.1,foo\n192.0.2.1, foo\n", "!1 !2 "},
      {"192.0.2.7:4554\n[2001:db8::7]:443\n2001:418::/32\n",
       "192.0.2.7:4554 2001:db8::7:443 2001:418::-2001:418:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"192.0.2.0/255.255.255.0\n192.0.2.0/0.0.0.255\n", "192.0.2.0-192.0.2.255 !2 "},
      {"88.135.33.0/22\n", "88.135.32.0-88.135.35.255 !1 "},  // host bits: cleared, and said
      {"192.0.2.1/32\n2001:db8::1/128\n", "192.0.2.1 2001:db8::1 "},
      {"2001:DB8::A\n", "2001:db8::a "},
      {"::    # dns\n", ":: "},
      {"240.0.0.1\n", "240.0.0.1 "},
      {"001.002.003.004\n192.0.2.01\n", "!1 !2 "},
      {"192.0.2.7:0\n192.0.2.7:66086\n192.0.2.7:000\n", "!1 !2 !3 "},
      // Leading zeros in ports and prefix lengths are read as decimal.
      {"192.0.2.7:0443\n[2001:db8::7]:00080\n192.0.2.0/024\n2001:db8::/0032\n",
       "192.0.2.7:443 192.0.2.0-192.0.2.255 2001:db8::7:80 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff "},
      {"192.0.2.0/033\n192.0.2.0/00\n192.0.2.0/255.255.255.00\n192.0.2.7:065536\n", "!1 !2 !3 !4 "},
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
  CHECK(list.feed.samples[1].text == "bad-2 \x1b[31m\xff");  // printers escape it
  CHECK(list.feed.samples[2].text == "192.0.2.01 # x");
  CHECK(list.feed.samples[2].reason == "leading zero in an octet");
  CHECK(list.feed.samples[4].line == 9);
  CHECK(list.feed.samples[4].text == std::string(80, 'y'));
  CHECK(read("").feed.lines == 0);
  CHECK(read("\n").feed.lines == 1);
  CHECK(read("192.0.2.1").feed.lines == 1);
}

TEST_CASE("a feed in parts of whole lines is the feed") {
  const std::string text =
      "\xef\xbb\xbf"
      "192.0.2.1\nbad\n192.0.2.2\n\xef\xbb\xbf"
      "192.0.2.3\n192.0.2.4";
  const ListDraft whole = read(text);
  ListDraft parts;
  feeds::Reading reading(&feeds::plain_format(), {});
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size() - 1) + 1;
    reading.read(std::string_view(text).substr(from, end - from), false, parts);
    from = end;
  }
  reading.read({}, true, parts);
  CHECK(parts.feed.lines == whole.feed.lines);
  CHECK(parts.feed.samples == whole.feed.samples);
  CHECK(parts.v4 == whole.v4);
  CHECK(whole.v4.back().line == 5);
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
  CHECK(feeds::find_format("plain") == &feeds::plain_format());
  CHECK(feeds::find_format("") == nullptr);
  CHECK(feeds::find_format("CSV") == nullptr);
}
