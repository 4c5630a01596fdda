#include <fmt/format.h>

#include <cstdio>

#include "control/ctl/command.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace {

constexpr const char* kTotals[] = {
    "packets",    "bytes",          "passed",          "dropped",  "malformed",          "not_ip",
    "incomplete", "default_passed", "default_dropped", "bypassed", "no_snapshot_passed", "no_snapshot_dropped",
    "tx_packets", "tx_lost",        "capture_lost",    "rx_missed"};

std::string share(uint64_t part, uint64_t whole) {
  return whole == 0 ? "" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

void show(const Json& answer) {
  const uint64_t packets = answer.at("packets").get<uint64_t>();
  Table totals({{"counter"}, {"total", Table::Align::right}, {"of packets", Table::Align::right}});
  for (const char* name : kTotals) {
    const uint64_t value = answer.at(name).get<uint64_t>();
    totals.row({name, count(value), std::string_view(name) == "bytes" ? "" : share(value, packets)});
  }
  fmt::print("{}", totals.text());
  if (answer.at("capture").at("on").get<bool>()) fmt::print("\ncapture: {}\n", capture_text(answer.at("capture")));

  Table lists({{"list"},
               {"matched", Table::Align::right},
               {"dropped", Table::Align::right},
               {"passed", Table::Align::right},
               {"would drop", Table::Align::right},
               {"dropped bytes", Table::Align::right}});
  for (const auto& [name, list] : answer.at("lists").items()) {
    lists.row({name, count(list.at("matched").get<uint64_t>()), count(list.at("dropped").get<uint64_t>()),
               count(list.at("passed").get<uint64_t>()), count(list.at("would_drop").get<uint64_t>()),
               bytes(list.at("dropped_bytes").get<uint64_t>())});
  }
  if (!lists.empty()) fmt::print("\n{}", lists.text());

  Table targets({{"target"}, {"packets", Table::Align::right}, {"generation"}, {"counts since"}, {"told"}});
  for (const Json& target : answer.at("targets")) {
    targets.row({target.at("socket").get<std::string>(), count(target.at("packets").get<uint64_t>()),
                 generation_text(target.at("generation")), age(target.at("start_time").get<int64_t>()),
                 target.at("fresh").get<bool>()       ? "now"
                 : target.at("connected").get<bool>() ? "earlier: it does not answer"
                                                      : "earlier: it is away"});
  }
  if (!targets.empty()) fmt::print("\n{}", targets.text());
}

int run(const Context& context) {
  return request(context, {{"command", "stats"}}, show);
}

}  // namespace

const Command kStats = {"stats", "counters since the data planes started: verdicts, reasons, lists", nullptr, run};

}  // namespace weir::control::ctl
