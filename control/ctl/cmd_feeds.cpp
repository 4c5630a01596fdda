#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "control/answer/feeds.h"
#include "control/answer/reload.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace cmd_feeds {

void show(const FeedsAnswer& answer) {
  Table table({{"list"},
               {"state"},
               {"entries", Table::Align::right},
               {"bad lines", Table::Align::right},
               {"last good", Table::Align::right},
               {"file"}});
  for (const FeedDetails& feed : answer.feeds) {
    table.row({feed.list, feed.state == "refused" ? "REFUSED" : feed.state, count(feed.entries), count(feed.bad),
               age(feed.taken_at), feed.file});
  }
  fmt::print("{}", table.text());
  for (const FeedDetails& feed : answer.feeds) {
    if (feed.state != "refused") continue;
    fmt::print("\n{}: refused {}: {}\nhint: {}\n", feed.list, age(feed.since), feed.reason, feed.hint);
  }
}

Run configure(Options& options) {
  auto accepted = std::make_shared<std::string>();
  options.text("--accept", "NAME", *accepted, "take the feed of this list as it is now, whatever its guard says");
  return [accepted](const Context& context) {
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
