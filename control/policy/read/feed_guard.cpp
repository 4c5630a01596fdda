#include "control/policy/read/feed_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <tuple>

#include "control/policy/model/networks.h"
#include "control/policy/model/range_text.h"
#include "control/policy/model/ranges.h"
#include "control/policy/read/no_entries.h"

namespace weir::control {
namespace {

// Bad lines may be so many more, as a share of all lines that are none: sources change their remarks, not their
// grammar.
constexpr double kMoreBad = 0.2;
constexpr uint64_t kFewBad = 2;   // so many more are only told
constexpr double kMostBad = 0.5;  // of a feed that is new
// Of the addresses that strangers have, so much is a mistake, or somebody's will: then it says allow_any. The widest
// public list that was seen, of P2P networks, has less.
constexpr double kLargeShare = 0.5;
constexpr double kMoreShare = 0.25;     // so much more at once is no list's usual day
constexpr double kStrangeShare = 0.01;  // and so much is said

constexpr Ipv6 high(uint64_t bits) {
  return Ipv6{bits} << 64;
}

template <class Addr>
std::string text_of(const Entry<Addr>& entry) {
  return range_text(entry.first, entry.last, entry.port);
}

// Reserved and own, ascending and apart.
template <class Addr>
std::vector<AddrRange<Addr>> not_of_strangers(const ListDraft& own) {
  std::vector<AddrRange<Addr>> ranges;
  for (const auto& range : reserved_networks<Addr>()) ranges.push_back({range.first, range.last});
  for (const Entry<Addr>& entry : entries_of<Addr>(own)) {
    ranges.push_back({entry.first, entry.last});
  }
  return united(std::move(ranges));
}

struct Touched {
  uint64_t count = 0;
  uint32_t line = 0;  // of the first
  std::string text, block;
};

template <class Addr>
std::string block_of(const Entry<Addr>& entry) {
  for (const auto& range : reserved_networks<Addr>()) {
    if (range.first <= entry.last && entry.first <= range.last) return range.what;
  }
  return "policy.own";
}

template <class Addr>
size_t first_byte(Addr address) {
  return static_cast<size_t>(address >> (8 * sizeof(Addr) - 8));
}

// Which first bytes some ranges lie below: most entries are done with by it.
template <class Addr>
class FirstBytes {
 public:
  void add(Addr first, Addr last) {
    for (size_t byte = first_byte(first); byte <= first_byte(last); byte++) has_.set(byte);
  }
  bool may_hold(const Entry<Addr>& entry) const {
    return first_byte(entry.first) != first_byte(entry.last) || has_[first_byte(entry.first)];
  }

