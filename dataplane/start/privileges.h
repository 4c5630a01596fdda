#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/confine/capabilities.h"
#include "common/confine/system_calls.h"
#include "common/result.h"
#include "dataplane/start/state_dir.h"

// What the process may still do once its ports run: as little as they need. docs/operate/security.md
namespace weir::dataplane {

using confine::Capabilities;
using confine::Seccomp;

constexpr const char* kDefaultUser = "weir";

struct User {
  std::string name;
  uid_t uid;
  gid_t gid;
};

// Empty: this machine has no such user.
std::optional<User> find_user(const std::string& name);

struct PrivilegeSettings {
  std::optional<User> user;  // empty: none was named, and there is no kDefaultUser
  Capabilities keep = 0;     // besides what the drivers need
  Seccomp seccomp = Seccomp::refuse;
};

// Error: we are root, and nobody said whom to become, or that we stay root.
Result<void> check_user(const PrivilegeSettings& settings);

// Capabilities that drivers (as rte_eth_dev_info names them) need after the start.
Capabilities needed_by(std::span<const std::string> drivers);

struct OwnFiles {
  std::string socket_path;
  const StateDir& state;
};

struct Privileges {
  std::string text;                // the line at the start
  std::vector<std::string> notes;  // what this kernel or machine does not allow
};

// For every thread there is, and so for every later one. The ports run, no worker does.
Result<Privileges> reduce_privileges(const PrivilegeSettings& settings, std::span<const std::string> drivers,
                                     const OwnFiles& files);

}  // namespace weir::dataplane
