#include "control/enforce/publish/history_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <map>

#include "common/again.h"
#include "common/digest.h"
#include "common/files.h"
#include "common/own_folder.h"

namespace weir::control {
namespace {

std::string ending_of(const Digest& digest) {
  return fmt::format("{:016x}{:016x}.feed", digest[1], digest[0]);
}

// Of a whole file: visit(its next bytes), until it says no. False: it cannot be read.
template <class Visit>
bool read_parts(const std::string& path, Visit visit) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  std::vector<std::byte> buffer(size_t{256} << 10);
  while (true) {
    const ssize_t got = not_interrupted([&] { return read(file.get(), buffer.data(), buffer.size()); });
    if (got <= 0) return got == 0;
    if (!visit(std::span(buffer).first(static_cast<size_t>(got)))) return false;
  }
}

bool has_digest(const std::string& path, const Digest& wanted) {
  PartsDigest digest;
  const bool is_read = read_parts(path, [&](std::span<const std::byte> bytes) { return digest.add(bytes), true; });
  return is_read && digest.value() == wanted;
}

// False: it holds something else now, is too large, or the disk does not take it.
bool copy(const HistoryFiles::Feed& feed, const std::string& to, uint64_t most_bytes) {
  const std::string unfinished = to + ".new";
  const Fd file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return false;
  PartsDigest digest;
  uint64_t total = 0;
  const bool is_copied = read_parts(feed.path, [&](std::span<const std::byte> bytes) {
    digest.add(bytes);
    total += bytes.size();
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t put = not_interrupted([&] { return write(file.get(), bytes.data() + at, bytes.size() - at); });
      if (put < 0) return false;
      at += static_cast<size_t>(put);
    }
    return total <= most_bytes;
  });
  if (is_copied && digest.value() == feed.digest && rename(unfinished.c_str(), to.c_str()) == 0) return true;
  unlink(unfinished.c_str());
  return false;
}

// Files that are there, and the bytes that they take: of several links to one file those of one.
class Remaining {
 public:
  void add(uint64_t number, std::string path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) return;
    const bool is_needed = path.ends_with(".yaml") || path.ends_with(".book");  // to go back
    files_.emplace(number, File{std::move(path), is_needed, status.st_ino});
    Inode& inode = inodes_[status.st_ino];
    inode = {static_cast<uint64_t>(status.st_size), inode.links + 1};
    if (inode.links == 1) bytes_ += inode.bytes;
  }
  // Of this generation all, or what is not needed to go back to it.
  void remove(uint64_t number, bool is_whole) {
    const auto [begin, end] = files_.equal_range(number);
    for (auto file = begin; file != end;) {
      const auto next = std::next(file);
      if (is_whole || !file->second.is_needed) {
        unlink(file->second.path.c_str());
        Inode& inode = inodes_[file->second.inode];
        if (--inode.links == 0) bytes_ -= inode.bytes;
        files_.erase(file);
      }
      file = next;
    }
  }
  uint64_t bytes() const { return bytes_; }
  std::vector<uint64_t> numbers() const {  // ascending
    std::vector<uint64_t> all;
    for (const auto& [number, file] : files_) {
      if (all.empty() || all.back() != number) all.push_back(number);
    }
    return all;
  }

 private:
  struct File {
    std::string path;
    bool is_needed;
    ino_t inode;
  };
  struct Inode {
    uint64_t bytes = 0, links = 0;
  };
  std::multimap<uint64_t, File> files_;
  std::map<ino_t, Inode> inodes_;
  uint64_t bytes_ = 0;
};

}  // namespace

Result<void> HistoryFiles::keep(wire::Generation generation, const std::string& policy_text) const {
  if (Result<void> made = make_directories(folder_, 0700); !made) return made;
  const std::span<const std::byte> text = std::as_bytes(std::span(policy_text));
  if (Result<void> written = Store::write_file(path(generation.number, "yaml"), generation, text); !written) {
    return written;
  }
  const std::string book = path(generation.number, "book");
  const std::string newest = state_dir_ + "/book.weir";
  if (link(newest.c_str(), book.c_str()) != 0 && errno != EEXIST) return errno_error("cannot link " + book);
  const Fd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || fsync(folder.get()) != 0) return errno_error("cannot sync folder " + folder_);
  return {};
}

