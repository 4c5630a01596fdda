#include "control/policy/model/columns.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <tuple>

#include "common/digest.h"
#include "control/policy/model/flow_condition.h"

namespace weir::control {
namespace {

// An entry's place among those that are sorted.
template <class Addr>
struct Keyed {
  Addr first;
  uint32_t index;
};

void sort_by_first(std::vector<Keyed<Ipv6>>& keys) {
  std::stable_sort(keys.begin(), keys.end(),
                   [](const Keyed<Ipv6>& a, const Keyed<Ipv6>& b) { return a.first < b.first; });
}

// Feeds of hosts are random in 32 bits: three passes by eleven bits each, least significant first.
void sort_by_first(std::vector<Keyed<Ipv4>>& keys) {
  constexpr unsigned kDigitBits = 11, kPasses = 3;
  constexpr uint32_t kDigits = 1u << kDigitBits;
  const auto digit = [](Ipv4 first, unsigned pass) { return (first >> pass * kDigitBits) % kDigits; };
  std::vector<std::array<uint32_t, kDigits>> begin(kPasses);
  for (const Keyed<Ipv4>& key : keys) {
    for (unsigned pass = 0; pass < kPasses; pass++) begin[pass][digit(key.first, pass)]++;
  }
  std::vector<Keyed<Ipv4>> sorted(keys.size());
  for (unsigned pass = 0; pass < kPasses; pass++) {
    std::exclusive_scan(begin[pass].begin(), begin[pass].end(), begin[pass].begin(), 0u);
    for (const Keyed<Ipv4>& key : keys) sorted[begin[pass][digit(key.first, pass)]++] = key;
    keys.swap(sorted);
  }
}

// The entries in the order of Rows.
template <class Addr>
std::vector<Keyed<Addr>> order_of(const std::vector<Entry<Addr>>& entries) {
  std::vector<Keyed<Addr>> keys;
  keys.reserve(entries.size());
  for (const Entry<Addr>& entry : entries) keys.push_back({entry.first, static_cast<uint32_t>(keys.size())});
  if (std::is_sorted(entries.begin(), entries.end(), comes_before<Addr>)) return keys;
  sort_by_first(keys);
  for (size_t from = 0, to = 0; from < keys.size(); from = to) {
    while (to < keys.size() && keys[to].first == keys[from].first) to++;
    if (to - from == 1) continue;
    std::sort(
        keys.begin() + static_cast<ptrdiff_t>(from), keys.begin() + static_cast<ptrdiff_t>(to),
        [&](const Keyed<Addr>& a, const Keyed<Addr>& b) { return comes_before(entries[a.index], entries[b.index]); });
  }
  return keys;
}

// all: the first entry's; same: all have it.
template <class Addr, class T>
Column<T> column_of(const std::vector<Entry<Addr>>& entries, const std::vector<Keyed<Addr>>& order,
                    T Entry<Addr>::*member, bool same) {
  Column<T> column;
  if (entries.empty()) return column;
  if (same) {
    column.all = entries[0].*member;
    return column;
  }
  column.each.reserve(order.size());
  for (const Keyed<Addr>& key : order) column.each.push_back(entries[key.index].*member);
  return column;
}

template <class Addr>
Rows<Addr> pack(const std::vector<Entry<Addr>>& entries) {
  Rows<Addr> rows;
  if (entries.empty()) return rows;
  bool are_single = true, one_line = true, one_port = true, one_direction = true, one_source = true, one_end = true;
  const Entry<Addr>& some = entries[0];
  for (const Entry<Addr>& entry : entries) {
    are_single &= entry.first == entry.last;
    one_line &= entry.line == some.line;
    one_port &= entry.port == some.port;
    one_direction &= entry.directions == some.directions;
    one_source &= entry.source == some.source;
    one_end &= entry.expires == some.expires;
  }
  const std::vector<Keyed<Addr>> order = order_of(entries);
  rows.first.reserve(order.size());
  for (const Keyed<Addr>& key : order) rows.first.push_back(key.first);
  if (!are_single) {
    rows.last.reserve(order.size());
    for (const Keyed<Addr>& key : order) rows.last.push_back(entries[key.index].last);
  }
  rows.line = column_of(entries, order, &Entry<Addr>::line, one_line);
  rows.port = column_of(entries, order, &Entry<Addr>::port, one_port);
  rows.directions = column_of(entries, order, &Entry<Addr>::directions, one_direction);
  rows.source = column_of(entries, order, &Entry<Addr>::source, one_source);
  rows.expires = column_of(entries, order, &Entry<Addr>::expires, one_end);
  index_ranges(rows);
  return rows;
}

template <class Addr>
std::vector<Entry<Addr>> in_order_of_writing(const Rows<Addr>& rows) {
  std::vector<Entry<Addr>> entries(rows.begin(), rows.end());
  std::stable_sort(entries.begin(), entries.end(), [](const Entry<Addr>& a, const Entry<Addr>& b) {
    return std::tie(a.source, a.line) < std::tie(b.source, b.line);
  });
  return entries;
}

// Those of these sources.
template <class Addr>
void append_sources(uint8_t first, uint8_t last, const Rows<Addr>& rows, std::vector<Entry<Addr>>& entries) {
  const auto is_wanted = [&](uint8_t source) { return first <= source && source <= last; };
  if (rows.source.each.empty() && !is_wanted(rows.source.all)) return;
  for (const Entry<Addr> entry : rows) {
    if (is_wanted(entry.source)) entries.push_back(entry);
  }
}

std::vector<Flow> flows_of_policy(const std::vector<Flow>& flows) {
  std::vector<Flow> own;
  std::copy_if(flows.begin(), flows.end(), std::back_inserter(own), [](const Flow& flow) { return flow.source == 0; });
  return own;
}

template <class Addr>
bool has_own(const Rows<Addr>& rows, std::vector<Entry<Addr>>& own) {
  std::vector<Entry<Addr>> known;
  append_sources(0, 0, rows, known);
  std::sort(own.begin(), own.end(), comes_before<Addr>);
  return known == own;
}

// Of what entries match: columns with their lengths.
class EntriesDigest {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    const uint64_t n = values.size();
    digest_.add(std::as_bytes(std::span(&n, 1)));
    digest_.add(std::as_bytes(std::span(values)));
  }
  template <class T>
  void add(const Column<T>& column) {
    digest_.add(std::as_bytes(std::span(&column.all, 1)));
    add(column.each);
  }
  template <class Addr>
  void add(const Rows<Addr>& rows) {
    add(rows.first);
    add(rows.last);
    add(rows.port);
    add(rows.directions);
    add(rows.expires);
  }
  Digest value() const { return digest_.value(); }

