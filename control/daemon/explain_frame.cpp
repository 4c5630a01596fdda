#include "control/daemon/explain_frame.h"

#include <ctime>
#include <memory>
#include <vector>

#include "control/answer/frame_text.h"
#include "control/answer/walk.h"

namespace weir::control {

Result<ExplainAnswer> explain_frame_answer(const Daemon& daemon, const std::string& frame) {
  const Result<std::vector<uint8_t>> bytes = parse_frame_text(frame);
  if (!bytes) return Error{bytes.error()};
  const std::shared_ptr<const Running> running = daemon.running();
  const Result<const filter::SnapshotView*> base = running->stands_on->snapshot->view();
  if (!base) return Error{base.error()};
  const bool has_overlay = running->publication->base != nullptr;
  const Result<const filter::SnapshotView*> overlay = has_overlay ? running->snapshot->view() : nullptr;
  if (!overlay) return Error{overlay.error()};
  ExplainAnswer answer;
  answer.generation = running->publication->generation;
  answer.of_frame = walk({**base, *overlay}, *running->book, *bytes, static_cast<uint64_t>(time(nullptr)));
  return answer;
}

}  // namespace weir::control
