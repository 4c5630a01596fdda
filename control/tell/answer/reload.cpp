#include "control/tell/answer/reload.h"

namespace weir::control {

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
  f.by_name({"phases", "ms", "how long each phase took, in their order"}, answer.phases);
  f({"total_ms", "ms", "from the first to the last"}, answer.total_ms);
  f({"entries", "", "of all lists"}, answer.entries);
  f({"snapshot_bytes", "bytes", "of the snapshot, room for more included"}, answer.snapshot_bytes);
  f.array({"changes", "", "lists that are not as in the generation before"}, answer.changes, "list change");
  f.array({"targets", "", "empty when nothing was published"}, answer.targets, "outcome");
  f.array({"refused", "", "feeds that were not taken: their lists keep what they had"}, answer.refused, "refused feed");
  f.array({"over_limits", "", "limits of `plan` that are exceeded: why nothing was published, or feeds were refused"},
          answer.over_limits, "exceeded limit");
  f({"errors", "", "in the policy and its feeds"}, answer.errors);
  f({"warnings", "", "in the policy and its feeds"}, answer.warnings);
  f.array({"diagnostics", "", "the first 100 errors and the first 100 warnings"}, answer.diagnostics, "diagnostic");
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

}  // namespace weir::control
