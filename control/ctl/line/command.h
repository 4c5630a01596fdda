#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/options/option.h"
#include "control/base/json/table.h"

namespace weir::control::ctl {

// What every command may use.
struct Context {
  std::string socket;                  // of controld
  bool json = false;                   // print JSON instead of text for people
  bool quiet = false;                  // nothing that is neither a result nor an error
  bool wide = false;                   // tables are printed whole, however narrow the terminal
  std::string program = "controlctl";  // as it was called; or "weir"
  const char* const* line = nullptr;   // all words of the command line, as of main()
};

// Exit codes, as docs/use/control.md has them.
enum Exit : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNotAcknowledged = 3,
  kUnreachable = 4,
  kOverLimit = 5,
  kWrong = 6
};

using Run = std::function<int(const Context& context)>;

enum class Group { everyday, look, change, file, own };  // headings of help, in this order

// A command: a file cmd_NAME.cpp and a row in commands.cpp. Help, completions, the man page and the table of JSON
// members are made of it.
struct Command {
  const char* name;
  Group group;
  const char* help;     // one line
  const char* details;  // paragraphs, an empty line between them; lines that begin with blanks stay lines
  Run (*configure)(Options& options);             // adds its options; what runs when they are filled
  void (*answers)(MemberTable& table) = nullptr;  // what --json prints; null: nothing
  bool is_urgent = false;                         // runs before all that is not real time (common/realtime.h)
  const char* synonyms = "";                      // other words that run it, a blank between them
};
using Commands = std::span<const Command* const>;

// Of all commands.
struct Common {
  Context context;
  Options options;
  explicit Common(std::string socket);
  Common(const Common&) = delete;
};

// controlctl: parses, runs. Returns the exit code.
int run_line(Commands commands, int argc, const char* const* argv);

// By its name or a synonym; null: there is none.
const Command* find_command(Commands commands, std::string_view word);

}  // namespace weir::control::ctl
