#pragma once

#include <span>

#include "control/compile/compile.h"
#include "control/compile/overlay.h"
#include "control/tell/answer/list.h"
#include "control/tell/answer/recommend.h"

namespace weir::control {

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
