#include "control/tell/answer/economics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "control/compile/merge/rule_book.h"
#include "control/compile/plan/gates.h"
#include "control/compile/plan/plan.h"
#include "control/lists/book/claims.h"
#include "control/tell/answer/text.h"
#include "filter/format/buckets.h"
#include "filter/format/chunks.h"

namespace weir::control {

// ----------------------------------------------------------------------------------------------------------- answer

void members(Fields& f, HeldBy& held) {
  f({"list", "", "its name"}, held.list);
  f({"entries", "", "that it holds wholly"}, held.entries);
  f({"addresses", "", "IPv4 addresses that it holds"}, held.addresses);
}

void members(Fields& f, ListCost& cost) {
  f({"keys", "", "of the snapshot, in whose rules the list is"}, cost.keys);
  f({"keys_alone", "", "of them, those that are there for no other list"}, cost.keys_alone);
  f({"bytes", "bytes", "of the snapshot, when lists share evenly what a key takes"}, cost.bytes);
  f({"bytes_alone", "bytes", "of keys_alone"}, cost.bytes_alone);
  f.texts({"key_types", "", "that are there for no other list"}, cost.key_types);
  f({"probes", "", "of a packet, for those key types; both sides counted"}, cost.probes);
}

void members(Fields& f, ListHits& hits) {
  f({"samples", "", "sampled packets that an entry of the list matches"}, hits.samples);
  f({"entries", "", "that some sampled packet matched"}, hits.entries);
  f({"never", "", "entries that no sampled packet matched"}, hits.never);
}

void members(Fields& f, ListChurn& churn) {
  f({"changed_at", "Unix seconds", "when its entries changed last; 0: not since history_since"}, churn.changed_at);
  f({"known_since", "Unix seconds", "when the list came; history_since, when it was there before"}, churn.known_since);
  f({"changes", "", "publications that changed its entries"}, churn.changes);
  f({"added", "", "entries that they added"}, churn.added);
  f({"removed", "", "entries that they removed"}, churn.removed);
  f.maybe({"per_day", "entries/day", "added and removed; when the history is of an hour at least"}, churn.per_day);
}

void members(Fields& f, ListEconomics& list) {
  f({"name", "", "of the list"}, list.name);
  f({"action", "", "drop or pass"}, list.action);
  f({"mode", "", "enforce or monitor"}, list.mode);
  f({"entries", "", "that have not ended"}, list.entries);
  f({"addresses", "", "IPv4 addresses of entries without a port, each once"}, list.addresses);
  f({"unique_entries", "", "that no other list holds which would do the same"}, list.unique_entries);
  f({"unique_addresses", "", "likewise"}, list.unique_addresses);
  f.array({"held_by", "", "other lists that hold something of it, the one that holds most entries first"}, list.held_by,
          "share of a list");
  members(f, list.counted);
  f.object({"cost", "", "its part of the snapshot"}, list.cost, "cost of a list");
  f.maybe_object({"hits", "", "when traffic is sampled"}, list.hits, "hits of a list");
  f.object({"churn", "", "how it changes"}, list.churn, "churn of a list");
}

void members(Fields& f, ListVerdict& verdict) {
  f({"kind", "",
     "can_go: others hold all of it; one: two lists that hold nearly the same; costly: it takes most for "
     "the fewest drops"},
    verdict.kind);
  f({"list", "", "that can go, or costs"}, verdict.list);
  f({"other", "", "the list that is nearly the same, or holds all of it; empty: several together"}, verdict.other);
  f({"text", "", "for people"}, verdict.text);
}

void members(Fields& f, ListsAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f({"at", "Unix seconds", "when the lists were compared: entries that had ended are in none"}, answer.at);
  f({"took_ms", "ms", "to compare them"}, answer.took_ms);
  f({"counted_since", "Unix seconds",
     "when the target that started last did: frames are counted since each started; "
     "0: none was reached"},
    answer.counted_since);
  f({"packets", "frames", "judged by all targets since they started"}, answer.packets);
  f({"history_since", "Unix seconds", "of the oldest publication that is kept; 0: none"}, answer.history_since);
  f({"samples", "", "sampled packets that hits were looked for in; 0: traffic is not sampled"}, answer.samples);
  f({"snapshot_bytes", "bytes", "of the base, room for more included"}, answer.snapshot_bytes);
  f({"gate_bytes", "bytes", "of its gates, which no list is charged for"}, answer.gate_bytes);
  f.array({"verdicts", "", "which list can go, which two are one, which costs most for the fewest drops"},
          answer.verdicts, "verdict on a list");
  f.array({"lists", "", "in the order of the policy"}, answer.lists, "economics of a list");
}

// ----------------------------------------------------------------------------------------------- costs, churn, hits

namespace {

// How many keys of the shape lead to each rule.
std::vector<uint64_t> keys_by_rule(const filter::ShapeView& shape, size_t n_rules) {
  std::vector<uint64_t> keys(n_rules);
  if (shape.chunks != nullptr) {
    const auto* chunk_of = reinterpret_cast<const uint32_t*>(shape.exact);
    for (size_t slot = 0; slot < filter::kChunkSlots; slot++) {
      if (chunk_of[slot] == 0) continue;
      const uint32_t* rules = shape.chunks + size_t{chunk_of[slot]} * filter::kChunkRules;
      for (size_t i = 0; i < filter::kChunkRules; i++) keys[rules[i]]++;
    }
  } else {
    filter::with_bucket_type(shape.shape, [&]<class Bucket>() {
      const auto* buckets = reinterpret_cast<const Bucket*>(shape.exact);
      for (uint32_t b = 0; b < shape.exact_buckets; b++) {
        for (const uint32_t rule : buckets[b].rule) keys[rule]++;
      }
    });
  }
  keys[0] = 0;  // no key
  return keys;
}

weir_set lists_of(const filter::SnapshotView& snapshot, const weir_rule& rule) {
  weir_set lists = snapshot.set(rule.source_set) | snapshot.set(rule.destination_set);
  for (const uint32_t chain : {rule.source_chain, rule.destination_chain}) {
    snapshot.visit_chain(chain, [&](const weir_residual& residual) { lists = lists | snapshot.set(residual.set); });
  }
  return lists;
}

}  // namespace

SnapshotCosts costs_of(const filter::SnapshotView& snapshot) {
  SnapshotCosts costs;
  costs.snapshot_bytes = snapshot.header().total_bytes;
  costs.gate_bytes = static_cast<uint64_t>(gate_bytes(snapshot.header()));
  for (const weir_list& list : snapshot.lists()) {
    costs.lists.push_back({std::string(list.name, strnlen(list.name, sizeof list.name)), {}});
  }
  std::vector<double> bytes(costs.lists.size()), bytes_alone(costs.lists.size());
  for (size_t s = 0; s < snapshot.shapes().size(); s++) {
    const weir_shape& header = snapshot.header().shapes[s];
    const filter::ShapeView& shape = snapshot.shapes()[s];
    const std::vector<uint64_t> keys = keys_by_rule(shape, snapshot.header().n_rules);
    const auto all = static_cast<double>(header.filter.size_bytes + header.exact.size_bytes + header.chunks.size_bytes);
    const double of_key = all / static_cast<double>(std::max<uint64_t>(1, header.n_keys));
    weir_set in_all_keys = {};
    for (uint64_t& word : in_all_keys.lists) word = ~uint64_t{0};
    for (uint32_t rule = 1; rule < keys.size(); rule++) {
      if (keys[rule] == 0) continue;
      const weir_set lists = lists_of(snapshot, snapshot.rule(rule));
      std::vector<size_t> sharers;
      for (unsigned l = 0; l < costs.lists.size(); l++) {
        if (has_list(lists, l)) sharers.push_back(l);
      }
      const auto n = static_cast<double>(keys[rule]);
      for (const size_t l : sharers) {
        costs.lists[l].second.keys += keys[rule];
        bytes[l] += n * of_key / static_cast<double>(sharers.size());
      }
      weir_set alone = {};
      if (sharers.size() == 1) {
        costs.lists[sharers[0]].second.keys_alone += keys[rule];
        bytes_alone[sharers[0]] += n * of_key;
        add_list(alone, static_cast<unsigned>(sharers[0]));
      }
      for (unsigned w = 0; w < WEIR_LIST_WORDS; w++) in_all_keys.lists[w] &= alone.lists[w];
    }
    for (unsigned l = 0; l < costs.lists.size(); l++) {
      if (header.n_keys == 0 || !has_list(in_all_keys, l)) continue;
      ListCost& cost = costs.lists[l].second;
      cost.key_types.push_back(describe(header).name);
      const bool both = header.flow == 0 && header.directions == (WEIR_AS_SOURCE | WEIR_AS_DESTINATION);
      cost.probes += both ? 2 : 1;
    }
  }
  for (size_t l = 0; l < costs.lists.size(); l++) {
    costs.lists[l].second.bytes = static_cast<uint64_t>(bytes[l]);
    costs.lists[l].second.bytes_alone = static_cast<uint64_t>(bytes_alone[l]);
  }
  return costs;
}

ListChurn churn_of(const std::string& list, const std::vector<HistoryRow>& history, int64_t since, int64_t now) {
  constexpr int64_t kLeast_s = 3600;
  constexpr double kSecondsOfDay = 86400;
  ListChurn churn;
  churn.known_since = since;
  for (const HistoryRow& row : history) {
    for (const ListChange& change : row.changes) {
      if (change.name != list) continue;
      churn.changed_at = std::max(churn.changed_at, row.at);
      if (change.state == "new") {
        churn.known_since = std::max(churn.known_since, row.at);
        continue;  // that a list comes is no churn
      }
      if (change.state != "changed" || change.added + change.removed == 0) continue;
      churn.changes++;
      churn.added += change.added;
      churn.removed += change.removed;
    }
  }
  if (since != 0 && now - churn.known_since >= kLeast_s) {
    churn.per_day =
        static_cast<double>(churn.added + churn.removed) * kSecondsOfDay / static_cast<double>(now - churn.known_since);
  }
  return churn;
}

uint32_t first_end_after(const Book& book, uint64_t now) {
  uint32_t first = kNever;
  const auto take = [&](uint32_t expires) {
    if (expires > now) first = std::min(first, expires);
  };
  const auto take_column = [&](const auto& rows) {
    if (rows.empty()) return;
    take(rows.expires.all);
    for (const uint32_t expires : rows.expires.each) take(expires);
  };
  for (const List& list : book) {
    take_column(list.v4());
    take_column(list.v6());
    for (const Flow& flow : list.flows()) take(flow.expires);
  }
  return first;
}

HitCounter::HitCounter(const Book& book, const Enforcing& enforcing, uint64_t now)
    : book_(book), enforcing_(enforcing), now_(now), samples_of_(book.size()), entries_(book.size()) {}

void HitCounter::add(std::span<const weir_packet> layers) {
  samples_++;
  weir_set of_frame = {};
  for (const weir_packet& packet : layers) {
    const weir_set lists = match(enforcing_, packet, now_);
    if (is_empty(lists)) continue;
    of_frame = of_frame | lists;
    for (unsigned l = 0; l < book_.size(); l++) {
      if (!has_list(lists, l)) continue;
      for (const uint64_t entry : entries_that_match(book_[l], packet, now_)) entries_[l].insert(entry);
    }
  }
  for (unsigned l = 0; l < book_.size(); l++) samples_of_[l] += has_list(of_frame, l);
}

std::vector<ListHits> HitCounter::hits() const {
  std::vector<ListHits> hits;
  for (size_t l = 0; l < book_.size(); l++) hits.push_back({samples_of_[l], entries_[l].size(), 0});
  return hits;
}

ListsAnswer lists_of(const Book& book, const Overlap& overlap, const SnapshotCosts& costs,
                     const ListCounters& counted) {
  ListsAnswer answer;
  answer.snapshot_bytes = costs.snapshot_bytes;
  answer.gate_bytes = costs.gate_bytes;
  const auto named = [](const auto& all, const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == name; });
  };
  for (size_t l = 0; l < book.size(); l++) {
    const Overlap::Row& row = overlap.lists[l];
    ListEconomics& list = answer.lists.emplace_back();
    list.name = book[l].name;
    list.action = book[l].action == WEIR_PASS ? "pass" : "drop";
    list.mode = book[l].mode == WEIR_MONITOR ? "monitor" : "enforce";
    list.entries = row.all.entries;
    list.addresses = row.all.addresses;
    list.unique_entries = row.unique.entries;
    list.unique_addresses = row.unique.addresses;
    for (size_t by = 0; by < book.size(); by++) {
      const Overlap::Share& held = row.held_by[by];
      if (held.entries != 0 || held.addresses != 0)
        list.held_by.push_back({book[by].name, held.entries, held.addresses});
    }
    std::stable_sort(list.held_by.begin(), list.held_by.end(), [](const HeldBy& a, const HeldBy& b) {
      return a.entries != b.entries ? a.entries > b.entries : a.addresses > b.addresses;
    });
    if (const auto found = named(counted, list.name); found != counted.end()) list.counted = found->second;
    if (const auto found = named(costs.lists, list.name); found != costs.lists.end()) list.cost = found->second;
  }
  return answer;
}

