#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "control/answer/list.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace cmd_list {

void show(const ListAnswer& answer) {
  Table table({{"list"},
               {"action"},
               {"mode"},
               {"match"},
               {"entries", Table::Align::right},
               {"v4", Table::Align::right},
               {"v6", Table::Align::right},
               {"flows", Table::Align::right},
               {"bad lines", Table::Align::right},
               {"feed"}});
  for (const ListDetails& list : answer.lists) {
    table.row({list.name, list.action, list.mode, directions_text(list.match), count(list.entries), count(list.v4),
               count(list.v6), count(list.flows), list.feed ? count(list.feed->bad) : "",
               list.feed ? list.feed->path : ""});
  }
  fmt::print("{}", table.text());
}

// One list: also what became of its IPv6 hosts, and what is wrong with its feed.
void show_one(const ListAnswer& answer) {
  show(answer);
  for (const ListDetails& list : answer.lists) {
    if (list.widened) {
      fmt::print("\n{} widened to /{}\n", plural(list.widened->ipv6_widened, "IPv6 address", "IPv6 addresses"),
                 list.widened->ipv6_aggregate);
    }
    if (!list.feed) continue;
    const FeedReport& feed = *list.feed;
    fmt::print("\nfeed {}: {}, {}, {}\n", feed.path, plural(feed.lines, "line"),
               plural(feed.entries, "entry", "entries"), plural(feed.bad, "bad line"));
    for (const BadLine& bad : feed.samples) fmt::print("  line {}: {}: {}\n", bad.line, bad.reason, bad.text);
  }
}

Run configure(Options& options) {
  auto name = std::make_shared<std::string>();
  options.argument("NAME", *name, "only this list, with samples of its feed's bad lines");
  return [name](const Context& context) {
    Request wanted{"list"};
    if (!name->empty()) wanted.name = *name;
    return request(context, wanted, name->empty() ? show : show_one);
  };
}

}  // namespace cmd_list

const Command kList = {"list", Group::look,         "the lists of the running generation",
                       "",     cmd_list::configure, [](MemberTable& table) { table.add<ListAnswer>("list"); }};

}  // namespace weir::control::ctl