 private:
  std::bitset<256> has_;
};

template <class Addr>
void touch(const ListDraft& own, bool take_out, ListDraft& draft, Touched& touched) {
  const std::vector<AddrRange<Addr>> ranges = not_of_strangers<Addr>(own);
  std::vector<Entry<Addr>>& entries = entries_of<Addr>(draft);
  FirstBytes<Addr> first_bytes;
  for (const AddrRange<Addr>& range : ranges) first_bytes.add(range.first, range.last);
  const auto is_touched = [&](const Entry<Addr>& entry) {
    if (!first_bytes.may_hold(entry)) return false;
    const auto range = first_until(ranges, entry.first);
    return range != ranges.end() && range->first <= entry.last;
  };
  const uint64_t before = touched.count;
  for (const Entry<Addr>& entry : entries) {
    if (!is_touched(entry)) continue;
    touched.count++;
    if (touched.line != 0 && touched.line <= entry.line) continue;
    touched.line = entry.line;
    touched.text = text_of(entry);
    touched.block = block_of(entry);
  }
  if (!take_out || touched.count == before) return;
  std::vector<Entry<Addr>> left;
  for (const Entry<Addr>& entry : entries) cut(ranges, entry, left);
  entries = std::move(left);
}

Complaint complaint_of(const NewFeed& feed, const FeedNote& note) {
  return {feed.path + " " + note.reason, note.hint};
}

// Its host bits were cleared by the reader: a length that is a mistake means a whole network.
std::optional<FeedNote> has_host_bits(const FeedReport& feed) {
  if (feed.host_bits == 0) return std::nullopt;
  std::string reason =
      fmt::format("has host bits in {} {}", feed.host_bits, feed.host_bits == 1 ? "prefix" : "prefixes");
  const auto first = std::find_if(feed.samples.begin(), feed.samples.end(),
                                  [](const LineSample& sample) { return sample.kind == LineSample::host_bits; });
  if (first != feed.samples.end()) {
    constexpr std::string_view kReadAs = "read as ";
    const size_t meant = first->reason.find(kReadAs);
    reason += fmt::format(", the first on line {}: {}", first->line, first->text);
    if (meant != std::string::npos) reason += " is " + first->reason.substr(meant);
  }
  return FeedNote{std::move(reason),
                  "look at the feed: a host needs no length, and a length behind a host means its whole network"};
}

// What `reserved: cut` leaves out is gone afterwards.
std::optional<FeedNote> touches_reserved(const NewFeed& feed) {
  const Reserved wanted = feed.options.guard.reserved;
  if (feed.options.action != WEIR_DROP || wanted == Reserved::keep) return std::nullopt;
  Touched touched;
  touch<Ipv4>(feed.own, wanted == Reserved::cut, feed.draft, touched);
  touch<Ipv6>(feed.own, wanted == Reserved::cut, feed.draft, touched);
  if (touched.count == 0) return std::nullopt;
  FeedNote note = {
      fmt::format("blocks addresses that are reserved, or your own: {} {}, the first on line {}: {} (of {}){}",
                  touched.count, touched.count == 1 ? "entry" : "entries", touched.line, touched.text, touched.block,
                  wanted == Reserved::cut ? "; that part is left out" : ""),
      "`guard: {reserved: cut}` leaves them out, `keep` blocks them without a word, `refuse` refuses the feed"};
  if (wanted == Reserved::cut) feed.draft.feed.entries = feed.draft.entries();
  if (wanted == Reserved::refuse) note.hint = "mend the feed, or write `guard: {reserved: cut}` to leave them out";
  return note;
}

template <class Addr>
const std::vector<Supply<Addr>>& supplies_of(const Supplies& supplies) {
  if constexpr (sizeof(Addr) == sizeof(Ipv4)) {
    return supplies.v4;
  } else {
    return supplies.v6;
  }
}

// The first supply that the entry holds; end: none.
template <class Addr>
auto first_in(const std::vector<Supply<Addr>>& supplies, const Entry<Addr>& entry) {
  const auto found = std::lower_bound(supplies.begin(), supplies.end(), entry.first,
                                      [](const Supply<Addr>& supply, Addr first) { return supply.address < first; });
  return found != supplies.end() && found->address <= entry.last ? found : supplies.end();
}

template <class Addr>
bool is_cut_from(const Supply<Addr>& supply, const Entry<Addr>& entry, OfSupplies wanted) {
  return wanted == OfSupplies::cut && supply.is_cut && entry.first != entry.last;
}

// Adds the entry to those that were found.
template <class Addr>
void find(const Entry<Addr>& entry, const Supply<Addr>& supply, SupplyHit& hit) {
  hit.count++;
  if (hit.line != 0 && hit.line <= entry.line) return;
  hit.line = entry.line;
  const bool is_one = entry.first == entry.last;
  hit.text = is_one ? fmt::format("{} ({})", text_of(entry), supply.what)
                    : fmt::format("{} holds {} ({})", text_of(entry), to_string(supply.address), supply.what);
}

template <class Addr>
void cut_supplies(const Supplies& all, OfSupplies wanted, ListDraft& draft, SupplyHit& cut_hit, SupplyHit& kept_hit) {
  const std::vector<Supply<Addr>>& supplies = supplies_of<Addr>(all);
  std::vector<Entry<Addr>>& entries = entries_of<Addr>(draft);
  const uint64_t before = cut_hit.count;
  FirstBytes<Addr> first_bytes;
  for (const Supply<Addr>& supply : supplies) first_bytes.add(supply.address, supply.address);
  for (const Entry<Addr>& entry : entries) {
    if (!first_bytes.may_hold(entry)) continue;
    const Supply<Addr>*first_cut = nullptr, *first_kept = nullptr;
    for (auto supply = first_in(supplies, entry); supply != supplies.end() && supply->address <= entry.last; ++supply) {
      const Supply<Addr>*& first = is_cut_from(*supply, entry, wanted) ? first_cut : first_kept;
      if (first == nullptr) first = &*supply;
    }
    if (first_cut != nullptr) find(entry, *first_cut, cut_hit);
    if (first_kept != nullptr) find(entry, *first_kept, kept_hit);
  }
  if (cut_hit.count == before) return;
  std::vector<AddrRange<Addr>> ranges;
  for (const Supply<Addr>& supply : supplies) {
    if (supply.is_cut) ranges.push_back({supply.address, supply.address});
  }
  std::vector<Entry<Addr>> left;
  for (const Entry<Addr>& entry : entries) {
    if (entry.first == entry.last) {
      left.push_back(entry);
    } else {
      cut(ranges, entry, left);
    }
  }
  entries = std::move(left);
}

std::string supplies_text(const SupplyHit& hit) {
  return fmt::format("blocks addresses that this host or weir needs: {} {}, the first on line {}: {}", hit.count,
                     hit.count == 1 ? "entry" : "entries", hit.line, hit.text);
}

template <class Addr>
const Entry<Addr>* wider_than(const std::vector<Entry<Addr>>& entries, unsigned prefix_bits) {
  if (prefix_bits == 0) return nullptr;
  const Addr most = static_cast<Addr>(~prefix_mask<Addr>(prefix_bits));  // addresses of such a prefix, less one
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry<Addr>& entry) { return entry.last - entry.first > most; });
  return found == entries.end() ? nullptr : &*found;
}

