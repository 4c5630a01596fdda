#include "dataplane/snapshot/saved.h"

#include <cstring>

#include "common/log/log.h"
#include "filter/read/receive.h"

namespace weir::dataplane {

namespace {

// load(bytes): reads them from the disk, and returns the digest that was saved with them.
template <class Load>
Result<std::shared_ptr<const Copies>> load_copies(size_t size_bytes, std::span<const WorkerPlace> workers,
                                                  const std::string& path, Load load) {
  Result<std::vector<Copies::Copy>> copies = Copies::allocate(size_bytes, workers);
  if (!copies) return Error{copies.error()};
  const std::span<std::byte> first = copies->front().memory.mapping.bytes().first(size_bytes);
  const Result<Digest> digest = load(first);
  if (!digest) return Error{digest.error()};
  if (Result<void> same = filter::check_digest(first, *digest); !same) return Error{path + ": " + same.error()};
  for (size_t i = 1; i < copies->size(); i++) {
    memcpy((*copies)[i].memory.mapping.bytes().data(), first.data(), size_bytes);
  }
  Result<Copies> opened = Copies::open(std::move(*copies), size_bytes, *digest);
  if (!opened) return Error{path + ": " + opened.error()};
  return std::make_shared<const Copies>(std::move(*opened));
}

std::string too_large(const std::string& path, size_t size_bytes, uint64_t limit_bytes) {
  return path + " has " + std::to_string(size_bytes) + " bytes; snapshot_memory allows " + std::to_string(limit_bytes);
}

void tell_older(const std::string& why) {
  log::write(
      {log::Level::error,
       "the saved overlay is not used, and what it stands on is enforced without it, OLDER than what was acknowledged",
       {{"cause", why}},
       false});
}

}  // namespace

Result<std::unique_ptr<Snapshot>> Saved::restore(std::span<const WorkerPlace> workers, uint64_t limit_bytes) {
  const Result<std::optional<size_t>> size = state_.saved_snapshot_size();
  if (!size) return Error{size.error()};
  if (!size->has_value()) return std::unique_ptr<Snapshot>();
  const std::string path = state_.snapshot_path();
  if (**size > limit_bytes) return Error{too_large(path, **size, limit_bytes)};
  const Result<std::shared_ptr<const Copies>> base =
      load_copies(**size, workers, path, [&](std::span<std::byte> bytes) { return state_.load_snapshot(bytes); });
  if (!base) return Error{base.error()};

  if (std::shared_ptr<const Copies> overlay = restore_overlay(**base, workers, limit_bytes - **size)) {
    Result<std::unique_ptr<Snapshot>> both = Snapshot::open(*base, std::move(overlay), workers);
    if (both) return both;
    set_aside(**base, both.error());
  }
  Result<std::unique_ptr<Snapshot>> alone = Snapshot::open(*base, nullptr, workers);
  if (!alone) return Error{path + ": " + alone.error()};
  return alone;
}

std::shared_ptr<const Copies> Saved::restore_overlay(const Copies& base, std::span<const WorkerPlace> workers,
                                                     uint64_t limit_bytes) const {
  const wire::Generation generation = base.generation();
  const std::string path = state_.overlay_path(generation);
  const Result<std::optional<size_t>> size = state_.saved_overlay_size(generation);
  if (size && !size->has_value()) return nullptr;
  if (size && **size > limit_bytes) {
    tell_older(too_large(path, **size, limit_bytes) + " beside its base");
    return nullptr;
  }
  Result<std::shared_ptr<const Copies>> overlay = Error{size ? "" : size.error()};
  if (size) {
    overlay = load_copies(**size, workers, path,
                          [&](std::span<std::byte> bytes) { return state_.load_overlay(generation, bytes); });
  }
  if (overlay) return std::move(*overlay);
  set_aside(base, overlay.error());
  return nullptr;
}

void Saved::set_aside(const Copies& base, const std::string& why) const {
  tell_older(why);
  if (Result<void> moved = state_.set_overlay_aside(base.generation()); !moved) {
    log::error("the saved overlay cannot be set aside", {{"error", moved.error()}});
  }
}

// The overlay's file belongs to the base that its name says: while the disk holds another base it means nothing, so it
// comes first. With the same base, it is this step that makes the change.
Result<void> Saved::save(const Snapshot& snapshot) {
  const wire::Generation base = snapshot.base()->generation();
  if (const Copies* overlay = snapshot.overlay()) {
    const std::span<const std::byte> bytes = overlay->bytes_of(overlay->all().front());
    if (Result<void> saved = state_.save_overlay(base, bytes, overlay->digest()); !saved) return saved;
  } else if (Result<void> removed = state_.remove_overlay(base); !removed) {
    return removed;
  }
  if (base_) {
    const Result<void> saved = state_.save_snapshot(base_.bytes(), snapshot.base()->digest());
    if (!saved) return saved;
    base_.reset();
    others_remain_ = true;
  }
  if (others_remain_) {
    if (Result<void> removed = state_.remove_overlays_but(base); !removed) return removed;
    others_remain_ = false;
  }
  return {};
}

}  // namespace weir::dataplane
