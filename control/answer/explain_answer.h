#pragma once

#include "control/answer/explain.h"
#include "control/answer/parts.h"

namespace weir::control {

void members(Fields& f, LineBits& line);
void members(Fields& f, ShapeCondition& condition);
void members(Fields& f, ShapeProbe& probe);
void members(Fields& f, Origin& origin);
void members(Fields& f, Verdict& verdict);

void members(Fields& f, Explanation& explanation);
void members(Fields& f, PacketExplanation& explanation);

struct ExplainAnswer {
  std::optional<Explanation> of_key;  // one of these two
  std::optional<PacketExplanation> of_packet;
  wire::Generation generation;
};
void members(Fields& f, ExplainAnswer& answer);

}  // namespace weir::control
