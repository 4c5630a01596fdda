#pragma once

#include <atomic>
#include <cstdint>

// tests/rig/world/disk.py, which starts a program, and disk.cpp inside of it share one mapped file, of
// this struct and the journal behind it. Several programs may share one.
namespace weir::inject {

constexpr uint64_t kMagic = 0x314b534944524557;  // "WERIDSK1"

// What a program does to its folders. A bit of Shared::kinds each.
enum class Kind : uint32_t {
  make,      // a file or folder that is new
  open,      // for writing, what is there
  write,     // into a file
  sync,      // a file or folder
  rename,    // also of what is there already
  remove,    // a file or folder
  truncate,  // never seen; here so that it would be noticed
};

enum class Death : uint32_t { before, halfway, after };

struct Shared {
  uint64_t magic = kMagic;
  uint64_t journal_bytes = 0;  // room behind this struct; 0: no journal is kept

  std::atomic<uint64_t> used = 0;        // bytes of the journal
  std::atomic<uint64_t> operations = 0;  // that were begun

  // Operations with a number from first_fault up to before end_of_faults fail, when their bit is in kinds.
  std::atomic<uint64_t> first_fault = 0, end_of_faults = 0;
  std::atomic<uint32_t> error = 0, kinds = 0;
  std::atomic<uint32_t> is_short = 0;  // 1: of the first write that fails, half of the bytes are taken before
  std::atomic<uint32_t> reserved = 0;
  std::atomic<uint64_t> failed = 0;  // so far

  // The operation of this number ends the program that begins it. 0: none does.
  std::atomic<uint64_t> deadly = 0;
  std::atomic<uint32_t> death = 0;           // Death
  std::atomic<uint32_t> kind_of_deadly = 0;  // Kind, told when it happened
};
static_assert(sizeof(Shared) == 88);

// A record of the journal, written when the operation has succeeded; then first (of name_bytes), second
// (second_bytes) and data (data_bytes), filled up to a multiple of 8.
struct Record {
  uint32_t bytes = 0;  // with all that follows
  std::atomic<uint32_t> is_whole = 0;
  Kind kind = Kind::write;
  uint32_t flags = 0;                         // of open(2); of remove: 1 = a folder; of make: 1 = a folder
  uint64_t inode = 0;                         // of the file that was opened, written, synced
  uint64_t offset = 0;                        // of write; of truncate the size
  uint32_t name_bytes = 0, second_bytes = 0;  // absolute paths; of write and sync of a file: none
  uint64_t data_bytes = 0;
};
static_assert(sizeof(Record) == 48);

}  // namespace weir::inject
