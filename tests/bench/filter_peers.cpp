#include "tests/bench/filter_peers.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_malloc.h>
#include <rte_member.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <vector>

#include "filter/probe/dispatch.h"
#include "tests/bench/filter_lanes.h"
#include "tests/bench/filter_tables.h"

namespace weir::bench {
namespace {

using filter::kMaxBatch;

constexpr uint64_t kSeed = 0x13198a2e03707344;
constexpr uint32_t kKeyBytes = 16;
constexpr double kMoreRoom = 1.15;  // entries a key, where as many entries as keys do not take them all

// A batch of keys as rows, and where each of them is.
struct Rows {
  KeyStream stream;
  alignas(64) uint64_t row[kMaxBatch][kKeyWords] = {};
  const void* key[kMaxBatch];

  Rows(uint64_t n_members, double hit_ratio) : stream(key_stream(n_members, hit_ratio, kSeed)) {
    for (unsigned i = 0; i < kMaxBatch; i++) key[i] = row[i];
  }
  void fill(unsigned n) { lanes().fill_rows(stream, row[0], n); }
};

double heap_mib() {
  rte_malloc_socket_stats stats = {};
  rte_malloc_get_socket_stats(0, &stats);
  return static_cast<double>(stats.heap_allocsz_bytes) / (1 << 20);
}

// add(key, i) is false when there is no room.
template <class Add>
bool add_members(uint64_t n_keys, Add add) {
  uint64_t w0[kFillUnit], w1[kFillUnit];
  for (uint64_t i = 0; i < n_keys; i++) {
    if (i % kFillUnit == 0) lanes().fill_members(i, w0, w1, kFillUnit);
    const uint64_t key[] = {w0[i % kFillUnit], w1[i % kFillUnit]};
    if (!add(key, i)) return false;
  }
  return true;
}

std::string unique_name(const char* what) {
  static unsigned count = 0;
  return what + std::to_string(count++);
}

}  // namespace

std::string start_eal() {
  const std::string cpu = std::to_string([] {
    pin_to_one();
    return sched_getcpu();
  }());
  static std::vector<std::string> words = {"filter-bench", "--in-memory",    "--no-pci",    "--no-telemetry",
                                           "--lcores",     "0@" + cpu,       "--log-level", "lib.eal:error",
                                           "--log-level",  "lib.hash:alert", "--log-level", "lib.member:error"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0) {
    return std::string("EAL does not start: ") + rte_strerror(rte_errno) + " (2 MiB pages reserved?)";
  }
  return "";
}

MemberPeer::MemberPeer(bool vbf, uint64_t n_keys, double rate) {
  const double before = heap_mib();
  for (double room : {1.0, kMoreRoom}) {
    if (!vbf && room == 1.0) continue;  // a summary that is full loses keys
    entries_ = static_cast<uint64_t>(static_cast<double>(n_keys) * room);
    const std::string name = unique_name("member");
    rte_member_parameters parameters = {};
    parameters.name = name.c_str();
    parameters.type = vbf ? RTE_MEMBER_TYPE_VBF : RTE_MEMBER_TYPE_HT;
    parameters.num_keys = static_cast<uint32_t>(entries_);
    parameters.key_len = kKeyBytes;
    parameters.num_set = 1;
    parameters.false_positive_rate = static_cast<float>(rate);
    parameters.prim_hash_seed = 1;
    parameters.sec_hash_seed = 11;
    set_ = rte_member_create(&parameters);
    if (set_ == nullptr) give_up(std::string("rte_member_create: ") + rte_strerror(rte_errno));
    const bool all = add_members(n_keys, [&](const void* key, uint64_t) { return rte_member_add(set_, key, 1) >= 0; });
    if (all) break;
    rte_member_free(set_);
    set_ = nullptr;
  }
  if (set_ == nullptr) give_up("rte_member does not take all keys");
  mib_ = heap_mib() - before;
}

MemberPeer::~MemberPeer() {
  rte_member_free(set_);
}

Loop MemberPeer::lookup(unsigned batch, uint64_t n_members, double hit_ratio) const {
  return {"bulk of " + std::to_string(batch),
          [set = set_, batch, rows = std::make_shared<Rows>(n_members, hit_ratio)](uint64_t keys) {
            member_set_t found[kMaxBatch] = {};
            uint64_t hits = 0;
            for (uint64_t i = 0; i < keys; i += batch) {
              rows->fill(batch);
              hits += static_cast<uint64_t>(rte_member_lookup_bulk(set, rows->key, batch, found));
            }
            return hits;
          }};
}

HashPeer::HashPeer(uint64_t n_keys) {
  const double before = heap_mib();
  for (double room : {1.0, kMoreRoom}) {
    entries_ = static_cast<uint64_t>(static_cast<double>(n_keys) * room);
    const std::string name = unique_name("hash");
    rte_hash_parameters parameters = {};
    parameters.name = name.c_str();
    parameters.entries = static_cast<uint32_t>(entries_);
    parameters.key_len = kKeyBytes;
    parameters.hash_func = rte_hash_crc;
    table_ = rte_hash_create(&parameters);
    if (table_ == nullptr) give_up(std::string("rte_hash_create: ") + rte_strerror(rte_errno));
    const bool all = add_members(n_keys, [&](const void* key, uint64_t i) {
      return rte_hash_add_key_data(table_, key, reinterpret_cast<void*>(uintptr_t{1} + (i & 1))) == 0;
    });
    if (all) break;
    rte_hash_free(table_);
    table_ = nullptr;
  }
  if (table_ == nullptr) give_up("rte_hash does not take all keys");
  mib_ = heap_mib() - before;
}

HashPeer::~HashPeer() {
  rte_hash_free(table_);
}

Loop HashPeer::lookup(unsigned batch, uint64_t n_members, double hit_ratio) const {
  return {"bulk of " + std::to_string(batch),
          [table = table_, batch, rows = std::make_shared<Rows>(n_members, hit_ratio)](uint64_t keys) {
            void* data[kMaxBatch] = {};
            uint64_t sum = 0;
            for (uint64_t i = 0; i < keys; i += batch) {
              rows->fill(batch);
              uint64_t mask = 0;
              rte_hash_lookup_bulk_data(table, rows->key, batch, &mask, data);
              for (; mask != 0; mask &= mask - 1) sum += reinterpret_cast<uintptr_t>(data[std::countr_zero(mask)]);
            }
            return sum;
          }};
}

}  // namespace weir::bench
