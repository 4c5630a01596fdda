// YAML with places, parsed by this process and by another one. The messages themselves are in configs/bad.
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "common/yaml/apart.h"
#include "common/yaml/yaml.h"
#include "tests/catch.h"
#include "tests/unit/eventually.h"

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

const confine::Helpers& helpers() {
  static const auto started = confine::Helpers::start({&kParseJob});
  REQUIRE(started);
  return **started;
}

std::string parsed(const std::string& text, Diagnostics& diagnostics, const Parse& parse) {
  const auto document = parse_document("a.yaml", text, diagnostics, parse);
  return document ? described(document->root) : "none";
}

// By both, who must not differ.
std::string parsed(const std::string& text, Diagnostics& diagnostics) {
  Diagnostics here, apart;
  const std::string all = parsed(text, here, parse_here);
  CHECK((parsed(text, apart, parse_apart(helpers())) == all));
  CHECK(format(apart) == format(here));
  diagnostics.append(here);
  return all;
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
        "1:1{1:1'a'=1:4'~' 2:1'b'=2:4'null' 3:1'c'=3:4\"null\" 4:1'd'=4:4\"\" 5:1'e'=5:4[5:5'~' ] }");
  CHECK(parsed("a:\nb: # nothing\nc: Null\n") == "1:1{1:1'a'=2:1~ 2:1'b'=3:1~ 3:1'c'=3:4'Null' }");
  // A value that is missing has the place of what follows.
  CHECK(parsed("a:\nnull: 1\n") == "1:1{1:1'a'=2:1~ 2:1'null'=2:7'1' }");
  CHECK(parsed("a:\n  b:\n~ : NULL\n") == "1:1{1:1'a'=2:3{2:3'b'=3:1~ } 3:1'~'=3:5'NULL' }");
  CHECK(parsed("{null, a: null, b: }") == "1:1{1:2'null'=1:6~ 1:8'a'=1:11'null' 1:17'b'=1:20~ }");
  CHECK(parsed("-\n- null\n- nullify\n") == "1:1[2:1~ 2:3'null' 3:3'nullify' ]");
  CHECK(parsed("a: &x null\nb: *x\nc: &y\nnull: 2\n") ==
        "1:1{1:1'a'=1:4'null' 2:1'b'=2:4'null' 3:1'c'=3:4~ 4:1'null'=4:7'2' }");
  CHECK(parsed("\xef\xbb\xbfnull: null\n") == "1:1{1:1'null'=1:7'null' }");
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

