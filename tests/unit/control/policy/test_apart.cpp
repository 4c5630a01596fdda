// Feeds that are parsed in processes of their own: the same answers, processes that hold nothing, and what they may
// say.
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <sstream>
#include <thread>

#include "common/yaml/apart.h"
#include "control/policy/feeds/apart.h"
#include "control/policy/read/feed_file.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control {
namespace {

using feeds::kMostTextBytes;
using feeds::ParseAnswer;
using feeds::Parser;
using feeds::ParseRequest;

const feeds::Options kOptions = {.directions = WEIR_AS_SOURCE, .allow_any = false};

Parser::How plain(const feeds::Options& options = kOptions) {
  return {&feeds::plain_format(), options};
}

std::string status_of(pid_t pid, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":\t")) return line.substr(field.size() + 2);
  }
  return "";
}

// Of the process that makes them: those that it made. Empty: this kernel does not tell.
std::vector<pid_t> children_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

const std::string kTexts[] = {
    "",
    "\n",
    "\xef\xbb\xbf"
    "198.51.100.7\n2001:db8::/32 # remark\n203.0.113.0-203.0.113.9\n198.51.100.8:443\n[2001:db8::7]:53\n",
    "198.51.100.7\r\nnonsense\r\n1.2.3.4/33\r\n010.1.1.1\r\n\x01\x02 x\r\n\r\n0.0.0.0/0\r\n::/0",
    "a\nb\nc\nd\ne\nf\ng\n198.51.100.7 and more",
};

// A parser that says what a test wants it to.
class Liar {
 public:
  Liar() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    theirs_ = Fd(ends[1]);
    ours_ = Fd(ends[0]);
    memory_ = Fd(memfd_create("liar", MFD_CLOEXEC));
    REQUIRE(ftruncate(memory_.get(), feeds::kSharedBytes) == 0);
    shared_ = map();
  }
  // Whether controld believes it. What it is asked afterwards is answered by nothing.
  bool is_believed(const ParseAnswer& answer, const std::string& text, ListDraft& list,
                   const feeds::Options& options = kOptions) {
    const ParseAnswer nothing = {};
    for (const ParseAnswer* one : {&answer, &nothing, &nothing}) {
      REQUIRE(send(theirs_.get(), one, sizeof *one, 0) == sizeof *one);
    }
    Parser parser({Fd(dup(ours_.get())), map()}, plain(options));
    Result<void> read = parser.read(text, list);
    if (read) read = parser.finish(list);
    char left[2 * sizeof(ParseAnswer)];
    for (const Fd* end : {&ours_, &theirs_}) {
      while (recv(end->get(), left, sizeof left, MSG_DONTWAIT) > 0) {
      }
    }
    return static_cast<bool>(read);
  }
  std::array<std::byte*, 2> areas() {
    std::byte* first = shared_.bytes().data() + kMostTextBytes;
    return {first, first + feeds::kAreaBytes};
  }
  template <class T>
  void put(const T& value) {
    for (std::byte* entries : areas()) memcpy(entries, &value, sizeof value);
  }

 private:
  Mapping map() const {
    return Mapping(mmap(nullptr, feeds::kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0),
                   feeds::kSharedBytes);
  }
  Fd ours_, theirs_, memory_;
  Mapping shared_;
};

}  // namespace

TEST_CASE("a feed that is parsed apart gives the same, part by part") {
  const auto parsers = start_parsers();
  REQUIRE(parsers);
  for (const bool allow_any : {false, true}) {
    const feeds::Options options = {.directions = WEIR_AS_DESTINATION, .allow_any = allow_any};
    Result<Parser> parser = Parser::make(**parsers, plain(options));
    REQUIRE(parser);
    feeds::Reading reading(&feeds::plain_format(), options);
    ListDraft here, apart;
    for (int round = 0; round < 3; round++) {
      for (const std::string& text : kTexts) {
        reading.read(text, false, here);
        REQUIRE(parser->read(text, apart));
      }
    }
    reading.read({}, true, here);
    REQUIRE(parser->finish(apart));
    CHECK(apart.v4 == here.v4);
    CHECK(apart.v6 == here.v6);
    CHECK(apart.feed == here.feed);
    CHECK(here.feed.bad > 5);
  }
  std::string most;
  while (most.size() + 3 <= kMostTextBytes) most += "::\n";
  Result<Parser> parser = Parser::make(**parsers, plain());
  REQUIRE(parser);
  ListDraft list;
  REQUIRE(parser->read(most, list));
  REQUIRE(parser->finish(list));
  CHECK(list.v6.size() == most.size() / 3);
  CHECK_FALSE(parser->read(most + "  ", list));
}