template <class Addr>
std::optional<Complaint> too_wide(const NewFeed& feed, unsigned widest, const char* key) {
  const Entry<Addr>* entry = wider_than(entries_of<Addr>(feed.draft), widest);
  if (entry == nullptr) return std::nullopt;
  return Complaint{fmt::format("{} holds {} on line {}, which is wider than a /{} (guard: {})", feed.path,
                               text_of(*entry), entry->line, widest, key),
                   "mend the feed, or raise the limit in the list's `guard`"};
}

// Of one family: what addresses are given out of, and the entries that matter: smaller ones would have to be millions.
template <class Addr>
struct Space {
  const char* name;
  Addr first, last;
  Addr smallest;  // range that counts: last - first
};
constexpr Space<Ipv4> kSpace4 = {"IPv4", 0, ~Ipv4{0}, 0xff};
constexpr Space<Ipv6> kSpace6 = {"IPv6", high(0x2000'0000'0000'0000), high(0x3fff'ffff'ffff'ffff) | ~uint64_t{0},
                                 high(0xffff)};

template <class Addr>
double addresses_in(const std::vector<AddrRange<Addr>>& ranges) {
  double sum = 0;
  for (const AddrRange<Addr>& range : ranges) sum += static_cast<double>(range.last - range.first) + 1;
  return sum;
}

// The share of the space, without what is reserved, that these entries of a feed hold together, without a port.
template <class Addr, class Entries>
double share_of(const Entries& entries, const Space<Addr>& space) {
  std::vector<AddrRange<Addr>> held, reserved;
  for (const Entry<Addr> entry : entries) {
    if (entry.source != 1 || entry.port != 0 || entry.last - entry.first < space.smallest) continue;
    if (entry.first <= space.last && entry.last >= space.first) {
      held.push_back({std::max(entry.first, space.first), std::min(entry.last, space.last)});
    }
  }
  for (const auto& range : reserved_networks<Addr>()) {
    if (range.first >= space.first && range.last <= space.last) reserved.push_back({range.first, range.last});
  }
  const double all = static_cast<double>(space.last - space.first) + 1 - addresses_in(reserved);
  const double beside = addresses_in(reserved);
  held.insert(held.end(), reserved.begin(), reserved.end());
  return (addresses_in(united(std::move(held))) - beside) / all;
}

template <class Addr>
const Entry<Addr>* widest_of(const std::vector<Entry<Addr>>& entries) {
  const auto size = [](const Entry<Addr>& entry) { return entry.port != 0 ? 0 : entry.last - entry.first; };
  const auto found =
      std::max_element(entries.begin(), entries.end(), [&](const auto& a, const auto& b) { return size(a) < size(b); });
  return found == entries.end() ? nullptr : &*found;
}

template <class Addr>
void judge_share(const NewFeed& feed, const Rows<Addr>* before, const Space<Addr>& space, Judgement& judgement) {
  const std::vector<Entry<Addr>>& entries = entries_of<Addr>(feed.draft);
  const double share = share_of(entries, space);
  if (share < kStrangeShare) return;  // whatever it was
  const double was = before == nullptr ? share : share_of(*before, space);
  const bool is_more = share - was >= kStrangeShare;
  const Entry<Addr>* widest = widest_of(entries);
  const std::string beside_last = is_more ? fmt::format(", and covered {:.3g} %", was * 100) : "";
  const FeedNote note = {fmt::format("covers {:.3g} % of all {} addresses{}; its widest entry is on line {}: {}",
                                     share * 100, space.name, beside_last, widest->line, text_of(*widest)),
                         "mend the feed, or write `allow_any: true` in the list if that is what you want"};
  if (!judgement.refused && (share >= kLargeShare || share - was >= kMoreShare)) {
    judgement.refused = complaint_of(feed, note);
  }
  judgement.notes.push_back(note);
}

