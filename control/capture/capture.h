#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/book/origin.h"
#include "control/capture/capture_files.h"
#include "control/capture/sample_source.h"
#include "control/model/capture.h"
#include "control/publish/store.h"
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

// Drop capture: a thread that fetches samples from the data planes, names the entry that dropped each, and writes them
// to files. Nobody waits for it but configure(), which waits for nothing but a lock held shortly.
class Capture {
 public:
  using Origins = std::function<Result<Store::Bytes>(wire::Generation)>;
  // origins: those of a generation, as long as they are the newest in the store. Called by the thread.
  Capture(std::string state_dir, Origins origins);
  ~Capture();
  Capture(const Capture&) = delete;

  // From now on; settings empty: off. Files that are written end when anything changes.
  void configure(std::optional<CaptureSettings> settings, std::vector<std::string> sockets);
  // The store holds this generation.
  void stored(wire::Generation generation);
  // Ends the thread, after what data planes still hold was written.
  void stop();

  CaptureState state() const;

 private:
  using Steady = SampleSource::Clock;
  struct Known {  // where the entries of a generation were written
    wire::Generation generation;
    Store::Bytes bytes;
    OriginView view;
  };
  struct Waiting {
    wire::SampledFrame frame;
    uint32_t source;
    Steady::time_point since;
  };
  struct FromSource {
    std::unique_ptr<SampleSource> source;
    uint64_t limited = 0, filtered = 0, accepted = 0;
  };
  struct Orders {  // of other threads
    std::optional<CaptureSettings> settings;
    std::vector<std::string> sockets;
    wire::Generation stored;
    bool configured = false, stop = false;
  };

  void run();
  void obey(const Orders& orders);
  void begin(const CaptureSettings& settings, const std::vector<std::string>& sockets);
  void end();
  void learn(wire::Generation generation);
  void ask(Steady::time_point now);
  int wait_ms(Steady::time_point now) const;
  void receive(uint32_t source, std::vector<wire::SampledFrame> frames, Steady::time_point now);
  bool is_ready(const Waiting& waiting, Steady::time_point now) const;
  void write_ready(Steady::time_point now, bool all);
  const Known* known(wire::Generation generation) const;
  bool within_limit(const wire::Sample& sample);
  void tell_state();

  const std::string state_dir_;
  const Origins origins_;
  Fd wake_;  // eventfd

  mutable std::mutex mutex_;  // guards orders_ and state_
  Orders orders_;
  CaptureState state_;

  // The thread's.
  std::optional<CaptureSettings> settings_;
  std::vector<std::string> sockets_;
  std::string refused_;  // why it is off although it is asked for
  std::optional<FrameFilter> filter_;
  std::vector<FromSource> sources_;
  std::unique_ptr<CaptureFiles> files_;
  wire::Generation stored_;
  std::deque<Known> known_;  // newest last
  std::vector<Waiting> waiting_;
  Steady::time_point next_write_, next_flush_;
  struct Second {
    uint64_t number = 0;
    uint32_t frames = 0;
  };
  std::map<std::string, Second> second_of_;  // by list
  CaptureCounts ended_;                      // of sources and files that are no more

  std::thread thread_;
};

}  // namespace weir::control