 private:
  PartsDigest digest_;
};

template <class Addr>
bool is_valid(const Entry<Addr>& entry) {
  return entry.first <= entry.last && entry.sides() != 0 && (entry.directions & ~(kBothDirections | kNamesSide)) == 0;
}

}  // namespace

void sort_by_line(std::vector<EntryComment>& comments) {
  std::stable_sort(comments.begin(), comments.end(),
                   [](const EntryComment& a, const EntryComment& b) { return a.line < b.line; });
}

std::shared_ptr<const Entries> make_entries(ListDraft draft) {
  auto entries = std::make_shared<Entries>();
  entries->v4 = pack(draft.v4);
  entries->v6 = pack(draft.v6);
  entries->flows = std::move(draft.flows);
  entries->comments = std::move(draft.comments);
  sort_by_line(entries->comments);
  entries->digest = digest_of(*entries);
  return entries;
}

ListDraft draft_of(const Entries& entries) {
  ListDraft draft;
  draft.v4 = in_order_of_writing(entries.v4);
  draft.v6 = in_order_of_writing(entries.v6);
  draft.flows = entries.flows;
  draft.comments = entries.comments;
  return draft;
}

std::shared_ptr<const Entries> replace_own(std::shared_ptr<const Entries> before, ListDraft own) {
  if (has_own(before->v4, own.v4) && has_own(before->v6, own.v6) && flows_of_policy(before->flows) == own.flows &&
      before->comments == own.comments) {
    return before;
  }
  append_sources(1, kJournalSource - 1, before->v4, own.v4);
  append_sources(1, kJournalSource - 1, before->v6, own.v6);
  return make_entries(std::move(own));
}

template <class Addr>
bool is_sound(const Rows<Addr>& rows) {
  const auto fits = [&](const auto& values) { return values.empty() || values.size() == rows.size(); };
  if (!fits(rows.last) || !fits(rows.line.each) || !fits(rows.port.each) || !fits(rows.directions.each) ||
      !fits(rows.source.each) || !fits(rows.expires.each)) {
    return false;
  }
  for (size_t row = 0; row < rows.size(); row++) {
    const Entry<Addr> entry = rows[row];
    if (!is_valid(entry) || (row > 0 && comes_before(entry, rows[row - 1]))) return false;
  }
  return true;
}

template <class Addr>
void index_ranges(Rows<Addr>& rows) {
  rows.reach.clear();
  const std::vector<Addr>* below = &rows.last;
  while (below->size() > 1 || (rows.reach.empty() && !below->empty())) {
    std::vector<Addr> level((below->size() + rows.kFan - 1) / rows.kFan, Addr{0});
    for (size_t i = 0; i < below->size(); i++) level[i / rows.kFan] = std::max(level[i / rows.kFan], (*below)[i]);
    rows.reach.push_back(std::move(level));
    below = &rows.reach.back();
  }
}

Digest digest_of(const Entries& entries) {
  EntriesDigest digest;
  digest.add(entries.v4);
  digest.add(entries.v6);
  // Residuals have no byte that is not set; their order among themselves is not part of what they match.
  std::vector<Digest> flows;
  for (const Flow& flow : entries.flows) {
    struct {
      weir_residual condition;
      uint64_t family;
    } bytes = {condition_of(flow), flow.family};
    flows.push_back(weir::digest_of(std::as_bytes(std::span(&bytes, 1))));
  }
  std::sort(flows.begin(), flows.end());
  digest.add(flows);
  return digest.value();
}

template bool is_sound(const Rows<Ipv4>& rows);
template bool is_sound(const Rows<Ipv6>& rows);
template void index_ranges(Rows<Ipv4>& rows);
template void index_ranges(Rows<Ipv6>& rows);

}  // namespace weir::control
