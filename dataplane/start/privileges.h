#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "dataplane/start/capabilities.h"
#include "dataplane/start/state_dir.h"
#include "dataplane/start/syscall_filter.h"

// What the process may still do once its ports run: as little as they need. docs/operate/privileges.md
namespace weir::dataplane {

constexpr const char* kDefaultUser = "weir";

struct User {
  std::string name;
  uid_t uid;
  gid_t gid;
};

// Empty: this machine has no such user.
std::optional<User> find_user(const std::string& name);

struct PrivilegeSettings {
  std::optional<User> user;  // empty: stay who we are
  Capabilities keep = 0;     // besides what the drivers need
  Seccomp seccomp = Seccomp::refuse;
};

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
