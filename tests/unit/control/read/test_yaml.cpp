// YAML with places. The messages themselves are in configs/bad.
#include <string>

#include "common/yaml/yaml.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::yaml;

namespace {

// A document as text: (line:column)value, "quoted", [..], {key: ..}, ~.
std::string described(const Node& node) {
  std::string all = std::to_string(node.line) + ":" + std::to_string(node.column);
  switch (node.kind) {
    case Kind::null:
      return all + "~";
    case Kind::scalar:
      return all + (node.quoted ? "\"" + node.text + "\"" : "'" + node.text + "'");
    case Kind::sequence:
      all += "[";
      for (const Node& item : node.items) all += described(item) + " ";
      return all + "]";
    case Kind::map:
      all += "{";
      for (const auto& [key, value] : node.members) all += described(key) + "=" + described(value) + " ";
      return all + "}";
  }
  return all;
}

std::string parsed(const std::string& text, Diagnostics& diagnostics) {
  const auto document = parse_document("a.yaml", text, diagnostics);
  return document ? described(document->root) : "none";
}

std::string parsed(const std::string& text) {
  Diagnostics diagnostics;
  const std::string all = parsed(text, diagnostics);
  CHECK(format(diagnostics) == "");
  return all;
}

}  // namespace

TEST_CASE("scalars stay text, with places that count from 1") {
  CHECK(parsed("a: 010\nb: 0x10\nc: yes\n") == "1:1{1:1'a'=1:4'010' 2:1'b'=2:4'0x10' 3:1'c'=3:4'yes' }");
  CHECK(parsed("- 203.0.113.7:443\n- 2001:db8::/32\n- ::1\n") ==
        "1:1[1:3'203.0.113.7:443' 2:3'2001:db8::/32' 3:3'::1' ]");
  CHECK(parsed("[::1, 2001:db8::1/64, 1.2.3.4:5]") == "1:1[1:2'::1' 1:7'2001:db8::1/64' 1:23'1.2.3.4:5' ]");
  CHECK(parsed("\xef\xbb\xbf"
               "a: 1\r\nb: 2\r\n") == "1:1{1:1'a'=1:4'1' 2:1'b'=2:4'2' }");
}

TEST_CASE("nothing, null and quotes") {
  CHECK(parsed("") == "0:0~");
  CHECK(parsed("a: ~\nb: null\nc: \"null\"\nd: ''\ne: [~]\n") ==
        "1:1{1:1'a'=1:4~ 2:1'b'=2:4~ 3:1'c'=3:4\"null\" 4:1'd'=4:4\"\" 5:1'e'=5:4[5:5~ ] }");
}

TEST_CASE("an alias stands where it was written, what is in it where that was written") {
  CHECK(parsed("a: &x [1]\nb: *x\nc: &y 2\nd: *y\n") ==
        "1:1{1:1'a'=1:4[1:8'1' ] 2:1'b'=2:4[1:8'1' ] 3:1'c'=3:4'2' 4:1'd'=4:4'2' }");
}

TEST_CASE("a duplicate key is an error, and the first one stays") {
  Diagnostics diagnostics;
  CHECK(parsed("a: 1\nb: 2\na: 3\na: 4\n", diagnostics) == "1:1{1:1'a'=1:4'1' 2:1'b'=2:4'2' }");
  CHECK(diagnostics.errors() == 2);
  // The same key in two maps is no duplicate.
  CHECK(parsed("- a: 1\n- a: 2\n") == "1:1[1:3{1:3'a'=1:6'1' } 2:3{2:3'a'=2:6'2' } ]");
}

TEST_CASE("limits hold from below") {
  const auto deep = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(parsed(deep(64)).size() > 64);
  Diagnostics diagnostics;
  CHECK(parsed(deep(65), diagnostics) == "none");
  CHECK(parsed("a: &a [" + deep(40) + "]\nb: [[[[[[[[[[[[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]]]]]]]]]]]\n", diagnostics) ==
        "none");
  CHECK(parsed(std::string(1'000'000, '-'), diagnostics) != "none");
  CHECK(parsed(std::string(64 * 1024 * 1024 + 1, ' '), diagnostics) == "none");
  REQUIRE(diagnostics.kept().size() == 3);
  CHECK(diagnostics.kept()[1].message == "nested more than 64 deep");
  CHECK(diagnostics.kept()[2].message == "the file is larger than 64 MiB");
}

TEST_CASE("long source lines are cut and made printable") {
  Diagnostics diagnostics;
  CHECK(parsed("a: [\x1b" + std::string(300, 'x') + "\n", diagnostics) == "none");
  REQUIRE(diagnostics.errors() == 1);
  CHECK(diagnostics.kept()[0].source_line == "a: [?" + std::string(195, 'x') + "...");
}

TEST_CASE("MapReader reads values strictly") {
  Diagnostics diagnostics;
  const auto document = parse_document("a.yaml",
                                       "t: true\nf: false\ni: 42\nn: 1e-3\ns: 64KiB\nb: 4096\nc: drop\nempty:\n"
                                       "yes: yes\nq: \"true\"\noct: 010\nneg: -1\nbig: 99999999999999999999\n"
                                       "hex: 0x10\nnan: nan\nhuge: 99999999999TiB\nkb: 64kb\nseq: [1]\n",
                                       diagnostics);
  REQUIRE(document);
  MapReader map(*document, &document->root, "the test", diagnostics);
  CHECK(map.boolean("t") == true);
  CHECK(map.boolean("f") == false);
  CHECK(map.integer("i", 0, 42) == 42u);
  CHECK(map.number("n", 0, 1) == Approx(0.001));
  CHECK(map.number("i", 0, 100) == Approx(42));
  CHECK(map.size_bytes("s", 0, 1 << 20) == 65536u);
  CHECK(map.size_bytes("b", 0, 1 << 20) == 4096u);
  CHECK(map.choice("c", {"pass", "drop"}) == size_t{1});
  CHECK(map.find("empty") == nullptr);
  CHECK_FALSE(map.text("absent"));
  CHECK(diagnostics.errors() == 0);

  CHECK_FALSE(map.boolean("yes"));
  CHECK_FALSE(map.boolean("q"));
  CHECK_FALSE(map.integer("oct", 0, 100));
  CHECK_FALSE(map.integer("neg", 0, 100));
  CHECK_FALSE(map.integer("big", 0, UINT64_MAX));
  CHECK_FALSE(map.integer("hex", 0, 100));
  CHECK_FALSE(map.integer("i", 0, 41));
  CHECK_FALSE(map.integer("i", 43, 50));
  CHECK_FALSE(map.number("nan", 0, 1));
  CHECK_FALSE(map.number("hex", 0, 100));
  CHECK_FALSE(map.size_bytes("huge", 0, UINT64_MAX));
  CHECK_FALSE(map.size_bytes("kb", 0, UINT64_MAX));
  CHECK_FALSE(map.choice("c", {"a", "b"}));
  CHECK_FALSE(map.text("seq"));
  CHECK(map.map("seq") == nullptr);
  CHECK(map.sequence("i") == nullptr);
  CHECK(map.require("absent") == nullptr);
  CHECK(diagnostics.errors() == 17);
  map.finish();
  CHECK(diagnostics.errors() == 17);  // every member was asked for
}

TEST_CASE("a section that is absent has nothing in it") {
  Diagnostics diagnostics;
  const Document document{};
  MapReader map(document, nullptr, "the section", diagnostics);
  CHECK(map.find("a") == nullptr);
  CHECK(map.require("a") == nullptr);
  map.not_supported_yet({"b"});
  map.finish();
  CHECK(diagnostics.errors() == 0);
}
