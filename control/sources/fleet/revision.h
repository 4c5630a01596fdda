#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/base/json/fields.h"

namespace weir::control::fleet {

// A file of a revision: bytes that are known by their digest, wherever they are kept.
struct BlobFile {
  std::string path;    // relative to the revision's folder; never leads out of it
  std::string digest;  // SHA-256 in hexadecimal digits
  uint64_t bytes = 0;
  std::string url = {};       // of a server that has them, packed; empty: they are in etcd (pieces.h)
  uint64_t packed_bytes = 0;  // at the url
};

// A policy with all files that it reads: never changed once it has its number.
struct Revision {
  uint64_t number = 0;
  std::string policy;  // the path of the policy file among `files`
  std::vector<BlobFile> files;
  std::string by;       // who pushed it
  std::string comment;  // and why
  int64_t at = 0;       // Unix seconds, by his clock
};
void members(Fields& f, Revision& revision);

constexpr size_t kMostFiles = 1000;
constexpr uint64_t kMostBlob = uint64_t{1} << 30;      // bytes of one file
constexpr uint64_t kMostPacked = uint64_t{256} << 20;  // and as it is at an url
constexpr uint64_t kMostRevision = uint64_t{4} << 30;  // of all files of a revision
constexpr size_t kMostManifest = 1 << 20;              // bytes of its text

// Whether a file of a revision may be called so: relative, without "." and "..", of at most 200 bytes.
bool is_path_inside(std::string_view path);

std::string text_of(const Revision& revision);
// Error: what is wrong with it. Whatever the text is, its files stay in their folder and within the limits.
Result<Revision> read_revision(std::string_view text);

}  // namespace weir::control::fleet
