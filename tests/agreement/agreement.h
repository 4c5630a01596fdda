#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/policy/model/policy.h"
#include "dataplane/burst/counters.h"
#include "dataplane/burst/loop.h"
#include "tests/agreement/choices.h"
#include "tests/agreement/data_plane.h"
#include "tests/agreement/publication.h"
#include "tests/agreement/random_frames.h"
#include "tests/agreement/xdp_plane.h"
#include "tests/reference/judge.h"

// The data plane's stages, parse to verdict, and the XDP program beside the reference: the same frames, verdict by
// verdict, in the data plane list by list, and at the end counter by counter; by one policy, or by one publication
// after the other, as a policy changes.
namespace weir::agreement {

// Frames that were compared.
struct Compared {
  uint64_t packets = 0, dropped = 0, malformed = 0, incomplete = 0;
  uint64_t hits = 0;     // some list matches
  uint64_t layered = 0;  // more than one layer
  uint64_t disagreements = 0;
  uint64_t by_xdp = 0;   // by the XDP program, too
  uint32_t layouts = 0;  // bit 1 << l: some filter had the weir_layout l

  Compared& operator+=(const Compared& more);
};

class Agreement {
 public:
  // Nothing is enforced yet. Borrows the XDP plane for as long as this lives; null: the data plane alone.
  static Result<std::unique_ptr<Agreement>> open(XdpPlane* xdp = nullptr);
  // The policy is published, with this secret. Borrows it, too. Error: it cannot be compiled.
  static Result<std::unique_ptr<Agreement>> open(const control::Policy& policy, uint64_t secret,
                                                 XdpPlane* xdp = nullptr);

  // Of the next publication.
  wire::Generation next_generation() {
    return xdp_ != nullptr ? xdp_->next_generation() : wire::Generation{kEpoch, ++number_};
  }
  // From here on it judges, and the reference by this policy, which is borrowed until the next one. All policies have
  // lists of the same names in the same order. Error: who refuses it, and why.
  Result<void> publish(const control::Policy& policy, const control::Publication& publication);
  // What enforces ends and starts again, without another publication.
  Result<void> restart();

  // Judges the frames at this time. cuts: decides which of them come in several segments. Returns what differs first;
  // every frame that differs is counted.
  std::optional<std::string> judge(std::span<const Frame> frames, uint64_t now, Choices& cuts);

  // Every counter so far. Returns what differs.
  std::optional<std::string> check_counters() const;

  const Compared& compared() const { return compared_; }
  // What each plane has counted by list, since it was opened.
  std::vector<wire::ListStats> lists_of_data_plane() const { return data_plane_->lists(); }
  std::vector<wire::ListStats> lists_of_xdp() const { return xdp_->stats().lists; }

  // Ports of the loop (dataplane/burst/loop.h).
  uint32_t receive(const dataplane::Route&, uint32_t most, rte_mbuf** frames);
  void judged(dataplane::Burst& burst, uint64_t frames, const dataplane::Route&);
  void send(const dataplane::Route&, rte_mbuf**, uint32_t) {}
  void discard(const dataplane::Route&, rte_mbuf**, uint32_t) {}
  void timed(const dataplane::Burst&, uint64_t) {}
  void timed_left(uint64_t, uint32_t) {}

 private:
  Agreement(std::unique_ptr<DataPlane> data_plane, const filter::Kernels& kernels, XdpPlane* xdp);
  // The XDP program's verdict; what differs from the expected one.
  std::optional<std::string> compare_xdp(const Frame& frame, bool drops);
  std::optional<std::string> check_xdp_counters() const;
  void compare(const dataplane::Burst& burst, uint32_t slot, const Frame& frame);

  // What judge() is about.
  struct Judging {
    std::span<const Frame> frames;  // those that are under way
    Choices* cuts = nullptr;
    uint64_t now = 0;
    size_t received = 0;
    uint64_t left = 0;                   // bit i: frame i has left
    std::optional<std::string> problem;  // of the first frame that differs
  };

  const control::Policy* policy_ = nullptr;
  std::optional<reference::Judge> judge_;  // by that policy
  std::unique_ptr<DataPlane> data_plane_;
  dataplane::WorkerCounters counters_;
  dataplane::Loop<Agreement> loop_;
  Judging judging_;
  Compared compared_;
  uint64_t number_ = 0;  // of the last publication, without XDP
  XdpPlane* xdp_;
  wire::Stats xdp_before_;      // its counters go on from policy to policy
  reference::Tally too_short_;  // frames that it cannot be given; all of them malformed
};

// A frame as a C array and what the policy makes of it, to paste into a test.
std::string describe(const Frame& frame);

}  // namespace weir::agreement
