// Any bytes as what a fleet keeps in etcd, and as what the process that speaks to etcd tells: no crash, and what is
// taken keeps its promises and is written as it was read.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "control/sources/fleet/channel.h"
#include "control/sources/fleet/head.h"
#include "control/sources/fleet/names.h"
#include "control/sources/fleet/pieces.h"
#include "control/sources/fleet/report.h"
#include "control/sources/fleet/revision.h"

namespace {

using namespace weir::control::fleet;

void require(bool holds) {
  if (!holds) abort();
}

template <class T>
void read(std::string_view text, weir::Result<T> (*read)(std::string_view)) {
  const weir::Result<T> taken = read(text);
  if (!taken) return require(!taken.error().empty());
  const weir::Result<T> again = read(text_of(*taken));
  require(again && text_of(*again) == text_of(*taken));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text, read_head);
  read(text, read_report);
  read(text, read_added);
  read(text, read_news);
  read(text, read_order);
  read(text, read_follow);
  read(text, read_revision);
  if (const auto revision = read_revision(text); revision) {
    for (const BlobFile& file : revision->files) require(is_path_inside(file.path) && is_digest(file.digest));
  }
  if (const auto pieces = read_pieces(text); pieces) {
    uint64_t bytes = 0;
    for (const Piece& piece : pieces->all) bytes += piece.bytes;
    require(text_of(*pieces) == text_of(*read_pieces(text_of(*pieces), bytes)));
    require(!read_pieces(text, bytes + 1));
  }
  // Whatever a file holds, it is made again of its own pieces.
  const Pieces own = pieces_of(cut(text, size));
  const Older older(text, size);
  std::string again(size, '\0');
  older.fill(own, std::as_writable_bytes(std::span(again)));
  require(again == text);
  if (auto head = read_head(text); head) {
    require(head->groups.size() <= kMostGroups);
    (void)before(*head);
    move(*head, "", 1);
    require(is_everywhere(*head, 1) && at_of(*head, "a").revision == 1);
  }
  if (const auto place = Names("edge").entry_of(text); place) {
    require(Names("edge").entry(place->list, place->text) == text);
  }
  std::vector<std::byte> room(std::min<size_t>(size * 4, 1 << 16));
  (void)unpack(text, room);
  return 0;
}
