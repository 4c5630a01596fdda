#include "control/ctl/fleet_answer.h"

namespace weir::control::ctl {

void members(Fields& f, NodeRow& row) {
  members(f, row.report);
  f({"is_alive", "", "it told so within 15 s"}, row.is_alive);
}

void members(Fields& f, MemberRow& row) {
  f({"endpoint", "", "of etcd"}, row.endpoint);
  f.unless_empty({"version", "", "of etcd"}, row.version);
  f({"database_bytes", "bytes", "of its store"}, row.database_bytes);
  f.unless_empty({"alarms", "", "of etcd, that are raised: with NOSPACE it takes nothing new"}, row.alarms);
  f.unless_empty({"error", "", "why it does not answer"}, row.error);
}

void members(Fields& f, FleetAnswer& answer) {
  f({"ok", "", "it is done"}, answer.ok);
  f.unless_empty({"error", "", "why not"}, answer.error);
  f({"fleet", "", "its name"}, answer.fleet);
  f.maybe_object({"head", "", "which revision each group enforces"}, answer.head, "head");
  f.maybe_array({"nodes", "", "how each stands"}, answer.nodes, "node");
  f.maybe_array({"told", "", "what each node says that the revision would do to its traffic"}, answer.told, "told");
  f.maybe({"newly_dropped", "", "share of the packets that all these nodes see"}, answer.newly_dropped);
  f.maybe({"newly_passed", "", "likewise"}, answer.newly_passed);
  f.maybe_array({"etcd", "", "its members"}, answer.etcd, "member");
  f.maybe_array({"revisions", "", "that are kept, the newest first"}, answer.revisions, "revision");
  f.maybe_array({"log", "", "changes of the head, the newest first"}, answer.log, "head");
  f.maybe({"revision", "", "pushed, or that is enforced again"}, answer.revision);
  f.maybe({"bytes_sent", "bytes", "of files that etcd did not have, packed"}, answer.bytes_sent);
  f.maybe({"files_sent", "", "that etcd did not have"}, answer.files_sent);
  std::vector<std::string> groups = answer.groups.value_or(std::vector<std::string>());
  f.unless_empty({"groups", "", "that have the revision"}, groups);
  f.maybe({"entries", "", "added or deleted"}, answer.entries);
  f.maybe({"missing", "", "that were to be deleted, and were not there"}, answer.missing);
  f.maybe({"waiting", "", "nodes that do not have it yet"}, answer.waiting);
  f.unless_empty({"difference", "", "lines of the policy that differ"}, answer.difference);
}

}  // namespace weir::control::ctl
