#include "control/enforce/publish/open_snapshot.h"

#include "common/files.h"

namespace weir::control {

Result<const filter::SnapshotView*> OpenSnapshot::view() const {
  std::lock_guard lock(mutex_);
  if (!view_) {
    Result<Mapping> mapping = map_read_only(publication_->snapshot.get(), publication_->size_bytes);
    if (!mapping) return Error{mapping.error()};
    mapping_ = std::move(*mapping);
    view_ = filter::SnapshotView::open(mapping_.bytes());
  }
  if (!*view_) return Error{view_->error()};
  return &**view_;
}

}  // namespace weir::control
