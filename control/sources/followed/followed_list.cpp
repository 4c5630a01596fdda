#include "control/sources/followed/followed_list.h"

#include <algorithm>
#include <unordered_set>

namespace weir::control {
namespace {

// A source tells how long is left, and that is read a moment later: the same end may look so much later or earlier.
constexpr uint64_t kSlack_s = 5;
constexpr size_t kMostBytes = 8 << 20;  // of a batch's texts; a request may have twice as many

}  // namespace

void FollowedList::claim(const std::string& id, Claim claim) {
  if (const auto found = claims_.find(id); found != claims_.end()) {
    Known& known = found->second;
    const auto is_same = [](const Node* node, const std::string& text) { return node->first == text; };
    if (std::equal(known.entries.begin(), known.entries.end(), claim.entries.begin(), claim.entries.end(), is_same)) {
      if (std::exchange(known.is_refused, false)) refused_--;
      known.expires = claim.expires;
      known.comment = std::move(claim.comment);
      known.is_first = claim.is_first;
      for (Node* node : known.entries) settle(*node);
      return;
    }
    release(id);
  }
  const auto made = claims_.try_emplace(id).first;
  Known& known = made->second;
  known = {&made->first, {}, claim.expires, std::move(claim.comment), claim.is_first};
  for (std::string& text : claim.entries) {
    Node& node = *entries_.try_emplace(std::move(text)).first;
    if (std::find(known.entries.begin(), known.entries.end(), &node) != known.entries.end()) continue;
    known.entries.push_back(&node);
    node.second.claims.push_back(&known);
    settle(node);
  }
}

void FollowedList::release(const std::string& id) {
  const auto found = claims_.find(id);
  if (found == claims_.end()) return;
  for (Node* node : found->second.entries) {
    std::erase(node->second.claims, &found->second);
    node->second.is_released = true;
    settle(*node);
  }
  refused_ -= found->second.is_refused ? 1 : 0;
  claims_.erase(found);
}

void FollowedList::release_all() {
  while (!claims_.empty()) release(std::string(claims_.begin()->first));
}

std::vector<std::pair<std::string, FollowedList::Claim>> FollowedList::claims() const {
  std::vector<std::pair<std::string, Claim>> all;
  for (const auto& [id, known] : claims_) {
    Claim& claim = all.emplace_back(id, Claim{{}, known.expires, known.comment, known.is_first}).second;
    for (const Node* node : known.entries) claim.entries.push_back(node->first);
  }
  return all;
}

void FollowedList::set_phase(Phase phase, uint64_t end) {
  phase_ = phase;
  end_ = end;
  settle_all();
}

void FollowedList::retry() {
  refusals_.clear();
  for (const std::string& text : std::exchange(stuck_, {})) {
    const auto found = entries_.find(text);
    if (found == entries_.end()) continue;
    found->second.is_stuck = false;
    settle(*found);
  }
  if (std::exchange(refused_, 0) == 0) return;
  for (auto& [id, known] : claims_) {
    if (!std::exchange(known.is_refused, false)) continue;
    for (Node* node : known.entries) settle(*node);
  }
}

void FollowedList::begin_list() {
  for (auto& [text, entry] : entries_) entry.ends = 0;
}

void FollowedList::has(const std::string& entry, uint64_t expires, bool is_ours) {
  Entry& there = entries_[entry];
  there.ends = expires;
  there.is_ours = is_ours;
}

void FollowedList::look(uint64_t now, const Limits& limits) {
  now_ = now;
  limits_ = limits;
  in_a_row_ = 0;
  settle_all();
  const auto stays = [this](const auto& one) { return is_there(one.second) && one.second.due != Action::del; };
  const auto n_stay = static_cast<uint64_t>(std::count_if(entries_.begin(), entries_.end(), stays));
  room_ = limits_.max_entries > n_stay ? limits_.max_entries - n_stay : 0;
}

// The claim that ends last, of those that are not refused. Null: there is none.
const FollowedList::Known* FollowedList::best_of(const Entry& entry) const {
  const Known* best = nullptr;
  for (const Known* known : entry.claims) {
    if (known->is_refused || known->expires <= now_) continue;
    if (best == nullptr || known->expires > best->expires) best = known;
  }
  return best;
}

// The list keeps an entry until then at most.
uint64_t FollowedList::latest() const {
  return limits_.max_ttl_s == 0 ? kNever : now_ + limits_.max_ttl_s;
}

// An entry with this end needs no renewal: it ends about when its claim does, or as late as the list allows.
bool FollowedList::ends_well(uint64_t ends, uint64_t claimed) const {
  const uint64_t wanted = std::min(claimed, latest());
  if (ends > wanted + kSlack_s) return false;
  return wanted < claimed ? ends >= now_ + (wanted - now_) / 2 : ends + kSlack_s >= wanted;
}

FollowedList::Action FollowedList::action_of(const Entry& entry) const {
  const Known* best = best_of(entry);
  if (!is_there(entry)) {
    if (best == nullptr || phase_ == Phase::ending) return Action::none;
    const auto is_first = [](const Known* known) { return known->is_first; };
    return std::any_of(entry.claims.begin(), entry.claims.end(), is_first) ? Action::add_first : Action::add;
  }
  if (!entry.is_ours || entry.is_stuck) return Action::none;
  if (phase_ == Phase::ending) return entry.ends > end_ + kSlack_s ? Action::renew : Action::none;
  if (best == nullptr) {
    // An entry that is about to end does so by itself.
    const bool is_over = phase_ == Phase::whole || entry.is_released;
    return is_over && entry.ends > now_ + 1 ? Action::del : Action::none;
  }
  return phase_ == Phase::filling || ends_well(entry.ends, best->expires) ? Action::none : Action::renew;
}

// Finds out what is due for an entry that has changed.
void FollowedList::settle(Node& node) {
  Entry& entry = node.second;
  const Action action = action_of(entry);
  if (action != entry.due) {
    if (entry.due != Action::none) due_.erase({entry.due, &node});
    if (action != Action::none) due_.insert({action, &node});
    entry.due = action;
  }
  const bool is_held = is_there(entry) && entry.is_ours;
  if (is_held != std::exchange(entry.is_counted, is_held)) is_held ? ours_++ : ours_--;
  if (entry.claims.empty() && !is_there(entry)) entries_.erase(entries_.find(node.first));
}

void FollowedList::settle_all() {
  for (auto at = entries_.begin(); at != entries_.end();) {
    Node& node = *at++;  // which may be erased
    settle(node);
  }
}

std::optional<FollowedList::Batch> FollowedList::next(uint64_t now) {
  now_ = now;
  Batch batch;
  size_t bytes = 0;
  uint64_t room = room_;
  std::unordered_set<const Node*> taken;
  const auto take = [&](const Node& node, uint64_t expires, const std::string& comment) {
    if (!taken.insert(&node).second) return;
    if (!is_there(node.second)) room--;
    bytes += node.first.size() + comment.size();
    batch.rows.push_back({node.first, expires, comment});
  };
  for (auto at = due_.begin(); at != due_.end();) {
    const Due due = *at++;
    const bool is_add = due.action != Action::del;
    if (!batch.rows.empty() && batch.is_add != is_add) break;
    if (batch.units == most_units_ || batch.rows.size() >= limits_.most_of_batch || bytes >= kMostBytes) break;
    if (taken.count(due.node) != 0) continue;
    const Entry& entry = due.node->second;
    if (action_of(entry) != due.action) {  // time has passed
      settle(*due.node);
      continue;
    }
    batch.is_add = is_add;
    const Known* best = best_of(entry);
    if (due.action == Action::del) {
      take(*due.node, 0, "");
    } else if (due.action == Action::renew) {
      const uint64_t end = phase_ == Phase::ending ? std::max(end_, now_ + 1) : best->expires;
      take(*due.node, std::min(end, latest()), best == nullptr ? "" : best->comment);
    } else {
      std::vector<const Node*> lacking;
      std::copy_if(best->entries.begin(), best->entries.end(), std::back_inserter(lacking),
                   [&](const Node* node) { return !is_there(node->second) && taken.count(node) == 0; });
      if (lacking.size() > room) break;
      for (const Node* node : lacking) take(*node, std::min(best->expires, latest()), best->comment);
      batch.claims.push_back(*best->id);
    }
    batch.units++;
  }
  if (!batch.rows.empty()) return batch;
  in_a_row_ = 0;
  return std::nullopt;
}

void FollowedList::done(const Batch& batch) {
  for (const Row& row : batch.rows) {
    Node& node = *entries_.try_emplace(row.entry).first;  // nobody may claim it any more
    Entry& entry = node.second;
    if (batch.is_add && !is_there(entry) && room_ != 0) room_--;
    entry.ends = batch.is_add ? row.expires : 0;
    entry.is_ours = true;
    entry.is_released = entry.is_released || best_of(entry) == nullptr;
    settle(node);
  }
  most_units_ = most_units_ > SIZE_MAX / 2 ? SIZE_MAX : 2 * most_units_;
  in_a_row_ = 0;
}

bool FollowedList::refused(const Batch& batch, const std::string& reason) {
  if (batch.units > 1) {
    most_units_ = batch.units / 2;
    return true;
  }
  in_a_row_ = reason == last_reason_ ? in_a_row_ + 1 : 1;
  last_reason_ = reason;
  if (in_a_row_ == limits_.gives_up) {
    most_units_ = SIZE_MAX;
    retry();
    return false;
  }
  if (batch.claims.empty()) {  // a deletion or a renewal
    const std::string& text = batch.rows.front().entry;
    refusals_.push_back({"", reason});
    if (const auto stays = entries_.find(text); stays != entries_.end()) {
      stuck_.push_back(text);
      stays->second.is_stuck = true;
      settle(*stays);
    }
    return true;
  }
  const auto found = claims_.find(batch.claims.front());
  if (found == claims_.end()) return true;  // it was released meanwhile
  found->second.is_refused = true;
  refused_++;
  refusals_.push_back({found->first, reason});
  for (Node* node : found->second.entries) {
    node->second.is_released = true;
    settle(*node);
  }
  return true;
}

FollowedList::Counts FollowedList::counts() const {
  Counts counts;
  std::unordered_set<const Known*> lacking;
  uint64_t added = 0;
  for (const auto& [text, entry] : entries_) {
    const bool is_claimed = std::any_of(entry.claims.begin(), entry.claims.end(),
                                        [this](const Known* known) { return known->expires > now_; });
    const bool is_wanted = best_of(entry) != nullptr;
    if (is_claimed) counts.claimed++;
    if (is_there(entry)) {
      if (entry.is_ours && !is_wanted && entry.is_released && !entry.is_stuck) counts.pending++;
      if (!entry.is_ours && is_claimed) counts.elsewhere++;
      continue;
    }
    if (entry.due == Action::add || entry.due == Action::add_first) added++;
    for (const Known* known : entry.claims) {
      if (!known->is_refused && known->expires > now_) lacking.insert(known);
    }
  }
  counts.pending += lacking.size();
  counts.ours = ours_;
  counts.refused = refused();
  counts.no_room = added > room_ ? added - room_ : 0;
  return counts;
}

}  // namespace weir::control
