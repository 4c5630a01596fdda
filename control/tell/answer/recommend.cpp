#include "control/tell/answer/recommend.h"

namespace weir::control {

void members(Fields& f, Advice& advice) {
  f({"rule", "", "that says so: a row of `controlctl recommend --rules`"}, advice.rule);
  f({"subject", "", "the list; empty: the whole policy"}, advice.subject);
  f({"text", "", "what to do"}, advice.text);
  f({"reason", "", "the numbers that say so"}, advice.reason);
  f.texts({"policy", "", "lines that the policy then has; empty: it stays as it is"}, advice.policy);
  f({"command", "", "that does it, or tells more"}, advice.command);
}

void members(Fields& f, NotJudged& rule) {
  f({"rule", "", "a row of `controlctl recommend --rules`"}, rule.rule);
  f({"reason", "", "what it lacks"}, rule.reason);
}

void members(Fields& f, RecommendAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f({"counted_since", "Unix seconds", "as lists answers"}, answer.counted_since);
  f({"packets", "frames", "judged by all targets since they started"}, answer.packets);
  f.array({"advice", "", "in the order of the rules"}, answer.advice, "advice");
  f.array({"not_judged", "", "rules that there are not enough data for"}, answer.not_judged, "rule not judged");
}

}  // namespace weir::control
