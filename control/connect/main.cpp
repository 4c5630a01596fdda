// weir-connect: the commands of controlctl that make a list follow a source. controlctl starts it.
#include "control/connect/follow.h"
#include "control/ctl/commands.h"

int main(int argc, char** argv) {
  using namespace weir::control::ctl;
  constexpr const Command* kFollowing[] = {&kCrowdsec, &kFlowspec};
  adapters = {follow_crowdsec, follow_flowspec};
  return run_line(kFollowing, argc, argv);
}
