#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "control/tell/answer/economics.h"

// What the lists and the traffic say about the policy. docs/operate/lists.md has the rules.
namespace weir::control {

struct Advice {
  std::string rule;                 // a row of advice_rules()
  std::string subject;              // the list; empty: the whole policy
  std::string text;                 // what to do
  std::string reason;               // the numbers that say so
  std::vector<std::string> policy;  // lines that the policy then has; empty: it stays as it is
  std::string command;              // that does it, or tells more
};
void members(Fields& f, Advice& advice);

// A rule that cannot be asked yet.
struct NotJudged {
  std::string rule, reason;
};
void members(Fields& f, NotJudged& rule);

struct RecommendAnswer {
  wire::Generation generation;
  int64_t counted_since = 0;
  uint64_t packets = 0;
  std::vector<Advice> advice;
  std::vector<NotJudged> not_judged;
};
void members(Fields& f, RecommendAnswer& answer);

}  // namespace weir::control
