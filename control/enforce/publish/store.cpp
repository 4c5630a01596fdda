#include "control/enforce/publish/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/files.h"
#include "common/own_folder.h"
#include "control/compile/seal.h"
#include "filter/read/overlay.h"
#include "filter/read/view.h"

namespace weir::control {

namespace {

constexpr uint64_t kTrailerMagic = 0x444f4f4754534c57;  // "WLSTGOOD"
constexpr uint32_t kTrailerVersion = 1;

// The last 64 bytes of snapshot.weir and book.weir.
struct Trailer {
  uint64_t magic = kTrailerMagic;
  uint32_t version = kTrailerVersion;
  uint32_t reserved = 0;
  wire::Generation generation;
  uint64_t size_bytes = 0;              // of what stands before the trailer
  std::array<uint64_t, 2> digest = {};  // XXH3-128 of it
  uint64_t check = 0;                   // XXH3-64 of the fields above
};
static_assert(sizeof(Trailer) == 64);

uint64_t check_of(const Trailer& trailer) {
  return XXH3_64bits(&trailer, offsetof(Trailer, check));
}

Result<void> write_with_trailer(const std::string& path, wire::Generation generation, std::span<const std::byte> bytes,
                                std::array<uint64_t, 2> digest) {
  Trailer trailer;
  trailer.generation = generation;
  trailer.size_bytes = bytes.size();
  trailer.digest = digest;
  trailer.check = check_of(trailer);
  return write_file_durably(path, {bytes, wire::bytes_of(trailer)}, 0600);
}

struct Checked {
  Mapping mapping;
  Trailer trailer;
  std::span<const std::byte> bytes() const { return mapping.bytes().first(trailer.size_bytes); }
};

// Maps the file and checks its trailer, not yet the digest in it.
Result<Checked> map_with_trailer(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("cannot open " + path);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return errno_error("cannot read " + path);
  const size_t file_bytes = static_cast<size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || file_bytes < sizeof(Trailer)) return Error{path + " is cut off"};

  Result<Mapping> mapping = map_read_only(fd.get(), file_bytes);
  if (!mapping) return Error{mapping.error()};
  Checked checked{std::move(*mapping), {}};
  Trailer& trailer = checked.trailer;
  memcpy(&trailer, checked.mapping.bytes().data() + file_bytes - sizeof trailer, sizeof trailer);
  if (trailer.magic != kTrailerMagic || trailer.check != check_of(trailer)) {
    return Error{path + " is damaged or cut off: it does not end in a trailer"};
  }
  if (trailer.version != kTrailerVersion) {
    return Error{fmt::format("{} has format {}, this program reads {}", path, trailer.version, kTrailerVersion)};
  }
  if (trailer.size_bytes != file_bytes - sizeof trailer) return Error{path + " is damaged: its size is wrong"};
  return checked;
}

Result<Checked> read_with_trailer(const std::string& path) {
  Result<Checked> checked = map_with_trailer(path);
  if (checked && checked->trailer.digest != digest_of(checked->bytes())) {
    return Error{path + " is damaged: its digest is wrong"};
  }
  return checked;
}

Result<void> write_publication(const std::string& path, const Publication& publication) {
  Result<Mapping> snapshot = map_read_only(publication.snapshot.get(), publication.size_bytes);
  if (!snapshot) return Error{snapshot.error()};
  return write_with_trailer(path, publication.generation, snapshot->bytes(), publication.digest);
}

// In a new sealed memfd.
Result<Publication> read_publication(const std::string& path) {
  Result<Checked> checked = read_with_trailer(path);
  if (!checked) return Error{checked.error()};
  Result<filter::SnapshotView> view = filter::SnapshotView::open(checked->bytes());
  if (!view) return Error{path + " holds no good snapshot: " + view.error()};
  const wire::Generation generation{view->header().epoch, view->header().number};
  if (generation != checked->trailer.generation) return Error{path + " is damaged: its generation is wrong"};
  Result<Draft> draft = make_draft(checked->trailer.size_bytes);
  if (!draft) return Error{draft.error()};
  memcpy(draft->mapping.bytes().data(), checked->bytes().data(), checked->trailer.size_bytes);
  Result<Sealed> copy = seal(std::move(*draft));
  if (!copy) return Error{copy.error()};
  return Publication{generation, std::move(copy->fd), checked->trailer.size_bytes, copy->digest, nullptr};
}

// An overlay and its base, each checked for itself.
Result<void> check_pair(const Publication& overlay) {
  const Publication& base = *overlay.base;
  const Result<Mapping> above = map_read_only(overlay.snapshot.get(), overlay.size_bytes);
  const Result<Mapping> below = map_read_only(base.snapshot.get(), base.size_bytes);
  if (!above || !below) return Error{above ? below.error() : above.error()};
  const Result<filter::SnapshotView> view = filter::SnapshotView::open(above->bytes());
  const Result<filter::SnapshotView> base_view = filter::SnapshotView::open(below->bytes());
  if (!view || !base_view) return Error{view ? base_view.error() : view.error()};
  return filter::check_overlay(*base_view, base.digest, *view);
}

}  // namespace

