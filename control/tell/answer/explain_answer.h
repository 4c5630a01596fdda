#pragma once

#include "control/tell/answer/explain.h"
#include "control/tell/answer/parts.h"
#include "control/tell/answer/walk.h"

namespace weir::control {

void members(Fields& f, LineBits& line);
void members(Fields& f, ShapeCondition& condition);
void members(Fields& f, ShapeProbe& probe);
void members(Fields& f, Moment& moment);
void members(Fields& f, FeedContent& feed);
void members(Fields& f, FeedColumn& column);
void members(Fields& f, Provenance& from);
void members(Fields& f, Origin& origin);
void members(Fields& f, Verdict& verdict);

void members(Fields& f, GateWalk& gate);
void members(Fields& f, ConditionWalk& condition);
void members(Fields& f, KeyWalk& key);
void members(Fields& f, LayerWalk& layer);

void members(Fields& f, Explanation& explanation);
void members(Fields& f, PacketExplanation& explanation);
void members(Fields& f, FrameWalk& walk);

struct ExplainAnswer {
  std::optional<Explanation> of_key;  // one of these
  std::optional<PacketExplanation> of_packet;
  std::optional<FrameWalk> of_frame;
  wire::Generation generation;
  std::optional<Moment> then = {};  // that generation, when it was asked for
  std::string notice = {};
};
void members(Fields& f, ExplainAnswer& answer);

}  // namespace weir::control
