#include "control/sources/fleet/report.h"

#include "control/base/json/json.h"

namespace weir::control::fleet {

void members(Fields& f, Report& report) {
  f({"node", "", "its name"}, report.node);
  f({"group", "", "that it is in"}, report.group);
  f({"version", "", "of weir"}, report.version);
  f({"turn", "", "of the fleet's head that it follows"}, report.turn);
  f({"revision", "", "that it enforces; 0: none yet"}, report.revision);
  f({"wanted", "", "that its group is to enforce"}, report.wanted);
  f({"state", "", "enforcing, publishing (not every target has it), taking, refused or waiting"}, report.state);
  f.unless_empty({"error", "", "why it does not enforce what is wanted"}, report.error);
  f({"generation", "", "number of its generation"}, report.generation);
  f({"entries", "", "of the fleet that it enforces"}, report.entries);
  f({"entries_refused", "", "that it does not take"}, report.entries_refused);
  f({"entries_at", "", "revision of etcd up to which it has them"}, report.entries_at);
  f({"packets", "", "since its enforcers started"}, report.packets);
  f({"dropped", "", "of them"}, report.dropped);
  f({"packets_per_s", "", "lately"}, report.packets_per_s);
  f({"dropped_share", "", "of packets, lately"}, report.dropped_share);
  f.maybe({"expected_share", "", "of packets that the revision drops, told before it was taken"},
          report.expected_share);
  f.maybe({"expected_high", "", "the upper end of its interval"}, report.expected_high);
  f({"enforced_at", "s", "when it enforced this revision, Unix time"}, report.enforced_at);
  f({"at", "s", "when it told this, Unix time"}, report.at);
}

std::string text_of(const Report& report) {
  return write_json(report).line();
}

Result<Report> read_report(std::string_view text) {
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{document.error()};
  return read_json<Report>(*document);
}

}  // namespace weir::control::fleet
