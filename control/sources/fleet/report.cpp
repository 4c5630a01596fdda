#include "control/sources/fleet/report.h"

#include "control/base/json/json.h"
#include "control/sources/fleet/names.h"

namespace weir::control::fleet {

void members(Fields& f, Ask& ask) {
  f({"id", "", "of the question, random"}, ask.id);
  f({"revision", "", "that is asked about"}, ask.revision);
  f({"by", "", "who asks"}, ask.by);
  f({"at", "s", "when, Unix time"}, ask.at);
}

void members(Fields& f, ToldShare& share) {
  f({"value", "", "of the packets"}, share.value);
  f({"low", "", "of its interval of 95 %"}, share.low);
  f({"high", "", "of the same"}, share.high);
}

void members(Fields& f, Told& told) {
  f({"node", "", "its name"}, told.node);
  f({"group", "", "that it is in"}, told.group);
  f.unless_empty({"error", "", "why it has no answer"}, told.error);
  f.unless_empty({"over_limits", "", "why it would refuse the revision"}, told.over_limits);
  f.unless_empty({"why_no_radius", "", "why it does not know what would become of its traffic"}, told.why_no_radius);
  f.maybe_object({"newly_dropped", "", "of its packets"}, told.newly_dropped, "share");
  f.maybe_object({"newly_passed", "", "of its packets"}, told.newly_passed, "share");
  f.maybe_object({"dropped_before", "", "of its packets"}, told.dropped_before, "share");
  f.maybe_object({"dropped_after", "", "of its packets"}, told.dropped_after, "share");
  f({"samples", "", "of its traffic that were judged"}, told.samples);
  f({"packets_per_s", "", "that it sees now"}, told.packets_per_s);
  f({"entries", "", "of the revision"}, told.entries);
  f({"snapshot_bytes", "bytes", "of its snapshot there"}, told.snapshot_bytes);
}

std::string text_of(const Ask& ask) {
  return write_json(ask).line();
}

std::string text_of(const Told& told) {
  return write_json(told).line();
}

Result<Ask> read_ask(std::string_view text) {
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{document.error()};
  Result<Ask> ask = read_json<Ask>(*document);
  if (ask && (!is_name(ask->id) || ask->revision == 0)) return Error{"it is no question"};
  return ask;
}

Result<Told> read_told(std::string_view text) {
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{document.error()};
  return read_json<Told>(*document);
}

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
