#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/result.h"
#include "control/policy/model/list.h"
#include "filter/format/residual.h"
#include "filter/format/snapshot.h"

// The bytes of a book on disk (control/lists/book/disk.h): what stands where, and how it is read.
namespace weir::control::disk {

constexpr uint64_t kMagic = 0x4b4f4f4252494557;  // "WEIRBOOK"
constexpr uint32_t kVersion = 10;

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
    io.value(sample.kind);
  });
  io.value(feed.host_bits);
  io.sequence(feed.notes, [&](auto& note) {
    io.text(note.reason);
    io.text(note.hint);
  });
  io.value(state.file);
  io.value(state.settled);
  io.value(state.digest);
  io.text(state.options.format);
  io.value(state.options.action);
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
  io.value(guard.supplies);
  io.value(state.options.own);
  io.value(state.options.supplies);
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

template <class Io, class CommentsOfIo>
void visit_comments(Io& io, CommentsOfIo& comments) {
  io.sequence(comments, [&](auto& comment) {
    io.value(comment.line);
    io.text(comment.entry);
    io.text(comment.text);
  });
}

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
  void value(OfSupplies& supplies) { enumerator(supplies, OfSupplies::cut, OfSupplies::keep); }
  void value(weir_action& action) { enumerator(action, WEIR_PASS, WEIR_DROP); }
  void value(weir_mode& mode) { enumerator(mode, WEIR_ENFORCE, WEIR_MONITOR); }
  template <class T>
  void column(std::vector<T>& values) {
    const auto part = bytes_of_column(sizeof(T));
    values.resize(part.size() / sizeof(T));
    if (!part.empty()) memcpy(values.data(), part.data(), part.size());
  }
  // Of values of this size: their bytes.
  std::span<const std::byte> bytes_of_column(size_t bytes_each) {
    uint64_t n = 0;
    value(n);
    return take(n, bytes_each);
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
    if (number != static_cast<std::underlying_type_t<T>>(one) &&
        number != static_cast<std::underlying_type_t<T>>(other))
      fail();
    value = failed_ ? one : static_cast<T>(number);
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

// Of a book that this program can read. Error: why it cannot.
Result<Header> read_header(std::span<const std::byte> bytes, Reader& reader);
// Reads `policy.own`, which stands between the header and the lists. Null: the policy has none.
std::shared_ptr<const Own> read_own(Reader& reader);
// What follows the rows of a list, in this order.
void read_flows(Reader& reader, std::vector<Flow>& flows);
void read_comments(Reader& reader, std::vector<EntryComment>& comments);

}  // namespace weir::control::disk
