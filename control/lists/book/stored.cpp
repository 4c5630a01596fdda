#include "control/lists/book/stored.h"

#include <algorithm>

#include "control/lists/book/disk_format.h"
#include "control/policy/model/columns.h"
#include "control/policy/model/search.h"

namespace weir::control {
namespace stored {

// A column where it lies, which may be anywhere: nothing on disk is aligned.
template <class T>
struct StoredColumn {
  std::span<const std::byte> bytes;

  size_t size() const { return bytes.size() / sizeof(T); }
  bool empty() const { return bytes.empty(); }
  T operator[](size_t row) const {
    T value;
    memcpy(&value, bytes.data() + row * sizeof(T), sizeof value);
    return value;
  }
};

template <class T>
struct StoredOne {
  T all{};
  StoredColumn<T> each;
  T operator[](size_t row) const { return each.empty() ? all : each[row]; }
  bool fits(size_t rows) const { return each.empty() || each.size() == rows; }
};

// As Rows, with the same members: disk::visit_rows_of() names them.
template <class Addr>
struct StoredRows {
  StoredColumn<Addr> first, last;
  StoredOne<uint32_t> line;
  StoredOne<uint16_t> port;
  StoredOne<uint8_t> directions, source;
  StoredOne<uint32_t> expires;

  bool fits() const {
    const size_t rows = first.size();
    return (last.empty() || last.size() == rows) && line.fits(rows) && port.fits(rows) && directions.fits(rows) &&
           source.fits(rows) && expires.fits(rows);
  }
  Entry<Addr> operator[](size_t row) const {
    return {first[row],  last.empty() ? first[row] : last[row], line[row], port[row], directions[row], source[row],
            expires[row]};
  }
};

}  // namespace stored

namespace {

using namespace disk;
using namespace stored;

// Reads columns as what they are on disk, all else as Reader does.
class ColumnReader : public Reader {
 public:
  using Reader::column;
  using Reader::Reader;
  template <class T>
  void column(StoredColumn<T>& column) {
    column.bytes = bytes_of_column(sizeof(T));
  }
};

// The first row behind all that begin at this address or before it.
template <class Addr>
size_t rows_up_to(const StoredColumn<Addr>& first, Addr address) {
  size_t low = 0, high = first.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (first[middle] <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// visit(row)
template <class Addr, class Visit>
void visit_rows_holding(const StoredRows<Addr>& rows, Addr address, Visit visit) {
  const size_t end = rows_up_to(rows.first, address);
  if (rows.last.empty()) {
    for (size_t row = end; row > 0 && rows.first[row - 1] == address; row--) visit(row - 1);
    return;
  }
  // Wide ranges may begin far before: all are looked at, in blocks that compilers turn into vector instructions.
  constexpr size_t kBlock = 256;
  for (size_t block = 0; block < end; block += kBlock) {
    const size_t block_end = std::min(block + kBlock, end);
    bool any = false;
    for (size_t row = block; row < block_end; row++) any |= rows.last[row] >= address;
    for (size_t row = block; any && row < block_end; row++) {
      if (rows.last[row] >= address) visit(row);
    }
  }
}

// Of both kinds of rows: which hold the address.
template <class Addr, class Visit>
void visit_rows_holding(const Rows<Addr>& rows, Addr address, Visit visit) {
  visit_rows(rows, address, visit);
}

template <class RowsOfAddr, class Addr>
void append_holding(const RowsOfAddr& rows, const std::vector<Addr>& addresses, std::vector<Entry<Addr>>& entries) {
  std::vector<size_t> found;
  for (const Addr address : addresses) {
    visit_rows_holding(rows, address, [&](size_t row) { found.push_back(row); });
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const size_t row : found) entries.push_back(rows[row]);
}

}  // namespace

Book part_holding(const Book& book, const Addresses& addresses) {
  Book part = book;
  for (List& list : part) {
    ListDraft draft;
    const Entries& written = *list.as_written();
    append_holding(written.v4, addresses.v4, draft.v4);
    append_holding(written.v6, addresses.v6, draft.v6);
    draft.flows = written.flows;
    draft.comments = written.comments;
    list.hold(make_entries(std::move(draft)));
  }
  return part;
}

struct StoredBook::Columns {
  stored::StoredRows<Ipv4> v4;
  stored::StoredRows<Ipv6> v6;
  std::vector<Flow> flows;
  std::vector<EntryComment> comments;
};

StoredBook::StoredBook() = default;
StoredBook::StoredBook(StoredBook&&) noexcept = default;
StoredBook& StoredBook::operator=(StoredBook&&) noexcept = default;
StoredBook::~StoredBook() = default;

Result<StoredBook> StoredBook::open(std::span<const std::byte> bytes) {
  ColumnReader reader(bytes);
  const Result<disk::Header> header = disk::read_header(bytes, reader);
  if (!header) return Error{header.error()};
  StoredBook book;
  const std::shared_ptr<const Own> own = disk::read_own(reader);
  for (uint32_t l = 0; l < header->n_lists; l++) {
    disk::visit_list(reader, book.lists_.emplace_back());
    if (book.lists_.back().action == WEIR_DROP) book.lists_.back().own = own;
    Columns& columns = book.columns_.emplace_back();
    disk::visit_rows_of(reader, columns.v4);
    disk::visit_rows_of(reader, columns.v6);
    disk::read_flows(reader, columns.flows);
    disk::read_comments(reader, columns.comments);
    if (reader.failed() || !columns.v4.fits() || !columns.v6.fits()) {
      return Error{"the book is damaged: list " + std::to_string(l)};
    }
  }
  if (!reader.at_end()) return Error{"the book is damaged: it goes on after its last list"};
  return book;
}

std::shared_ptr<const Entries> StoredBook::holding(size_t list, const Addresses& addresses) const {
  const Columns& columns = columns_[list];
  ListDraft draft;
  append_holding(columns.v4, addresses.v4, draft.v4);
  append_holding(columns.v6, addresses.v6, draft.v6);
  draft.flows = columns.flows;
  draft.comments = columns.comments;
  return make_entries(std::move(draft));
}

Book StoredBook::holding(const Addresses& addresses) const {
  Book book = lists_;
  for (size_t l = 0; l < book.size(); l++) book[l].hold(holding(l, addresses));
  return book;
}

}  // namespace weir::control
