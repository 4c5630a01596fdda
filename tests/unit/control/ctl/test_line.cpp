// docs/develop/adding.md, "To add a command", followed: a file's worth of code and a row; help, completions, the man
// page and the table of members have it.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>

#include "control/base/json/json.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/pages.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::ctl;

namespace {

// What cmd_rest.cpp would hold.
struct RestAnswer {
  uint64_t seconds = 0;
};

void members(Fields& f, RestAnswer& answer) {
  f({"seconds", "s", "it rests"}, answer.seconds);
}

struct Rested {
  bool done = false;
  Context context;
  std::string where;
  double seconds = 0;
  bool deep = false;
} rested;

Run configure(Options& options) {
  struct Asked {
    std::string where;
    double seconds = 8;
    bool deep = false;
  };
  auto asked = std::make_shared<Asked>();
  options.argument("WHERE", asked->where, "the place").required().one_of({"bed", "sofa"});
  options.number("--seconds", "S", asked->seconds, "how long").range(1, 100);
  options.flag("--deep", asked->deep, "without dreams");
  return [asked](const Context& context) {
    rested = {true, context, asked->where, asked->seconds, asked->deep};
    return int{kNotAcknowledged};
  };
}

const Command kRest = {
    "rest", Group::change, "rest for a while", "Nothing is done meanwhile.", configure, [](MemberTable& table) {
      table.add<RestAnswer>("rest");
    }};

// The row.
std::vector<const Command*> with_row() {
  std::vector<const Command*> commands(all_commands().begin(), all_commands().end());
  commands.push_back(&kRest);
  return commands;
}

int run(std::vector<const char*> words) {
  rested = {};
  words.insert(words.begin(), "controlctl");
  return run_line(with_row(), static_cast<int>(words.size()), words.data());
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a new command is one file and one row: pages have it") {
  const std::vector<const Command*> commands = with_row();
  CHECK(has(help_of_all(commands, "weir"), "  rest        rest for a while\n"));
  CHECK(has(help_of(kRest, "controlctl"), "usage: controlctl rest bed|sofa [OPTIONS]"));
  CHECK(has(help_of(kRest, "controlctl"), "  --seconds S  how long (default: 8)\n"));
  CHECK(has(help_of(kRest, "controlctl"), "Nothing is done meanwhile."));
  CHECK(has(help_of(kRest, "controlctl"), "  --json "));  // options of every command, too
  CHECK(has(help_of(kRest, "controlctl"), "  --socket PATH"));
  CHECK(has(man_page(commands), ".SS rest\nrest for a while.\n"));
  CHECK(has(man_page(commands), "\\fB\\-\\-seconds\\fR \\fIS\\fR\nhow long\n"));
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string completion = completion_for(shell, commands);
    CHECK(has(completion, "rest"));
    CHECK(has(completion, "bed sofa"));
    CHECK(has(completion, "seconds"));
  }
  MemberTable table;
  kRest.answers(table);
  CHECK(has(markdown(table.objects()), "| **rest** | `seconds` | number | s | it rests |\n"));
}

TEST_CASE("its options are parsed; those of every command may stand behind it") {
  CHECK(run({"rest", "bed"}) == kNotAcknowledged);
  CHECK(rested.done);
  CHECK((rested.where == "bed" && rested.seconds == 8 && !rested.deep && !rested.context.json));
  CHECK(run({"--socket", "/x", "rest", "--seconds", "2.5", "sofa", "--deep", "--json"}) == kNotAcknowledged);
  CHECK((rested.where == "sofa" && rested.seconds == 2.5 && rested.deep));
  CHECK((rested.context.json && rested.context.socket == "/x"));
  for (const auto& wrong : std::vector<std::vector<const char*>>{{"rest"},
                                                                 {"rest", "floor"},
                                                                 {"rest", "bed", "--seconds", "0"},
                                                                 {"rest", "bed", "--loud"},
                                                                 {"rset", "bed"},
                                                                 {}}) {
    CHECK(run(wrong) == kUsage);
    CHECK_FALSE(rested.done);
  }
  CHECK(run({"rest", "--help"}) == kOk);
  CHECK_FALSE(rested.done);
}

