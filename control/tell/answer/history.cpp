#include "control/tell/answer/history.h"

namespace weir::control {

void members(Fields& f, HistoryRow& row) {
  f({"number", "", "of the generation"}, row.number);
  f({"at", "Unix seconds", "when it was published"}, row.at);
  f({"cause", "", "what it was published for"}, row.cause);
  f.maybe({"by", "", "who asked for it: the number of the user"}, row.by);
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

}  // namespace weir::control
