#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/bench/filter_rig.h"

struct rte_hash;
struct rte_member_setsum;

// DPDK's own filters and hash table with the same keys, measured the same way.
namespace weir::bench {

// Starts EAL without devices and files. why_not: empty, or why there is none. Pins this thread to one processor.
std::string start_eal();

class MemberPeer {  // rte_member
 public:
  // vbf: a vector of Bloom filters with one set, asked for `rate`. !vbf: the hash-table summary (HT).
  MemberPeer(bool vbf, uint64_t n_keys, double rate);
  ~MemberPeer();
  MemberPeer(const MemberPeer&) = delete;
  MemberPeer& operator=(const MemberPeer&) = delete;

  Loop lookup(unsigned batch, uint64_t n_members, double hit_ratio) const;
  double mib() const { return mib_; }
  uint64_t entries() const { return entries_; }

 private:
  rte_member_setsum* set_ = nullptr;
  double mib_ = 0;
  uint64_t entries_ = 0;
};

class HashPeer {  // rte_hash with 8 bytes of data a key, rte_hash_crc
 public:
  explicit HashPeer(uint64_t n_keys);
  ~HashPeer();
  HashPeer(const HashPeer&) = delete;
  HashPeer& operator=(const HashPeer&) = delete;

  // lookup_bulk_data; the data of every key found is read.
  Loop lookup(unsigned batch, uint64_t n_members, double hit_ratio) const;
  double mib() const { return mib_; }
  uint64_t entries() const { return entries_; }

 private:
  rte_hash* table_ = nullptr;
  double mib_ = 0;
  uint64_t entries_ = 0;
};

}  // namespace weir::bench
