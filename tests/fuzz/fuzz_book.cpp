// Any bytes as a book from disk: no crash, and what is accepted is sound, can be searched, and is written as it was
// read.
#include <cstdlib>
#include <span>

#include "control/lists/book/claims.h"
#include "control/lists/book/disk.h"
#include "control/lists/book/stored.h"
#include "control/policy/model/columns.h"

namespace {

void require(bool holds) {
  if (!holds) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir::control;
  const weir::Result<Book> book = read_book(std::as_bytes(std::span(data, size)));
  // Searched where it lies, it is not checked row by row: whatever is in it does no harm.
  if (const weir::Result<StoredBook> stored = StoredBook::open(std::as_bytes(std::span(data, size)))) {
    const Book part = stored->holding({{0, 0xc0000201, ~weir::Ipv4{0}}, {0, ~weir::Ipv6{0}}});
    require(part.size() == stored->lists().size());
    claims_of(part, weir::Ipv4{0xc0000201}, 443);
  } else {
    require(!book);
  }
  if (!book) {
    require(!book.error().empty());
    return 0;
  }
  for (const List& list : *book) {
    require(is_sound(list.v4()) && is_sound(list.v6()));
    require(list.entries() == list.v4().size() + list.v6().size() + list.flows().size());
    for (const uint16_t port : {uint16_t{0}, uint16_t{443}}) {
      if (!list.v4().empty()) claims_of(*book, list.v4().first[0], port);
      if (!list.v6().empty()) claims_of(*book, list.v6().first[0], port);
      claims_of(*book, weir::Ipv4{0xc0000201}, port);
    }
  }
  weir_packet packet = {};
  packet.family = size % 2 == 0 ? 4 : 6;
  claims_of(*book, packet, size);
  const std::string written = write_book(*book);
  const weir::Result<Book> again = read_book(std::as_bytes(std::span(written)));
  require(again && write_book(*again) == written);
  return 0;
}
