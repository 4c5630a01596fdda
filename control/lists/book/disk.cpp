#include "control/lists/book/disk.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "control/lists/book/disk_format.h"
#include "control/policy/model/columns.h"
#include "control/policy/model/flow_condition.h"

namespace weir::control {
namespace {

using namespace disk;

class Writer {
 public:
  std::string bytes;

  template <class T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void column(const std::vector<T>& values) {
    value(uint64_t{values.size()});
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void text(const std::string& text) {
    value(uint64_t{text.size()});
    bytes += text;
  }
  template <class T, class Visit>
  void sequence(const std::vector<T>& values, Visit visit) {
    value(uint64_t{values.size()});
    for (const T& one : values) visit(one);
  }
  template <class T, class Visit>
  void maybe(const std::optional<T>& value, Visit visit) {
    this->value(value.has_value());
    if (value) visit(*value);
  }
};

std::shared_ptr<const Entries> read_entries(Reader& reader) {
  auto entries = std::make_shared<Entries>();
  visit_rows_of(reader, entries->v4);
  visit_rows_of(reader, entries->v6);
  if (reader.failed() || !is_sound(entries->v4) || !is_sound(entries->v6)) {
    reader.fail();
    return entries;
  }
  read_flows(reader, entries->flows);
  read_comments(reader, entries->comments);
  index_ranges(entries->v4);
  index_ranges(entries->v6);
  entries->digest = digest_of(*entries);
  return entries;
}

}  // namespace

Result<disk::Header> disk::read_header(std::span<const std::byte> bytes, Reader& reader) {
  Header header;
  reader.value(header);
  if (reader.failed()) return Error{"the book is cut off: " + std::to_string(bytes.size()) + " bytes hold no header"};
  if (header.magic != kMagic) return Error{"no book (wrong magic number)"};
  const Header mine;
  if (header.version != mine.version || header.residual_bytes != mine.residual_bytes ||
      header.snapshot_version != mine.snapshot_version) {
    return Error{"a book of version " + std::to_string(header.version) + "." + std::to_string(header.snapshot_version) +
                 "; this program reads version " + std::to_string(mine.version) + "." +
                 std::to_string(mine.snapshot_version)};
  }
  if (header.n_lists > WEIR_MAX_LISTS) return Error{"the book is damaged: too many lists"};
  return header;
}

void disk::read_flows(Reader& reader, std::vector<Flow>& flows) {
  std::vector<StoredFlow> all;
  reader.column(all);
  for (const StoredFlow& stored : all) {
    Flow flow = flow_of(stored.condition, static_cast<uint8_t>(stored.family));
    flow.line = stored.line;
    flow.source = static_cast<uint8_t>(stored.source);
    if (stored.family != 0 && stored.family != 4 && stored.family != 6) reader.fail();
    if (stored.source != 0 && stored.source != kJournalSource) reader.fail();
    flows.push_back(flow);
  }
}

void disk::read_comments(Reader& reader, std::vector<EntryComment>& comments) {
  visit_comments(reader, comments);
  const auto descends = [](const EntryComment& a, const EntryComment& b) { return a.line > b.line; };
  if (std::adjacent_find(comments.begin(), comments.end(), descends) != comments.end()) reader.fail();
}

std::shared_ptr<const Own> disk::read_own(Reader& reader) {
  Own own;
  reader.text(own.policy_path);
  reader.text(own.node_path);
  own.entries = read_entries(reader);
  const bool has_any = !reader.failed() && own.entries->size() != 0;
  return has_any ? std::make_shared<const Own>(std::move(own)) : nullptr;
}

std::string write_book(const Book& book) {
  Writer writer;
  Header header;
  header.n_lists = static_cast<uint32_t>(book.size());
  writer.value(header);
  const auto write = [&](const Entries& entries) {
    visit_rows_of(writer, entries.v4);
    visit_rows_of(writer, entries.v6);
    std::vector<StoredFlow> flows;
    for (const Flow& flow : entries.flows) flows.push_back({condition_of(flow), flow.line, flow.family, flow.source});
    writer.column(flows);
    visit_comments(writer, entries.comments);
  };
  const auto first = std::find_if(book.begin(), book.end(), [](const List& list) { return list.own != nullptr; });
  const Own own = first != book.end() ? *first->own : Own{std::make_shared<Entries>(), "", ""};
  writer.text(own.policy_path);
  writer.text(own.node_path);
  write(*own.entries);
  for (const List& list : book) {
    visit_list(writer, list);
    write(*list.as_written());
  }
  return std::move(writer.bytes);
}

Result<Book> read_book(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const Result<Header> header = disk::read_header(bytes, reader);
  if (!header) return Error{header.error()};
  Book book;
  const std::shared_ptr<const Own> own = disk::read_own(reader);
  for (uint32_t l = 0; l < header->n_lists; l++) {
    List& list = book.emplace_back();
    visit_list(reader, list);
    if (list.action == WEIR_DROP) list.own = own;
    const std::shared_ptr<const Entries> written = read_entries(reader);
    if (reader.failed()) return Error{"the book is damaged: list " + std::to_string(l)};
    list.hold(written);
  }
  if (!reader.at_end()) return Error{"the book is damaged: it goes on after its last list"};
  return book;
}

}  // namespace weir::control