Store::Begun::~Begun() {
  if (is_kept) return;
  const Result<std::vector<std::string>> names = names_in(state_dir);
  const auto is_other = [](const std::string& name) { return !name.starts_with("journal.db") && name != "epoch"; };
  if (!names || std::count_if(names->begin(), names->end(), is_other) > 1) return;  // one is the lock
  for (const std::string& name : *names) {
    if (!is_other(name) || name == "lock") unlink((state_dir + "/" + name).c_str());
  }
  if (is_made) (void)rmdir(state_dir.c_str());
}

Result<Store> Store::open(const std::string& state_dir) {
  const bool is_there = access(state_dir.c_str(), F_OK) == 0;
  if (Result<void> own = make_own_folder(state_dir, 0700, "--state-dir"); !own) return Error{own.error()};
  const Result<std::vector<std::string>> names = names_in(state_dir);
  Store store;
  store.state_dir_ = state_dir;
  Result<std::optional<FolderLock>> lock = lock_folder(state_dir);
  if (!lock) return Error{lock.error()};
  if (!*lock) return Error{"another controld runs on " + state_dir + "; stop it, or give this one its own --state-dir"};
  store.lock_ = std::move(**lock);
  if (names && names->empty()) store.begun_ = std::make_unique<Begun>(state_dir, !is_there);
  return store;
}

std::string Store::overlay_path(wire::Generation base) const {
  return fmt::format("{}/overlay-{:016x}-{}.weir", state_dir_, base.epoch, base.number);
}

// Those of bases that are there no more.
void Store::forget_overlays(wire::Generation but_of) const {
  const std::string kept = overlay_path(but_of);
  const Result<std::vector<std::string>> names = names_in(state_dir_);
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string path = state_dir_ + "/" + name;
    if (name.starts_with("overlay-") && path != kept) unlink(path.c_str());
  }
}

// The overlay first: it is not looked at before its base is there.
Result<void> Store::save(const Publication& publication) {
  if (begun_ != nullptr) begun_->is_kept = true;  // also where the disk fails
  const bool is_overlay = publication.base != nullptr;
  const Publication& base = is_overlay ? *publication.base : publication;
  if (is_overlay) {
    if (Result<void> written = write_publication(overlay_path(base.generation), publication); !written) return written;
  }
  if (is_overlay && base_ == base.generation) return {};
  if (Result<void> written = write_publication(state_dir_ + "/snapshot.weir", base); !written) return written;
  base_ = base.generation;
  forget_overlays(is_overlay ? base.generation : wire::Generation());
  return {};
}

Result<void> Store::save_book(wire::Generation generation, std::span<const std::byte> book) {
  unlink((state_dir_ + "/origins.weir").c_str());  // what versions before the book kept instead
  return write_with_trailer(state_dir_ + "/book.weir", generation, book, digest_of(book));
}