void judge_share(const NewFeed& feed, Judgement& judgement) {
  if (feed.options.allow_any) return;
  const Entries* before = feed.before == nullptr ? nullptr : feed.before->as_written().get();
  judge_share<Ipv4>(feed, before == nullptr ? nullptr : &before->v4, kSpace4, judgement);
  judge_share<Ipv6>(feed, before == nullptr ? nullptr : &before->v6, kSpace6, judgement);
}

double bad_share(const FeedReport& feed) {
  const uint64_t lines = feed.bad + feed.entries;
  return lines == 0 ? 0 : static_cast<double>(feed.bad) / static_cast<double>(lines);
}

std::string first_bad_line(const FeedReport& feed) {
  const auto found = std::find_if(feed.samples.begin(), feed.samples.end(),
                                  [](const LineSample& sample) { return sample.kind == LineSample::bad; });
  return found == feed.samples.end() ? "" : "; the first on " + sample_text(*found);
}

void judge_bad_lines(const NewFeed& feed, Judgement& judgement) {
  const FeedReport& now = feed.draft.feed;
  const FeedReport was = feed.before == nullptr ? FeedReport{} : feed.before->feed;
  const bool is_mostly_bad = bad_share(now) > kMostBad, is_worse = feed.before != nullptr && now.bad > was.bad;
  if (!is_mostly_bad && !is_worse) return;
  const std::string beside_last = is_worse ? fmt::format(", and had {} beside {}", was.bad, was.entries) : "";
  const FeedNote note = {
      fmt::format("has {} bad lines beside {} entries{}{}", now.bad, now.entries, beside_last, first_bad_line(now)),
      "look at the file: is it still a list of addresses?"};
  if (!judgement.refused && is_worse && now.bad > was.bad + kFewBad && bad_share(now) > bad_share(was) + kMoreBad) {
    judgement.refused = complaint_of(feed, note);
  }
  if (is_mostly_bad) {
    judgement.notes.push_back(note);
  } else {
    judgement.warnings.push_back(complaint_of(feed, note));
  }
}

std::optional<Complaint> too_few(const NewFeed& feed) {
  const FeedReport& now = feed.draft.feed;
  const Guard& guard = feed.options.guard;
  if (now.entries >= guard.min_entries) return std::nullopt;
  if (now.entries == 0) return complaint_of(feed, feed.size_bytes == 0 ? is_empty() : no_entries(now));
  return Complaint{
      fmt::format("{} holds {} entries, fewer than {} (guard: min_entries)", feed.path, now.entries, guard.min_entries),
      "look at the file, or lower the limit in the list's `guard`"};
}

// Beside the last good content; cut content beside cut content. whole: entries before a cut.
void judge_size(const NewFeed& feed, uint64_t whole, Judgement& judgement) {
  const bool was_cut = feed.before->feed_state.options.guard.reserved == Reserved::cut;
  const uint64_t now = was_cut ? feed.draft.feed.entries : whole, was = feed.before->feed.entries;
  const Guard& guard = feed.options.guard;
  const auto count = static_cast<double>(now), before = static_cast<double>(was);
  if (now < was) {
    Complaint complaint = {fmt::format("{} shrank from {} entries to {}, by {:.3g} %: at most {:.3g} % may go at once "
                                       "(guard: max_shrink)",
                                       feed.path, was, now, (before - count) / before * 100, guard.max_shrink * 100),
                           "look at the file: is it whole?"};
    if (count < before * (1 - guard.max_shrink)) {
      judgement.refused = std::move(complaint);
    } else if (count < before * (1 - guard.max_shrink / 2)) {
      judgement.warnings.push_back(std::move(complaint));
    }
  } else if (was > 0) {
    Complaint complaint = {fmt::format("{} grew from {} entries to {}, {:.3g} times: at most {:.3g} times is taken at "
                                       "once (guard: max_growth)",
                                       feed.path, was, now, count / before, guard.max_growth),
                           "look at the file: is it still the same list?"};
    if (count > before * guard.max_growth) {
      judgement.refused = std::move(complaint);
    } else if (count > before * guard.max_growth / 2) {
      judgement.warnings.push_back(std::move(complaint));
    }
  }
}

