#include "control/connect/flowspec_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/log/log.h"
#include "common/wait_for.h"
#include "control/ctl/line/out.h"
#include "control/ctl/text.h"
#include "control/lists/journal/change.h"
#include "control/policy/model/range_text.h"
#include "control/policy/model/time_text.h"
#include "control/policy/read/entry_line.h"
#include "control/sources/flowspec/entries.h"

namespace weir::control::ctl {

namespace {

using flowspec::Family;
using flowspec::Rule;
using flowspec::RuleKey;

constexpr std::chrono::milliseconds kGather{100};  // what comes in a row is one publication
constexpr std::chrono::seconds kLookEvery{60};     // whether the list still has what it should
constexpr unsigned kRetryEvery = 10;               // looks, for rules that the list did not take
constexpr uint64_t kFewRefused = 20;               // rules, which are tried again at every look
constexpr std::chrono::seconds kAfterFailure{5};
constexpr size_t kEntriesOfRequest = 20'000;

// A controld that is busy for longer is asked again: who does not wait on has withdrawn his request.
constexpr int kPatience_ms = 30'000;

const ListDetails* find_list(const std::vector<ListDetails>& lists, const std::string& name) {
  const auto found = std::find_if(lists.begin(), lists.end(), [&](const auto& each) { return each.name == name; });
  return found == lists.end() ? nullptr : &*found;
}

}  // namespace

FlowspecList::FlowspecList(FlowspecSettings settings, std::function<void()> announced)
    : settings_(std::move(settings)),
      on_announced_(std::move(announced)),
      prefix_("flowspec " + settings_.peer + ":"),
      controld_(settings_.socket, kPatience_ms),
      table_(settings_.limits, [this](const Flow& flow) -> Result<std::string> {
        ListDraft list;
        list.match = match_;
        Result<std::string> entry =
            read_entry_line(flow_line(flow), true, list);  // controld knows whether it may be any
        return entry ? entry : Result<std::string>(Error{one_line(entry.error())});
      }) {}

FlowspecList::~FlowspecList() {
  if (thread_.joinable()) stop();
}

Result<void> FlowspecList::find() {
  const Result<ListAnswer> answer = controld_.ask<ListAnswer>({"list"});
  if (!answer) return Error{answer.error()};
  if (settings_.list.empty()) {
    for (const ListDetails& list : answer->lists) {
      if (!list.dynamic) continue;
      if (!settings_.list.empty()) {
        return Error{fmt::format("several lists are dynamic ({}, {})\nhint: --list says which one takes the rules",
                                 settings_.list, list.name)};
      }
      settings_.list = list.name;
    }
    if (settings_.list.empty()) {
      return Error{"no list is dynamic\nhint: write one with `dynamic: true` and `action: drop` into the policy"};
    }
  }
  const ListDetails* list = find_list(answer->lists, settings_.list);
  if (list == nullptr) return Error{"there is no list " + settings_.list};
  if (!list->dynamic) {
    return Error{fmt::format("list {} is not dynamic\nhint: write `dynamic: true` in it, and reload", list->name)};
  }
  if (list->action != "drop") {
    return Error{
        fmt::format("list {} lets pass what it names: rules of FlowSpec drop\nhint: take a list with "
                    "`action: drop`",
                    list->name)};
  }
  match_ = list->match;
  limits_.max_ttl_s = list->dynamic->max_ttl;
  limits_.most_of_batch = kEntriesOfRequest;
  if (settings_.announce.empty()) return {};
  const ListDetails* announced = find_list(answer->lists, settings_.announce);
  if (announced == nullptr) return Error{"there is no list " + settings_.announce};
  if (announced->name == list->name) {
    return Error{
        fmt::format("list {} takes the peer's rules: to announce them would send them back\nhint: announce "
                    "another list",
                    list->name)};
  }
  if (announced->action != "drop" || announced->mode != "enforce") {
    return Error{
        fmt::format("list {} drops nothing: it is not announced\nhint: announce a list with `action: drop` "
                    "and `mode: enforce`",
                    announced->name)};
  }
  announced_match_ = announced->match;
  return {};
}

void FlowspecList::start() {
  set_phase(Phase::ending);
  thread_ = std::thread([this] { run(); });
}

void FlowspecList::stop() {
  if (phase_ != Phase::ending) set_phase(Phase::ending);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

void FlowspecList::set_phase(Phase phase) {
  phase_ = phase;
  change([&](flowspec::RuleTable& table) {
    table.list().set_phase(phase, static_cast<uint64_t>(unix_now()) + settings_.stale_s);
  });
}

std::set<RuleKey> FlowspecList::announced() {
  const std::lock_guard lock(mutex_);
  return announced_;
}

flowspec::RuleTable::Counts FlowspecList::counts() {
  const std::lock_guard lock(mutex_);
  return table_.counts();
}

void FlowspecList::tell_refusals() {
  for (const flowspec::RuleTable::Refusal& refusal : table_.take_refusals()) {
    const std::string reason = one_line(refusal.reason);
    log::warning("flowspec rule refused", {{"rule", refusal.rule}, {"peer", settings_.peer}, {"reason", reason}});
    if (!settings_.tells_json) continue;
    print("{}", write_json(FlowspecRefusal{refusal.rule, reason}).line());
    std::fflush(stdout);
  }
}

// The same error is told once, and that it is over.
void FlowspecList::say_error(std::string& last, const char* what, const std::string& error) const {
  if (error == last) return;
  last = error;
  if (!error.empty()) log::warning(what, {{"peer", settings_.peer}, {"error", one_line(error)}});
}

void FlowspecList::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const Clock::time_point next = settings_.announce.empty() ? next_look_ : std::min(next_look_, next_announced_);
    wait_for(wake_, lock, next - Clock::now(), [&] { return is_changed_ || stopping_; });
    // Until nothing more comes for a moment, or for ten.
    const Clock::time_point end = Clock::now() + 10 * kGather;
    while (is_changed_ && !stopping_ && Clock::now() < end) {
      is_changed_ = false;
      wait_for(wake_, lock, kGather, [&] { return is_changed_ || stopping_; });
    }
    is_changed_ = false;
    const bool is_last = stopping_;
    lock.unlock();
    step();
    lock.lock();
    if (is_last) return;
  }
}