namespace {

bool does_the_same(const ListEconomics& by, const ListEconomics& list) {
  return by.action == list.action && (by.action == "pass" || by.mode == "enforce");
}

const ListEconomics& named(const ListsAnswer& answer, const std::string& name) {
  return *std::find_if(answer.lists.begin(), answer.lists.end(), [&](const auto& list) { return list.name == name; });
}

bool is_among(const std::vector<ListVerdict>& verdicts, const std::string& list) {
  return std::any_of(verdicts.begin(), verdicts.end(), [&](const ListVerdict& one) { return one.list == list; });
}

double part_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

uint64_t entries_held(const ListEconomics& list, const std::string& by) {
  for (const HeldBy& held : list.held_by) {
    if (held.list == by) return held.entries;
  }
  return 0;
}

// The lists that can all go at once, each named with one that stays and holds all of it; then, when none of those can,
// one that several hold together: what stays after it is another question.
void find_spare(const ListsAnswer& answer, std::vector<ListVerdict>& verdicts) {
  // The last first: of two that are the same, the one that decides first stays.
  for (size_t l = answer.lists.size(); l-- > 0;) {
    const ListEconomics& list = answer.lists[l];
    if (list.entries == 0 || list.unique_entries != 0) continue;
    for (const HeldBy& held : list.held_by) {
      const ListEconomics& by = named(answer, held.list);
      if (held.entries != list.entries || !does_the_same(by, list) || is_among(verdicts, by.name)) continue;
      verdicts.push_back({"can_go", list.name, by.name, ""});
      break;
    }
  }
  for (ListVerdict& verdict : verdicts) {
    const auto holder = [&] {
      return std::find_if(verdicts.begin(), verdicts.end(),
                          [&](const ListVerdict& one) { return one.list == verdict.other; });
    };
    for (auto goes = holder(); goes != verdicts.end(); goes = holder()) verdict.other = goes->other;
    verdict.text = fmt::format("{} can go: {} holds all of its {}", verdict.list, verdict.other,
                               plural(named(answer, verdict.list).entries, "entry", "entries"));
  }
  std::reverse(verdicts.begin(), verdicts.end());
  if (!verdicts.empty()) return;
  for (const ListEconomics& list : answer.lists) {
    if (list.entries == 0 || list.unique_entries != 0) continue;
    verdicts.push_back({"can_go", list.name, "",
                        fmt::format("{} can go while the others stay: together they hold all of its {}", list.name,
                                    plural(list.entries, "entry", "entries"))});
    return;
  }
}

void find_pairs(const ListsAnswer& answer, std::vector<ListVerdict>& verdicts) {
  for (size_t a = 0; a < answer.lists.size(); a++) {
    const ListEconomics& first = answer.lists[a];
    for (size_t b = a + 1; b < answer.lists.size(); b++) {
      const ListEconomics& second = answer.lists[b];
      if (first.action != second.action || is_among(verdicts, first.name) || is_among(verdicts, second.name)) continue;
      const double of_first = part_of(entries_held(first, second.name), first.entries);
      const double of_second = part_of(entries_held(second, first.name), second.entries);
      if (of_first < kNearlySame || of_second < kNearlySame) continue;
      verdicts.push_back({"one", first.name, second.name,
                          fmt::format("{} and {} are nearly one list: {} of the first is in the second, {} of the "
                                      "second in the first",
                                      first.name, second.name, percent(of_first), percent(of_second))});
    }
  }
}

// By the bytes that would go with it, for each frame that passed without it.
void find_costly(const ListsAnswer& answer, std::vector<ListVerdict>& verdicts) {
  if (answer.packets == 0) return;
  const ListEconomics* costly = nullptr;
  const auto price = [](const ListEconomics& list) {
    return static_cast<double>(list.cost.bytes_alone) / static_cast<double>(list.counted.dropped_alone + 1);
  };
  for (const ListEconomics& list : answer.lists) {
    if (list.action != "drop" || list.mode != "enforce" || list.cost.bytes_alone == 0) continue;
    if (costly == nullptr || price(list) > price(*costly)) costly = &list;
  }
  if (costly == nullptr || is_among(verdicts, costly->name)) return;
  verdicts.push_back(
      {"costly", costly->name, "",
       fmt::format(
           "{} costs most for the fewest drops: {} of the snapshot are there for it alone, and it alone dropped "
           "{} of {} frames",
           costly->name, bytes(costly->cost.bytes_alone), count(costly->counted.dropped_alone),
           count(answer.packets))});
}

}  // namespace

std::vector<ListVerdict> verdicts_of(const ListsAnswer& answer) {
  std::vector<ListVerdict> verdicts;
  find_spare(answer, verdicts);
  find_pairs(answer, verdicts);
  find_costly(answer, verdicts);
  return verdicts;
}

}  // namespace weir::control
