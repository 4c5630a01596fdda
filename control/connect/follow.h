#pragma once

#include "control/ctl/adapters.h"

// The adapters of weir-connect: each follows its source until it is told to end, and returns the exit code.
namespace weir::control::ctl {

int follow_crowdsec(const Context& context, CrowdsecArguments& arguments);
int follow_flowspec(const Context& context, const FlowspecArguments& arguments);

}  // namespace weir::control::ctl
