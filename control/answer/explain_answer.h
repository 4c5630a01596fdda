#pragma once

#include "control/answer/explain.h"
#include "control/answer/parts.h"

namespace weir::control {

void members(Fields& f, LineBits& line);
void members(Fields& f, ShapeCondition& condition);
void members(Fields& f, ShapeProbe& probe);
void members(Fields& f, OriginMatch& origin);
void members(Fields& f, Verdict& verdict);

struct ExplainAnswer {
  Explanation explanation;
  wire::Generation generation;
};
void members(Fields& f, ExplainAnswer& answer);

}  // namespace weir::control
