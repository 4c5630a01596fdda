#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/policy/model/target.h"

namespace weir::control {

// Where a controld keeps its state and whom it speaks to, written down beside its socket: controlctl gives the orders
// of the panic switch itself while that controld is dead, stopped or starting.
struct Place {
  std::string path;  // of the file; empty: it is not written
  std::string state_dir, bpf_dir;
  std::vector<TargetSpec> targets;
};
std::string place_of(const std::string& controld_socket);  // path of the file
// It is there, and we may not read it: its targets and its state are not ours to use.
bool is_hidden(const std::string& path);
Result<void> write_place(const Place& place);
// Empty: there is none, or it cannot be read.
std::optional<Place> read_place(const std::string& path);

}  // namespace weir::control
