#include "control/tell/answer/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/tell/answer/text.h"

namespace weir::control {

// ----------------------------------------------------------------------------------------------------------- answer

void members(Fields& f, Advice& advice) {
  f({"rule", "", "that says so: a row of `controlctl recommend --rules`"}, advice.rule);
  f({"subject", "", "the list; empty: the whole policy"}, advice.subject);
  f({"text", "", "what to do"}, advice.text);
  f({"reason", "", "the numbers that say so"}, advice.reason);
  f.texts({"policy", "", "lines that the policy then has; empty: it stays as it is"}, advice.policy);
  f({"command", "", "that does it, or tells more"}, advice.command);
}

void members(Fields& f, NotJudged& rule) {
  f({"rule", "", "a row of `controlctl recommend --rules`"}, rule.rule);
  f({"reason", "", "what it lacks"}, rule.reason);
}

void members(Fields& f, RecommendAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f({"counted_since", "Unix seconds", "as lists answers"}, answer.counted_since);
  f({"packets", "frames", "judged by all targets since they started"}, answer.packets);
  f.array({"advice", "", "in the order of the rules"}, answer.advice, "advice");
  f.array({"not_judged", "", "rules that there are not enough data for"}, answer.not_judged, "rule not judged");
}

// ------------------------------------------------------------------------------------------------------------ rules

namespace {

constexpr int64_t kDay_s = 86400;
constexpr int64_t kEnforceAfter_s = kDay_s, kCostlyAfter_s = 7 * kDay_s, kStaleAfter_s = 30 * kDay_s;
constexpr uint64_t kLeastFrames = 100'000;
constexpr double kFewDrops = 0.01;        // of all frames
constexpr double kCostlyShare = 0.05;     // of the snapshot
constexpr double kMemoryBound = 0.9;      // of filter.memory
constexpr double kFalseHits = 0.01;       // of all frames
constexpr double kNoMatter = 0.05;        // false hits beside true ones
constexpr double kRateStep = 4;           // by which a rate is changed
constexpr double kRibbonBits = 9;         // a key, for 0.4 %
constexpr uint64_t kManyHosts = 256;      // of IPv6
constexpr uint64_t kManyForEver = 100;    // added entries without an end
constexpr double kOverlayShare = 0.5;     // of what an overlay may have
constexpr double kGuardOffGrowth = 1000;  // times

const std::string kReload = "controlctl reload";

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::vector<std::string> lines_of(const std::string& list, std::string setting) {
  return {"- name: " + list, "  " + std::move(setting)};
}

// Empty when frames were counted for so long.
std::string lacks_frames(const AdviceFacts& facts, int64_t least_s) {
  const ListsAnswer& lists = facts.lists;
  if (lists.counted_since == 0) return "no target was reached: nothing is counted";
  const int64_t counted_s = std::max<int64_t>(0, facts.now - lists.counted_since);
  if (counted_s < least_s) {
    return fmt::format("frames were counted for {}: it needs {}", duration(static_cast<uint64_t>(counted_s)),
                       duration(static_cast<uint64_t>(least_s)));
  }
  if (lists.packets < kLeastFrames) {
    return fmt::format("{} were counted: it needs {}", plural(lists.packets, "frame"), count(kLeastFrames));
  }
  return "";
}

// How long the list was there while frames were counted.
std::string counted_time(const AdviceFacts& facts) {
  return duration(static_cast<uint64_t>(std::max<int64_t>(0, facts.now - facts.lists.counted_since)));
}

// The frames of all targets were counted while the list was there, as far as the history goes.
bool was_there(const AdviceFacts& facts, const ListEconomics& list) {
  return list.churn.known_since <= facts.lists.counted_since || list.churn.known_since == facts.lists.history_since;
}

std::string lists_can_go(const AdviceFacts& facts, std::vector<Advice>& advice) {
  for (const ListVerdict& verdict : facts.lists.verdicts) {
    if (verdict.kind != "can_go") continue;
    const std::string by = verdict.other.empty() ? "the other lists together hold" : verdict.other + " holds";
    advice.push_back({"",
                      verdict.list,
                      fmt::format("take the list {} out", verdict.list),
                      by + " all of its entries, and would do the same to the same packets",
                      {},
                      "controlctl compare"});
  }
  return "";
}

std::string lists_are_one(const AdviceFacts& facts, std::vector<Advice>& advice) {
  for (const ListVerdict& verdict : facts.lists.verdicts) {
    if (verdict.kind != "one") continue;
    advice.push_back({"",
                      verdict.list,
                      fmt::format("make one list of {} and {}, or take one of them out", verdict.list, verdict.other),
                      verdict.text,
                      {},
                      "controlctl compare --matrix"});
  }
  return "";
}

std::string drops_nothing_alone(const AdviceFacts& facts, std::vector<Advice>& advice) {
  std::string lacks = lacks_frames(facts, kCostlyAfter_s);
  if (!lacks.empty()) return lacks;
  for (const ListEconomics& list : facts.lists.lists) {
    if (list.action != "drop" || list.mode != "enforce" || list.counted.dropped_alone != 0 || !was_there(facts, list))
      continue;
    if (share(list.cost.bytes_alone, facts.lists.snapshot_bytes) < kCostlyShare) continue;
    advice.push_back(
        {"", list.name, fmt::format("only monitor {}, and see whether anybody misses it", list.name),
         fmt::format("in {} and {} it alone dropped nothing, and {} of the snapshot are there for it alone",
                     counted_time(facts), plural(facts.lists.packets, "frame"), bytes(list.cost.bytes_alone)),
         lines_of(list.name, "mode: monitor"), kReload});
  }
  return "";
}

std::string enforce_monitored(const AdviceFacts& facts, std::vector<Advice>& advice) {
  const auto is_monitored = [](const ListEconomics& list) { return list.mode == "monitor"; };
  if (std::none_of(facts.lists.lists.begin(), facts.lists.lists.end(), is_monitored)) return "";
  std::string lacks = lacks_frames(facts, kEnforceAfter_s);
  if (!lacks.empty()) return lacks;
  for (const ListEconomics& list : facts.lists.lists) {
    if (!is_monitored(list) || !was_there(facts, list)) continue;
    const double would_drop = share(list.counted.would_drop, facts.lists.packets);
    if (would_drop > kFewDrops) continue;
    const std::string known = list.counted.would_drop == 0 ? "none"
                              : list.counted.would_drop_alone == 0
                                  ? "all of it dropped by enforced lists already"
                                  : fmt::format("{} of it dropped by no enforced list",
                                                percent(share(list.counted.would_drop_alone, list.counted.would_drop)));
    advice.push_back(
        {"", list.name, fmt::format("enforce {}", list.name),
         fmt::format("it would have dropped {} of {} ({}) in {}: {}", count(list.counted.would_drop),
                     plural(facts.lists.packets, "frame"), percent(would_drop), counted_time(facts), known),
         lines_of(list.name, "mode: enforce"), kReload});
  }
  return "";
}

std::string pass_shadows(const AdviceFacts& facts, std::vector<Advice>& advice) {
  const auto passes = [&](const std::string& name) {
    return std::any_of(facts.lists.lists.begin(), facts.lists.lists.end(),
                       [&](const ListEconomics& list) { return list.name == name && list.action == "pass"; });
  };
  for (const ListEconomics& list : facts.lists.lists) {
    if (list.action != "drop") continue;
    for (const HeldBy& held : list.held_by) {
      if (held.entries == 0 || !passes(held.list)) continue;
      const bool is_all = held.entries == list.entries;
      advice.push_back(
          {"",
           list.name,
           is_all ? fmt::format("take {} out, or some of the pass list {}: it drops nothing", list.name, held.list)
                  : fmt::format("look at what the pass list {} exempts from {}", held.list, list.name),
           fmt::format("{} of {} lie wholly in {}, which wins", count(held.entries),
                       plural(list.entries, "entry", "entries"), held.list),
           {},
           "controlctl compare --matrix"});
    }
  }
  return "";
}

bool is_memory_bound(const AdviceFacts& facts) {
  return facts.memory_limit != 0 && share(facts.report.snapshot_bytes, facts.memory_limit) >= kMemoryBound;
}

std::string used_memory(const AdviceFacts& facts) {
  return fmt::format("the snapshot takes {} of the {} that filter.memory allows", bytes(facts.report.snapshot_bytes),
                     bytes(facts.memory_limit));
}

const std::string kNoPolicy = "the settings are not known until the policy is read: controlctl reload";

std::string memory_bound(const AdviceFacts& facts, std::vector<Advice>& advice) {
  if (facts.policy == nullptr) return kNoPolicy;
  if (!is_memory_bound(facts)) return "";
  const bool takes_ribbon = facts.policy->layout && *facts.policy->layout != WEIR_LAYOUT_RIBBON;
  if (takes_ribbon) {
    double saved = 0;
    for (const ShapeReport& report : facts.report.shapes) {
      if (report.bits_per_key <= kRibbonBits) continue;
      saved += static_cast<double>(report.shape.filter.size_bytes) * (1 - kRibbonBits / report.bits_per_key);
    }
    advice.push_back({"",
                      "",
                      "let the filters be ribbons, or let the planner choose (layout: auto)",
                      fmt::format("{}; ribbons would save about {} of filters", used_memory(facts),
                                  bytes(static_cast<uint64_t>(saved))),
                      {"filter:", "  layout: ribbon"},
                      kReload});
    return "";
  }
  advice.push_back({"",
                    "",
                    "allow a larger snapshot",
                    used_memory(facts) + ": what comes next may be refused, and the planner takes dearer key types",
                    {"filter:", fmt::format("  memory: {}MiB", 2 * (facts.memory_limit >> 20))},
                    kReload});
  return "";
}

// Frames that some list let pass or drop, as a share; a frame of several monitored lists may count more than once.
double true_hits(const AdviceFacts& facts) {
  uint64_t hits = 0;
  for (const ListEconomics& list : facts.lists.lists)
    hits += list.counted.dropped + list.counted.passed + list.counted.would_drop_alone;
  return share(hits, facts.lists.packets);
}

// Of a packet that no gate keeps out; of the family that has more of them.
double false_hits(const AdviceFacts& facts) {
  double by_family[2] = {};
  for (const ShapeReport& report : facts.report.shapes) {
    const bool both = report.shape.flow == 0 && report.shape.directions == (WEIR_AS_SOURCE | WEIR_AS_DESTINATION);
    by_family[report.shape.family == 6] += report.expected_fpr * (both ? 2 : 1);
  }
  return std::max(by_family[0], by_family[1]);
}

std::string false_positive_rate(const AdviceFacts& facts, std::vector<Advice>& advice) {
  if (facts.policy == nullptr) return kNoPolicy;
  std::string lacks = lacks_frames(facts, 0);
  if (!lacks.empty()) return lacks;
  const double found = true_hits(facts), in_vain = false_hits(facts), rate = facts.policy->false_positive_rate;
  const auto change = [&](double to, const char* text, const std::string& reason) {
    advice.push_back({"", "", text, reason, {"filter:", fmt::format("  false_positive_rate: {:.2g}", to)}, kReload});
  };
  const std::string numbers =
      fmt::format("up to {} of packets that gates let through are looked up in vain, and {} of frames are listed",
                  percent(in_vain), percent(found));
  const double most = facts.policy->layout && *facts.policy->layout == WEIR_LAYOUT_RIBBON ? kLeastRibbonRate : 0.5;
  if (in_vain > kFalseHits && in_vain > found && !is_memory_bound(facts) && rate / kRateStep >= kLeastRate) {
    change(rate / kRateStep, "let the filters keep out more", numbers);
  } else if (is_memory_bound(facts) && in_vain < kNoMatter * found && rate * kRateStep <= most) {
    change(rate * kRateStep, "let the filters be smaller", numbers + "; " + used_memory(facts));
  }
  return "";
}

// A host, whatever it is written as.
std::string ipv6_aggregate(const AdviceFacts& facts, std::vector<Advice>& advice) {
  constexpr uint8_t kNetwork = 64;
  for (const List& list : facts.book) {
    if (list.ipv6_aggregate <= kNetwork || list.action == WEIR_PASS) continue;
    const Rows<Ipv6>& rows = list.v6();
    uint64_t hosts = 0, networks = 0;
    Ipv6 last = 0;
    for (size_t row = 0; row < rows.size(); row++) {
      if (rows.first[row] != rows.last_of(row)) continue;
      const Ipv6 network = rows.first[row] >> (128 - kNetwork);
      networks += hosts == 0 || network != last;
      hosts++;
      last = network;
    }
    if (hosts < kManyHosts || networks * 2 > hosts) continue;
    advice.push_back(
        {"", list.name,
         fmt::format("block whole /64 networks in {}: who has one address there has all of them", list.name),
         fmt::format("its {} IPv6 hosts lie in {} /64 networks", count(hosts), count(networks)),
         lines_of(list.name, "ipv6_aggregate: 64"), kReload});
  }
  return "";
}

template <class Addr>
uint64_t without_end(const Rows<Addr>& rows) {
  uint64_t n = 0;
  for (size_t row = 0; row < rows.size(); row++) n += rows.source[row] == kJournalSource && rows.expires[row] == kNever;
  return n;
}

std::string never_expire(const AdviceFacts& facts, std::vector<Advice>& advice) {
  for (const List& list : facts.book) {
    if (!list.dynamic) continue;
    uint64_t n = without_end(list.v4()) + without_end(list.v6());
    for (const Flow& flow : list.flows()) n += flow.source == kJournalSource && flow.expires == kNever;
    if (n < kManyForEver) continue;
    const std::string limit =
        list.dynamic->max_ttl_s == 0 ? "max_ttl is not set" : "they are older than max_ttl, or it is new";
    advice.push_back({"", list.name, fmt::format("give what is added to {} an end", list.name),
                      fmt::format("{} that were added never end; {}", plural(n, "entry", "entries"), limit),
                      lines_of(list.name, "max_ttl: 30d"), "controlctl list " + list.name + " --entries"});
  }
  return "";
}

std::string guard_off(const AdviceFacts& facts, std::vector<Advice>& advice) {
  for (const List& list : facts.book) {
    const std::vector<FeedFile> feeds = list.feeds();
    if (feeds.empty()) continue;
    const Guard& guard = feeds[0].state.options.guard;
    std::string off, on;
    const auto is_off = [&](const char* key, const char* value) {
      off += fmt::format("{}{}", off.empty() ? "" : ", ", key);
      on += fmt::format("{}{}: {}", on.empty() ? "" : ", ", key, value);
    };
    if (guard.min_entries == 0) is_off("min_entries", "1");
    if (guard.max_shrink >= 1) is_off("max_shrink", "50%");
    if (guard.max_growth >= kGuardOffGrowth) is_off("max_growth", "10x");
    if (off.empty()) continue;
    advice.push_back(
        {"", list.name, fmt::format("let the guard of {} refuse a feed that breaks", list.name),
         fmt::format("its guard does not look at {}: a feed that is empty, cut off or blown up is enforced", off),
         lines_of(list.name, fmt::format("guard: {{{}}}", on)), kReload});
  }
  return "";
}

std::string feed_is_old(const AdviceFacts& facts, std::vector<Advice>& advice) {
  for (const List& list : facts.book) {
    int64_t changed_at = 0;
    for (const FeedFile& feed : list.feeds()) {
      changed_at = std::max(changed_at, feed.state.file.modified_ns / 1'000'000'000);
    }
    bool is_fetched = false;
    for (const FeedDetails& feed : facts.feeds) {
      if (feed.list != list.name || !feed.fetch || feed.fetch->changed_at == 0) continue;
      changed_at = feed.fetch->changed_at;
      is_fetched = true;
    }
    if (changed_at == 0 || facts.now - changed_at < kStaleAfter_s) continue;
    advice.push_back({"",
                      list.name,
                      fmt::format("ask whether the feed of {} is still kept up", list.name),
                      fmt::format("it did not change for {}", duration(static_cast<uint64_t>(facts.now - changed_at))),
                      {},
                      is_fetched ? "controlctl feeds --fetch " + list.name : "controlctl feeds"});
  }
  return "";
}

std::string overlay_is_large(const AdviceFacts& facts, std::vector<Advice>& advice) {
  const uint64_t most = most_overlay_keys(facts.overlay.of_base);
  if (facts.overlay.keys == 0 || share(facts.overlay.keys, most) < kOverlayShare) return "";
  advice.push_back({"",
                    "",
                    "reload in a quiet hour: a new base takes the overlay in",
                    fmt::format("the overlay has {} of at most {}: every packet that a gate lets through pays for it",
                                plural(facts.overlay.keys, "key"), count(most)),
                    {},
                    kReload});
  return "";
}

constexpr AdviceRule kRules[] = {
    {"list_can_go", "no entry of the list is one that no other list holds which would do the same", lists_can_go},
    {"lists_are_one", "two lists of the same action each hold 95 % of the other's entries", lists_are_one},
    {"drops_nothing_alone",
     "an enforced list dropped nothing that others would not have in 7 days and 100,000 frames, and 5 % of the "
     "snapshot "
     "are there for it alone",
     drops_nothing_alone},
    {"enforce_monitored",
     "a monitored list would have dropped 1 % of frames at most, in a day and 100,000 frames at least",
     enforce_monitored},
    {"pass_shadows", "a pass list holds some entry of a drop list wholly", pass_shadows},
    {"memory_bound", "the snapshot takes 90 % of filter.memory", memory_bound},
    {"false_positive_rate",
     "in 100,000 frames: false hits are more than 1 % of packets and more than the true ones, and there is memory; or "
     "they "
     "are less than a twentieth of the true ones, and there is none",
     false_positive_rate},
    {"ipv6_aggregate", "a drop list has 256 IPv6 hosts, two in each /64 network on average", ipv6_aggregate},
    {"never_expire", "100 entries that were added to a dynamic list have no end", never_expire},
    {"guard_off", "a guard has min_entries 0, max_shrink 100% or max_growth of 1000x", guard_off},
    {"feed_is_old", "a feed has not changed for 30 days", feed_is_old},
    {"overlay_is_large", "the overlay has half of the keys that it may have", overlay_is_large},
};

}  // namespace

std::span<const AdviceRule> advice_rules() {
  return kRules;
}

RecommendAnswer advise(const AdviceFacts& facts) {
  RecommendAnswer answer;
  answer.generation = facts.lists.generation;
  answer.counted_since = facts.lists.counted_since;
  answer.packets = facts.lists.packets;
  for (const AdviceRule& rule : kRules) {
    const size_t before = answer.advice.size();
    const std::string lacks = rule.judge(facts, answer.advice);
    if (!lacks.empty()) answer.not_judged.push_back({rule.name, lacks});
    for (size_t i = before; i < answer.advice.size(); i++) answer.advice[i].rule = rule.name;
  }
  return answer;
}

}  // namespace weir::control
