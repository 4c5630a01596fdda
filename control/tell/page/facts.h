#pragma once

#include <deque>
#include <optional>
#include <string>

#include "control/tell/answer/change.h"
#include "control/tell/answer/explain.h"
#include "control/tell/answer/list.h"
#include "control/tell/answer/stats.h"
#include "control/tell/answer/status.h"
#include "control/tell/page/looks.h"

namespace weir::control::page {

// What a visitor asked to be explained.
struct Asked {
  std::string key;
  std::optional<ExplainAnswer> answer;
  std::string error;  // why there is no answer
};

// All that the page shows. Before the first policy is compiled there is a status alone.
struct Facts {
  std::string host;  // name of the machine; may be empty
  double now = 0;    // Unix seconds
  StatusAnswer status;
  StatsAnswer stats;
  ListAnswer lists;
  FeedsAnswer feeds;
  HistoryAnswer history;
  std::string history_error;
  const Looks* looks = nullptr;  // null: none
  std::optional<Asked> asked;
};

}  // namespace weir::control::page