TEST_CASE("a wrong command is told what was meant") {
  CHECK(has(unknown_command(with_row(), "relaod"), "did you mean `reload`? `controlctl help`"));
  CHECK(has(unknown_command(with_row(), "rset"), "did you mean `rest`? `controlctl help`"));
  CHECK(has(unknown_command(with_row(), "rect"), "did you mean `rest` or `test`? `controlctl help`"));
  CHECK(has(unknown_command(with_row(), "unblok"), "did you mean `del`"));
  CHECK(has(unknown_command(with_row(), "xyzzy"), "hint: `controlctl help` lists the commands\n"));
  CHECK(has(unknown_command(with_row(), "restart"), "`systemctl restart weir-controld` restarts controld"));
  CHECK(has(unknown_command(with_row(), "stop"), "`controlctl bypass on` lets every packet pass"));
}

TEST_CASE("words that people try run the command that is meant; no word means two") {
  const std::vector<const Command*> commands = with_row();
  for (const auto& [word, name] : std::vector<std::pair<const char*, const char*>>{{"block", "add"},
                                                                                   {"ban", "add"},
                                                                                   {"unblock", "del"},
                                                                                   {"unban", "del"},
                                                                                   {"delete", "del"},
                                                                                   {"ls", "list"},
                                                                                   {"show", "list"},
                                                                                   {"lists", "compare"},
                                                                                   {"why", "explain"},
                                                                                   {"panic", "bypass"},
                                                                                   {"whitelist", "allow"}}) {
    INFO(word);
    REQUIRE(find_command(commands, word) != nullptr);
    CHECK(find_command(commands, word)->name == std::string(name));
  }
  std::vector<std::string> words;
  for (const Command* command : commands) {
    words.emplace_back(command->name);
    std::istringstream synonyms(command->synonyms);
    for (std::string word; synonyms >> word;) words.push_back(word);
  }
  std::sort(words.begin(), words.end());
  CHECK(std::adjacent_find(words.begin(), words.end()) == words.end());
  CHECK(has(help_of(*find_command(commands, "add"), "weir"), "Other words for it: block, ban, deny\n"));
}

TEST_CASE("help begins with the commands of every day, and calls the program as it was called") {
  const std::string help = help_of_all(all_commands(), "weir");
  CHECK(help.starts_with("usage: weir COMMAND"));
  CHECK(help.find("Every day:\n  setup ") < help.find("To see more:"));
  CHECK(help.find("\n  bypass ") < help.find("To see more:"));
  CHECK(help.find("\n  shapes ") > help.find("To see more:"));
}

TEST_CASE("every command has a name of its own, a line of help, and options that say what they do") {
  const std::vector<const Command*> commands = with_row();
  for (const Command* command : commands) {
    INFO(command->name);
    CHECK(find_command(commands, command->name) == command);
    CHECK(std::string(command->help).size() > 10);
    Options options;
    const Run keeps_the_targets = command->configure(options);
    CHECK(keeps_the_targets);
    for (const Option& option : options.all()) CHECK_FALSE(option.help.empty());
  }
}

TEST_CASE("a command of weir-connect is refused where it is not installed, and its options are known all the same") {
  for (const std::vector<const char*>& line :
       {std::vector<const char*>{"controlctl", "crowdsec", "--quiet", "--key-file", "none", nullptr},
        std::vector<const char*>{"controlctl", "flowspec", "--quiet", "--peer", "192.0.2.1", "--as", "65000",
                                 nullptr}}) {
    CHECK(run_line(all_commands(), static_cast<int>(line.size()) - 1, line.data()) == kFailed);
  }
  CHECK(help_of(*find_command(all_commands(), "crowdsec"), "weir").find("--key-file") != std::string::npos);
  const std::vector<const char*> wrong = {"controlctl", "crowdsec"};  // --key-file or --cert is missing
  CHECK(run_line(all_commands(), static_cast<int>(wrong.size()), wrong.data()) == kUsage);
}
