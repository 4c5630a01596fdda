#include "control/tell/answer/request.h"

namespace weir::control {

void members(Fields& f, Request& request) {
  f.unless_empty({"command", "", "what is wanted"}, request.command);
  f.maybe({"key", "", "explain: an address, or address:port, or a packet"}, request.key);
  f.maybe({"frame", "", "explain, instead of a key: a whole frame from its Ethernet header on, in hexadecimal digits"},
          request.frame);
  f.maybe({"name", "",
           "list: only this one; accept: the list whose feed is taken as it is; fetch: the list whose feed is asked "
           "for; add, del, flush: the list that "
           "changes; entries, export: the list that is read; drops: only what this list drops"},
          request.name);
  f.maybe({"on", "", "bypass: true or false"}, request.on);
  f.maybe({"interface", "", "detach: only this one"}, request.interface);
  f.maybe(
      {"action", "", "add, del, without a name: the one dynamic list with this action; drop or pass; default: drop"},
      request.action);
  f.unless_empty({"entries", "", "add, del: as controlctl add takes them"}, request.entries);
  f.maybe({"ttl", "seconds", "add: how long they stay"}, request.ttl);
  f.maybe({"comment", "", "add: shown wherever the entries are"}, request.comment);
  f.unless_empty({"ttls", "seconds", "add: how long each of the entries stays, in their order; 0: as ttl says"},
                 request.ttls);
  f.unless_empty({"comments", "", "add: of each of the entries, in their order; an empty one: as comment says"},
                 request.comments);
  f.maybe({"confirm", "seconds", "reload: goes back by itself unless confirm comes in time"}, request.confirm);
  f.maybe({"number", "", "rollback, explain: the number of a generation"}, request.number);
  f.maybe({"at", "Unix seconds", "explain: what was enforced then"}, request.at);
  f.maybe({"verbose", "", "explain of the past: true: also how its snapshot answers, where that is kept"},
          request.verbose);
  f.maybe({"policy", "", "plan, shadow-begin: the text of a policy; plan: without it the policy that runs is meant"},
          request.policy);
  f.maybe({"path", "", "plan, shadow-begin: of that policy, where its relative feeds begin"}, request.path);
  f.maybe({"file", "", "plan: read instead of the feed of the list `name`"}, request.file);
  f.maybe({"url", "", "plan: fetched, and read instead of the feed of the list `name`"}, request.url);
  f.maybe({"one_in", "", "shadow-begin: of so many batches of frames one is judged; 1: all"}, request.one_in);
  f.maybe({"force", "", "reload: true: whatever the limits of `plan` say"}, request.force);
  f.maybe({"after", "", "entries, export, drops: `next` of the page before; drops: or `now`"}, request.after);
  f.maybe({"follow", "", "drops: true: waits for news, and has drops sampled for 5 s"}, request.follow);
  f.maybe({"filter", "", "drops: a program as `tcpdump -ddd` prints it, with commas for ends of lines"},
          request.filter);
}

void members(Fields& f, Head& head) {
  f({"version", "", "of the program that answers"}, head.version);
  f.unless_empty({"error", "", "why the request failed"}, head.error);
}

std::string failure_line(const std::string& error) {
  return write_json(Head{WEIR_VERSION, error}).line();
}

}  // namespace weir::control