void FlowspecList::step() {
  if (Clock::now() >= next_look_) {
    if (!look()) {
      next_look_ = Clock::now() + kAfterFailure;
      return;
    }
    const std::chrono::seconds max_ttl(limits_.max_ttl_s == 0 ? UINT32_MAX : limits_.max_ttl_s);
    next_look_ = Clock::now() + std::min(kLookEvery, std::max(max_ttl / 4, std::chrono::seconds(1)));
  }
  if (!follow()) next_look_ = Clock::now() + kAfterFailure;
  if (!settings_.announce.empty() && Clock::now() >= next_announced_) {
    read_announced();
    next_announced_ = Clock::now() + std::chrono::seconds(settings_.every_s);
  }
}

// Compares the list with the rules. It is read, unless nothing can have changed. False: it is not known.
bool FlowspecList::look() {
  const auto fail = [this](const std::string& error) {
    say_error(last_error_, "flowspec list not read", error);
    return false;
  };
  const Result<ListAnswer> lists = controld_.ask<ListAnswer>({"list"});
  if (!lists) return fail(lists.error());
  const bool is_read = lists->generation != looked_at_;
  std::vector<EntryDetails> found;
  if (is_read) {
    const Result<void> read = controld_.each_added(settings_.list, [&](const EntryDetails& entry) {
      if (entry.added->comment.starts_with(prefix_)) found.push_back(entry);
    });
    if (!read) return fail(read.error());
    looked_at_ = lists->generation;
  }
  say_error(last_error_, "", "");
  const ListDetails* now = find_list(lists->lists, settings_.list);
  if (now != nullptr && now->dynamic) limits_.max_ttl_s = now->dynamic->max_ttl;
  const std::lock_guard lock(mutex_);
  FollowedList& list = table_.list();
  if (is_read) list.begin_list();
  for (const EntryDetails& entry : found) list.has(entry.entry, entry.expires.value_or(kNever), true);
  list.look(static_cast<uint64_t>(unix_now()), limits_);
  // Many that are not taken ask for many publications.
  if (looks_++ % kRetryEvery == 0 || table_.counts().refused <= kFewRefused) table_.retry();
  return true;
}

std::string FlowspecList::comment_of(const std::string& rule) const {
  std::string comment = prefix_ + " " + (rule.empty() ? "of a session before" : rule);
  if (comment.size() > Change::kMostComment) comment.resize(Change::kMostComment);
  return comment;
}

