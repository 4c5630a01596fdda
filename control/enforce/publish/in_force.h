#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/policy/model/target.h"

namespace weir::control {

// Who enforces what is published, kept beside the last good (STATE_DIR/targets): a start on a policy that cannot be
// read gives the last good to those who had it, and to nobody else.
struct InForce {
  std::string config;               // absolute path of the policy that was published
  std::vector<TargetSpec> targets;  // of the policy, or of the options
  bool operator==(const InForce&) const = default;
};
std::string render(const InForce& in_force);
std::optional<InForce> parse_in_force(const std::string& text);  // empty: damaged
Result<void> write_in_force(const std::string& state_dir, const InForce& in_force);
// Empty: nothing was published yet. Error: damaged, or cannot be read.
Result<std::optional<InForce>> read_in_force(const std::string& state_dir);

// Both paths lead to one file, however they are written: relative, absolute, by links.
bool is_same_file(const std::string& one, const std::string& other);

// Where the policy of this path keeps its state, when that is not default_dir: kept in default_dir/state_of, because
// the policy that says it may be the one that cannot be read. Found again by each path of the policy. config: absolute.
Result<void> remember_state_dir(const std::string& default_dir, const std::string& config,
                                const std::string& state_dir);
// default_dir when nothing else is remembered.
std::string remembered_state_dir(const std::string& default_dir, const std::string& config);

}  // namespace weir::control
