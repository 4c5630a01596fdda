#include "control/tell/answer/change.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::control {

// ------------------------------------------------------------------------------------------- reload, bypass, detach

void members(Fields& f, ListChange& change) {
  f({"name", "", "of the list"}, change.name);
  f({"state", "", "new, changed or gone"}, change.state);
  f({"entries", "", "that it has now"}, change.entries);
  f({"added", "", "entries that match something it did not have before"}, change.added);
  f({"removed", "", "entries that it had before"}, change.removed);
}

void members(Fields& f, Share& share) {
  f({"value", "share", "of the packets, 0 to 1"}, share.value);
  f({"low", "share", "it is at least this, in 95 of 100 cases together with high"}, share.low);
  f({"high", "share", "it is at most this"}, share.high);
}

void members(Fields& f, OverLimit& over) {
  f({"limit", "", "max_newly_dropped or max_newly_passed"}, over.limit);
  f({"allowed", "share", "as the policy says"}, over.allowed);
  f.object({"would_be", "", "what the recent traffic says"}, over.would_be, "share");
}

void members(Fields& f, ReloadAnswer& answer) {
  f({"ok", "", "published, stored, and acknowledged by every target"}, answer.ok);
  f.object({"generation", "", "the one published afterwards: the old one after a failure"}, answer.generation,
           "generation");
  f({"at", "Unix seconds", "when it began"}, answer.at);
  f({"cause", "", "start, asked for, SIGHUP, which feeds changed, or why it went back"}, answer.cause);
  f.by_name({"phases", "ms", "how long each phase took, in their order"}, answer.phases, &PhaseTime::name,
            &PhaseTime::milliseconds);
  f({"total_ms", "ms", "from the first to the last"}, answer.total_ms);
  f({"entries", "", "of all lists"}, answer.entries);
  f({"snapshot_bytes", "bytes", "of the snapshot, room for more included"}, answer.snapshot_bytes);
  f.array({"changes", "", "lists that are not as in the generation before"}, answer.changes, "list change");
  f.array({"targets", "", "empty when nothing was published"}, answer.targets, "outcome");
  f.array({"refused", "", "feeds that were not taken: their lists keep what they had"}, answer.refused, "refused feed");
  f.array({"over_limits", "", "limits of `plan` that are exceeded: why nothing was published, or feeds were refused"},
          answer.over_limits, "exceeded limit");
  members(f, answer.diagnostics);
  f.unless_empty({"error", "", "when something else than the policy is wrong"}, answer.error);
}

void members(Fields& f, BypassAnswer::Told& told) {
  f({"ok", "", "every target confirmed"}, told.ok);
  f.array({"targets", "", "each with what it said"}, told.targets, "outcome");
}

void members(Fields& f, BypassAnswer& answer) {
  f({"bypass", "", "true: everything passes"}, answer.bypass);
  f({"controld", "", "false: controlctl told the targets without controld"}, answer.controld);
  f.group("ok", answer.told);
  f.unless_empty({"error", "", "why not every target confirmed"}, answer.error);
}

void members(Fields& f, DetachAnswer& answer) {
  f({"ok", "", "always true: a failure has error alone"}, answer.ok);
  f({"controld", "", "false: controlctl did it without controld"}, answer.controld);
  f.texts({"detached", "", "names of the interfaces that were attached"}, answer.detached);
}

void members(Fields& f, DetachFailure& failure) {
  f({"controld", "", "false: controlctl tried it without controld"}, failure.controld);
  f({"error", "", "why it failed"}, failure.error);
}

// -------------------------------------------------------------------------------------------------- add, del, flush

void members(Fields& f, ChangeCounts& counts) {
  f({"added", "", "entries that were not there"}, counts.added);
  f({"renewed", "", "that were: they have the new time to live and comment"}, counts.renewed);
  f({"deleted", "", "that are gone"}, counts.deleted);
  f({"missing", "", "that were to go, and were not there"}, counts.missing);
  f.unless_empty({"still_held", "",
                  "del: the first entry that still matches, with the list, the entry and the place that hold it"},
                 counts.still_held);
  f.unless_empty({"still_passes", "", "add: the first 5 entries that pass all the same, with what lets them through"},
                 counts.still_passes);
  f({"widened", "", "of those added or renewed, IPv6 addresses that `ipv6_aggregate` made networks"}, counts.widened);
  f.unless_empty({"widened_texts", "", "the first 5: what each is enforced as"}, counts.widened_texts);
}

