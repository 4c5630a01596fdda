// DPDK's set-membership structures as rows of the survey: rte_member in its two modes for sets, and rte_hash. Bulk
// calls of 32 keys, as a packet program makes them.

#include <rte_eal.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_malloc.h>
#include <rte_member.h>

#include <fstream>

#include "tests/reproduce/survey.h"

namespace weir::reproduce {
namespace {

constexpr unsigned kBulk = 32;
using Key = std::array<uint64_t, 2>;

// Pointers to batches of the keys first .. first + n - 1, as both libraries want them.
template <class Visit>
void each_bulk(uint64_t first, uint64_t n, Visit visit) {
  Key keys[kBulk];
  const void* pointers[kBulk];
  for (unsigned i = 0; i < kBulk; i++) pointers[i] = &keys[i];
  for (uint64_t at = 0; at < n; at += kBulk) {
    const auto bulk = static_cast<unsigned>(std::min<uint64_t>(kBulk, n - at));
    for (unsigned i = 0; i < bulk; i++) keys[i] = {scatter(first + at + i), first + at + i};
    visit(pointers, bulk);
  }
}

size_t allocated_bytes() {
  size_t sum = 0;
  for (int socket = 0; socket < 2; socket++) {
    rte_malloc_socket_stats stats;
    if (rte_malloc_get_socket_stats(socket, &stats) == 0) sum += stats.heap_allocsz_bytes;
  }
  return sum;
}

// Fills it and writes down time and memory.
void fill(Candidate& candidate, uint64_t n, size_t allocated_before) {
  const double start = thread_ns();
  candidate.insert(0, n);
  candidate.insert_ns = (thread_ns() - start) / static_cast<double>(n);
  candidate.bits_per_key = static_cast<double>(allocated_bytes() - allocated_before) * 8 / static_cast<double>(n);
}

Candidate member(const char* name, rte_member_setsum_type type, uint64_t n) {
  const size_t before = allocated_bytes();
  rte_member_parameters parameters = {};
  const std::string unique = name + std::to_string(n);
  parameters.name = unique.c_str();
  parameters.type = type;
  parameters.key_len = sizeof(Key);
  parameters.prim_hash_seed = 1;
  parameters.sec_hash_seed = 2;
  parameters.num_keys =
      static_cast<uint32_t>(type == RTE_MEMBER_TYPE_HT ? n * 115 / 100 : n);  // it refuses keys when it is fuller
  parameters.num_set = type == RTE_MEMBER_TYPE_HT ? 0 : 1;
  parameters.false_positive_rate = 0.0042f;
  rte_member_setsum* set = rte_member_create(&parameters);
  if (set == nullptr) give_up(std::string(name) + ": rte_member_create failed");

  Candidate made{name, "DPDK rte_member", 0, type == RTE_MEMBER_TYPE_VBF ? 0.0042 : 0, 0, {}, {}, {}};
  made.insert = [set, name](uint64_t first, uint64_t keys) {
    each_bulk(first, keys, [&](const void** key, unsigned bulk) {
      for (unsigned i = 0; i < bulk; i++) {
        if (rte_member_add(set, key[i], 1) < 0) give_up(std::string(name) + " is full");
      }
    });
  };
  made.count = [set](uint64_t first, uint64_t keys) {
    uint64_t found = 0;
    each_bulk(first, keys, [&](const void** key, unsigned bulk) {
      member_set_t sets[kBulk];
      found += static_cast<uint64_t>(rte_member_lookup_bulk(set, key, bulk, sets));
    });
    return found;
  };
  if (type == RTE_MEMBER_TYPE_HT) {
    made.erase = [set](uint64_t first, uint64_t keys) {
      each_bulk(first, keys, [&](const void** key, unsigned bulk) {
        for (unsigned i = 0; i < bulk; i++) rte_member_delete(set, key[i], 1);
      });
    };
  }
  fill(made, n, before);
  return made;
}

Candidate exact(uint64_t n) {
  const size_t before = allocated_bytes();
  rte_hash_parameters parameters = {};
  const std::string unique = "hash" + std::to_string(n);
  parameters.name = unique.c_str();
  parameters.entries = static_cast<uint32_t>(n * 115 / 100);
  parameters.key_len = sizeof(Key);
  parameters.hash_func = rte_hash_crc;
  rte_hash* table = rte_hash_create(&parameters);
  if (table == nullptr) give_up("rte_hash_create failed: too little memory in huge pages?");

  Candidate made{"rte_hash (exact)", "DPDK rte_hash", 0, 0, 0, {}, {}, {}};
  made.insert = [table](uint64_t first, uint64_t keys) {
    each_bulk(first, keys, [&](const void** key, unsigned bulk) {
      for (unsigned i = 0; i < bulk; i++) {
        if (rte_hash_add_key(table, key[i]) < 0) give_up("rte_hash is full");
      }
    });
  };
  made.count = [table](uint64_t first, uint64_t keys) {
    uint64_t found = 0;
    each_bulk(first, keys, [&](const void** key, unsigned bulk) {
      int32_t positions[kBulk];
      rte_hash_lookup_bulk(table, key, bulk, positions);
      for (unsigned i = 0; i < bulk; i++) found += positions[i] >= 0;
    });
    return found;
  };
  made.erase = [table](uint64_t first, uint64_t keys) {
    each_bulk(first, keys, [&](const void** key, unsigned bulk) {
      for (unsigned i = 0; i < bulk; i++) rte_hash_del_key(table, key[i]);
    });
  };
  fill(made, n, before);
  return made;
}

uint64_t free_huge_pages() {
  uint64_t pages = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> pages;
  return pages;
}

Json survey(uint64_t n, unsigned repetitions) {
  say("survey of DPDK: " + std::to_string(n) + " keys");
  const std::vector<Candidate> candidates = {member("rte_member vBF", RTE_MEMBER_TYPE_VBF, n),
                                             member("rte_member HT", RTE_MEMBER_TYPE_HT, n), exact(n)};
  return measure(candidates, n, repetitions);
}

}  // namespace
}  // namespace weir::reproduce

int main(int argc, char** argv) {
  using namespace weir::reproduce;
  const bool quick = is_quick(argc, argv);
  const uint64_t pages = free_huge_pages();
  std::string core = std::to_string(sched_getcpu());
  std::vector<std::string> words = {"reproduce",     "--in-memory", "--no-pci", "--no-telemetry",
                                    "--log-level=3", "-l",          core};
  if (pages < 64) words.insert(words.end(), {"--no-huge", "-m", "1024"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0) give_up("rte_eal_init failed");

  Json sizes = Json::array();
  const uint64_t n = quick ? 200'000 : 1'000'000;
  sizes.push_back({{"keys", n}, {"rows", survey(n, quick ? 3 : 7)}});
  if (!quick && pages >= 512)
    sizes.push_back({{"keys", 10'000'000}, {"rows", survey(10'000'000, 5)}});
  else if (!quick)
    say("10 M keys in DPDK's structures skipped: they want 512 free huge pages");
  std::printf("%s\n", Json{{"dpdk_sizes", sizes}, {"dpdk_huge_pages", pages >= 64}}.dump(1).c_str());
  rte_eal_cleanup();
}
