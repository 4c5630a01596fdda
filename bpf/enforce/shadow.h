#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "bpf/enforce/program.h"
#include "bpf/enforce/shadow_run.h"
#include "common/result.h"
#include "common/shadow.h"
#include "common/wire.h"
#include "filter/read/receive.h"

namespace weir::xdp {

// A candidate beside what is enforced (docs/operate/shadow.md). While it judges, another program is attached in place
// of the ordinary one, with the same maps; without a shadow nothing of it is there, and no packet pays for it.
class Shadow {
 public:
  // Attaches this program, or adopts it where another one of ours is, without a gap. Error: some interface keeps the
  // former one.
  using Attach = std::function<Result<void>(int program_fd)>;
  // Borrows both. names_mutex is held while names of slots are read.
  Shadow(const Program& program, std::mutex& names_mutex, Attach attach);

  // A wire::Type::shadow message that begins one, or ends it. Publications' thread, as are the next two.
  Result<wire::Shadow> answer(const wire::Message& message);
  // why: empty: it was asked for.
  void end(const std::string& why);
  // Something was: its shadow ends when it is the candidate.
  void enforced();

  // What it has counted, and samples that were not told yet. Any thread, as is the rest. Error: the kernel does not
  // give its counters.
  Result<wire::Shadow> tell();
  wire::Generation candidate() const;  // {0,0}: none judges
  uint64_t bytes() const;              // that its candidate takes; 0: none judges
  int program_fd() const;              // that is to be attached now

 private:
  std::optional<filter::Refusal> begin(const wire::Message& message, const wire::ShadowRequest& request);
  Result<void> take_from_run(size_t most_samples, wire::Shadow& told);

  const Program& program_;
  std::mutex& names_mutex_;
  const Attach attach_;
  mutable std::mutex mutex_;        // guards what follows; taken before names_mutex_
  std::unique_ptr<ShadowRun> run_;  // is exchanged by publications' thread alone
  wire::Shadow told_;               // of the last shadow; while it judges, without what is still to be counted
};

}  // namespace weir::xdp
