#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/result.h"
#include "control/enforce/publish/place.h"
#include "control/enforce/targets/target.h"
#include "control/tell/answer/parts.h"

// What controlctl does itself where controld does not answer: it speaks to the targets that this controld last had.
namespace weir::control::ctl {

// As this controld wrote it down; the data plane at its default socket when it never did.
Place find_place(const std::string& controld_socket);

// Error: only root or the user of this controld may do without it, and we are neither. command: that root may give.
Result<void> may_go_around(const std::string& controld_socket, const std::string& command);

// The order of the panic switch, to all of them at once; waits for their answers, but not for long, and no longer when
// controld answers after all: when its connection can be read (-1: there is none).
std::vector<TargetOutcome> bypass_directly(const Place& place, bool on, int controld);
// What is to be known to the next start of this controld, and to it itself when it goes on.
enum class Note { on, off, off_is_told };
// A process writes it: a disk that hangs holds nobody else, and what has not been written when controlctl ends is given
// up.
class Remembering {
 public:
  Remembering(const Place& place, Note note);
  // True: it is over.
  bool wait(std::chrono::milliseconds most);
  // Waits, but not for long. Error: it is not remembered.
  Result<void> result();

 private:
  Fd told_;  // by the process
  std::optional<Result<void>> result_;
};

// What each tells of itself. A target that does not answer is not connected, and says why.
enum class Look { status, counters };
std::vector<TargetState> look_directly(const Place& place, Look what);

// To stderr.
void say_direct(const std::string& why, const char* what);

}  // namespace weir::control::ctl
