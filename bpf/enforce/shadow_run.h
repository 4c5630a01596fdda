#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bpf/enforce/program.h"
#include "common/result.h"
#include "common/shadow.h"
#include "filter/read/view.h"

namespace weir::xdp {

// The programs of a shadow, loaded, and the maps of its candidate (bpf/program/shadow.h). Nothing of it is pinned: it
// goes with its enforcer, also where that ends early.
class ShadowRun {
 public:
  // candidate: its bytes, checked, which are copied. one_in: of so many frames both judge one. Error: the kernel has no
  // room for it, or refuses a program.
  static Result<std::unique_ptr<ShadowRun>> open(const Program& running, const filter::SnapshotView& candidate,
                                                 std::span<const std::byte> bytes, const weir_group& group,
                                                 uint32_t one_in);
  ~ShadowRun();
  ShadowRun(const ShadowRun&) = delete;

  // Of the program that is to be attached in place of the running one.
  int program_fd() const;
  uint64_t bytes() const { return bytes_; }  // of the kernel's memory, about

  // Adds what was counted so far. names: of slots. Error: the kernel does not give its counters.
  Result<void> add_to(wire::Shadow& counts, std::span<const weir_list_name> names) const;
  // Moves at most so many samples behind those in `samples`, oldest first.
  void drain(size_t most, std::span<const weir_list_name> names, std::vector<wire::ShadowSample>& samples);

 private:
  ShadowRun();
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::vector<weir_list> lists_;  // of the candidate
  uint64_t bytes_ = 0;
};

}  // namespace weir::xdp
