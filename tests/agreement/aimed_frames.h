#pragma once

#include "control/policy/model/list.h"
#include "tests/agreement/choices.h"
#include "tests/agreement/random_frames.h"

// Frames that are drawn to hit one entry: plain ones, as often as not with everything that it asks for, else with one
// thing that is nearly so.
namespace weir::agreement {

void aim_at(Choices& choices, const control::Entry<Ipv4>& entry, Frame& frame);
void aim_at(Choices& choices, const control::Entry<Ipv6>& entry, Frame& frame);
void aim_at(Choices& choices, const control::Flow& flow, Frame& frame);

// From anywhere to anywhere: most likely on no list.
void make_stranger(Choices& choices, Frame& frame);

}  // namespace weir::agreement