Result<std::optional<Publication>> Store::load() const {
  const std::string path = state_dir_ + "/snapshot.weir";
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<Publication>();
  Result<Publication> base = read_publication(path);
  if (!base) return Error{base.error()};
  const std::string overlay = overlay_path(base->generation);
  if (access(overlay.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<Publication>(std::move(*base));
  Result<Publication> newer = read_publication(overlay);
  if (!newer) return Error{newer.error()};
  newer->base = std::make_shared<Publication>(std::move(*base));
  if (Result<void> fits = check_pair(*newer); !fits) return Error{overlay + ": " + fits.error()};
  return std::optional<Publication>(std::move(*newer));
}

Result<wire::Generation> Store::stored_generation() const {
  Result<Checked> base = map_with_trailer(state_dir_ + "/snapshot.weir");
  if (!base) return Error{base.error()};
  const Result<Checked> overlay = map_with_trailer(overlay_path(base->trailer.generation));
  return overlay ? overlay->trailer.generation : base->trailer.generation;
}

Result<Store::Bytes> Store::book(wire::Generation generation) const {
  return read_file(state_dir_ + "/book.weir", generation);
}

Result<void> Store::write_file(const std::string& path, wire::Generation generation, std::span<const std::byte> bytes) {
  return write_with_trailer(path, generation, bytes, digest_of(bytes));
}

Result<Store::Bytes> Store::read_file(const std::string& path, wire::Generation generation, bool checks_digest) {
  Result<Checked> checked = checks_digest ? read_with_trailer(path) : map_with_trailer(path);
  if (!checked) return Error{checked.error()};
  if (checked->trailer.generation != generation) return Error{path + " belongs to another generation"};
  const size_t size_bytes = checked->trailer.size_bytes;
  return Bytes{std::move(checked->mapping), size_bytes};
}

Result<Store::Bytes> Store::book_in(const std::string& state_dir, wire::Generation* generation) {
  Result<Checked> checked = read_with_trailer(state_dir + "/book.weir");
  if (!checked) return Error{checked.error()};
  if (generation != nullptr) *generation = checked->trailer.generation;
  const size_t size_bytes = checked->trailer.size_bytes;
  return Bytes{std::move(checked->mapping), size_bytes};
}

bool Store::bypass() const {
  return access((state_dir_ + "/bypass").c_str(), F_OK) == 0;
}

std::optional<bool> Store::ordered_bypass() const {
  if (bypass()) return true;
  if (access((state_dir_ + "/bypass.off").c_str(), F_OK) == 0) return false;
  return std::nullopt;
}

Result<void> Store::forget_off(const std::string& state_dir) {
  const std::string path = state_dir + "/bypass.off";
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return errno_error("cannot remove " + path);
  return {};
}

namespace {

// controld and controlctl may both write an order at once: each writes a file of its own.
constexpr const char* kUnfinishedOn = "bypass.on-";

// An order of off overtakes each order of on whose disk has not answered.
void forget_unfinished_on(const std::string& state_dir) {
  const Result<std::vector<std::string>> names = names_in(state_dir);
  if (!names) return;
  for (const std::string& name : *names) {
    if (name.starts_with(kUnfinishedOn)) unlink((state_dir + "/" + name).c_str());
  }
}

Result<void> sync_folder(const std::string& path) {
  const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || fsync(folder.get()) != 0) return errno_error("cannot sync folder " + path);
  return {};
}

Result<void> remember_on(const std::string& state_dir, const std::function<bool()>& is_wanted) {
  const std::string path = state_dir + "/bypass";
  const std::string unfinished = fmt::format("{}/{}{}", state_dir, kUnfinishedOn, getpid());
  Result<void> done;
  {
    const Fd fd(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd || fsync(fd.get()) != 0) done = errno_error("cannot write " + unfinished);
  }
  if (done && (!is_wanted || is_wanted())) {
    if (rename(unfinished.c_str(), path.c_str()) == 0) return sync_folder(state_dir);
    if (errno != ENOENT) done = errno_error("cannot rename " + unfinished + " to " + path);
  }
  unlink(unfinished.c_str());
  return done;
}

Result<void> remember_off(const std::string& state_dir, const std::function<bool()>& is_wanted) {
  const std::string path = state_dir + "/bypass";
  forget_unfinished_on(state_dir);
  if (is_wanted && !is_wanted()) return {};
  // In one step, for which a full disk has room.
  const std::string off = path + ".off";
  if (rename(path.c_str(), off.c_str()) != 0) {
    if (errno != ENOENT) return errno_error("cannot remove " + path);
    // It was off already. Where this cannot be made a target that is away hears of it from this controld only.
    (void)Fd(::open(off.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  }
  return sync_folder(state_dir);
}

}  // namespace

Result<void> Store::set_bypass(const std::string& state_dir, bool on, const std::function<bool()>& is_wanted) {
  return on ? remember_on(state_dir, is_wanted) : remember_off(state_dir, is_wanted);
}

}  // namespace weir::control
