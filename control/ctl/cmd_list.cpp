#include <fmt/format.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "control/ctl/command.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace {

std::string widened(const Json& list) {
  return fmt::format("{} widened to /{}",
                     plural(list.at("ipv6_widened").get<uint64_t>(), "IPv6 address", "IPv6 addresses"),
                     list.at("ipv6_aggregate").get<unsigned>());
}

void show(const Json& answer) {
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
  for (const Json& list : answer.at("lists")) {
    const bool fed = list.contains("feed");
    table.row({list.at("name").get<std::string>(), list.at("action").get<std::string>(),
               list.at("mode").get<std::string>(), joined(list.at("match")), count(list.at("entries").get<uint64_t>()),
               count(list.at("v4").get<uint64_t>()), count(list.at("v6").get<uint64_t>()),
               count(list.at("flows").get<uint64_t>()), fed ? count(list.at("feed").at("bad").get<uint64_t>()) : "",
               fed ? list.at("feed").at("path").get<std::string>() : ""});
  }
  fmt::print("{}", table.text());
}

// One list: also what became of its IPv6 hosts, and what is wrong with its feed.
void show_one(const Json& answer) {
  show(answer);
  const Json& list = answer.at("lists").at(0);
  if (list.contains("ipv6_aggregate")) fmt::print("\n{}\n", widened(list));
  if (!list.contains("feed")) return;
  const Json& feed = list.at("feed");
  fmt::print("\nfeed {}: {}, {}, {}\n", feed.at("path").get<std::string>(),
             plural(feed.at("lines").get<uint64_t>(), "line"),
             plural(feed.at("entries").get<uint64_t>(), "entry", "entries"),
             plural(feed.at("bad").get<uint64_t>(), "bad line"));
  for (const Json& bad : feed.at("samples")) {
    fmt::print("  line {}: {}: {}\n", bad.at("line").get<uint32_t>(), bad.at("reason").get<std::string>(),
               bad.at("text").get<std::string>());
  }
}

int run(const Context& context) {
  if (context.list.empty()) return request(context, {{"command", "list"}}, show);
  return request(context, {{"command", "list"}, {"name", context.list}}, show_one);
}

void options(CLI::App& app, Context& context) {
  app.add_option("NAME", context.list, "only this list, with samples of its feed's bad lines");
}

}  // namespace

const Command kList = {"list", "the lists of the running generation", options, run};

}  // namespace weir::control::ctl
