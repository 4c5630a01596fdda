#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/ip.h"
#include "common/result.h"
#include "control/answer/explain.h"
#include "control/model/policy.h"
#include "filter/format/packet.h"

// The origin file: every entry of a policy with its list, file and line, for `explain`. It stays with controld, beside
// the snapshot it belongs to. Little endian, no alignment:
//   header | list records | IPv4 entries | IPv6 entries | conditional entries | text
// Conditional ones are flows, and what expires: their text is made when they are written.
// Readers scan it from end to end: a million entries take a few milliseconds.
namespace weir::control {

std::string write_origins(const Policy& policy);

// Which entry of this list matches the packet at this time (Unix seconds)?
struct OriginQuestion {
  std::string_view list;
  weir_packet packet;
  uint64_t now;
};

// Bytes from disk, perhaps damaged: open() checks magic, version, every length and every reference, so that searches
// need no checks of their own. Borrows the bytes.
class OriginView {
 public:
  static Result<OriginView> open(std::span<const std::byte> bytes);

  // Every entry that a packet side with this address and port matches, and every conditional one that may: it names the
  // address on some side, or none. port 0: none, only entries of any port.
  std::vector<OriginMatch> find(Ipv4 address, uint16_t port) const;
  std::vector<OriginMatch> find(Ipv6 address, uint16_t port) const;

  // Of each question, the first in the order of the list's sources (policy, feed) and lines. One scan for all of them.
  std::vector<std::optional<OriginMatch>> first_matches(std::span<const OriginQuestion> questions) const;

  uint64_t entries() const { return n_v4_ + n_v6_ + n_conditional_; }

 private:
  struct Source {  // of one list
    std::string_view name;
    std::string_view files[2];  // indexed by Entry::source: the policy, the feed
  };
  template <class Record, class Addr>
  std::vector<OriginMatch> scan(const std::byte* records, uint64_t n, Addr address, uint16_t port) const;
  void scan_conditional(uint8_t family, Ipv6 address, uint16_t port, std::vector<OriginMatch>& matches) const;
  template <class Record>
  static Result<void> check_records(const std::byte* records, uint64_t n, size_t n_lists);

  std::vector<Source> lists_;
  const std::byte* v4_ = nullptr;
  const std::byte* v6_ = nullptr;
  const std::byte* conditional_ = nullptr;
  std::string_view text_;
  uint64_t n_v4_ = 0;
  uint64_t n_v6_ = 0;
  uint64_t n_conditional_ = 0;
};

}  // namespace weir::control
