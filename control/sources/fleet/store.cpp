#include "control/sources/fleet/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/fd.h"
#include "common/files.h"
#include "common/own_folder.h"
#include "common/peer_number.h"
#include "control/base/json/json.h"
#include "control/sources/fleet/pieces.h"

namespace weir::control::fleet {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFollowed = 64 << 10;
constexpr const char* kFollowed = "/followed";
constexpr std::string_view kEmptyPolicy =
    "# This node has not heard of its fleet yet: nothing is blocked.\nversion: 1\nlists: []\n";

std::span<const std::byte> span_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

bool is_file_of(const std::string& path, uint64_t bytes) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && static_cast<uint64_t>(found.st_size) == bytes;
}

Result<void> sync_folder(const std::string& path) {
  const Fd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || fsync(folder.get()) != 0) return errno_error("cannot write folder " + path);
  return {};
}

}  // namespace

void members(Fields& f, Followed& followed) {
  f({"fleet", "", ""}, followed.fleet);
  f({"turn", "", ""}, followed.turn);
  f({"head_id", "", ""}, followed.head_id);
  f({"revision", "", ""}, followed.revision);
  f({"policy", "", ""}, followed.policy);
}

Result<Followed> Store::read(const std::string& fleet) const {
  Followed none;
  none.fleet = fleet;
  const std::string path = folder_ + kFollowed;
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return none;
  const Result<std::string> text = read_file(path, kMostFollowed);
  if (!text) return Error{text.error()};
  const Result<Document> document = Document::parse(*text);
  if (!document) return none;
  Result<Followed> followed = read_json<Followed>(*document);
  if (!followed || followed->fleet != fleet) return none;
  if (followed->turn > kMostNumber) {  // of a head that no fleet can have reached: the next one is followed
    followed->turn = 0;
    followed->head_id.clear();
  }
  return followed;
}

Result<void> Store::write(const Followed& followed) const {
  if (Result<void> made = make_directories(folder_, 0700); !made) return made;
  const std::string text = write_json(followed).line();
  return write_file_durably(folder_ + kFollowed, {span_of(text)}, 0600);
}

std::vector<BlobFile> Store::missing(const Revision& revision) const {
  std::vector<BlobFile> files;
  std::set<std::string> known;
  for (const BlobFile& file : revision.files) {
    if (known.insert(file.digest).second && !is_file_of(blob(file.digest), file.bytes)) files.push_back(file);
  }
  return files;
}

std::string Store::bytes_of(uint64_t revision, const std::string& path) const {
  Result<std::string> bytes = read_file(of_revision(revision) + "/" + path, kMostBlob);
  return bytes ? std::move(*bytes) : "";
}

Result<void> Store::put(const BlobFile& file, std::span<const std::byte> bytes) const {
  if (bytes.size() != file.bytes || sha256_of(bytes) != file.digest) {
    return Error{"the bytes of " + file.path + " are not those of the revision: their digest is another"};
  }
  if (Result<void> made = make_directories(folder_ + "/blobs", 0700); !made) return made;
  return write_file_durably(blob(file.digest), {bytes}, 0600);
}

Result<std::string> Store::lay_out(const Revision& revision) const {
  const std::string whole = of_revision(revision.number), part = whole + ".part";
  std::error_code failed;
  fs::remove_all(part, failed);
  if (Result<void> made = make_directories(part, 0700); !made) return Error{made.error()};
  for (const BlobFile& file : revision.files) {
    const std::string path = part + "/" + file.path;
    if (Result<void> made = make_directories(fs::path(path).parent_path().string(), 0700); !made) {
      return Error{made.error()};
    }
    if (link(blob(file.digest).c_str(), path.c_str()) != 0) return errno_error("cannot link " + path);
  }
  fs::remove_all(whole, failed);  // of an attempt that a crash ended, or of another fleet
  if (rename(part.c_str(), whole.c_str()) != 0) return errno_error("cannot rename " + part);
  if (Result<void> synced = sync_folder(folder_); !synced) return Error{synced.error()};
  return whole + "/" + revision.policy;
}

void Store::keep_only(const std::set<uint64_t>& numbers) const {
  const auto names = [](const std::string& folder) {
    Result<std::vector<std::string>> found = names_in(folder);
    return found ? std::move(*found) : std::vector<std::string>();
  };
  std::error_code failed;
  for (const std::string& name : names(folder_)) {
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    const bool is_kept = is_number && name.size() < 19 && numbers.contains(std::stoull(name));
    if ((is_number || name.ends_with(".part")) && !is_kept) fs::remove_all(folder_ + "/" + name, failed);
  }
  for (const std::string& name : names(folder_ + "/blobs")) {
    struct stat found = {};
    if (stat(blob(name).c_str(), &found) == 0 && found.st_nlink == 1) unlink(blob(name).c_str());
  }
}

Followed Disk::read(const std::string& fleet) {
  const std::lock_guard lock(mutex_);
  if (Result<Followed> read = files.read(fleet); read) followed_ = std::move(*read);
  followed_.fleet = fleet;
  return followed_;
}

Result<void> Disk::keep_turn(uint64_t turn, const std::string& head_id) {
  const std::lock_guard lock(mutex_);
  Followed next = followed_;
  next.turn = turn;
  next.head_id = head_id;
  return keep(next);
}

Result<void> Disk::keep_revision(uint64_t number, const std::string& policy) {
  const std::lock_guard lock(mutex_);
  Followed next = followed_;
  next.revision = number;
  next.policy = policy;
  return keep(next);
}

Result<void> Disk::keep(const Followed& next) {
  Result<void> written = files.write(next);
  if (written) followed_ = next;
  return written;
}

Result<std::string> Store::empty_policy() const {
  if (Result<void> made = make_directories(folder_, 0700); !made) return Error{made.error()};
  const std::string path = folder_ + "/none.yaml";
  const Result<void> written = write_file_durably(path, {span_of(kEmptyPolicy)}, 0600);
  return written ? Result<std::string>(path) : Error{written.error()};
}

}  // namespace weir::control::fleet
