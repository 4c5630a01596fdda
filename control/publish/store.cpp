#include "control/publish/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "common/files.h"
#include "control/compile/seal.h"
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

}  // namespace

Result<Store> Store::open(const std::string& state_dir) {
  if (Result<void> made = make_directories(state_dir, 0700); !made) return Error{made.error()};
  Store store;
  store.state_dir_ = state_dir;
  const std::string path = state_dir + "/lock";
  store.lock_ = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!store.lock_) return errno_error("cannot open " + path);
  if (flock(store.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_error("cannot lock " + path);
    return Error{"another controld runs on " + state_dir + "; stop it, or give this one its own --state-dir"};
  }
  return store;
}

Result<void> Store::save(const Publication& publication, std::span<const std::byte> book) {
  Result<Mapping> snapshot = map_read_only(publication.snapshot.get(), publication.size_bytes);
  if (!snapshot) return Error{snapshot.error()};
  // The book first: it only helps `explain`, and says itself which generation it belongs to.
  Result<void> written = write_with_trailer(state_dir_ + "/book.weir", publication.generation, book, digest_of(book));
  if (!written) return written;
  unlink((state_dir_ + "/origins.weir").c_str());  // what versions before the book kept instead
  return write_with_trailer(state_dir_ + "/snapshot.weir", publication.generation, snapshot->bytes(),
                            publication.digest);
}

Result<std::optional<Publication>> Store::load() const {
  const std::string path = state_dir_ + "/snapshot.weir";
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<Publication>();
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
  return std::optional<Publication>(
      Publication{generation, std::move(copy->fd), checked->trailer.size_bytes, copy->digest});
}

Result<wire::Generation> Store::stored_generation() const {
  Result<Checked> checked = map_with_trailer(state_dir_ + "/snapshot.weir");
  if (!checked) return Error{checked.error()};
  return checked->trailer.generation;
}

Result<Store::Bytes> Store::book(wire::Generation generation) const {
  Result<Checked> checked = read_with_trailer(state_dir_ + "/book.weir");
  if (!checked) return Error{checked.error()};
  if (checked->trailer.generation != generation) return Error{"the book on disk belongs to another generation"};
  const size_t size_bytes = checked->trailer.size_bytes;
  return Bytes{std::move(checked->mapping), size_bytes};
}

bool Store::bypass() const {
  return access((state_dir_ + "/bypass").c_str(), F_OK) == 0;
}

Result<void> Store::set_bypass(bool on) {
  const std::string path = state_dir_ + "/bypass";
  if (on) return write_file_durably(path, {}, 0600);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return errno_error("cannot remove " + path);
  Fd folder(::open(state_dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || fsync(folder.get()) != 0) return errno_error("cannot sync folder " + state_dir_);
  return {};
}

}  // namespace weir::control
