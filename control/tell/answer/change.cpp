#include "control/tell/answer/change.h"

namespace weir::control {

void members(Fields& f, ChangeAnswer& answer) {
  f({"ok", "", "on disk, and enforced by every target"}, answer.ok);
  f({"list", "", "that was to change"}, answer.list);
  f.object({"generation", "", "in which it is enforced; where nothing was to be done: that runs"}, answer.generation,
           "generation");
  f({"added", "", "entries that were not there"}, answer.added);
  f({"renewed", "", "that were: they have the new time to live and comment"}, answer.renewed);
  f({"deleted", "", "that are gone"}, answer.deleted);
  f({"missing", "", "that were to go, and were not there"}, answer.missing);
  f.unless_empty(
      {"still_held", "", "one of those that are gone, and the entry of a file that holds it, too: it matches on"},
      answer.still_held);
  f({"widened", "", "of those added or renewed, IPv6 addresses that `ipv6_aggregate` made networks"}, answer.widened);
  f.unless_empty({"widened_texts", "", "the first 5: what each is enforced as"}, answer.widened_texts);
  f({"entries", "", "that the list has of add now"}, answer.entries);
  f({"total_ms", "ms", "from request to answer"}, answer.total_ms);
  f.array({"targets", "", "what became of it there"}, answer.targets, "outcome");
  f.unless_empty({"error", "", "why not every target has it"}, answer.error);
}

}  // namespace weir::control
