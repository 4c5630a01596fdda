#include <cstdio>
#include <memory>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/advice.h"

namespace weir::control::ctl {

namespace cmd_recommend {

void show(const RecommendAnswer& answer) {
  for (const Advice& advice : answer.advice) {
    print("{}\n  because  {}\n", advice.text, advice.reason);
    const char* title = "policy ";
    for (const std::string& line : advice.policy) {
      print("  {}  {}\n", title, line);
      title = "       ";
    }
    print("  command  {}\n\n", advice.command);
  }
  if (answer.advice.empty()) print("nothing to recommend\n\n");
  for (const NotJudged& rule : answer.not_judged) print("not judged: {}: {}\n", rule.rule, rule.reason);
  print("{} judged", plural(answer.packets, "frame"));
  if (answer.counted_since != 0) print(", counted since {}", age(answer.counted_since));
  print("; generation {}\n", generation_text(answer.generation));
}

int show_rules(const Context&) {
  Table table({{"rule"}, {"says something when"}});
  for (const AdviceRule& rule : advice_rules()) table.row({rule.name, rule.condition});
  print("{}", table.text());
  return kOk;
}

Run configure(Options& options) {
  auto rules = std::make_shared<bool>(false);
  options.flag("--rules", *rules, "the rules, and when each says something; asks nobody");
  return
      [rules](const Context& context) { return *rules ? show_rules(context) : request(context, {"recommend"}, show); };
}

}  // namespace cmd_recommend

const Command kRecommend = {
    "recommend",
    Group::look,
    "what the traffic and the lists say about the policy, each with its reason and its lines",
    "Nothing is changed. What cannot be judged yet, because frames were not counted for long enough, is said.",
    cmd_recommend::configure,
    [](MemberTable& table) { table.add<RecommendAnswer>("recommend"); }};

}  // namespace weir::control::ctl