bool HistoryFiles::has(uint64_t number) const {
  return access(path(number, "book").c_str(), F_OK) == 0 && access(path(number, "yaml").c_str(), F_OK) == 0;
}

Result<HistoryFiles::Kept> HistoryFiles::open(wire::Generation generation, bool checks_digests) const {
  Result<Store::Bytes> text = Store::read_file(path(generation.number, "yaml"), generation);
  if (!text) return Error{text.error()};
  Result<Store::Bytes> book = Store::read_file(path(generation.number, "book"), generation, checks_digests);
  if (!book) return Error{book.error()};
  const std::span<const std::byte> bytes = text->bytes();
  return Kept{std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), std::move(*book)};
}

std::vector<std::string> HistoryFiles::names_of_files() const {
  Result<std::vector<std::string>> names = names_in(folder_);
  return names ? std::move(*names) : std::vector<std::string>();
}

void HistoryFiles::keep_more(wire::Generation generation, const std::vector<Feed>& feeds, uint64_t most_bytes) const {
  const std::string snapshot = path(generation.number, "snapshot");
  if (link((state_dir_ + "/snapshot.weir").c_str(), snapshot.c_str()) == 0 && !open_snapshot(generation)) {
    unlink(snapshot.c_str());  // the store has another one
  }
  std::map<std::string, std::string> kept;  // by what stands behind the number: a path
  for (const std::string& name : names_of_files()) {
    kept.emplace(name.substr(std::min(name.find('.'), name.size())), folder_ + "/" + name);
  }
  for (const Feed& feed : feeds) {
    const std::string ending = ending_of(feed.digest);
    const std::string to = path(generation.number, ending.c_str());
    const auto same = kept.find("." + ending);
    if (same != kept.end() && (link(same->second.c_str(), to.c_str()) == 0 || errno == EEXIST)) continue;
    // What was fetched is replaced and never changed: it can be linked. What others write has to be copied.
    const bool is_ours = feed.path.starts_with(state_dir_ + "/feeds/");
    const bool is_linked = is_ours && link(feed.path.c_str(), to.c_str()) == 0;
    if (is_linked ? has_digest(to, feed.digest) : copy(feed, to, most_bytes / 4)) {
      kept.emplace("." + ending, to);
    } else {
      unlink(to.c_str());
    }
  }
}

std::string HistoryFiles::feed_path(uint64_t number, const Digest& digest) const {
  std::string found = path(number, ending_of(digest).c_str());
  return access(found.c_str(), R_OK) == 0 ? found : "";
}

Result<Store::Bytes> HistoryFiles::open_snapshot(wire::Generation generation) const {
  return Store::read_file(path(generation.number, "snapshot"), generation);
}

uint64_t HistoryFiles::trim(const std::vector<uint64_t>& wanted, uint64_t most_bytes) const {
  Remaining remaining;
  for (const std::string& name : names_of_files()) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_ours = error == std::errc() && end != name.data() + name.size() && *end == '.';
    if (is_ours && std::find(wanted.begin(), wanted.end(), number) != wanted.end() && !name.ends_with(".new")) {
      remaining.add(number, folder_ + "/" + name);
    } else {
      (void)remove((folder_ + "/" + name).c_str());
    }
  }
  for (const bool is_whole : {false, true}) {
    const std::vector<uint64_t> numbers = remaining.numbers();
    const size_t most = is_whole ? numbers.size() - std::min<size_t>(numbers.size(), 2) : numbers.size();
    for (size_t i = 0; i < most && remaining.bytes() > most_bytes; i++) remaining.remove(numbers[i], is_whole);
  }
  const std::vector<uint64_t> numbers = remaining.numbers();
  return numbers.empty() ? 0 : numbers.front();
}

std::string HistoryFiles::path(uint64_t number, const char* ending) const {
  return folder_ + "/" + std::to_string(number) + "." + ending;
}

}  // namespace weir::control
