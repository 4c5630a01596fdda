#include "control/tell/answer/shadow.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::control {

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
  f({"errors", "", "in the candidate's policy and its feeds, when it began"}, answer.errors);
  f({"warnings", "", "likewise"}, answer.warnings);
  f.array({"diagnostics", "", "the first 100 errors and the first 100 warnings"}, answer.diagnostics, "diagnostic");
  f.unless_empty({"error", "", "why the candidate does not judge everywhere"}, answer.error);
}

void members(Fields& f, PromoteAnswer& answer) {
  members(f, answer.reload);
  f({"judged_digest", "", "of the bytes that the shadow judged by"}, answer.judged_digest);
  f({"enforced_digest", "", "of the snapshot that is enforced now: the same after a promotion"},
    answer.enforced_digest);
  f.unless_empty({"overlay_digest", "", "of the overlay on it, with what changed since; missing: there is none"},
                 answer.overlay_digest);
  f.unless_empty({"notice", "", "what the next reload would change, because it reads the policy file"}, answer.notice);
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
