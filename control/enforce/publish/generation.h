#pragma once

#include <cstdint>
#include <string>

#include "common/result.h"
#include "common/wire.h"

namespace weir::control {

// The epoch and the last number given out, kept in STATE_DIR/epoch. A number is on disk before it is used, here or in
// the journal, so no two publications of one epoch ever share one, whatever crashes. Only a disk that cannot be written
// makes an exception: what is valid is enforced all the same, and who asks for the number is told. When the file cannot
// be trusted a new random epoch begins: enforcers take the next publication as a new story instead of confusing it with
// an old one.
class GenerationFile {
 public:
  // A missing file starts an epoch at number 0 (nothing published). So does a damaged one, which is kept beside it as
  // epoch.damaged where the disk can be written; notice() then says so, and also when the new epoch cannot be written.
  // Error: the file cannot be read.
  static Result<GenerationFile> open(const std::string& state_dir);

  wire::Generation last() const { return last_; }
  // Never wraps: last() stays within kMostNumber of common/peer_number.h, but for what is published from there.
  wire::Generation next() const { return {last_.epoch, last_.number + 1}; }
  // Gives next() out. Error: it is not on disk; save() tries again.
  Result<void> commit();
  // The same for who has it on disk elsewhere, and tells with pass() after a start.
  void give_out() { last_ = next(); }
  Result<void> save() { return write(last_); }
  // Somebody enforces this one, or it was given out. When it is of our epoch, the next number is past it; a number that
  // this program cannot have given out is not believed.
  void pass(wire::Generation seen);

  // published: the newest publication found elsewhere (the last good). When the file is behind it, as after restoring
  // an old copy, numbers would be used twice: a new epoch begins and notice() says so. Error: there is no random
  // number.
  Result<void> not_behind(wire::Generation published);

  // What the operator must be told; empty when all is well.
  const std::string& notice() const { return notice_; }

 private:
  Result<void> begin_epoch();
  void add_notice(const std::string& text);
  Result<void> write(wire::Generation generation) const;

  std::string path_;
  wire::Generation last_;
  std::string notice_;
};

}  // namespace weir::control