void members(Fields& f, ChangeAnswer& answer) {
  f({"ok", "", "on disk, and enforced by every target"}, answer.ok);
  f({"list", "", "that was to change"}, answer.list);
  f.object({"generation", "", "in which it is enforced; where nothing was to be done: that runs"}, answer.generation,
           "generation");
  members(f, answer.counts);
  f({"entries", "", "that the list has of add now"}, answer.entries);
  f({"total_ms", "ms", "from request to answer"}, answer.total_ms);
  f.array({"targets", "", "what became of it there"}, answer.targets, "outcome");
  f.unless_empty({"notice", "", "add to a drop list: why nothing of it drops now: bypass, mode: monitor, no target"},
                 answer.notice);
  f.unless_empty({"error", "", "why not every target has it"}, answer.error);
}

// ------------------------------------------------------------------------------------------------------------- plan

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

void members(Fields& f, ListsPreview& preview) {
  f.array({"lists", "", "that would not be as they are"}, preview.lists, "list preview");
  f.array({"widest", "", "new entries of lists that drop, the widest first"}, preview.widest, "wide entry");
  f.array({"concerns", "", "what new entries block, and one should know of"}, preview.concerns, "concern");
}

void members(Fields& f, SnapshotCost& cost) {
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

void members(Fields& f, Radius::LetThrough& let_through) {
  f({"list", "", "a pass list"}, let_through.list);
  f.object({"share", "", "packets that it passes, and that a drop list would drop without it"}, let_through.share,
           "share");
  f({"samples", "", "of them"}, let_through.samples);
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
  f.array({"let_through", "", "pass lists of the candidate that let packets through though a drop list matches"},
          radius.let_through, "let through");
  f.array({"talkers", "", "addresses with most of the packets whose verdict changes"}, radius.talkers, "talker");
  f({"tunnels_differ", "", "packets inside of tunnels are known as what runs sees them"}, radius.are_tunnels_different);
}

void members(Fields& f, PlanAnswer& answer) {
  f({"ok", "", "a reload would be taken, and no limit of `plan` is exceeded"}, answer.ok);
  f.object({"generation", "", "that runs, and is compared with"}, answer.generation, "generation");
  members(f, answer.preview);
  f.object({"before", "", "what runs costs"}, answer.before, "cost");
  f.object({"after", "", "what the candidate costs"}, answer.after, "cost");
  f.by_name({"phases", "ms", "how long each phase of compiling took"}, answer.phases, &PhaseTime::name,
            &PhaseTime::milliseconds);
  f({"total_ms", "ms", "for all of it"}, answer.total_ms);
  f.maybe_object({"radius", "", "what would become of the recent traffic"}, answer.radius, "radius");
  f.unless_empty({"why_no_radius", "", "why that is not known"}, answer.why_no_radius);
  f.array({"refused", "", "feeds that would not be taken: their lists would keep what they have"}, answer.refused,
          "refused feed");
  f.array({"over_limits", "", "limits of `plan` that it exceeds"}, answer.over_limits, "exceeded limit");
  members(f, answer.diagnostics);
  f.unless_empty({"error", "", "when something else than the policy is wrong"}, answer.error);
}

// ------------------------------------------------------------------------------------------------- history, confirm

void members(Fields& f, HistoryRow& row) {
  f({"number", "", "of the generation"}, row.number);
  f({"at", "Unix seconds", "when it was published"}, row.at);
  f({"cause", "", "what it was published for"}, row.cause);
  std::optional<uint32_t> by = row.uid == kNobody ? std::nullopt : std::optional<uint32_t>(row.uid);
  f.maybe({"by", "", "who asked for it: the number of the user"}, by);
  if (f.reading()) row.uid = by.value_or(kNobody);
  f({"kept", "", "its content is kept: rollback can publish it again"}, row.kept);
  f.array({"changes", "", "lists that are not as in the generation before"}, row.changes, "list change");
}

void members(Fields& f, HistoryAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f.unless_empty({"notice", "", "what is waited for: a confirmation, or a reload after a rollback"}, answer.notice);
  f.array({"generations", "", "newest first, 200 at most"}, answer.generations, "history row");
}

void members(Fields& f, ConfirmAnswer& answer) {
  f({"ok", "", "always true: a failure has error alone"}, answer.ok);
  f.object({"generation", "", "that stays"}, answer.generation, "generation");
}

// ----------------------------------------------------------------------------------------------------------- shadow

namespace {

std::string row_name(const wire::ShadowList& list) {
  switch (static_cast<wire::DroppedBy>(list.by)) {
    case wire::DroppedBy::list:
      return wire::get_text(list.name);
    case wire::DroppedBy::default_action:
      return "(default)";
    case wire::DroppedBy::unparsed:
      return "(unparsed)";
    case wire::DroppedBy::no_snapshot:
      break;
  }
  return "(unknown)";  // a target may say anything
}

void add(ShadowDifference& sums, const ShadowDifference& more) {
  sums.newly_dropped += more.newly_dropped;
  sums.newly_dropped_bytes += more.newly_dropped_bytes;
  sums.newly_passed += more.newly_passed;
  sums.newly_passed_bytes += more.newly_passed_bytes;
}

template <class Told>
ShadowDifference difference_of(const Told& told) {
  return {told.newly_dropped, told.newly_dropped_bytes, told.newly_passed, told.newly_passed_bytes};
}

ShadowDifference& row_of(std::vector<ShadowListRow>& rows, const std::string& name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const ShadowListRow& row) { return row.list == name; });
  return found != rows.end() ? found->difference : rows.emplace_back(ShadowListRow{name, {}}).difference;
}

}  // namespace

