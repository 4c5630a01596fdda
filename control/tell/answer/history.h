#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/tell/answer/reload.h"

namespace weir::control {

struct HistoryRow {
  uint64_t number = 0;
  int64_t at = 0;
  std::string cause;
  std::optional<uint32_t> by;
  bool kept = false;
  std::vector<ListChange> changes;
};
void members(Fields& f, HistoryRow& row);

// The newest kMost publications, newest first.
struct HistoryAnswer {
  static constexpr size_t kMost = 200;
  wire::Generation generation;
  std::string notice;
  std::vector<HistoryRow> generations;
};
void members(Fields& f, HistoryAnswer& answer);

struct ConfirmAnswer {
  bool ok = true;
  wire::Generation generation;
};
void members(Fields& f, ConfirmAnswer& answer);

}  // namespace weir::control
