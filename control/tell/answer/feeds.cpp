#include "control/tell/answer/feeds.h"

namespace weir::control {

void members(Fields& f, FetchDetails& fetch) {
  f({"url", "", "without user and password"}, fetch.url);
  f({"every_s", "seconds", "how often it is asked for; 10 % more or less"}, fetch.every_s);
  f({"tried_at", "Unix seconds", "when it was asked for last; 0: never"}, fetch.tried_at);
  f({"fetched_at", "Unix seconds", "when its server last answered as it should, be it that nothing changed; 0: never"},
    fetch.fetched_at);
  f({"changed_at", "Unix seconds", "when what it answers changed last; 0: never"}, fetch.changed_at);
  f({"next_at", "Unix seconds", "when it is asked for again"}, fetch.next_at);
  f({"bytes", "bytes", "of the file that was fetched last"}, fetch.bytes);
  f({"failures", "", "in a row"}, fetch.failures);
  f.unless_empty({"error", "", "why the last attempt failed"}, fetch.error);
}

void members(Fields& f, FeedNote& warning) {
  f({"reason", "", "the warning, which begins behind the name of the file"}, warning.reason);
  f({"hint", "", "the way out"}, warning.hint);
}

void members(Fields& f, FeedDetails& feed) {
  f({"list", "", "name of the list"}, feed.list);
  f({"file", "", "path, as it was opened"}, feed.file);
  f({"state", "",
     "good: without a warning; warned: taken, with warnings; accepted: by somebody, whatever its guard said; refused: "
     "the list keeps its last good content"},
    feed.state);
  f({"format", "", "that it was read as"}, feed.format);
  f.unless_empty({"why", "", "`format: auto`: what this format was told by"}, feed.why);
  f({"entries", "", "that are enforced"}, feed.entries);
  f({"lines", "", "all lines of what is enforced"}, feed.lines);
  f({"bad", "", "of these, neither entries nor comments"}, feed.bad);
  f({"skipped", "", "of these, understood, but no entries of a list of addresses"}, feed.skipped);
  f({"taken_at", "Unix seconds", "when what is enforced was read for the first time; 0: not known"}, feed.taken_at);
  f({"since", "Unix seconds", "refused: when it was for this reason, the first time in a row"}, feed.since);
  f.unless_empty({"reason", "", "refused: why, with the numbers"}, feed.reason);
  f.unless_empty({"hint", "", "refused: the way out"}, feed.hint);
  f.array({"warnings", "", "about the content that is enforced"}, feed.warnings, "feed warning");
  f.maybe_object({"fetch", "", "of a list with an `url`"}, feed.fetch, "fetch");
}

void members(Fields& f, FeedsAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f.array({"feeds", "", "in the order of the policy"}, answer.feeds, "feed state");
}

namespace {

FeedDetails details_of(const std::string& list, const FeedFile& file) {
  const FeedReport& feed = file.feed;
  FeedDetails details = {list,
                         feed.path,
                         file.state.accepted  ? "accepted"
                         : feed.notes.empty() ? "good"
                                              : "warned",
                         feed.format,
                         feed.why,
                         feed.entries,
                         feed.lines,
                         feed.bad,
                         feed.skipped,
                         file.state.taken_at,
                         0,
                         "",
                         "",
                         feed.notes};
  if (file.refusal) {
    details.file = file.refusal->path;
    details.state = "refused";
    details.since = file.refusal->since;
    details.reason = file.refusal->reason;
    details.hint = file.refusal->hint;
  }
  return details;
}

}  // namespace

std::vector<FeedDetails> feeds_of(const std::vector<ListSummary>& lists) {
  std::vector<FeedDetails> feeds;
  for (const ListSummary& list : lists) {
    for (const FeedFile& file : list.feeds) feeds.push_back(details_of(list.name, file));
    if (!list.file.empty() && list.feeds.empty()) feeds.push_back(details_of(list.name, {}));
  }
  return feeds;
}

}  // namespace weir::control
