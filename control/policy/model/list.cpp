#include "control/policy/model/list.h"

#include <tuple>

#include "control/policy/model/edit.h"
#include "control/policy/model/range_text.h"
#include "control/policy/model/ranges.h"
#include "control/policy/model/search.h"

namespace weir::control {
namespace {

template <class Addr>
std::vector<AddrRange<Addr>> ranges_of(const Rows<Addr>& own) {
  std::vector<AddrRange<Addr>> ranges;
  for (const Entry<Addr> entry : own) ranges.push_back({entry.first, entry.last});
  return united(std::move(ranges));
}

// The rows that hold an address of the ranges, ascending.
template <class Addr>
std::vector<size_t> rows_that_hold(const Rows<Addr>& rows, const std::vector<AddrRange<Addr>>& ranges) {
  std::vector<size_t> found;
  const auto add = [&](size_t row) {
    if ((rows.directions[row] & kNamesSide) == 0) found.push_back(row);
  };
  for (const AddrRange<Addr>& range : ranges) {
    visit_rows(rows, range.first, add);
    const auto begin = std::upper_bound(rows.first.begin(), rows.first.end(), range.first);
    const auto end = std::upper_bound(begin, rows.first.end(), range.last);
    for (auto first = begin; first != end; ++first) add(static_cast<size_t>(first - rows.first.begin()));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Each part that is left of an entry keeps the entry's comment.
template <class Addr>
void keep_comment(const std::vector<EntryComment>& comments, const Entry<Addr>& entry, size_t n_before,
                  ListDraft& added) {
  if (comments.empty() || entry.source != 0) return;
  const std::string shown = shown_text(entry);
  const std::vector<Entry<Addr>>& left = entries_of<Addr>(added);
  for (const EntryComment& comment : comments) {
    if (comment.line != entry.line || comment.entry != shown) continue;
    for (size_t i = n_before; i < left.size(); i++) {
      added.comments.push_back({entry.line, shown_text(left[i]), comment.text});
    }
  }
}

template <class Addr>
void cut_own(const Entries& written, const Entries& own, EntriesEdit& edit, OwnCut& all) {
  const Rows<Addr>& rows = rows_of<Addr>(written);
  const std::vector<AddrRange<Addr>> ranges = ranges_of(rows_of<Addr>(own));
  std::vector<Entry<Addr>>& left = entries_of<Addr>(edit.added);
  for (const size_t row : rows_that_hold(rows, ranges)) {
    const Entry<Addr> entry = rows[row];
    const size_t n_before = left.size();
    cut(ranges, entry, left);
    keep_comment(written.comments, entry, n_before, edit.added);
    entries_of<Addr>(edit.removed).push_back(entry);
    if (all.entries++ == 0 || std::tie(entry.source, entry.line) < std::tie(all.source, all.line)) {
      all.source = entry.source;
      all.line = entry.line;
      all.first = shown_text(entry);
    }
  }
}

}  // namespace

void List::hold(std::shared_ptr<const Entries> entries) {
  cut = {};
  EntriesEdit edit;
  if (own != nullptr) {
    cut_own<Ipv4>(*entries, *own->entries, edit, cut);
    cut_own<Ipv6>(*entries, *own->entries, edit, cut);
  }
  written = cut.entries == 0 ? nullptr : entries;
  content = edited(std::move(entries), std::move(edit));
}

}  // namespace weir::control