TEST_CASE("a parser holds nothing, is nobody, and makes no other system call") {
  const auto parsers = start_parsers();
  REQUIRE(parsers);
  Result<Parser> parser = Parser::make(**parsers, plain());
  REQUIRE(parser);
  ListDraft list;
  REQUIRE(parser->read("198.51.100.7\n", list));
  REQUIRE(parser->finish(list));
  const std::vector<pid_t> made = children_of((*parsers)->pid());
  if (made.empty()) {
    say_skipped("kernel: it does not tell of children");
    return;
  }
  REQUIRE(made.size() == 1);
  for (const pid_t pid : {(*parsers)->pid(), made.front()}) {
    CHECK(status_of(pid, "NoNewPrivs") == "1");
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) CHECK(status_of(pid, set) == "0000000000000000");
    if (geteuid() == 0) CHECK(status_of(pid, "Uid").find("65534\t65534\t65534") == 0);
  }
  if (confine::kIsSanitized) {
    say_skipped("sanitizer: the filter of system calls");
  } else {
    CHECK(status_of(made.front(), "Seccomp") == "2");
  }
  if (geteuid() != 0) return;
  std::vector<std::string> held;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(made.front()) + "/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path()).string();
    if (target != "/dev/null") held.push_back(target.substr(0, target.find(':')));
  }
  CHECK(held == std::vector<std::string>{"socket"});
}

TEST_CASE("a parser that ends is an error of its feed, and the next one is another") {
  const auto parsers = start_parsers();
  REQUIRE(parsers);
  const Folder folder;
  folder.write("weir.yaml", "version: 1\nlists:\n- {name: a, action: drop, file: a.txt}\n");
  folder.write("a.txt", "198.51.100.7\n198.51.100.8\n");
  FeedHistory history;
  history.parsers = parsers->get();
  Diagnostics diagnostics;
  const auto first = read_policy(folder / "weir.yaml", diagnostics, kNever - 1, history);
  REQUIRE(first);
  CHECK(first->lists.front().entries() == 2);

  Result<Parser> parser = Parser::make(**parsers, plain());
  REQUIRE(parser);
  ListDraft list;
  std::string text;  // more than the parser keeps to recognise a format
  while (text.size() <= feeds::kBeginningBytes) text += "198.51.100.7\n";
  REQUIRE(parser->read(text, list));
  REQUIRE(parser->read(text, list));
  for (const pid_t pid : children_of((*parsers)->pid())) kill(pid, SIGKILL);
  const Result<void> after = parser->finish(list);
  if (!children_of(getpid()).empty()) {
    REQUIRE_FALSE(after);
    CHECK(after.error() == "the process that parses it ended");
    CHECK(list.v4.size() >= 1);  // what it may have answered before that is taken
  }
  CHECK(Parser::make(**parsers, plain()));

  // Of those for feeds: the list keeps what it had.
  const auto others = confine::Helpers::start({&yaml::kParseJob});
  REQUIRE(others);
  folder.write("a.txt", "198.51.100.9\n");
  FeedHistory again(&first->lists);
  again.is_ours = false;
  again.parsers = others->get();
  const auto second = read_policy(folder / "weir.yaml", diagnostics, kNever - 1, again);
  REQUIRE(second);
  REQUIRE(second->lists.front().refusal);
  CHECK(second->lists.front().entries() == 2);

  // All of them gone: nothing can be read.
  kill((*parsers)->pid(), SIGKILL);
  again.parsers = parsers->get();
  CHECK_FALSE(read_policy(folder / "weir.yaml", diagnostics, kNever - 1, again));
  CHECK(format(diagnostics).find("cannot read this YAML: the process that ") != std::string::npos);
}

