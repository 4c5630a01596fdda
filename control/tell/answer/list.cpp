#include "control/tell/answer/list.h"

namespace weir::control {

void members(Fields& f, LineSample& line) {
  f({"line", "", "its number"}, line.line);
  f({"text", "", "of it, 80 characters at most"}, line.text);
  f({"reason", "", "what is wrong with it"}, line.reason);
  std::string kind = LineSample::kNames[line.kind];
  f({"kind", "",
     "bad; skipped: understood, and no entry of this list; host_bits: an entry whose host bits were cleared"},
    kind);
  if (!f.reading()) return;
  for (size_t i = 0; i < LineSample::kKinds; i++) {
    if (kind == LineSample::kNames[i]) line.kind = static_cast<LineSample::Kind>(i);
  }
}

void members(Fields& f, FeedReport& feed) {
  f({"path", "", "as it was opened"}, feed.path);
  f({"lines", "", "all lines of the file"}, feed.lines);
  f({"entries", "", "lines that are entries"}, feed.entries);
  f({"bad", "", "lines that are neither entries nor comments"}, feed.bad);
  f({"skipped", "", "lines that are understood, and no entries of a list of addresses"}, feed.skipped);
  f({"host_bits", "", "entries whose host bits were cleared"}, feed.host_bits);
  f.array({"samples", "", "the first 5 lines of each kind"}, feed.samples, "line to look at");
}

void members(Fields& f, ListDetails::Widened& widened) {
  f({"ipv6_aggregate", "bits", "length that single IPv6 addresses are widened to; unless it is 128"},
    widened.ipv6_aggregate);
  f({"ipv6_widened", "", "addresses that were widened"}, widened.ipv6_widened);
}

void members(Fields& f, DynamicDetails& dynamic) {
  f({"max_entries", "", "that may be added"}, dynamic.max_entries);
  f({"max_ttl", "seconds", "that one may stay; 0: for ever"}, dynamic.max_ttl);
}

void members(Fields& f, ListDetails& list) {
  f({"name", "", "of the list"}, list.name);
  f.unless_empty({"comment", "", "of the policy"}, list.comment);
  f({"action", "", "drop or pass"}, list.action);
  f({"mode", "", "enforce or monitor"}, list.mode);
  directions(f, {"match", "", "src, dst: what entries without named fields are compared with; empty: not known"},
             list.match);
  f({"entries", "", "all"}, list.entries);
  f({"v4", "", "IPv4 addresses, prefixes and ranges"}, list.v4);
  f({"v6", "", "IPv6 addresses, prefixes and ranges"}, list.v6);
  f({"flows", "", "entries with more fields"}, list.flows);
  f.group("ipv6_aggregate", list.widened);
  f.maybe_object({"dynamic", "", "of a list with `dynamic: true`"}, list.dynamic, "dynamic");
  f.maybe_object({"feed", "", "of a list with a file"}, list.feed, "feed");
  f.maybe_array({"files", "", "of a list whose file is a pattern or a folder; `feed` has their sums"}, list.files,
                "feed");
}

void members(Fields& f, ListAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f.array({"lists", "", "in the order of the policy"}, answer.lists, "one list");
}

}  // namespace weir::control
