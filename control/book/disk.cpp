#include "control/book/disk.h"

#include <cstring>
#include <type_traits>

#include "control/book/columns.h"
#include "control/model/flow_condition.h"

namespace weir::control {
namespace {

constexpr uint64_t kMagic = 0x4b4f4f4252494557;  // "WEIRBOOK"
constexpr uint32_t kVersion = 6;

struct Header {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t residual_bytes =
      sizeof(weir_residual);  // flows are kept as residuals, whose fields change with the snapshot
  uint32_t snapshot_version = WEIR_SNAPSHOT_VERSION;
  uint32_t n_lists = 0;
};
static_assert(sizeof(Header) == 24);

struct StoredFlow {
  weir_residual condition;
  uint32_t line;
  uint16_t family;
  uint16_t source;
};

// Both sides name the same fields in the same order: visit_feed(io, ...), visit_list(io, list) are the format.
template <class Io, class Report, class State, class Refusal>
void visit_feed(Io& io, Report& feed, State& state, Refusal& refused) {
  io.text(feed.path);
  io.text(feed.format);
  io.text(feed.why);
  io.value(feed.lines);
  io.value(feed.entries);
  io.value(feed.bad);
  io.value(feed.skipped);
  io.sequence(feed.samples, [&](auto& sample) {
    io.value(sample.line);
    io.text(sample.text);
    io.text(sample.reason);
    io.value(sample.is_skipped);
  });
  io.value(state.file);
  io.value(state.settled);
  io.value(state.digest);
  io.text(state.options.format);
  io.value(state.options.match);
  io.value(state.options.ipv6_aggregate);
  io.value(state.options.allow_any);
  auto& guard = state.options.guard;
  io.value(guard.min_entries);
  io.value(guard.max_shrink);
  io.value(guard.max_growth);
  io.value(guard.reserved);
  io.value(guard.widest_v4);
  io.value(guard.widest_v6);
  io.value(state.options.own);
  io.value(state.ipv6_widened);
  io.value(state.ends_in_newline);
  io.value(state.accepted);
  io.value(state.taken_at);
  io.value(state.unfinished);
  io.maybe(refused, [&](auto& refusal) {
    io.text(refusal.path);
    io.text(refusal.reason);
    io.text(refusal.hint);
    io.value(refusal.since);
  });
}

template <class Io, class ListOfIo>
void visit_list(Io& io, ListOfIo& list) {
  io.text(list.name);
  io.text(list.comment);
  io.value(list.action);
  io.value(list.mode);
  io.value(list.match);
  io.value(list.ipv6_aggregate);
  io.value(list.ipv6_widened);
  io.text(list.file);
  io.text(list.policy_path);
  io.maybe(list.dynamic, [&](auto& dynamic) {
    io.value(dynamic.max_entries);
    io.value(dynamic.max_ttl_s);
    io.value(dynamic.allow_any);
  });
  visit_feed(io, list.feed, list.feed_state, list.refusal);
  io.sequence(list.files, [&](auto& file) { visit_feed(io, file.feed, file.state, file.refusal); });
}

template <class Io, class RowsOfIo>
void visit_rows_of(Io& io, RowsOfIo& rows) {
  io.column(rows.first);
  io.column(rows.last);
  const auto column = [&](auto& one) {
    io.value(one.all);
    io.column(one.each);
  };
  column(rows.line);
  column(rows.port);
  column(rows.directions);
  column(rows.source);
  column(rows.expires);
}

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

// Whatever does not fit makes it fail; what is read after that is nothing.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool failed() const { return failed_; }
  void fail() { failed_ = true; }
  bool at_end() const { return rest_.empty(); }