TEST_CASE("a parser is not believed what no feed holds") {
  const std::string text = "198.51.100.7\n198.51.100.8\n";
  Liar liar;
  const auto believes = [&](const ParseAnswer& answer, const feeds::Options& options = kOptions) {
    ListDraft list;
    list.feed.lines = 10;
    return liar.is_believed(answer, text, list, options);
  };
  const Entry<Ipv4> good = {7, 9, 11, 0, WEIR_AS_SOURCE, 1};
  ParseAnswer one = {};
  one.lines = 2, one.n_v4 = 1;
  liar.put(good);
  CHECK(believes(one));
  for (const uint32_t line : {0u, 14u}) {  // one that begins in this text may end in the next

    Entry<Ipv4> bad = good;
    bad.line = line;
    liar.put(bad);
    CHECK_FALSE(believes(one));
  }
  for (const Entry<Ipv4>& bad :
       {Entry<Ipv4>{9, 7, 11, 0, WEIR_AS_SOURCE, 1}, Entry<Ipv4>{7, 9, 11, 0, 3, 1},
        Entry<Ipv4>{7, 9, 11, 0, WEIR_AS_SOURCE, 0}, Entry<Ipv4>{7, 9, 11, 0, WEIR_AS_SOURCE, 2},
        Entry<Ipv4>{0, ~Ipv4{0}, 11, 0, WEIR_AS_SOURCE, 1}}) {
    liar.put(bad);
    CHECK_FALSE(believes(one));
  }
  CHECK(believes(one, {.directions = WEIR_AS_SOURCE, .allow_any = true}));
  liar.put(good);
  for (const auto change : {+[](ParseAnswer& a) { a.lines = 1'000'000; }, +[](ParseAnswer& a) { a.bad = 1'000'000; },
                            +[](ParseAnswer& a) { a.n_v4 = 0xffff'ffff; }, +[](ParseAnswer& a) { a.n_v6 = 200'000; },
                            +[](ParseAnswer& a) { a.n_samples = 16; }, +[](ParseAnswer& a) { a.format = 1000; },
                            +[](ParseAnswer& a) { a.skipped = 1'000'000; },
                            +[](ParseAnswer& a) { a.host_bits = 1'000'000; }, +[](ParseAnswer& a) { a.n_notes = 5; }}) {
    ParseAnswer changed = one;
    change(changed);
    CHECK_FALSE(believes(changed));
  }
  ParseAnswer rude = one;
  rude.bad = 1, rude.n_samples = 1;
  memset(&rude.samples[0], 0xff, sizeof rude.samples[0]);
  rude.samples[0].kind = LineSample::bad;
  memcpy(rude.samples[0].reason, "\x1b[2Jgone", 8);
  ListDraft list;
  list.feed.lines = 10;
  REQUIRE(liar.is_believed(rude, text, list));
  CHECK(list.feed.samples.front().text == std::string(ParseAnswer::kMostText, '\xff'));
  CHECK(list.feed.samples.front().reason.substr(0, 8) == "\x1b[2Jgone");
}

TEST_CASE("whatever a parser says, nothing breaks") {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Liar liar;
  for (int i = 0; i < 2000; i++) {
    ParseAnswer answer = {};
    auto* bytes = reinterpret_cast<unsigned char*>(&answer);
    for (size_t b = 0; b < sizeof answer; b++) bytes[b] = static_cast<unsigned char>(random());
    if (i % 2 == 0) answer.lines = below(8), answer.bad = 0, answer.n_samples = below(13);
    if (i % 4 == 0) answer.n_v4 = below(5), answer.n_v6 = below(5);
    for (std::byte* entries : liar.areas()) {
      for (size_t b = 0; b < 1024; b++) entries[b] = static_cast<std::byte>(random());
    }
    ListDraft list;
    if (liar.is_believed(answer, "x\n", list)) {
      for (const auto& entry : list.v4) CHECK(entry.first <= entry.last);
      for (const auto& entry : list.v6) CHECK(entry.first <= entry.last);
    }
  }
}

}  // namespace weir::control
