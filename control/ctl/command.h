#pragma once

#include <span>
#include <string>

#include "control/answer/report_json.h"

namespace CLI {  // its header is slow to compile: only files that add options include it
class App;
}

namespace weir::control::ctl {

// What every command may use. Filled by CLI11 while the line is parsed.
struct Context {
  std::string socket;                   // of controld
  bool json = false;                    // print JSON instead of text for people
  std::string config;                   // check
  std::string key;                      // explain
  std::string list;                     // list
  std::string on_off;                   // bypass
  std::string dataplane;                // bypass: straight to this data plane
  std::string interface;                // detach
  std::string bpf_dir = "/sys/fs/bpf";  // detach, steer
  bool once = false;                    // top
  double interval_s = 1;                // top

  std::string steer_file;                           // steer
  bool show = false, clear = false, check = false;  // steer

  std::string entries;                   // size
  std::string fpr = "0.005";             // size
  std::string shape = "v4";              // size
  std::string layout = "auto";           // size
  bool all = false, calibration = true;  // size
};

// Exit codes, as docs/use/control.md has them.
enum Exit : int { kOk = 0, kFailed = 1, kUsage = 2, kNotAcknowledged = 3, kUnreachable = 4 };

struct Command {
  const char* name;
  const char* help;
  void (*options)(CLI::App&, Context&);  // null: none of its own
  int (*run)(const Context&);
};

// One file each, cmd_NAME.cpp.
extern const Command kReload, kStatus, kCheck, kExplain, kShapes, kSize, kStats, kTop, kList, kBypass, kCapture,
    kDetach, kSteer;

// One request to controld, its answer printed: as it is with --json, else an error to stderr, anything else by `show`
// (an answer with "ok": false too: it has more to tell than its error). Returns the exit code.
int request(const Context& context, const Json& request, void (*show)(const Json& answer));

// The second half of it.
int print_answer(const Context& context, const Json& answer, void (*show)(const Json& answer));

// What an answer means to a script.
int exit_code(const Json& answer);

}  // namespace weir::control::ctl
