#include "control/ctl/flowspec_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include "common/log/log.h"
#include "common/wait_for.h"
#include "control/ctl/line/out.h"
#include "control/ctl/text.h"
#include "control/lists/journal/change.h"
#include "control/policy/model/range_text.h"
#include "control/policy/model/time_text.h"
#include "control/policy/read/entry_line.h"
#include "control/sources/flowspec/entries.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/list.h"

namespace weir::control::ctl {

namespace {

using flowspec::Family;
using flowspec::Rule;
using flowspec::RuleKey;

constexpr std::chrono::milliseconds kGather{100};  // what comes in a row is one publication
constexpr std::chrono::seconds kLookEvery{60};     // whether the list still has what it should
constexpr unsigned kRetryEvery = 10;               // looks, for rules that the list did not take
constexpr std::chrono::seconds kAfterFailure{5};
constexpr size_t kEntriesOfRequest = 20'000;
constexpr unsigned kGivesUp = 20;  // rules that are refused in a row, all for the same reason: it is not for them

// A controld that is busy for longer is asked again: who does not wait on has withdrawn his request.
constexpr int kPatience_ms = 30'000;

Result<Document> call(const std::string& socket, const Request& request) {
  Patience patience;
  patience.is_quiet = true;
  patience.most_ms = kPatience_ms;
  return call_controld(socket, request, patience);
}

// An answer without `error`. Error: that, or that nobody answers.
template <class Answer>
Result<Answer> ask_for(const std::string& socket, const Request& request) {
  const Result<Document> document = call(socket, request);
  if (!document) return Error{document.error()};
  if (const std::optional<std::string> error = document->text("error"); error && !document->contains("ok")) {
    return Error{*error};
  }
  return read_json<Answer>(*document);
}

const ListDetails* find_list(const std::vector<ListDetails>& lists, const std::string& name) {
  const auto found = std::find_if(lists.begin(), lists.end(), [&](const auto& each) { return each.name == name; });
  return found == lists.end() ? nullptr : &*found;
}

// Parts of at most kEntriesOfRequest entries, each of whole rules.
template <class F>
bool each_part(std::span<const flowspec::RuleTable::Wanted> rules, F f) {
  while (!rules.empty()) {
    size_t n = 0, entries = 0;
    while (n < rules.size() && (n == 0 || entries + rules[n].entries.size() <= kEntriesOfRequest)) {
      entries += rules[n++].entries.size();
    }
    if (!f(rules.first(n))) return false;
    rules = rules.subspan(n);
  }
  return true;
}

}  // namespace

void members(Fields& f, FlowspecStatus& status) {
  f({"peer", "", "its address"}, status.peer);
  f({"state", "", "connecting, waiting (for the peer to connect), or established"}, status.state);
  f({"list", "", "that takes its rules"}, status.list);
  f({"rules", "", "that the peer announces, the refused ones included"}, status.counts.rules);
  f({"refused", "", "of these, that have no entries"}, status.counts.refused);
  f({"entries", "", "that the list holds for them"}, status.counts.entries);
  f({"pending", "", "rules that the list lacks still, and entries that are to go from it"}, status.counts.pending);
  f({"announced", "", "rules that are announced to the peer"}, status.announced);
}

void members(Fields& f, FlowspecRefusal& refusal) {
  f({"refused", "", "the rule"}, refusal.refused);
  f({"reason", "", "why it has no entries"}, refusal.reason);
}

FlowspecList::FlowspecList(FlowspecSettings settings, std::function<void()> announced)
    : settings_(std::move(settings)),
      on_announced_(std::move(announced)),
      prefix_("flowspec " + settings_.peer + ":"),
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
  const Result<Document> document = call(settings_.socket, {"list"});
  if (!document) return Error{document.error()};
  is_reached_ = true;
  if (const std::optional<std::string> error = document->text("error")) return Error{*error};
  const Result<ListAnswer> answer = read_json<ListAnswer>(*document);
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
  max_ttl_s_ = list->dynamic->max_ttl;
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
  thread_ = std::thread([this] { run(); });
}

