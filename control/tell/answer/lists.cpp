#include "control/tell/answer/lists.h"

namespace weir::control {

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
  f({"matched", "frames", "that an entry of the list matches"}, list.matched);
  f({"dropped", "frames", "that the list dropped"}, list.dropped);
  f({"dropped_alone", "frames", "that it dropped and no other enforced drop list would have"}, list.dropped_alone);
  f({"would_drop", "frames", "that the list would drop if it were enforced"}, list.would_drop);
  f({"would_drop_alone", "frames", "of would_drop that no enforced drop list drops"}, list.would_drop_alone);
  f({"passed", "frames", "that the list let pass"}, list.passed);
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

}  // namespace weir::control
