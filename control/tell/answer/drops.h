#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/wire.h"
#include "control/base/json/fields.h"
#include "control/enforce/capture/capture.h"
#include "control/tell/answer/stats.h"

namespace weir::control {

// A sampled drop: a line of `controlctl drops --json` (docs/operate/drops.md).
struct DropLine {
  std::string time;  // 2026-12-01T10:15:00.123456Z
  wire::Generation generation;
  std::string target;
  uint32_t port = 0;
  std::string interface;  // of XDP: the port's name; empty: it is gone, or a data plane's
  uint32_t queue = 0;
  std::string reason;  // list | default | unparsed | no_snapshot
  std::string list;    // reason list
  struct Entry {
    std::string entry, file;
    uint32_t line = 0;    // 0: controlctl add
    std::string comment;  // of the policy file
  };
  std::optional<Entry> entry;
  uint32_t frame_bytes = 0;
  uint32_t one_in = 0;
  // Of the packet that drops.
  struct Packet {
    uint32_t layer = 1;
    std::string src, dst;
    std::vector<std::string> values;  // of fields(), in their order; empty: the packet does not have it
    std::string text;                 // as `controlctl explain` takes it
  };
  std::optional<Packet> packet;
};
void members(Fields& f, DropLine::Entry& entry);
void members(Fields& f, DropLine::Packet& packet);
void members(Fields& f, DropLine& line);

// A page of them.
struct DropsAnswer {
  bool sampling = false;
  std::string next;
  bool more = false;
  uint64_t missed = 0;
  DropCounts counts;
  std::vector<DropLine> drops;
};
void members(Fields& f, DropCounts& counts);
void members(Fields& f, DropsAnswer& answer);

// What did not come to the reader of `controlctl drops --follow`, since the line before of this kind.
struct DropGap {
  std::string gap;  // one line for people: what happened
  uint64_t limited = 0, lost = 0, missed = 0, past_rate = 0;
  bool any() const { return limited + lost + missed + past_rate != 0; }
};
void members(Fields& f, DropGap& gap);

DropLine line_of(const Drop& drop);

}  // namespace weir::control