void FlowspecList::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    phase_ = Phase::down;
    wake_.notify_one();
  }
  thread_.join();
}

void FlowspecList::set_phase(Phase phase) {
  change([&](flowspec::RuleTable&) { phase_ = phase; });
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
    const std::chrono::seconds max_ttl(max_ttl_s_ == 0 ? UINT32_MAX : max_ttl_s_);
    next_look_ = Clock::now() + std::min(kLookEvery, std::max(max_ttl / 4, std::chrono::seconds(1)));
  }
  if (!push()) next_look_ = Clock::now() + kAfterFailure;
  Phase phase = Phase::down;
  {
    const std::lock_guard lock(mutex_);
    phase = phase_;
  }
  const Stay stay = phase == Phase::up ? Stay::forever : Stay::stale;
  if (phase == Phase::filling) stay_.reset();
  if (phase != Phase::filling && stay_ != stay) {
    if (keep(stay)) {
      stay_ = stay;
    } else {
      next_look_ = Clock::now() + kAfterFailure;
    }
  }
  if (!settings_.announce.empty() && Clock::now() >= next_announced_) {
    read_announced();
    next_announced_ = Clock::now() + std::chrono::seconds(settings_.every_s);
  }
}

// What the list has of this peer, page by page; unless nothing can have changed. False: it is not known.
bool FlowspecList::look() {
  const Result<ListAnswer> lists = ask_for<ListAnswer>(settings_.socket, {"list"});
  if (!lists) return say_error(last_error_, "flowspec list not read", lists.error()), false;
  if (lists->generation != looked_at_ || first_end_ != kNever) {
    std::vector<std::string> found;
    uint32_t first_end = kNever;
    Request wanted = {"entries"};
    wanted.name = settings_.list;
    while (true) {
      const Result<EntriesAnswer> page = ask_for<EntriesAnswer>(settings_.socket, wanted);
      if (!page) return say_error(last_error_, "flowspec list not read", page.error()), false;
      for (const EntryDetails& entry : page->entries) {
        if (!entry.added || !entry.added->comment.starts_with(prefix_)) continue;
        found.push_back(entry.entry);
        first_end = std::min(first_end, entry.expires.value_or(kNever));
      }
      if (page->next.empty()) break;
      wanted.after = page->next;
    }
    looked_at_ = lists->generation;
    first_end_ = first_end;
    const std::lock_guard lock(mutex_);
    table_.is_found(std::move(found));
  }
  say_error(last_error_, "", "");
  const std::lock_guard lock(mutex_);
  // Many that are not taken ask for many publications.
  if (looks_++ % kRetryEvery == 0 || table_.counts().refused <= kGivesUp) table_.retry();
  // Some end by themselves, as a list with max_ttl has it: they stay as long as they are announced.
  if (first_end_ != kNever && phase_ == Phase::up) stay_.reset();
  return true;
}

std::string FlowspecList::comment_of(const std::string& rule) const {
  std::string comment = prefix_ + " " + rule;
  if (comment.size() > Change::kMostComment) comment.resize(Change::kMostComment);
  return comment;
}

// All of them, or none.
FlowspecList::Added FlowspecList::add(std::span<const Wanted> rules, Stay stay) {
  Request wanted = {"add"};
  wanted.name = settings_.list;
  if (stay == Stay::stale) {
    wanted.ttl =
        max_ttl_s_ == 0 ? settings_.stale_s : static_cast<uint32_t>(std::min<uint64_t>(max_ttl_s_, settings_.stale_s));
  }
  std::unordered_set<std::string_view> known;
  for (const Wanted& rule : rules) {
    for (const std::string& entry : rule.entries) {
      if (!known.insert(entry).second) continue;
      wanted.entries.push_back(entry);
      wanted.comments.push_back(comment_of(rule.text));
    }
  }
  const Result<Document> document = call(settings_.socket, wanted);
  if (!document) return {Added::How::away, document.error()};
  const Result<ChangeAnswer> answer = read_json<ChangeAnswer>(*document);
  if (!answer) return {Added::How::refused, document->text("error").value_or(answer.error())};
  if (!answer->ok) say_error(last_error_, "flowspec entries not enforced everywhere", answer->error);
  return {Added::How::done, ""};
}

