#include "control/tell/answer/plan.h"

namespace weir::control {

void members(Fields& f, PlacedEntry& placed) {
  f({"entry", "", "as 203.0.113.0/24"}, placed.entry);
  f({"file", "", "the policy, a feed, or controlctl add"}, placed.file);
  f({"line", "", "of the file; 0: it was added"}, placed.line);
}

void members(Fields& f, ListPreview& list) {
  members(f, list.change);
  f.unless_empty({"how", "", "what else than its entries is different"}, list.how);
  f.array({"new", "", "the first of its added entries, by address"}, list.added, "placed entry");
  f.array({"old", "", "the first of its removed entries, by address"}, list.removed, "placed entry");
}

void members(Fields& f, WideEntry& wide) {
  f({"list", "", "that has it"}, wide.list);
  members(f, wide.entry);
  f({"addresses", "", "that it holds"}, wide.addresses);
}

void members(Fields& f, Concern& concern) {
  f({"list", "", "that has the entries"}, concern.list);
  f({"kind", "", "pass list: they block nothing; reserved; popular: many people use it"}, concern.kind);
  f({"what", "", "the pass list, the block, or whose network"}, concern.what);
  f({"entries", "", "new ones that touch it"}, concern.entries);
  f.object({"first", "", "of them"}, concern.first, "placed entry");
}

void members(Fields& f, PlanCost& cost) {
  f({"entries", "", "of all lists"}, cost.entries);
  f({"snapshot_bytes", "bytes", "of the snapshot, room for more included"}, cost.snapshot_bytes);
  f({"probes_v4", "", "of filters, for an IPv4 packet that no gate lets go"}, cost.probes_v4);
  f({"probes_v6", "", "of filters, for an IPv6 packet that no gate lets go"}, cost.probes_v6);
}

void members(Fields& f, Radius::Credit& credit) {
  f({"name", "", "of the list, policy.default or policy.unparsed"}, credit.name);
  f.object({"newly_dropped", "", "that the candidate drops by it"}, credit.newly_dropped, "share");
  f.object({"newly_passed", "", "that are dropped by it now"}, credit.newly_passed, "share");
  f({"samples", "", "frames that say so"}, credit.samples);
}

void members(Fields& f, Radius::Talker& talker) {
  f({"address", "", "of packets whose verdict changes"}, talker.address);
  f({"side", "", "src or dst"}, talker.side);
  f({"newly_dropped", "", "true: they pass now; false: they are dropped now"}, talker.is_dropped);
  f.object({"share", "", "of all packets"}, talker.share, "share");
  f({"samples", "", "frames that say so"}, talker.samples);
  f({"credit", "", "the list that most of it is credited to"}, talker.credit);
}

void members(Fields& f, Radius& radius) {
  f({"samples", "", "frames of the recent traffic, judged by what runs and by the candidate"}, radius.samples);
  f({"frames", "", "that they stand for"}, radius.frames);
  f({"seconds", "seconds", "from the oldest to the newest of them"}, radius.seconds);
  f.object({"dropped_before", "", "what runs drops"}, radius.dropped_before, "share");
  f.object({"dropped_after", "", "the candidate drops"}, radius.dropped_after, "share");
  f.object({"newly_dropped", "", "what runs passes, and the candidate drops"}, radius.newly_dropped, "share");
  f.object({"newly_passed", "", "what runs drops, and the candidate passes"}, radius.newly_passed, "share");
  f({"newly_dropped_bytes", "share", "of the bytes"}, radius.newly_dropped_bytes);
  f({"newly_passed_bytes", "share", "of the bytes"}, radius.newly_passed_bytes);
  f.array({"credits", "", "whom it is credited to, most packets first"}, radius.credits, "credit");
  f.array({"talkers", "", "addresses with most of the packets whose verdict changes"}, radius.talkers, "talker");
  f({"tunnels_differ", "", "packets inside of tunnels are known as what runs sees them"}, radius.are_tunnels_different);
}

void members(Fields& f, PlanAnswer& answer) {
  f({"ok", "", "a reload would be taken, and no limit of `plan` is exceeded"}, answer.ok);
  f.object({"generation", "", "that runs, and is compared with"}, answer.generation, "generation");
  f.array({"lists", "", "that would not be as they are"}, answer.lists, "list preview");
  f.array({"widest", "", "new entries of lists that drop, the widest first"}, answer.widest, "wide entry");
  f.array({"concerns", "", "what new entries block, and one should know of"}, answer.concerns, "concern");
  f.object({"before", "", "what runs costs"}, answer.before, "cost");
  f.object({"after", "", "what the candidate costs"}, answer.after, "cost");
  f.by_name({"phases", "ms", "how long each phase of compiling took"}, answer.phases);
  f({"total_ms", "ms", "for all of it"}, answer.total_ms);
  f.maybe_object({"radius", "", "what would become of the recent traffic"}, answer.radius, "radius");
  f.unless_empty({"why_no_radius", "", "why that is not known"}, answer.why_no_radius);
  f.array({"refused", "", "feeds that would not be taken: their lists would keep what they have"}, answer.refused,
          "refused feed");
  f.array({"over_limits", "", "limits of `plan` that it exceeds"}, answer.over_limits, "exceeded limit");
  f({"errors", "", "in the policy and its feeds"}, answer.errors);
  f({"warnings", "", "in the policy and its feeds"}, answer.warnings);
  f.array({"diagnostics", "", "the first 100 errors and the first 100 warnings"}, answer.diagnostics, "diagnostic");
  f.unless_empty({"error", "", "when something else than the policy is wrong"}, answer.error);
}

}  // namespace weir::control
