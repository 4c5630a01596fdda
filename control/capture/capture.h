#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/capture/capture_files.h"
#include "control/capture/sample_source.h"
#include "control/loop/loop.h"
#include "control/model/capture.h"
#include "control/model/list.h"
#include "control/read/frame_filter.h"

namespace weir::control {

// Since controld started: sampled = limited + filtered + written + lost + waiting.
struct CaptureCounts {
  uint64_t sampled = 0;   // dropped frames that the data planes chose
  uint64_t limited = 0;   // past per_list_per_second
  uint64_t filtered = 0;  // that the filter does not want
  uint64_t written = 0;
  uint64_t lost = 0;     // in a data plane, on the way, or because they could not be written
  uint64_t waiting = 0;  // in a data plane, or for their entry, or for the next write
};

struct CaptureState {
  bool on = false;
  CaptureSettings settings;  // when on; folder filled
  CaptureCounts counts;
  std::string current;  // path of the file that is written; empty: none
  std::string error;    // why nothing is written; empty: well
  struct Target {
    std::string socket;
    std::string error;  // why it gives no samples; empty: it does
  };
  std::vector<Target> targets;
};

// Drop capture: fetches samples from the data planes, names the entry that dropped each, and writes them to files. Part
// of a loop. Files are written here, a megabyte a second at most (kSearchShare and the limits of the settings); a disk
// that hangs holds the loop, but not the panic switch.
class Capture {
 public:
  using Books = std::function<std::shared_ptr<const Book>(wire::Generation)>;
  // books: that of a generation, as long as it runs; null: not known.
  Capture(Loop& loop, std::string state_dir, Books books);
  Capture(const Capture&) = delete;

  // From now on; settings empty: off. Files that are written end when anything changes, after what the data planes
  // still hold was fetched.
  void configure(std::optional<CaptureSettings> settings, std::vector<std::string> sockets);
  // This generation runs.
  void published(wire::Generation generation);
  // Off for good; when is_ended(), what data planes still held was written.
  void stop() { configure(std::nullopt, {}); }
  bool is_ended() const { return !settings_; }

  CaptureState state() const;

 private:
  using Steady = SampleSource::Clock;
  struct Known {  // where the entries of a generation were written
    wire::Generation generation;
    std::shared_ptr<const Book> book;
  };
  struct Waiting {
    wire::SampledFrame frame;
    uint32_t source;
    Steady::time_point since;
  };
  struct FromSource {
    std::unique_ptr<SampleSource> source;
    Loop::Source readable;  // while an answer is awaited
    uint64_t limited = 0, filtered = 0, accepted = 0;
  };
  struct Wish {
    std::optional<CaptureSettings> settings;
    std::vector<std::string> sockets;
  };

  void turn();
  void arm();
  void begin(const CaptureSettings& settings, const std::vector<std::string>& sockets);
  void begin_end();
  void end();
  void end_files();
  void learn(wire::Generation generation);
  void ask(Steady::time_point now);
  Steady::time_point due() const;
  void receive(uint32_t source);
  bool is_ready(const Waiting& waiting, Steady::time_point now) const;
  void write_ready(Steady::time_point now, bool all);
  const Known* known(wire::Generation generation) const;
  bool within_limit(const wire::Sample& sample);
  void log_errors();

  const std::string state_dir_;
  const Books books_;
  Loop& loop_;
  Loop::Source timer_;
  std::optional<Wish> wish_;                  // what comes after what is ending
  std::optional<Steady::time_point> end_at_;  // ending: not later
  std::string told_error_;                    // logged already
  std::optional<CaptureSettings> settings_;
  std::vector<std::string> sockets_;
  std::string refused_;  // why it is off although it is asked for
  std::optional<FrameFilter> filter_;
  std::vector<FromSource> sources_;
  std::unique_ptr<CaptureFiles> files_;
  wire::Generation published_;
  std::deque<Known> known_;  // newest last
  std::vector<Waiting> waiting_;
  Steady::time_point next_write_, next_flush_;
  struct Second {
    uint64_t number = 0;
    uint32_t frames = 0;
  };
  std::map<std::string, Second> second_of_;  // by list
  CaptureCounts ended_;                      // of sources and files that are no more
};

}  // namespace weir::control
