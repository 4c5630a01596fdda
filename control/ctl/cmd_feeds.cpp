#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "common/clock.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/list.h"

namespace weir::control::ctl {

namespace cmd_feeds {

void show_fetched(const FeedsAnswer& answer) {
  Table table({{"fetched"},
               {"asked", Table::Align::right},
               {"answered", Table::Align::right},
               {"changed", Table::Align::right},
               {"next in", Table::Align::right},
               {"url"}});
  bool is_empty = true;
  for (const FeedDetails& feed : answer.feeds) {
    if (!feed.fetch) continue;
    const FetchDetails& fetch = *feed.fetch;
    is_empty = false;
    table.row({feed.list, age(fetch.tried_at), age(fetch.fetched_at), age(fetch.changed_at),
               fmt::format("{} s", std::max<int64_t>(0, fetch.next_at - unix_now())), fetch.url});
  }
  if (!is_empty) print("\n{}", table.text());
  for (const FeedDetails& feed : answer.feeds) {
    if (!feed.fetch || feed.fetch->error.empty()) continue;
    print("\n{}: not fetched (failures in a row: {}): {}\n", feed.list, feed.fetch->failures, feed.fetch->error);
  }
}

std::string state_text(const FeedDetails& feed) {
  if (feed.state == "refused") return "REFUSED";
  if (feed.warnings.empty()) return feed.state;
  return (feed.state == "warned" ? "" : feed.state + ", ") + plural(feed.warnings.size(), "warning");
}

void show(const FeedsAnswer& answer) {
  Table table({{"list"},
               {"state"},
               {"format"},
               {"entries", Table::Align::right},
               {"bad lines", Table::Align::right},
               {"skipped", Table::Align::right},
               {"last good", Table::Align::right},
               {"file"}});
  for (const FeedDetails& feed : answer.feeds) {
    table.row({feed.list, state_text(feed), feed.format, count(feed.entries), count(feed.bad), count(feed.skipped),
               age(feed.taken_at), feed.file});
  }
  print("{}", table.text());
  show_fetched(answer);
  const std::string* told = nullptr;
  for (const FeedDetails& feed : answer.feeds) {
    if (feed.own_cut != 0 && (told == nullptr || *told != feed.list)) {
      print("\n{}: policy.own is cut out of {}\n", feed.list, plural(feed.own_cut, "entry", "entries"));
      told = &feed.list;
    }
    if (feed.state == "refused") {
      print("\n{}: refused {}: {}\nhint: {}\n", feed.list, age(feed.since), feed.reason, feed.hint);
    }
    for (const FeedNote& warning : feed.warnings) {
      const char* of = feed.state == "refused" ? "the last good content " : "";
      print("\n{}: warning: {}{}\nhint: {}\n", feed.list, of, warning.reason, warning.hint);
    }
  }
}

Run configure(Options& options) {
  auto accepted = std::make_shared<std::string>(), fetched = std::make_shared<std::string>();
  options.text("--accept", "NAME", *accepted, "take the feed of this list as it is now, whatever its guard says");
  options.text("--fetch", "NAME", *fetched, "ask for the feed of this list, which has an url, now");
  return [accepted, fetched](const Context& context) {
    if (!fetched->empty()) {
      Request wanted{"fetch"};
      wanted.name = *fetched;
      return request(context, wanted, show);
    }
    if (accepted->empty()) return request(context, {"feeds"}, show);
    Request wanted{"accept"};
    wanted.name = *accepted;
    return request(context, wanted, print_reload);
  };
}

}  // namespace cmd_feeds

const Command kFeeds = {
    "feeds",
    Group::look,
    "the feed of each list: its state, entries, age, and why it is refused",
    "A feed that its guard refuses leaves its list as it was. --accept reloads, and takes the feed as it is then. That "
    "is remembered until the feed changes again.",
    cmd_feeds::configure,
    [](MemberTable& table) { table.add<FeedsAnswer>("feeds"); }};

}  // namespace weir::control::ctl
