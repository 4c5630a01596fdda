#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/policy/model/list.h"
#include "control/tell/answer/parts.h"

namespace weir::control {

void members(Fields& f, LineSample& line);
void members(Fields& f, FeedReport& feed);

// Of a list that `add` and `del` may change.
struct DynamicDetails {
  uint64_t max_entries = 0, max_ttl = 0;
};

struct ListDetails {
  struct Widened {
    uint8_t ipv6_aggregate = 128;
    uint64_t ipv6_widened = 0;
  };
  std::string name, comment, action, mode;
  uint8_t match = 0;  // mask of weir_direction
  uint64_t entries = 0, v4 = 0, v6 = 0, flows = 0;
  std::optional<Widened> widened;
  std::optional<DynamicDetails> dynamic;
  std::optional<FeedReport> feed;
  std::optional<std::vector<FeedReport>> files;
};
void members(Fields& f, ListDetails::Widened& widened);
void members(Fields& f, DynamicDetails& dynamic);
void members(Fields& f, ListDetails& list);

struct ListAnswer {
  wire::Generation generation;
  std::vector<ListDetails> lists;
};
void members(Fields& f, ListAnswer& answer);

}  // namespace weir::control
