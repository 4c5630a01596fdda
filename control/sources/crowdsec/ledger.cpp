#include "control/sources/crowdsec/ledger.h"

#include <strings.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/printable.h"

namespace weir::control::crowdsec {
namespace {

// An answer tells how long is left, and is read a moment later: the same end may look so much later or earlier.
constexpr uint64_t kSlack_s = 5;
constexpr size_t kMostReasons = 16;  // of decisions that are skipped
constexpr size_t kMostReason = 32;   // bytes

bool is_same(const std::string& text, const char* other) {
  return strcasecmp(text.c_str(), other) == 0;
}

bool is_local(const std::string& origin) {
  return origin == "crowdsec" || origin.starts_with("cscli");
}

// `captcha`
std::string name_of(const std::string& text) {
  return text.empty() ? "(none)" : shortened(text, kMostReason);
}

// Whether an entry that ends then may stay as it is. wanted is as late as the list lets it, which is before the end of
// the decision where is_cut.
bool is_good(uint64_t expires, uint64_t wanted, bool is_cut, uint64_t now) {
  if (expires > wanted + kSlack_s) return false;
  return is_cut ? expires >= now + (wanted - now) / 2 : expires + kSlack_s >= wanted;
}

}  // namespace

void Ledger::skip(const std::string& what) {
  const bool is_known = skipped_.count(what) != 0 || skipped_.size() < kMostReasons;
  skipped_[is_known ? what : "others"]++;
}

bool Ledger::takes_type(const std::string& type) const {
  return std::any_of(types_.begin(), types_.end(), [&](const std::string& one) { return is_same(type, one.c_str()); });
}

void Ledger::take_added(const Decision& decision, int64_t now_ms) {
  if (!is_same(decision.scope, "ip") && !is_same(decision.scope, "range")) {
    return skip("scope " + name_of(decision.scope));
  }
  if (!takes_type(decision.type)) return skip("type " + name_of(decision.type));
  const std::optional<std::string> entry = entry_of(decision.value);
  if (!entry) return skip("bad value");
  const std::optional<int64_t> left_ms = duration_ms(decision.duration);
  if (!left_ms) return skip("bad duration");
  if (*left_ms <= 0) return;
  std::vector<One>& all = decided_[*entry];
  std::erase_if(all, [&](const One& one) { return one.id == decision.id; });
  const uint64_t until = static_cast<uint64_t>((now_ms + *left_ms + 999) / 1000);
  all.push_back({decision.id, until, is_local(decision.origin), comment_of(decision)});
}

void Ledger::take_all(const Decisions& decisions, int64_t now_ms) {
  decided_.clear();
  skipped_.clear();
  take_news(decisions, now_ms);
}

void Ledger::take_news(const Decisions& decisions, int64_t now_ms) {
  for (const Decision& decision : decisions.added) take_added(decision, now_ms);
  for (const Decision& decision : decisions.deleted) {
    const std::optional<std::string> entry = entry_of(decision.value);
    const auto found = entry ? decided_.find(*entry) : decided_.end();
    if (found == decided_.end()) continue;
    std::erase_if(found->second, [&](const One& one) { return one.id == decision.id; });
    if (found->second.empty()) decided_.erase(found);
  }
}

void Ledger::begin_list() {
  held_.clear();
  others_.clear();
}

void Ledger::has(const std::string& entry, uint64_t expires, const std::string& comment) {
  (comment.starts_with(kCommentBegin) ? held_ : others_)[entry] = expires;
}

Changes Ledger::changes(uint64_t now, const Limits& limits) {
  Changes changes;
  const auto has_ended = [now](const auto& one) { return one.second <= now; };
  std::erase_if(held_, has_ended);
  std::erase_if(others_, has_ended);
  for (auto& [entry, all] : decided_) {
    std::erase_if(all, [now](const One& one) { return one.until <= now; });
  }
  std::erase_if(decided_, [](const auto& one) { return one.second.empty(); });

  const uint64_t most = now + (limits.max_ttl_s == 0 ? static_cast<uint64_t>(kMostMs / 1000) : limits.max_ttl_s);
  std::vector<Addition> of_others;  // decided by lists of others: they come last where room is short
  std::vector<Addition> local, renewed;
  n_elsewhere_ = 0;
  for (const auto& [entry, all] : decided_) {
    if (others_.count(entry) != 0) {
      n_elsewhere_++;
      continue;
    }
    const One& last =
        *std::max_element(all.begin(), all.end(), [](const One& a, const One& b) { return a.until < b.until; });
    const uint64_t wanted = std::min(last.until, most);
    const auto held = held_.find(entry);
    if (held != held_.end() && is_good(held->second, wanted, last.until > most, now)) continue;
    const bool any_local = std::any_of(all.begin(), all.end(), [](const One& one) { return one.is_local; });
    (held != held_.end() ? renewed : any_local ? local : of_others).push_back({entry, wanted, last.comment});
  }
  uint64_t n_stay = others_.size();
  for (const auto& [entry, expires] : held_) {
    const bool is_wanted = decided_.count(entry) != 0;
    if (!is_wanted && expires > now + 1) changes.del.push_back(entry);  // the others end by themselves
    if (is_wanted || expires <= now + 1) n_stay++;
  }
  // In the order of the journal's texts, beside which each finds its place: else 50,000 more in a list of 250,000 took
  // controld 46 s, and not 1.4 s.
  const auto by_text = [](const Addition& a, const Addition& b) { return a.entry < b.entry; };
  for (std::vector<Addition>* additions : {&renewed, &local, &of_others}) {
    std::sort(additions->begin(), additions->end(), by_text);
  }
  std::sort(changes.del.begin(), changes.del.end());
  uint64_t room = limits.max_entries > n_stay ? limits.max_entries - n_stay : 0;
  changes.add = std::move(renewed);
  for (std::vector<Addition>* additions : {&local, &of_others}) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(room, additions->size()));
    changes.add.insert(changes.add.end(), std::make_move_iterator(additions->begin()),
                       std::make_move_iterator(additions->begin() + static_cast<std::ptrdiff_t>(n)));
    room -= n;
    changes.no_room += additions->size() - n;
  }
  return changes;
}

}  // namespace weir::control::crowdsec
