#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "control/compile/compile.h"
#include "control/compile/overlay.h"
#include "control/tell/answer/economics.h"
#include "control/tell/answer/list.h"

// An answer advises changes of the policy by rules about lists and traffic.
namespace weir::control {

// ----------------------------------------------------------------------------------------------------------- answer

// Advice about the policy, from its lists and the traffic. docs/operate/lists.md has the rules.

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

// ------------------------------------------------------------------------------------------------------------ rules

// What the rules look at.
struct AdviceFacts {
  const Policy* policy = nullptr;  // null: what runs is a last good, whose settings are not known
  const Book& book;
  const ListsAnswer& lists;  // of the book, whole
  const std::vector<FeedDetails>& feeds;
  const CompileReport& report;
  const OverlayReport& overlay;
  uint64_t memory_limit = 0;  // 0: not known
  int64_t now = 0;            // Unix seconds
};

// A rule: what must hold for it to say something, for people, and what it says.
struct AdviceRule {
  const char* name;
  const char* condition;
  // Appends. Returns what is missing for it to judge at all; empty: nothing is.
  std::string (*judge)(const AdviceFacts& facts, std::vector<Advice>& advice);
};
std::span<const AdviceRule> advice_rules();

// By all rules, in their order.
RecommendAnswer advise(const AdviceFacts& facts);

}  // namespace weir::control
