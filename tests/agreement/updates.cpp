#include "tests/agreement/updates.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "control/lists/book/difference.h"
#include "control/policy/feeds/reading.h"
#include "control/policy/model/columns.h"
#include "tests/agreement/aimed_frames.h"
#include "tests/agreement/publisher.h"

namespace weir::agreement {

using control::Entry;
using control::ListDraft;
using control::Policy;

namespace {

using Version = std::shared_ptr<const control::Entries>;
using Part = control::Difference::Part;

constexpr unsigned kAimsAtChanged = 4;  // frames at an entry that has just changed
constexpr unsigned kAimsAtList = 4000;
constexpr size_t kAtOnce = 256;

Result<Version> read_version(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{path + " cannot be read"};
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  control::feeds::Options options;
  options.directions = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
  control::feeds::Reading reading(&control::feeds::plain_format(), options);
  ListDraft draft;
  for (size_t at = 0; at < bytes.size(); at += control::feeds::kMostTextBytes) {
    std::string_view part = std::string_view(bytes).substr(at, control::feeds::kMostTextBytes);
    while (reading.read(part, false, draft)) part = {};
  }
  while (reading.read({}, true, draft)) continue;
  if (draft.fault || draft.entries() == 0) return Error{path + " is no feed"};
  return control::make_entries(std::move(draft));
}

// Both ends of what the step from version to version changes.
Part changed_between(const control::Entries& before, const control::Entries& after) {
  control::Difference all = control::difference(before, after);
  Part part = std::move(all.added);
  part.v4.insert(part.v4.end(), all.removed.v4.begin(), all.removed.v4.end());
  part.v6.insert(part.v6.end(), all.removed.v6.begin(), all.removed.v6.end());
  return part;
}

template <class Addr>
Entry<Addr> made_of(Entry<Addr> entry, uint8_t directions) {
  entry.directions = directions;
  entry.source = 0;
  return entry;
}

// The first quarter of a network, if it has as much.
template <class Addr>
Entry<Addr> quarter_of(Entry<Addr> entry) {
  const auto size = static_cast<Addr>(entry.last - entry.first + 1);
  if (size >= 4) entry.last = static_cast<Addr>(entry.first + size / 4 - 1);
  return entry;
}

// Twice as much as a network.
template <class Addr>
Entry<Addr> double_of(Entry<Addr> entry) {
  const auto size = static_cast<Addr>(entry.last - entry.first + 1);
  entry.first = static_cast<Addr>(entry.first & ~size);
  entry.last = static_cast<Addr>(entry.last | size);
  return entry;
}

// Lists that share addresses with the one that changes, so that it matters who is credited: entries of all versions,
// one in so many, and more of those that change.
class Others {
 public:
  template <class Addr>
  void add(const Entry<Addr>& entry, bool is_changed) {
    const uint64_t n = number_++;
    const auto is_one_in = [&](unsigned all, unsigned of_changed) { return n % (is_changed ? of_changed : all) == 0; };
    if (is_one_in(41, 3)) put(passed, quarter_of(made_of(entry, WEIR_AS_SOURCE)));
    if (is_one_in(29, 4)) put(watched, double_of(made_of(entry, WEIR_AS_SOURCE | WEIR_AS_DESTINATION)));
    if (is_one_in(31, 5)) put(dropped, made_of(entry, WEIR_AS_SOURCE));
  }

  ListDraft passed, watched, dropped;

 private:
  static void put(ListDraft& list, const Entry<Ipv4>& entry) { list.v4.push_back(entry); }
  static void put(ListDraft& list, const Entry<Ipv6>& entry) { list.v6.push_back(entry); }
  uint64_t number_ = 0;
};

control::List list_of(const char* name, weir_action action, weir_mode mode, Version content) {
  control::List list;
  list.name = name;
  list.action = action;
  list.mode = mode;
  list.content = std::move(content);
  return list;
}

// The list that changes is the last one: what another list holds as well, that one is credited with.
Policy policy_of(const std::vector<Version>& versions) {
  Others others;
  for (const auto& entry : versions.front()->v4) others.add(entry, false);
  for (const auto& entry : versions.front()->v6) others.add(entry, false);
  for (size_t v = 1; v < versions.size(); v++) {
    const Part part = changed_between(*versions[v - 1], *versions[v]);
    for (const auto& entry : part.v4) others.add(entry, true);
    for (const auto& entry : part.v6) others.add(entry, true);
  }
  Policy policy;
  policy.path = "updates";
  policy.lists = {list_of("watched", WEIR_DROP, WEIR_MONITOR, control::make_entries(std::move(others.watched))),
                  list_of("passed", WEIR_PASS, WEIR_ENFORCE, control::make_entries(std::move(others.passed))),
                  list_of("dropped", WEIR_DROP, WEIR_ENFORCE, control::make_entries(std::move(others.dropped))),
                  list_of("changing", WEIR_DROP, WEIR_ENFORCE, versions.front())};
  return policy;
}

template <class Rows>
void aim_at_some(Choices& choices, const Rows& rows, unsigned times, std::vector<Frame>& frames) {
  for (; times > 0 && rows.size() > 0; times--) {
    aim_at(choices, rows[choices.below(static_cast<uint32_t>(rows.size()))], frames.emplace_back());
    make_stranger(choices, frames.emplace_back());
  }
}

// At everything that has just changed, at some of what has not, and strangers between them.
std::vector<Frame> frames_for(Choices& choices, const Policy& policy, const Part& changed) {
  std::vector<Frame> frames;
  const auto aim = [&](const auto& entries) {
    for (const auto& entry : entries) {
      for (unsigned n = 0; n < kAimsAtChanged; n++) aim_at(choices, entry, frames.emplace_back());
      for (unsigned n = 0; n < kAimsAtChanged; n++) make_stranger(choices, frames.emplace_back());
    }
  };
  aim(changed.v4);
  aim(changed.v6);
  for (const control::List& list : policy.lists) {
    aim_at_some(choices, list.v4(), kAimsAtList, frames);
    aim_at_some(choices, list.v6(), kAimsAtList, frames);
  }
  return frames;
}

bool is_same(const std::vector<wire::ListStats>& a, const std::vector<wire::ListStats>& b) {
  return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(wire::ListStats)) == 0;
}

// What changes are made to, beside what is built anew for each version.
class Updates {
 public:
  Updates(Agreement& changing, Agreement& anew, bool with_xdp, UpdateTotals& totals)
      : changing_(changing),
        anew_(anew),
        with_xdp_(with_xdp),
        totals_(totals),
        publisher_([&changing] { return changing.next_generation(); }),
        publisher_anew_([&anew] { return anew.next_generation(); }) {}