  template <class T>
  void value(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto part = take(1, sizeof value);
    if (!part.empty()) memcpy(&value, part.data(), sizeof value);
  }
  void value(bool& value) {  // any other byte is no bool
    uint8_t byte = 0;
    this->value(byte);
    if (byte > 1) fail();
    value = byte == 1;
  }
  void value(Reserved& reserved) {
    uint8_t number = 0;
    value(number);
    if (number > static_cast<uint8_t>(Reserved::refuse)) fail();
    reserved = failed_ ? Reserved::keep : static_cast<Reserved>(number);
  }
  void value(weir_action& action) { enumerator(action, WEIR_PASS, WEIR_DROP); }
  void value(weir_mode& mode) { enumerator(mode, WEIR_ENFORCE, WEIR_MONITOR); }
  template <class T>
  void column(std::vector<T>& values) {
    uint64_t n = 0;
    value(n);
    const auto part = take(n, sizeof(T));
    values.resize(part.size() / sizeof(T));
    if (!part.empty()) memcpy(values.data(), part.data(), part.size());
  }
  void text(std::string& text) {
    uint64_t n = 0;
    value(n);
    const auto part = take(n, 1);
    text.assign(reinterpret_cast<const char*>(part.data()), part.size());
  }
  template <class T, class Visit>
  void sequence(std::vector<T>& values, Visit visit) {
    uint64_t n = 0;
    value(n);
    for (uint64_t i = 0; i < n && !failed_; i++) {
      visit(values.emplace_back());
    }
  }
  template <class T, class Visit>
  void maybe(std::optional<T>& optional, Visit visit) {
    bool is_there = false;
    value(is_there);
    if (is_there && !failed_) visit(optional.emplace());
  }

 private:
  std::span<const std::byte> take(uint64_t n, size_t bytes_each) {
    if (failed_ || n > rest_.size() / bytes_each) {
      failed_ = true;
      return {};
    }
    const auto part = rest_.first(static_cast<size_t>(n) * bytes_each);
    rest_ = rest_.subspan(part.size());
    return part;
  }
  template <class T>
  void enumerator(T& value, T one, T other) {
    std::underlying_type_t<T> number{};
    this->value(number);
    if (number != one && number != other) fail();
    value = failed_ ? one : static_cast<T>(number);
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

std::shared_ptr<const Entries> read_entries(Reader& reader) {
  auto entries = std::make_shared<Entries>();
  visit_rows_of(reader, entries->v4);
  visit_rows_of(reader, entries->v6);
  std::vector<StoredFlow> flows;
  reader.column(flows);
  if (reader.failed() || !is_sound(entries->v4) || !is_sound(entries->v6)) {
    reader.fail();
    return entries;
  }
  for (const StoredFlow& stored : flows) {
    Flow flow = flow_of(stored.condition, static_cast<uint8_t>(stored.family));
    flow.line = stored.line;
    flow.source = static_cast<uint8_t>(stored.source);
    if (stored.family != 0 && stored.family != 4 && stored.family != 6) reader.fail();
    if (stored.source != 0 && stored.source != kJournalSource) reader.fail();
    entries->flows.push_back(flow);
  }
  index_ranges(entries->v4);
  index_ranges(entries->v6);
  entries->digest = digest_of(*entries);
  return entries;
}

}  // namespace

std::string write_book(const Book& book) {
  Writer writer;
  Header header;
  header.n_lists = static_cast<uint32_t>(book.size());
  writer.value(header);
  for (const List& list : book) {
    visit_list(writer, list);
    visit_rows_of(writer, list.v4());
    visit_rows_of(writer, list.v6());
    std::vector<StoredFlow> flows;
    for (const Flow& flow : list.flows()) flows.push_back({condition_of(flow), flow.line, flow.family, flow.source});
    writer.column(flows);
  }
  return std::move(writer.bytes);
}

Result<Book> read_book(std::span<const std::byte> bytes) {
  Reader reader(bytes);
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
  Book book;
  for (uint32_t l = 0; l < header.n_lists; l++) {
    List& list = book.emplace_back();
    visit_list(reader, list);
    list.content = read_entries(reader);
    if (reader.failed()) return Error{"the book is damaged: list " + std::to_string(l)};
  }
  if (!reader.at_end()) return Error{"the book is damaged: it goes on after its last list"};
  return book;
}

}  // namespace weir::control
