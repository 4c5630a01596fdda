#include "control/book/columns.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <tuple>

#include "common/digest.h"
#include "control/model/flow_condition.h"

namespace weir::control {
namespace {

void sort_entries(std::vector<Entry<Ipv6>>& entries) {
  if (!std::is_sorted(entries.begin(), entries.end(), comes_before<Ipv6>)) {
    std::sort(entries.begin(), entries.end(), comes_before<Ipv6>);
  }
}

// Feeds of hosts are random in 32 bits: three passes by eleven bits each, least significant first, then whatever has
// the same first address is put in order among itself.
void sort_entries(std::vector<Entry<Ipv4>>& entries) {
  if (std::is_sorted(entries.begin(), entries.end(), comes_before<Ipv4>)) return;
  struct Keyed {
    uint32_t first, index;
  };
  constexpr unsigned kDigitBits = 11;
  constexpr uint32_t kDigits = 1u << kDigitBits;
  std::vector<Keyed> keys(entries.size()), sorted(entries.size());
  for (size_t i = 0; i < keys.size(); i++) keys[i] = {entries[i].first, static_cast<uint32_t>(i)};
  for (unsigned shift = 0; shift < 32; shift += kDigitBits) {
    std::array<size_t, kDigits + 1> begin = {};
    for (const Keyed& key : keys) begin[(key.first >> shift) % kDigits + 1]++;
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (const Keyed& key : keys) sorted[begin[(key.first >> shift) % kDigits]++] = key;
    keys.swap(sorted);
  }
  sorted = {};
  std::vector<Entry<Ipv4>> in_order;
  in_order.reserve(entries.size());
  for (const Keyed& key : keys) in_order.push_back(entries[key.index]);
  for (size_t from = 0, to = 0; from < in_order.size(); from = to) {
    while (to < in_order.size() && in_order[to].first == in_order[from].first) to++;
    if (to - from > 1) {
      std::sort(in_order.begin() + static_cast<ptrdiff_t>(from), in_order.begin() + static_cast<ptrdiff_t>(to),
                comes_before<Ipv4>);
    }
  }
  entries = std::move(in_order);
}

template <class Addr, class T>
Column<T> column_of(const std::vector<Entry<Addr>>& entries, T Entry<Addr>::*member) {
  Column<T> column;
  if (entries.empty()) return column;
  column.all = entries[0].*member;
  const bool same = std::all_of(entries.begin(), entries.end(),
                                [&](const Entry<Addr>& entry) { return entry.*member == column.all; });
  if (same) return column;
  column.all = T{};
  column.each.reserve(entries.size());
  for (const Entry<Addr>& entry : entries) column.each.push_back(entry.*member);
  return column;
}

template <class Addr>
Rows<Addr> pack(std::vector<Entry<Addr>> entries) {
  sort_entries(entries);
  Rows<Addr> rows;
  rows.first.reserve(entries.size());
  for (const Entry<Addr>& entry : entries) rows.first.push_back(entry.first);
  const auto is_single = [](const Entry<Addr>& entry) { return entry.first == entry.last; };
  if (!std::all_of(entries.begin(), entries.end(), is_single)) {
    rows.last.reserve(entries.size());
    for (const Entry<Addr>& entry : entries) rows.last.push_back(entry.last);
  }
  rows.line = column_of(entries, &Entry<Addr>::line);
  rows.port = column_of(entries, &Entry<Addr>::port);
  rows.directions = column_of(entries, &Entry<Addr>::directions);
  rows.source = column_of(entries, &Entry<Addr>::source);
  if (!entries.empty()) rows.expires = column_of(entries, &Entry<Addr>::expires);
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

template <class Addr>
void append_source(uint8_t source, const Rows<Addr>& rows, std::vector<Entry<Addr>>& entries) {
  if (rows.source.each.empty() && rows.source.all != source) return;
  for (const Entry<Addr> entry : rows) {
    if (entry.source == source) entries.push_back(entry);
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
  append_source(0, rows, known);
  sort_entries(own);
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
  constexpr unsigned kBoth = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
  return entry.first <= entry.last && entry.directions != 0 && (entry.directions & ~kBoth) == 0;
}

}  // namespace

std::shared_ptr<const Entries> make_entries(ListDraft draft) {
  auto entries = std::make_shared<Entries>();
  entries->v4 = pack(std::move(draft.v4));
  entries->v6 = pack(std::move(draft.v6));
  entries->flows = std::move(draft.flows);
  entries->digest = digest_of(*entries);
  return entries;
}

ListDraft draft_of(const Entries& entries) {
  ListDraft draft;
  draft.v4 = in_order_of_writing(entries.v4);
  draft.v6 = in_order_of_writing(entries.v6);
  draft.flows = entries.flows;
  return draft;
}

std::shared_ptr<const Entries> replace_own(std::shared_ptr<const Entries> before, ListDraft own) {
  if (has_own(before->v4, own.v4) && has_own(before->v6, own.v6) && flows_of_policy(before->flows) == own.flows) {
    return before;
  }
  append_source(1, before->v4, own.v4);
  append_source(1, before->v6, own.v6);
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
