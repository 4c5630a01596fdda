#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/program/plane.h"
#include "common/fd.h"
#include "common/result.h"

namespace weir::xdp {

// Maps of pages, and their writable mapping, one behind the other.
struct Arena {
  std::vector<Fd> chunks;
  Mapping pages;
};
Result<Arena> make_arena(uint64_t size_bytes);
std::vector<int> descriptors_of(const Arena& arena);  // of its chunks

// The loaded program and its maps, adopted from a folder of a BPF file system or made and pinned there.
class Program {
 public:
  // Makes the folder, and mounts a BPF file system at kDefaultBpfDir when there is none. Error: see Enforcer::open.
  // multi_buffer: frames may lie in several buffers, which costs each of them a call.
  static Result<Program> open(const std::string& bpf_dir, bool multi_buffer = true);

  // Values that programs read while they run.
  weir_state& state() const { return *reinterpret_cast<weir_state*>(state_.bytes().data()); }
  weir_group& group(uint32_t i) const { return state().group[i]; }
  weir_base& base(uint32_t i) const { return reinterpret_cast<weir_base*>(bases_.bytes().data())[i]; }
  std::span<weir_list_name> names() const {
    return {reinterpret_cast<weir_list_name*>(names_.bytes().data()), WEIR_LIST_SLOTS};
  }
  // Sums over the processors.
  Result<weir_totals> totals() const;
  Result<std::vector<weir_totals>> totals_of_processors() const;
  Result<weir_list_tally> tally(uint32_t slot) const;
  Result<void> clear_tally(uint32_t slot) const;
  // Of each processor.
  Result<std::vector<weir_list_tally>> tallies(uint32_t slot) const;
  void set_tallies(uint32_t slot, const std::vector<weir_list_tally>& tallies) const;

  // A group's snapshot, from page 0 on.
  Result<void> set_arena(uint32_t group, const Arena& arena) const;
  // Takes the pages of a snapshot of so many bytes away from the group.
  Result<void> clear_arena(uint32_t group, uint64_t size_bytes) const;
  // Returns after an RCU grace period: programs that began before are done.
  Result<void> wait_for_programs() const;

  int fd() const { return program_.get(); }
  // The rings of samples.
  int samples_fd() const { return samples_.get(); }
  int traffic_fd() const { return traffic_.get(); }
  // The program was loaded anew, and programs that are attached are older: they share its maps.
  bool is_new() const { return is_new_; }
  const std::string& bpf_dir() const { return bpf_dir_; }

 private:
  std::string bpf_dir_;

  Fd lock_, program_, arenas_, totals_, lists_, samples_, traffic_;
  Arena nothing_;  // a chunk that stands where a group has none
  Mapping state_, bases_, names_;
  bool is_new_ = false;
};

// libbpf speaks to words_of_libbpf() from now on, which is empty.
void listen_to_libbpf();
// What libbpf and the verifier said to this thread since, to be told when a load fails.
const std::string& words_of_libbpf();

// Makes the folder, where BPF maps are pinned; mounts the BPF file system when it is the default one.
Result<void> make_bpf_dir(const std::string& bpf_dir);

// Where an object is pinned. Names of BPF file systems have no dots; those of interfaces may.
std::string pin_path(const std::string& bpf_dir, const std::string& name);
constexpr std::string_view kProgramPin = "weir";
constexpr std::string_view kLinkPin = "weir_link_";  // and the interface's name
std::string link_pin(const std::string& bpf_dir, const std::string& interface);

// Bytes that this process may still make the kernel allocate: of the machine, and of its control groups.
uint64_t kernel_memory_left();

std::string mib(uint64_t bytes);  // rounded up

inline void add(weir_tally& sum, const weir_tally& more) {
  sum.packets += more.packets;
  sum.bytes += more.bytes;
}

}  // namespace weir::xdp
