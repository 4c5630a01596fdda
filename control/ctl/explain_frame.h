#pragma once

#include <string>

#include "control/ctl/line/command.h"
#include "control/tell/answer/request.h"
#include "control/tell/answer/walk.h"

// `explain` of a whole frame: where it comes from, and the walk, shown.
namespace weir::control::ctl {

struct FrameArguments {
  std::string packet;   // --packet
  std::string pcap;     // --pcap
  unsigned number = 1;  // --frame
  bool is_given() const { return !packet.empty() || !pcap.empty(); }
};
// Adds --packet, --pcap, --frame.
void add_frame_options(Options& options, FrameArguments& arguments);

// Fills request.frame. False: that cannot be done, which was said.
bool read_frame(const Context& context, const FrameArguments& arguments, Request& request);

void show_frame(const FrameWalk& walk);
void show_filters(const FrameWalk& walk);  // how they were asked

}  // namespace weir::control::ctl