// A file that never ended its last line says nothing by that, unless it is shorter now.
void judge_end(const NewFeed& feed, Judgement& judgement) {
  if (feed.ends_in_newline) return;
  Complaint complaint = {fmt::format("{} ends inside of line {}: that line, and what was to follow, may be cut off",
                                     feed.path, feed.draft.feed.lines),
                         "get the file again; end its last line when it is whole"};
  const FeedState& before = feed.before->feed_state;
  if (before.ends_in_newline || feed.size_bytes < before.file.size_bytes) {
    judgement.refused = std::move(complaint);
  } else {
    judgement.warnings.push_back(std::move(complaint));
  }
}

// One walk: rows ascend by these.
template <class Addr>
uint64_t count_gone(const Rows<Addr>& before, const Rows<Addr>& after) {
  const auto key = [](const Rows<Addr>& rows, size_t row) {
    return std::make_tuple(rows.first[row], rows.last_of(row), rows.port[row]);
  };
  uint64_t gone = 0;
  size_t a = 0;
  for (size_t b = 0; b < before.size(); b++) {
    if (before.source[b] != 1) continue;
    const Addr first = before.first[b];
    while (a < after.size() && (after.first[a] < first || (after.first[a] == first && key(after, a) < key(before, b))))
      a++;
    gone += a == after.size() || after.first[a] != first || key(after, a) != key(before, b) ? 1 : 0;
  }
  return gone;
}

}  // namespace

Judgement judge(const NewFeed& feed) {
  Judgement judgement;
  const auto is_refused = [&](std::optional<Complaint> complaint) {
    if (complaint && !judgement.refused) judgement.refused = std::move(complaint);
    return judgement.refused.has_value();
  };
  const Guard& guard = feed.options.guard;
  is_refused(too_few(feed));
  is_refused(too_wide<Ipv4>(feed, guard.widest_v4, "widest_v4"));
  is_refused(too_wide<Ipv6>(feed, guard.widest_v6, "widest_v6"));
  const uint64_t whole = feed.draft.feed.entries;
  const std::optional<FeedNote> reserved = touches_reserved(feed);
  is_refused(too_few(feed));  // after a cut
  if (const auto host_bits = has_host_bits(feed.draft.feed)) judgement.notes.push_back(*host_bits);
  judge_share(feed, judgement);
  judge_bad_lines(feed, judgement);
  if (!judgement.refused && feed.before != nullptr) judge_size(feed, whole, judgement);
  if (!judgement.refused && feed.before != nullptr) judge_end(feed, judgement);
  if (reserved && guard.reserved == Reserved::refuse) is_refused(complaint_of(feed, *reserved));
  if (reserved) judgement.notes.push_back(*reserved);
  return judgement;
}

std::vector<FeedNote> cut_supplies(const Supplies& supplies, OfSupplies wanted, ListDraft& draft) {
  SupplyHit cut, kept;
  cut_supplies<Ipv4>(supplies, wanted, draft, cut, kept);
  cut_supplies<Ipv6>(supplies, wanted, draft, cut, kept);
  std::vector<FeedNote> notes;
  if (cut.count != 0) {
    notes.push_back({supplies_text(cut) + "; these addresses are cut out",
                     "`guard: {supplies: keep}` blocks them, too, with a warning"});
  }
  if (kept.count != 0) {
    notes.push_back({supplies_text(kept) + "; they stay blocked",
                     "mend the feed, or put the addresses into `policy: {own: [...]}`"});
  }
  return notes;
}

SupplyHit find_supplies(const Supplies& supplies, const ListDraft& draft) {
  SupplyHit hit;
  const auto look = [&](const auto& entries, const auto& some) {
    for (const auto& entry : entries) {
      const auto supply = first_in(some, entry);
      if (supply != some.end()) find(entry, *supply, hit);
    }
  };
  look(draft.v4, supplies.v4);
  look(draft.v6, supplies.v6);
  return hit;
}

uint64_t count_gone(const Entries& before, const Entries& after) {
  return count_gone(before.v4, after.v4) + count_gone(before.v6, after.v6);
}

uint64_t least_bytes(const ListDraft& draft) {
  uint64_t bytes = draft.v6.size() * kLeastHostBytes;
  for (const Entry<Ipv4>& entry : draft.v4) {
    bytes += entry.port == 0 && entry.last - entry.first >= 0xff ? kLeastNetworkBytes : kLeastHostBytes;
  }
  return bytes;
}

}  // namespace weir::control