  std::optional<std::string> take(std::shared_ptr<const Policy> policy, const Part& changed) {
    const Result<Published> made = publisher_.next(policy), whole = publisher_anew_.next_base(policy, "anew");
    if (!made) return made.error();
    if (!whole) return whole.error();
    (made->why_base.empty() ? totals_.overlays : totals_.bases)++;
    totals_.overlay_keys = std::max(totals_.overlay_keys, made->overlay_keys);
    if (auto ok = changing_.publish(*policy, *made->publication); !ok) return ok.error();
    if (auto ok = anew_.publish(*policy, *whole->publication); !ok) return "anew: " + ok.error();
    judged_by_ = policy;
    Choices choices(totals_.versions);
    const std::vector<Frame> frames = frames_for(choices, *policy, changed);
    for (size_t begin = 0; begin < frames.size(); begin += kAtOnce) {
      const std::span some = std::span(frames).subspan(begin, std::min(kAtOnce, frames.size() - begin));
      if (auto problem = changing_.judge(some, kAnyTime, choices)) return problem;
      if (auto problem = anew_.judge(some, kAnyTime, choices)) return "anew: " + *problem;
    }
    if (auto problem = changing_.check_counters()) return problem;
    if (auto problem = anew_.check_counters()) return "anew: " + *problem;
    if (!is_same(changing_.lists_of_data_plane(), anew_.lists_of_data_plane())) {
      return "lists of the data planes are not counted alike";
    }
    if (with_xdp_ && !is_same(changing_.lists_of_xdp(), anew_.lists_of_xdp())) return "XDP does not count lists alike";
    return std::nullopt;
  }

  Result<void> begin_compaction() { return publisher_.begin_compaction(judged_by_); }
  void finish_compaction() { publisher_.finish_compaction(); }

 private:
  static constexpr uint64_t kAnyTime = 1'800'000'000;

  Agreement &changing_, &anew_;
  const bool with_xdp_;
  UpdateTotals& totals_;
  Publisher publisher_, publisher_anew_;
  std::shared_ptr<const Policy> judged_by_;  // that the agreements borrow
};

std::optional<std::string> run(const std::vector<Version>& versions, Updates& updates, UpdateTotals& totals) {
  const Policy first = policy_of(versions);
  Part changed;
  for (size_t v = 0; v < versions.size(); v++) {
    auto policy = std::make_shared<Policy>(first);
    policy->lists.back().content = versions[v];
    if (v > 0) changed = changed_between(*versions[v - 1], *versions[v]);
    totals.changes += changed.v4.size() + changed.v6.size();
    // From the middle on changes stand on another base, which was begun one version before.
    if (v == versions.size() / 2 && v > 1) {
      if (auto ok = updates.begin_compaction(); !ok) return ok.error();
    }
    if (v == versions.size() / 2 + 1 && v > 2) updates.finish_compaction();
    if (auto problem = updates.take(policy, changed)) return fmt::format("version {}: {}", v, *problem);
    totals.versions++;
    totals.entries = 0;
    for (const control::List& list : policy->lists) totals.entries += list.entries();
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> run_updates(const std::vector<std::string>& files, XdpPlane* changing, XdpPlane* anew,
                                       UpdateTotals& totals) {
  std::vector<Version> versions;
  std::optional<std::string> problem;
  for (const std::string& file : files) {
    Result<Version> version = read_version(file);
    if (!version) problem = version.error();
    if (version) versions.push_back(std::move(*version));
  }
  const Result<std::unique_ptr<Agreement>> one = Agreement::open(changing), other = Agreement::open(anew);
  if (!one) problem = one.error();
  if (!other) problem = other.error();
  if (!problem) {
    Updates updates(**one, **other, changing != nullptr, totals);
    problem = run(versions, updates, totals);
    totals.compared += (*one)->compared();
    totals.disagreements += (*one)->compared().disagreements + (*other)->compared().disagreements;
  }
  if (problem && totals.disagreements == 0) totals.disagreements = 1;
  return problem;
}

}  // namespace weir::agreement
