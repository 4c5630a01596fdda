#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "common/result.h"
#include "control/enforce/publish/store.h"
#include "filter/read/view.h"

namespace weir::control {

// A publication to look things up in. It is mapped and checked by whoever asks first, once: that walks all of it.
class OpenSnapshot {
 public:
  explicit OpenSnapshot(std::shared_ptr<const Publication> publication) : publication_(std::move(publication)) {}

  // Lives as long as this object. From any thread.
  Result<const filter::SnapshotView*> view() const;

 private:
  const std::shared_ptr<const Publication> publication_;
  mutable std::mutex mutex_;  // guards what follows
  mutable Mapping mapping_;
  mutable std::optional<Result<filter::SnapshotView>> view_;
};

}  // namespace weir::control