// Halves of what is not taken, until each rule is taken or refused. False: controld takes nothing at all.
bool FlowspecList::add_or_refuse(std::span<const Wanted> rules) {
  unsigned in_a_row = 0;
  std::string reason;
  std::vector<std::span<const Wanted>> parts = {rules};
  while (!parts.empty()) {
    const std::span<const Wanted> part = parts.back();
    parts.pop_back();
    const Added added = add(part, Stay::forever);
    if (added.how == Added::How::away) return say_error(last_error_, "controld does not answer", added.why), false;
    const std::lock_guard lock(mutex_);
    if (added.how == Added::How::done) {
      in_a_row = 0;
      for (const Wanted& rule : part) table_.is_added(rule);
    } else if (part.size() > 1) {
      parts.push_back(part.subspan(part.size() / 2));
      parts.push_back(part.first(part.size() / 2));
    } else {
      in_a_row = reason == added.why ? in_a_row + 1 : 1;
      reason = added.why;
      if (in_a_row == kGivesUp || stopping_) {
        say_error(last_error_, "flowspec rules not taken", reason);
        table_.retry();  // it is not for them
        return false;
      }
      table_.refuse(part[0], reason);
      tell_refusals();
    }
  }
  return true;
}

// Takes out what is too much, then adds what is missing. False: it is to be tried again.
bool FlowspecList::push() {
  std::vector<std::string> surplus;
  std::vector<Wanted> missing;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::down) return true;
    surplus = table_.surplus();
    if (phase_ == Phase::up) {
      const std::vector<std::string> unclaimed = table_.unclaimed();
      surplus.insert(surplus.end(), unclaimed.begin(), unclaimed.end());
    }
    missing = table_.missing();
  }
  size_t deleted = 0;
  for (std::span<const std::string> left = surplus; !left.empty();) {
    const std::span<const std::string> part = left.first(std::min(left.size(), kEntriesOfRequest));
    left = left.subspan(part.size());
    Request wanted = {"del"};
    wanted.name = settings_.list;
    wanted.entries.assign(part.begin(), part.end());
    const Result<ChangeAnswer> answer = ask_for<ChangeAnswer>(settings_.socket, wanted);
    if (!answer) {
      say_error(last_error_, "flowspec entries not deleted", answer.error());
      return false;
    }
    deleted += part.size();
    const std::lock_guard lock(mutex_);
    table_.is_deleted(wanted.entries);
  }
  if (deleted != 0) {
    // A rule that was too much may fit now.
    const std::lock_guard lock(mutex_);
    table_.retry();
    missing = table_.missing();
  }
  const bool is_done = each_part(missing, [&](std::span<const Wanted> part) { return add_or_refuse(part); });
  if (deleted != 0 || !missing.empty()) {
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

// Gives all that the list holds of this peer another end.
bool FlowspecList::keep(Stay stay) {
  std::vector<Wanted> held;
  {
    const std::lock_guard lock(mutex_);
    held = table_.held();
    for (const std::vector<std::string>& others : {table_.surplus(), table_.unclaimed()}) {
      if (stay == Stay::stale && !others.empty()) held.push_back({{}, "of a session before", others});
    }
  }
  return each_part(held, [&](std::span<const Wanted> part) {
    const Added kept = add(part, stay);
    if (kept.how != Added::How::done) say_error(last_error_, "flowspec entries not renewed", kept.why);
    return kept.how == Added::How::done;
  });
}

void FlowspecList::read_announced() {
  std::vector<std::string> entries;
  Request wanted = {"export"};
  wanted.name = settings_.announce;
  bool is_cut = false;
  while (!is_cut) {
    const Result<ExportAnswer> page = ask_for<ExportAnswer>(settings_.socket, wanted);
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