void members(Fields& f, ShadowDifference& difference) {
  f({"newly_dropped", "frames", "that the candidate drops, and what runs does not"}, difference.newly_dropped);
  f({"newly_dropped_bytes", "bytes", "of them, without FCS"}, difference.newly_dropped_bytes);
  f({"newly_passed", "frames", "that what runs drops, and the candidate does not"}, difference.newly_passed);
  f({"newly_passed_bytes", "bytes", "of them, without FCS"}, difference.newly_passed_bytes);
}

void members(Fields& f, ShadowListRow& row) {
  f({"list", "",
     "that drops: the candidate's of newly_dropped, that of what runs of newly_passed; or (default), (unparsed)"},
    row.list);
  members(f, row.difference);
}

void members(Fields& f, ShadowFlowRow& row) {
  f({"packet", "", "as explain takes it; empty: its headers are not understood"}, row.packet);
  f({"running", "", "what runs says: drop or pass, and by what"}, row.running);
  f({"candidate", "", "what the candidate says"}, row.candidate);
  f({"frames", "", "of this flow that were sampled"}, row.frames);
  f({"at", "Unix seconds", "when the last of them came"}, row.at);
}

void members(Fields& f, ShadowTargetRow& row) {
  f({"socket", "", "names the target"}, row.socket);
  f({"acknowledged", "", "it judges by the candidate; after the end: nothing is left to do there"}, row.acknowledged);
  f({"since", "Unix seconds", "since when it counts: it begins anew after a restart; 0: never"}, row.since);
  f({"packets", "frames", "that it judged by the candidate"}, row.packets);
  f.or_null({"cycles", "TSC cycles", "that judging took a packet; null: not known"}, row.cycles);
  f.or_null({"nanoseconds", "ns", "the same in time; null: not known"}, row.nanoseconds);
  members(f, row.difference);
  f.unless_empty({"error", "", "why it does not judge by the candidate"}, row.error);
}

