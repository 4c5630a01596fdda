#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/result.h"

struct xdp_peers;

// The peers of weir in XDP (xdp_peers.bpf.c), with their maps filled.
namespace weir::bench {

struct XdpCounts {
  uint64_t hits, misses;
};

class XdpPeers {
 public:
  // names: of programs of xdp_peers.bpf.c; members as xdp_hosts.h gives them. drop_misses: else they pass.
  static Result<XdpPeers> open(std::span<const std::string> names, std::span<const uint32_t> members,
                               std::span<const uint64_t> members6, bool drop_misses);
  XdpPeers(XdpPeers&&) = default;

  int program_fd(const std::string& name) const;
  XdpCounts counts() const;  // of all programs so far
  // Bytes of the maps that hold a program's list, as the kernel counts them (fdinfo).
  double list_mib(const std::string& name) const;

 private:
  struct Destroy {
    void operator()(xdp_peers* skeleton) const;
  };
  using Skeleton = std::unique_ptr<xdp_peers, Destroy>;
  explicit XdpPeers(Skeleton skeleton) : skeleton_(std::move(skeleton)) {}

  Skeleton skeleton_;
};

// max_entries of a kernel Bloom filter, with its usual five hashes, that lets at most so many strangers through as
// weir's filter does by default (0.5 %); the kernel then rounds its bits up to a power of two.
uint32_t bloom_entries(uint32_t members);

// Creates a map and fills it, by system calls. Seconds.
enum class Fill { hash, hash_batch, lpm, lpm_batch, bloom };
Result<double> time_fill(Fill fill, std::span<const uint32_t> members);

}  // namespace weir::bench
