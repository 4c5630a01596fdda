#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "common/result.h"
#include "control/enforce/capture/pcapng.h"

namespace weir::control {

// Rotating pcapng files in a folder. The one that is written is NAME.part; it becomes NAME when it is whole. Its end
// has the statistics of every interface since its beginning.
class CaptureFiles {
 public:
  using Now = std::chrono::system_clock::time_point;
  struct Settings {
    std::string folder;  // made when missing, 0700
    uint64_t file_bytes = 0;
    uint64_t file_age_s = 0;
    uint32_t files = 0;  // with the one that is written; older ones are removed
    std::vector<pcapng::Interface> interfaces;
  };
  // statistics: of an interface, up to now, but for the frames that are delivered or lost here.
  CaptureFiles(Settings settings, std::function<pcapng::Statistics(uint32_t interface)> statistics);
  ~CaptureFiles() { finish(wall_now()); }
  CaptureFiles(const CaptureFiles&) = delete;

  void add(const pcapng::Packet& packet, Now now);  // written by the next flush()
  // Every second: writes what was added, ends a file that is old enough. What cannot be written is lost; error() says
  // why, and it is tried again.
  void flush(Now now);
  // Ends the file.
  void finish(Now now);

  uint64_t written() const { return written_; }
  uint64_t lost() const { return lost_; }
  uint64_t waiting() const { return unwritten_.size(); }
  const std::string& error() const { return error_; }   // empty: the last attempt was good
  const std::string& current() const { return path_; }  // empty: none
  const std::string& folder() const { return settings_.folder; }

 private:
  pcapng::Statistics statistics_of(uint32_t interface) const;
  Result<void> open(Now now);
  Result<void> put(const std::string& bytes);
  void end_file(Now now);
  void prune(Now now) const;
  void fail(const std::string& error, Now now);

  const Settings settings_;
  const std::function<pcapng::Statistics(uint32_t)> statistics_;

  Fd fd_;
  std::string path_;  // of the .part
  uint64_t size_ = 0;
  Now opened_;
  // By interface.
  std::vector<pcapng::Statistics> told_;  // in earlier files, but for what they delivered
  std::vector<uint64_t> delivered_;       // to this file
  std::vector<uint64_t> lost_from_;

  std::string buffer_;               // whole blocks
  std::vector<uint32_t> unwritten_;  // interface of each packet in it
  uint64_t written_ = 0, lost_ = 0;
  std::string error_;
  std::optional<Now> failed_at_;
};

}  // namespace weir::control
