#pragma once

#include <cstdint>
#include <string>

#include "common/result.h"
#include "common/wire.h"

namespace weir::control {

// The epoch and the last number given out, kept in STATE_DIR/epoch. A number is on disk before it is used, so no two
// publications of one epoch ever share one, whatever crashes. When the file cannot be trusted a new random epoch
// begins: enforcers take the next publication as a new story instead of confusing it with an old one.
class GenerationFile {
 public:
  // A missing file starts an epoch at number 0 (nothing published). So does a damaged one, which is kept beside it as
  // epoch.damaged; notice() then says so. Errors: the file cannot be read or written.
  static Result<GenerationFile> open(const std::string& state_dir);

  wire::Generation last() const { return last_; }
  wire::Generation next() const { return {last_.epoch, last_.number + 1}; }
  // Gives next() out: durable before this returns. After an error nothing is given out.
  Result<void> commit();

  // published: the newest publication found elsewhere (the last good). When the file is behind it, as after restoring
  // an old copy, numbers would be used twice: a new epoch begins and notice() says so.
  Result<void> not_behind(wire::Generation published);

  // What the operator must be told; empty when all is well.
  const std::string& notice() const { return notice_; }

 private:
  Result<void> begin_epoch();
  Result<void> write(wire::Generation generation);

  std::string path_;
  wire::Generation last_;
  std::string notice_;
};

}  // namespace weir::control