TEST_CASE("aliases are counted in bytes, too: few copies of a long text would fill the memory") {
  const std::string megabyte(1'000'000, 'x');
  const auto with_aliases = [&](size_t count) {
    std::string text = "a: &a " + megabyte + "\nb:\n";
    for (size_t i = 0; i < count; i++) text += "- *a\n";
    return text;
  };
  Diagnostics diagnostics;
  CHECK(parsed(with_aliases(100), diagnostics).size() > 100 * megabyte.size());
  CHECK(diagnostics.errors() == 0);
  CHECK(parsed(with_aliases(3'000), diagnostics) == "none");
  // A key is copied with its map.
  std::string keys = "a: &a\n";  // 200 KB
  for (size_t i = 0; i < 200; i++) keys += "  " + std::to_string(i) + std::string(1'000, 'x') + ": 1\n";
  keys += "b:\n";
  for (size_t i = 0; i < 3'000; i++) keys += "- *a\n";
  CHECK(parsed(keys, diagnostics) == "none");
  REQUIRE(diagnostics.kept().size() == 2);
  for (const Diagnostic& one : diagnostics.kept()) {
    CHECK(one.message == "aliases ask for more than 128 MiB of copies");
    CHECK(one.where.line > 100);
    CHECK(one.hint != "");
  }
}

TEST_CASE("errors of every kind are the same apart") {
  for (const char* text : {"a: [1, 2\n",
                           "a: b: c\n",
                           "a: *unknown\n",
                           "a: \"\\q\"\n",
                           "\t",
                           "a: &a [*a]\n",
                           "? [a]\n: b\n",
                           "!!int a: b\n",
                           "a: 1\n---\nb: 2\n",
                           "a: 1\n...\n",
                           "%YAML 3.0\n---\na: b\n",
                           "%TAG ! x\n%TAG ! y\n---\na: b\n",
                           "{a: 1",
                           "a: 'never ends\n",
                           "- a\nb: c\n",
                           "a: |\n  b\n c\n",
                           "[:,:,:,:]",
                           "{:,:}",
                           "- - - - -",
                           "\xfe\xff\x61\x62",
                           "\xff\xfe\x61\x62\x63",
                           "a: \x80\xff\n",
                           "\"\\L\\P\\N\\_\\U0010ffff\"",
                           "a: 1\na: 2\nb: [\n",
                           "---\n---\n",
                           "--- a\n",
                           ",x: &a [1]\ny: b\n",
                           ","}) {
    INFO(text);
    Diagnostics diagnostics;
    (void)parsed(text, diagnostics);
    CHECK(format(diagnostics).find("the process that parses") == std::string::npos);
  }
}

TEST_CASE("long source lines are cut") {
  Diagnostics diagnostics;
  CHECK(parsed("a: [\x1b" + std::string(300, 'x') + "\n", diagnostics) == "none");
  REQUIRE(diagnostics.errors() == 1);
  CHECK(diagnostics.kept()[0].source_line == "a: [\x1b" + std::string(195, 'x') + "...");
}

namespace {

namespace row = yaml::row;

constexpr yaml::Key kItem = row::text("", "");
constexpr yaml::Key kInnerKeys[] = {row::integer("n", 1, 9, "")};
constexpr yaml::Section kInner = {"the inner map", kInnerKeys};
constexpr yaml::Key kRows[] = {
    row::boolean("t", ""),
    row::boolean("f", ""),
    row::integer("i", 0, 42, "").or_word("auto | none"),
    row::number("n", 0, 1, "", ""),
    row::number("percent", 0, 100, "%", ""),
    row::size("s", 0, 1 << 20, ""),
    row::time("time", 60, 86400, ""),
    row::choice("c", "pass | drop", ""),
    row::text("text", ""),
    row::sequence("seq", kItem, ""),
    row::map("map", kInner, ""),
    row::later("someday"),
};
constexpr yaml::Section kSection = {"the test", kRows};

// What reading `text` gives, by a call; nothing after an error.
template <class Read>
auto read_one(const std::string& text, Read read, size_t errors = 0) {
  Diagnostics diagnostics;
  const auto document = parse_document("a.yaml", text, diagnostics);
  REQUIRE(document);
  MapReader reader(*document, &document->root, kSection, diagnostics);
  auto value = read(reader);
  INFO(text << format(diagnostics));
  CHECK(diagnostics.errors() == errors);
  return value;
}

}  // namespace

TEST_CASE("MapReader reads values strictly, as their rows have them") {
  const auto boolean = [](MapReader& map) { return map.boolean("t"); };
  CHECK(read_one("t: true", boolean) == true);
  CHECK(read_one("t: false", boolean) == false);
  CHECK(read_one("t: \"true\"", boolean) == true);
  CHECK(read_one("t: 'false'", boolean) == false);
  CHECK_FALSE(read_one("t:", boolean));
  for (const char* text : {"t: yes", "t: \"yes\"", "t: ~", "t: null", "t: [true]"})
    CHECK_FALSE(read_one(text, boolean, 1));

  const auto integer = [](MapReader& map) { return map.integer("i"); };
  CHECK(read_one("i: 42", integer) == 42u);
  CHECK(read_one("i: 0", integer) == 0u);
  CHECK(read_one("i: \"42\"", integer) == 42u);
  CHECK_FALSE(read_one("i: auto", integer));
  CHECK_FALSE(read_one("a: 1", integer));
  for (const char* text : {"i: 010", "i: -1", "i: 99999999999999999999", "i: 0x10", "i: 43", "i: \"43\"", "i: null",
                           "i: \"\"", "i: many"}) {
    CHECK_FALSE(read_one(text, integer, 1));
  }
  const auto number = [](MapReader& map) { return map.number("n"); };
  CHECK(*read_one("n: 1e-3", number) == Approx(0.001));
  CHECK(*read_one("n: 1", number) == Approx(1));
  CHECK(*read_one("n: '0.5'", number) == Approx(0.5));
  for (const char* text : {"n: nan", "n: 0x10", "n: 1.1"}) CHECK_FALSE(read_one(text, number, 1));
  const auto percent = [](MapReader& map) { return map.number("percent"); };
  CHECK(*read_one("percent: 12.5%", percent) == Approx(12.5));
  CHECK(*read_one("percent: \"12.5%\"", percent) == Approx(12.5));
  for (const char* text : {"percent: 12", "percent: 101%", "percent: 1x"}) CHECK_FALSE(read_one(text, percent, 1));

  const auto size = [](MapReader& map) { return map.size_bytes("s"); };
  CHECK(read_one("s: 64KiB", size) == 65536u);
  CHECK(read_one("s: 4096", size) == 4096u);
  CHECK(read_one("s: \"64KiB\"", size) == 65536u);
  for (const char* text : {"s: 99999999999TiB", "s: 64kb", "s: 2MiB"}) CHECK_FALSE(read_one(text, size, 1));
  const auto time = [](MapReader& map) { return map.seconds("time"); };
  CHECK(read_one("time: 2h", time) == 7200u);
  CHECK(read_one("time: \"2h\"", time) == 7200u);
  for (const char* text : {"time: 59s", "time: 2d", "time: 90"}) CHECK_FALSE(read_one(text, time, 1));

  const auto choice = [](MapReader& map) { return map.choice("c"); };
  CHECK(read_one("c: drop", choice) == size_t{1});
  CHECK_FALSE(read_one("c: dorp", choice, 1));
  CHECK_FALSE(read_one(
      "text: [1]", [](MapReader& map) { return map.text("text"); }, 1));
  CHECK(read_one(
            "map: [1]", [](MapReader& map) { return map.map("map"); }, 1) == nullptr);
  CHECK(read_one(
            "seq: 1", [](MapReader& map) { return map.sequence("seq"); }, 1) == nullptr);
  CHECK(read_one(
            "a: 1", [](MapReader& map) { return map.require("text"); }, 1) == nullptr);
  CHECK_FALSE(read_one(
      "map: {n: 10}", [](MapReader& map) { return map.section("map").integer("n"); }, 1));
}

TEST_CASE("what MapReader takes stays as it was when there is nothing right to take") {
  enum class Action : uint8_t { pass, drop };
  struct Settings {
    Action action = Action::pass;
    uint8_t i = 7;
    std::optional<uint16_t> time;
  } settings;
  const auto take = [&](MapReader& map) {
    map.take("c", settings.action);
    map.take("i", settings.i);
    map.take("time", settings.time);
    return 0;
  };
  read_one("c: dorp\ni: 43\ntime: soon", take, 3);
  CHECK(settings.action == Action::pass);
  CHECK(settings.i == 7);
  CHECK_FALSE(settings.time);
  read_one("i: auto", take);
  CHECK(settings.i == 7);
  read_one("c: drop\ni: 42\ntime: 1h", take);
  CHECK(settings.action == Action::drop);
  CHECK(settings.i == 42);
  CHECK(settings.time == 3600);
}

TEST_CASE("what has no row is an error, and so is what is not built yet") {
  const auto finish = [](MapReader& map) {
    for (const yaml::Key& row : kRows) map.find(row.name);
    map.finish();
    return 0;
  };
  read_one("t: true\ntexts: a\nsomeday: 1\n", finish, 2);
  const Document document{};
  Diagnostics diagnostics;
  MapReader absent(document, nullptr, kSection, diagnostics);
  CHECK(absent.require("text") == nullptr);
  finish(absent);
  CHECK(diagnostics.errors() == 0);
}

TEST_CASE("a process that parses gets the memory that honest texts take") {
  // All of the sequence is kept until it is known to be no key.
  std::string flow = "a: [1";
  for (int i = 0; i < 500'000; i++) flow += ",1";
  CHECK(parsed(flow + "]\n").size() > 1'000'000);
  CHECK(parsed("a: " + std::string(16'000'000, 'x') + "\n").size() > 16'000'000);
  std::string block;
  for (int i = 0; i < 100'000; i++) block += "- 198.51.100.7\n";
  CHECK(parsed(block).size() > 1'000'000);
}

namespace {

// A process that says what a test wants it to.
struct Liar {
  Liar() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    helper.socket = Fd(ends[0]), theirs = Fd(ends[1]);
  }
  void say(const Event& event) const {
    const EventHead head = head_of(event);
    const std::string bytes = std::string(reinterpret_cast<const char*>(&head), sizeof head) + std::string(event.text);
    say(bytes);
  }
  void say(const std::string& bytes) const {
    REQUIRE(send(theirs.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  // What becomes of a document of this text: its nodes, or what is said of it.
  std::string told(const std::string& text = "a: 1\nb: 2\n", std::chrono::seconds time = std::chrono::seconds(60)) {
    Diagnostics diagnostics;
    const auto parse = [&](std::string_view written, const TakeEvent& take) {
      return take_events(helper, written.size(), std::chrono::steady_clock::now() + time, take);
    };
    const std::string all = parsed(text, diagnostics, parse);
    if (diagnostics.ok()) return all;
    CHECK(all == "none");
    CHECK(diagnostics.kept().size() == 1);
    return diagnostics.kept().front().message;
  }

  confine::Helper helper;
  Fd theirs;
};

using Kind_ = Event::Kind;

}  // namespace

TEST_CASE("a process that parses is believed what a text may say") {
  Liar liar;
  liar.say({Kind_::document, Event::Tag::none, 1, 1, 0, ""});
  liar.say({Kind_::map, Event::Tag::none, 1, 1, 0, ""});
  liar.say({Kind_::scalar, Event::Tag::none, 1, 1, 0, "a"});
  liar.say({Kind_::scalar, Event::Tag::quotes, 1, 4, 0, "2"});
  liar.say({Kind_::map_end});
  liar.say({Kind_::end});
  CHECK(liar.told() == "1:1{1:1'a'=1:4\"2\" }");
}

TEST_CASE("a process that parses is not believed what no YAML says") {
  const std::string senseless = std::string("cannot read this YAML: ") + kNoEvents;
  const auto node = [](Kind_ kind, const char* text = "") { return Event{kind, Event::Tag::none, 1, 1, 0, text}; };
  const std::vector<Event> cases[] = {
      {node(Kind_::scalar, "a")},                                                   // in no document
      {node(Kind_::end), node(Kind_::end)},                                         // after the end
      {node(Kind_::document), node(Kind_::scalar, "a"), node(Kind_::scalar, "a")},  // two roots
      {node(Kind_::document), node(Kind_::sequence_end)},
      {node(Kind_::document), node(Kind_::sequence), node(Kind_::map_end)},
      {node(Kind_::document), node(Kind_::map), node(Kind_::scalar, "a"), node(Kind_::map_end)},  // a key alone
      {node(Kind_::document), node(Kind_::sequence), node(Kind_::end)},
      {node(Kind_::document), node(Kind_::sequence), node(Kind_::document)},
      {node(Kind_::document), {Kind_::scalar, Event::Tag::none, 0, 0, 0, "a"}},  // nowhere
      {node(Kind_::document), {Kind_::scalar, Event::Tag::none, 4, 1, 0, "a"}},  // behind the last line
  };
  for (const std::vector<Event>& events : cases) {
    Liar liar;
    std::string all;  // in one piece: what follows the end is there when that is read
    for (const Event& event : events) {
      const EventHead head = head_of(event);
      all.append(reinterpret_cast<const char*>(&head), sizeof head).append(event.text);
    }
    liar.say(all);
    liar.say(node(Kind_::end));
    INFO(&events - cases);
    CHECK(liar.told() == senseless);
  }
  for (const auto change :
       {+[](EventHead& head) { head.kind = 11; }, +[](EventHead& head) { head.tag = 3; },
        +[](EventHead& head) { head.zero = 1; }, +[](EventHead& head) { head.text_bytes = 5000; }}) {
    Liar liar;
    EventHead head = head_of({Kind_::document});
    change(head);
    liar.say(std::string(reinterpret_cast<const char*>(&head), sizeof head));
    CHECK(liar.told() == senseless);
  }
  // More than so short a text can say.
  Liar many, much;
  std::thread feeds([&] {
    const EventHead head = head_of({Kind_::null, Event::Tag::none, 1, 1, 0, ""});
    std::string events = std::string(reinterpret_cast<const char*>(&head), sizeof head);
    const EventHead sequence = head_of({Kind_::sequence, Event::Tag::none, 1, 1, 0, ""});
    const EventHead document = head_of({Kind_::document});
    std::string first(reinterpret_cast<const char*>(&document), sizeof document);
    first.append(reinterpret_cast<const char*>(&sequence), sizeof sequence);
    (void)send(many.theirs.get(), first.data(), first.size(), MSG_NOSIGNAL);
    while (send(many.theirs.get(), events.data(), events.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  CHECK(many.told() == senseless);
  many.helper.socket.reset();
  feeds.join();
  much.say(node(Kind_::document));
  much.say(node(Kind_::sequence));
  const std::string kilobyte(1000, 'x');
  much.say(node(Kind_::scalar, kilobyte.c_str()));
  much.say(node(Kind_::scalar, kilobyte.c_str()));
  CHECK(much.told() == senseless);
}

TEST_CASE("a process that parses and ends, sleeps or has no memory is an error of its text, and says no more") {
  Liar ended, asleep, poor;
  ended.say({Kind_::document, Event::Tag::none, 1, 1, 0, ""});
  ended.theirs.reset();
  CHECK(ended.told() == "cannot read this YAML: the process that parses it ended");
  CHECK(asleep.told("a: 1\n", std::chrono::seconds(1)) ==
        "cannot read this YAML: the process that parses it does not answer");
  poor.say({Kind_::no_memory});
  CHECK(poor.told() == "cannot read this YAML: it takes more memory than there is for it");
  Liar rude;
  rude.say({Kind_::error, Event::Tag::none, 2, 1, 0,
            "\x1b[2J"
            "gone"});
  CHECK(rude.told() == "not YAML: \x1b[2Jgone");

  // One that is at work.
  std::string block;
  for (int i = 0; i < 300'000; i++) block += "- 198.51.100.7\n";
  std::atomic<bool> is_read = false;
  std::string message;
  const std::string parser = std::to_string(helpers().pid());
  const std::string path = "/proc/" + parser + "/task/" + parser;
  std::thread killer([&] {
    for (int i = 0; i < 60'000 && !is_read; i++) {
      std::ifstream children(path + "/children");
      for (pid_t child = 0; children >> child;) kill(child, SIGKILL);
      a_moment();
    }
  });
  Diagnostics diagnostics;
  const std::string all = parsed(block, diagnostics, parse_apart(helpers()));
  is_read = true;
  killer.join();
  if (all != "none") {
    say_skipped("kernel: it does not tell of children");
  } else {
    CHECK(format(diagnostics).find("cannot read this YAML: the process that parses it ended") != std::string::npos);
  }
  CHECK(parsed("a: 1\n") == "1:1{1:1'a'=1:4'1' }");
}

TEST_CASE("whatever a process says, a document is sound or there is none") {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int i = 0; i < 3'000; i++) {
    Liar liar;
    std::string all;
    const auto say = [&](const Event& event) {
      const EventHead head = head_of(event);
      all.append(reinterpret_cast<const char*>(&head), sizeof head).append(event.text);
    };
    say({Kind_::document, Event::Tag::none, 1, 1, 0, ""});
    for (uint32_t n = below(30); n > 0; n--) {
      const char* const texts[] = {"", "a", "b", "203.0.113.7"};
      say({static_cast<Kind_>(1 + below(7)), static_cast<Event::Tag>(below(10) / 9 * 2), 1 + below(2), below(9),
           below(3), texts[below(4)]});
    }
    say({Kind_::end});
    if (i % 3 == 0) all[below(static_cast<uint32_t>(all.size()))] ^= static_cast<char>(1 << below(8));
    liar.say(all);
    liar.theirs.reset();
    const std::string told = liar.told();
    CHECK(!told.empty());
  }
}