// False: it is to be tried again.
bool FlowspecList::change_list(FollowedList::Batch batch) {
  using How = DynamicLists::Outcome::How;
  for (FollowedList::Row& row : batch.rows) row.comment = comment_of(row.comment);
  const DynamicLists::Outcome outcome = controld_.change(settings_.list, batch);
  const std::lock_guard lock(mutex_);
  FollowedList& list = table_.list();
  if (outcome.how == How::done) {
    if (batch.is_add && !outcome.answer.ok) {
      say_error(last_error_, "flowspec entries not enforced everywhere", outcome.answer.error);
    }
    list.done(batch);
    if (!batch.is_add) table_.retry();  // a rule that was too much may fit now
    return true;
  }
  const bool is_refused = outcome.how == How::refused;
  const bool goes_on = is_refused && list.refused(batch, outcome.why);
  if (goes_on) {
    tell_refusals();
    if (batch.units > 1 || !batch.claims.empty()) return true;
  } else if (is_refused) {
    table_.retry();  // no rule is the reason
  }
  const char* what = !batch.is_add          ? "flowspec entries not deleted"
                     : batch.claims.empty() ? "flowspec entries not renewed"
                     : is_refused           ? "flowspec rules not taken"
                                            : "controld does not answer";
  say_error(last_error_, what, outcome.why);
  return goes_on;
}

// Makes the list like the rules. False: it is to be tried again.
bool FlowspecList::follow() {
  size_t deleted = 0;
  bool has_changed = false, is_done = true;
  while (is_done) {
    std::optional<FollowedList::Batch> batch;
    {
      const std::lock_guard lock(mutex_);
      batch = table_.list().next(static_cast<uint64_t>(unix_now()));
    }
    if (!batch) break;
    is_done = change_list(*batch);
    has_changed = has_changed || !batch->is_add || !batch->claims.empty();
    if (is_done && !batch->is_add) deleted += batch->rows.size();
  }
  if (has_changed) {
    const flowspec::RuleTable::Counts counts = this->counts();
    log::notice("flowspec entries changed", {{"list", settings_.list},
                                             {"peer", settings_.peer},
                                             {"rules", counts.rules},
                                             {"refused", counts.refused},
                                             {"entries", counts.entries},
                                             {"deleted", deleted}});
  }
  return is_done;
}

void FlowspecList::read_announced() {
  std::vector<std::string> entries;
  Request wanted = {"export"};
  wanted.name = settings_.announce;
  bool is_cut = false;
  while (!is_cut) {
    const Result<ExportAnswer> page = controld_.ask<ExportAnswer>(wanted);
    if (!page) return say_error(last_announce_error_, "flowspec list not read", page.error());
    entries.insert(entries.end(), page->entries.begin(), page->entries.end());
    is_cut = entries.size() > settings_.limits.rules;
    if (page->next.empty()) break;
    wanted.after = page->next;
  }
  if (entries == exported_ && last_announce_error_.empty()) return;
  std::set<RuleKey> keys;
  std::string refused, reason;
  size_t n_refused = 0;
  for (const std::string& text : entries) {
    ListDraft draft;
    draft.match = announced_match_;
    const Result<std::string> line = read_entry_line(text, true, draft);
    const Result<std::vector<Rule>> rules = line ? flowspec::rules_of(draft) : Error{line.error()};
    if (!rules) {
      if (n_refused++ == 0) refused = text, reason = rules.error();
      continue;
    }
    is_cut = is_cut || keys.size() + rules->size() > settings_.limits.rules;
    if (is_cut && keys.size() + rules->size() > settings_.limits.rules) break;
    for (const Rule& rule : *rules) {
      const flowspec::Bytes bytes = flowspec::encode_rule(rule);
      keys.insert({rule.family, std::string(bytes.begin(), bytes.end())});
    }
  }
  if (n_refused != 0) {
    log::warning(
        "flowspec entries not announced",
        {{"list", settings_.announce}, {"entries", n_refused}, {"first", refused}, {"reason", one_line(reason)}});
  }
  if (is_cut) {
    log::warning("flowspec list announced in part",
                 {{"list", settings_.announce}, {"rules", keys.size()}, {"reason", "it needs more than --max-rules"}});
  }
  exported_ = std::move(entries);
  last_announce_error_.clear();
  {
    const std::lock_guard lock(mutex_);
    announced_ = std::move(keys);
  }
  on_announced_();
}

}  // namespace weir::control::ctl
