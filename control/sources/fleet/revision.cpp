#include "control/sources/fleet/revision.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/peer_number.h"
#include "control/base/json/json.h"
#include "control/sources/fleet/pieces.h"

namespace weir::control::fleet {

void members(Fields& f, BlobFile& file) {
  f({"path", "", "relative to the revision's folder"}, file.path);
  f({"digest", "", "SHA-256 of its bytes"}, file.digest);
  f({"bytes", "bytes", "of the file"}, file.bytes);
  f.unless_empty({"url", "", "of a server that has them; without it, they are in etcd"}, file.url);
  f({"packed_bytes", "bytes", "at the url"}, file.packed_bytes);
}

void members(Fields& f, Revision& revision) {
  f({"number", "", "of the revision"}, revision.number);
  f({"policy", "", "the path of its policy file"}, revision.policy);
  f.array({"files", "", "that it consists of"}, revision.files, "file");
  f({"by", "", "who pushed it"}, revision.by);
  f({"comment", "", "why"}, revision.comment);
  f({"at", "s", "when, Unix time"}, revision.at);
}

bool is_path_inside(std::string_view path) {
  if (path.empty() || path.size() > 200 || path.front() == '/' || path.back() == '/') return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    if (std::any_of(part.begin(), part.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) return false;
    begin = end + 1;
  }
  return true;
}

std::string text_of(const Revision& revision) {
  return write_json(revision).line();
}

Result<Revision> read_revision(std::string_view text) {
  if (text.size() > kMostManifest) return Error{"the revision's manifest is longer than 1 MiB"};
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{"the revision's manifest is not understood: " + document.error()};
  Result<Revision> revision = read_json<Revision>(*document);
  if (!revision) return Error{"the revision's manifest is not understood: " + revision.error()};
  if (revision->number == 0) return Error{"the revision has no number"};
  if (revision->number > kMostNumber) return Error{fmt::format("revision {} is not possible", revision->number)};
  if (revision->files.size() > kMostFiles) return Error{"the revision has more than 1000 files"};
  std::set<std::string> paths;
  uint64_t bytes = 0;
  for (const BlobFile& file : revision->files) {
    if (!is_path_inside(file.path)) return Error{"the revision has a file whose path leads out of it"};
    if (!is_digest(file.digest)) return Error{"the revision's file " + file.path + " has no digest"};
    if (!paths.insert(file.path).second) return Error{"the revision has two files " + file.path};
    if (file.bytes > kMostBlob || file.packed_bytes > kMostPacked) {
      return Error{"the revision's file " + file.path + " is larger than a node takes"};
    }
    bytes += file.bytes;
  }
  if (bytes > kMostRevision) return Error{"the revision is larger than a node takes"};
  if (!paths.contains(revision->policy)) return Error{"the revision has no policy file"};
  // One may not be the folder of another.
  for (const std::string& path : paths) {
    for (size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
      if (paths.contains(path.substr(0, end))) return Error{"the revision's file " + path + " is in a file"};
    }
  }
  return revision;
}

}  // namespace weir::control::fleet
