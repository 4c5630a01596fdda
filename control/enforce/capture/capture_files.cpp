#include "control/enforce/capture/capture_files.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <regex>

#include "common/again.h"
#include "common/files.h"

namespace weir::control {

namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr size_t kFlushBytes = 256 * 1024;
constexpr std::chrono::seconds kRetry{5};
constexpr const char* kPart = ".part";

uint64_t unix_ns(CaptureFiles::Now now) {
  return static_cast<uint64_t>(std::chrono::duration_cast<nanoseconds>(now.time_since_epoch()).count());
}

// weir-20261201T000000.123456Z.pcapng: by name is by age.
std::string file_name(CaptureFiles::Now now) {
  const auto us = std::chrono::duration_cast<microseconds>(now.time_since_epoch()).count();
  return fmt::format("weir-{:%Y%m%dT%H%M%S}.{:06}Z.pcapng", fmt::gmtime(static_cast<time_t>(us / 1'000'000)),
                     us % 1'000'000);
}

// Ours, of this or an earlier run, by name; nothing else in the folder is touched.
std::vector<std::string> files_in(const std::string& folder, bool parts) {
  static const std::regex kName(R"(weir-\d{8}T\d{6}\.\d{6}Z\.pcapng(\.part)?)");
  std::vector<std::string> names;
  std::error_code gone;
  for (fs::directory_iterator file(folder, gone), end; !gone && file != end; file.increment(gone)) {
    const std::string name = file->path().filename().string();
    if (std::regex_match(name, kName) && name.ends_with(kPart) == parts) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Whether so much time has gone by since. A clock that was set back tells nothing: then it has.
bool is_over(CaptureFiles::Now since, std::chrono::seconds time, CaptureFiles::Now now) {
  return now < since || now - since >= time;
}

std::string without_part(const std::string& path) {
  return path.substr(0, path.size() - strlen(kPart));
}

}  // namespace

CaptureFiles::CaptureFiles(Settings settings, std::function<pcapng::Statistics(uint32_t)> statistics)
    : settings_(std::move(settings)),
      statistics_(std::move(statistics)),
      told_(settings_.interfaces.size()),
      delivered_(settings_.interfaces.size()),
      lost_from_(settings_.interfaces.size()) {
  std::error_code stays;  // of a run that was killed: whole but for its end
  for (const std::string& name : files_in(settings_.folder, true)) {
    const std::string path = settings_.folder + "/" + name;
    fs::rename(path, without_part(path), stays);
  }
}

void CaptureFiles::add(const pcapng::Packet& packet, Now now) {
  const size_t before = buffer_.size();
  pcapng::append_packet(buffer_, packet);
  const uint64_t ends = size_ + buffer_.size() + settings_.interfaces.size() * pcapng::kStatisticsBytes;
  if (size_ > 0 && ends > settings_.file_bytes) {  // it begins the next file
    const std::string block = buffer_.substr(before);
    buffer_.resize(before);
    flush(now);
    end_file(now);
    buffer_ += block;
  }
  unwritten_.push_back(packet.interface);
  if (buffer_.size() >= kFlushBytes || (size_ == 0 && buffer_.size() >= settings_.file_bytes / 2)) flush(now);
}

void CaptureFiles::flush(Now now) {
  struct stat status = {};
  if (fd_ && fstat(fd_.get(), &status) == 0 && status.st_nlink == 0) {
    fd_.reset();  // somebody removed it: what it held is gone with their will
    path_.clear();
    size_ = 0;
  }
  if (!buffer_.empty()) {
    const bool may_try = fd_ || !failed_at_ || is_over(*failed_at_, kRetry, now);
    Result<void> done = !may_try ? Error{error_} : fd_ ? Result<void>() : open(now);
    if (done) done = put(buffer_);
    if (done) {
      for (const uint32_t interface : unwritten_) delivered_[interface]++;
      written_ += unwritten_.size();
      error_.clear();
    } else {
      for (const uint32_t interface : unwritten_) lost_from_[interface]++;
      lost_ += unwritten_.size();
      if (may_try) fail(done.error(), now);
    }
    buffer_.clear();
    unwritten_.clear();
  }
  if (fd_ && is_over(opened_, std::chrono::seconds(settings_.file_age_s), now)) end_file(now);
}

void CaptureFiles::finish(Now now) {
  flush(now);
  end_file(now);
}

pcapng::Statistics CaptureFiles::statistics_of(uint32_t interface) const {
  pcapng::Statistics statistics = statistics_(interface);
  statistics.dropped += lost_from_[interface];
  return statistics;
}

Result<void> CaptureFiles::open(Now now) {
  if (Result<void> made = make_directories(settings_.folder, 0700); !made) return made;
  path_ = settings_.folder + "/" + file_name(now) + kPart;
  fd_ = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!fd_) return errno_error("cannot create " + path_);
  size_ = 0;
  opened_ = now;
  delivered_.assign(settings_.interfaces.size(), 0);
  std::string head;
  pcapng::append_section(head, "weir controld " WEIR_VERSION);
  for (const pcapng::Interface& interface : settings_.interfaces) pcapng::append_interface(head, interface);
  prune(now);
  return put(head);
}

// All or nothing.
Result<void> CaptureFiles::put(const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = not_interrupted([&] { return ::write(fd_.get(), bytes.data() + done, bytes.size() - done); });
    if (n < 0) {
      const Error error = errno_error("cannot write " + path_);
      if (ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) return errno_error("cannot cut " + path_);
      return error;
    }
    done += static_cast<size_t>(n);
  }
  size_ += bytes.size();
  return {};
}

void CaptureFiles::end_file(Now now) {
  if (!fd_) return;
  std::string tail;
  std::vector<pcapng::Statistics> now_told;
  for (uint32_t i = 0; i < told_.size(); i++) {
    now_told.push_back(statistics_of(i));
    const pcapng::Statistics here = {now_told[i].received - told_[i].received, now_told[i].dropped - told_[i].dropped,
                                     now_told[i].accepted - told_[i].accepted, delivered_[i]};
    pcapng::append_statistics(tail, i, here, {unix_ns(opened_), unix_ns(now)});
  }
  const bool empty = std::all_of(delivered_.begin(), delivered_.end(), [](uint64_t n) { return n == 0; });
  if (Result<void> done = put(tail); !done) {
    error_ = done.error();  // the file is good without its end; the next one tells
  } else if (!empty) {
    told_ = std::move(now_told);
  }
  const std::string whole = without_part(path_);
  if (empty) {
    unlink(path_.c_str());
  } else if (rename(path_.c_str(), whole.c_str()) != 0) {
    error_ = errno_error("cannot rename " + path_ + " to " + whole).message;
  }
  fd_.reset();
  path_.clear();
  size_ = 0;
}

void CaptureFiles::fail(const std::string& error, Now now) {
  end_file(now);
  path_.clear();
  error_ = error;
  failed_at_ = now;
}

// The oldest. Those of a clock that was ahead, and was set back, go first.
void CaptureFiles::prune(Now now) const {
  std::vector<std::string> names = files_in(settings_.folder, false);
  std::rotate(names.begin(), std::upper_bound(names.begin(), names.end(), file_name(now)), names.end());
  for (size_t i = 0; i + settings_.files <= names.size(); i++) unlink((settings_.folder + "/" + names[i]).c_str());
}

}  // namespace weir::control