void members(Fields& f, ShadowAnswer& answer) {
  f({"ok", "", "every target judges by the candidate, or none should"}, answer.ok);
  f({"on", "", "a candidate judges; false: what is told is of the last one"}, answer.on);
  f({"file", "", "the policy that the candidate was compiled from; empty: there was none"}, answer.file);
  f({"one_in", "", "of so many batches of frames one is judged; 1: all"}, answer.one_in);
  f({"at", "Unix seconds", "when it began"}, answer.at);
  f.object({"candidate", "", "the generation that the candidate is"}, answer.candidate, "generation");
  f.object({"beside", "", "what ran when it began"}, answer.beside, "generation");
  f.object({"generation", "", "what runs now"}, answer.generation, "generation");
  f({"digest", "", "XXH3-128 of the candidate's bytes, hexadecimal"}, answer.digest);
  f({"entries", "", "of all lists of the candidate"}, answer.entries);
  f({"snapshot_bytes", "bytes", "of the candidate"}, answer.snapshot_bytes);
  f({"packets", "frames", "that were judged by the candidate"}, answer.packets);
  f({"bytes", "bytes", "of them, without FCS"}, answer.bytes);
  members(f, answer.difference);
  f.array({"lists", "", "the same by what drops them; those without a difference are left out"}, answer.lists,
          "shadow list");
  f.array({"flows", "", "packets that both judge differently, of those that were sampled"}, answer.flows,
          "shadow flow");
  f({"lost", "frames", "that both judge differently and that were not sampled"}, answer.lost);
  f.array({"targets", "", "what each does, and counted"}, answer.targets, "shadow target");
  f.unless_empty({"ended", "", "why there is no shadow any more"}, answer.ended);
  members(f, answer.diagnostics);
  f.unless_empty({"error", "", "why the candidate does not judge everywhere"}, answer.error);
}

void members(Fields& f, PromoteAnswer& answer) {
  members(f, answer.reload);
  f({"judged_digest", "", "of the bytes that the shadow judged by"}, answer.judged_digest);
  f({"enforced_digest", "", "of the snapshot that is enforced now: the same after a promotion"},
    answer.enforced_digest);
  f.unless_empty({"overlay_digest", "", "of the overlay on it, with what changed since; missing: there is none"},
                 answer.overlay_digest);
  f.unless_empty({"notice", "", "what the next reload would change, because it reads the policy file"},
                 answer.reload.notice);
}

void add(ShadowAnswer& answer, const std::string& socket, bool acknowledged, const std::optional<wire::Shadow>& told,
         const std::string& error) {
  ShadowTargetRow& row = answer.targets.emplace_back();
  row.socket = socket;
  row.acknowledged = acknowledged;
  row.error = error;
  if (!told) return;
  const wire::ShadowBody& body = told->body;
  row.since = static_cast<int64_t>(body.began_unix_s);
  row.packets = body.packets;
  row.difference = difference_of(body);
  if (body.packets != 0) {
    constexpr double kNsOfSecond = 1e9;
    const double each = static_cast<double>(body.cycles) / static_cast<double>(body.packets);
    if (body.tsc_hz != 0) row.cycles = each;
    row.nanoseconds = body.tsc_hz != 0 ? each * kNsOfSecond / static_cast<double>(body.tsc_hz) : each;
  }
  answer.packets += body.packets;
  answer.bytes += body.bytes;
  answer.lost += body.lost;
  add(answer.difference, row.difference);
  for (const wire::ShadowList& list : told->lists) add(row_of(answer.lists, row_name(list)), difference_of(list));
}

std::string credit_text(const wire::ShadowCredit& credit) {
  const char* verdict = credit.dropped != 0 ? "drop" : "pass";
  switch (credit.by) {
    case wire::DroppedBy::list:
      return fmt::format("{} by list {}", verdict, wire::get_text(credit.list));
    case wire::DroppedBy::unparsed:
      return fmt::format("{} by unparsed", verdict);
    case wire::DroppedBy::default_action:
    case wire::DroppedBy::no_snapshot:
      break;
  }
  return fmt::format("{} by default", verdict);
}

std::string digest_text(const std::array<uint64_t, 2>& digest) {
  return fmt::format("{:016x}{:016x}", digest[1], digest[0]);
}

}  // namespace weir::control
