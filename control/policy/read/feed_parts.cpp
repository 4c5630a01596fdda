#include "control/policy/read/feed_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "common/again.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/files.h"
#include "control/policy/feeds/unpack.h"

namespace weir::control {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
// File systems stamp changes by a clock that ticks every few milliseconds, the oldest ones every two seconds: a file
// that was changed less than this before it was read may change again without another stamp.
constexpr int64_t kSettle_ns = 2 * kNsPerSecond;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * kNsPerSecond + time.tv_nsec;
}

FileIdentity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), nanoseconds(status.st_mtim),
          nanoseconds(status.st_ctim)};
}

bool has_settled(const FileIdentity& file) {
  return unix_now_ns() - std::max(file.changed_ns, file.modified_ns) >= kSettle_ns;
}

Error too_large(const std::string& path, uint64_t bytes) {
  return Error{fmt::format("{} is larger than 4 GiB: it has {} bytes{}", path, bytes,
                           bytes > FeedParts::kMaxBytes ? "" : " or more")};
}

// before: the byte before these. Sums of one byte are what makes the compiler count sixteen bytes at once.
void count_lines(std::string_view bytes, char before, FeedParts::Scan& scan) {
  constexpr size_t kCountable = 255;
  scan.newlines += bytes[0] == '\n';
  scan.empty_lines += before == '\n' && bytes[0] == '\n';
  for (size_t at = 1; at < bytes.size(); at += kCountable) {
    const size_t end = std::min(bytes.size(), at + kCountable);
    uint8_t newlines = 0, empty_lines = 0;
    for (size_t i = at; i < end; i++) {
      const bool is_end = bytes[i] == '\n', was_end = bytes[i - 1] == '\n';
      newlines = static_cast<uint8_t>(newlines + is_end);
      empty_lines = static_cast<uint8_t>(empty_lines + (is_end & was_end));
    }
    scan.newlines += newlines;
    scan.empty_lines += empty_lines;
  }
}

}  // namespace

std::optional<FileIdentity> identity_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return identity_of(status);
}

Result<FeedParts> FeedParts::open(const std::string& path) {
  FeedParts parts;
  parts.path_ = path;
  // Without O_NONBLOCK a FIFO that nobody writes to would block for ever, before fstat() can refuse it.
  parts.fd_ = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!parts.fd_) return errno_error("cannot open " + path);
  struct stat status {};
  if (fstat(parts.fd_.get(), &status) != 0) return errno_error("cannot read " + path);
  if (!S_ISREG(status.st_mode)) return Error{path + " is not a regular file"};
  parts.file_ = identity_of(status);
  parts.settled_ = has_settled(parts.file_);
  if (parts.file_.size_bytes > kMaxBytes) return too_large(path, parts.file_.size_bytes);
  return parts;
}

Result<void> FeedParts::read(const std::function<bool(std::string_view)>& visit) {
  std::vector<char> buffer(kPartBytes);
  uint64_t total = 0;
  while (true) {
    const ssize_t got =
        not_interrupted([&] { return pread(fd_.get(), buffer.data(), buffer.size(), static_cast<off_t>(total)); });
    if (got < 0) return errno_error("cannot read " + path_);
    if (got == 0) return {};
    total += static_cast<uint64_t>(got);
    if (total > kMaxBytes) return too_large(path_, total);
    if (!visit({buffer.data(), static_cast<size_t>(got)})) return {};
  }
}

bool FeedParts::read_at(uint64_t at, size_t n, std::string& bytes) const {
  bytes.resize(n);
  const ssize_t got = not_interrupted([&] { return pread(fd_.get(), bytes.data(), n, static_cast<off_t>(at)); });
  bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return got >= 0;
}

Result<FeedParts::Scan> FeedParts::scan() {
  Scan scan;
  PartsDigest digest;
  char last = '\n';
  const Result<void> read = this->read([&](std::string_view bytes) {
    digest.add(std::as_bytes(std::span(bytes)));
    count_lines(bytes, last, scan);
    last = bytes.back();
    if (scan.size_bytes == 0) scan.is_packed = feeds::Unpacker::of(bytes) != nullptr;
    scan.size_bytes += bytes.size();
    return true;
  });
  if (!read) return Error{read.error()};
  scan.digest = digest.value();
  scan.ends_in_newline = last == '\n';
  return scan;
}

Result<std::array<uint64_t, 2>> FeedParts::visit(const std::function<bool(std::string_view)>& visit) {
  PartsDigest digest;
  const Result<void> read = this->read([&](std::string_view bytes) {
    digest.add(std::as_bytes(std::span(bytes)));
    return visit(bytes);
  });
  if (!read) return Error{read.error()};
  return digest.value();
}

}  // namespace weir::control
