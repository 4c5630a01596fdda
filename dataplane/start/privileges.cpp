#include "dataplane/start/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/paths.h"

namespace weir::dataplane {

namespace {

constexpr Capabilities kNetAdmin = capability(CAP_NET_ADMIN);
constexpr Capabilities kNetRaw = capability(CAP_NET_RAW);

// By the driver's name. What is not here needs nothing after the start: its descriptors are open, its memory is mapped
// and registered.
struct DriverNeeds {
  std::string_view prefix;
  Capabilities capabilities;
};
constexpr DriverNeeds kDriverNeeds[] = {
    // Takes its XDP program off the interface when it stops.
    {"net_af_xdp", kNetAdmin},
    // The card stays with its kernel driver, which asks for both (DPDK's guide of the mlx5 driver).
    {"mlx", kNetAdmin | kNetRaw},
    {"net_mlx", kNetAdmin | kNetRaw},
};

// A folder with anything else in it is not ours to give away: think of --state-dir /etc.
bool holds_only(const std::string& folder, std::span<const std::string> names) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (std::find(names.begin(), names.end(), entry.path().filename().string()) == names.end()) return false;
  }
  return !error;
}

// What is root's. Whether it worked where it matters is asked afterwards, of who has to write there.
void give(const std::string& path, const User& user) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) == 0 && status.st_uid == 0) (void)!lchown(path.c_str(), user.uid, user.gid);
}

// The state folder with its files; the socket, and its folder, where it is to be removed at the end.
void hand_over(const OwnFiles& files, const User& user) {
  if (holds_only(files.state.path(), StateDir::file_names())) {
    give(files.state.path(), user);
    for (const std::string& name : StateDir::file_names()) give(files.state.path() + "/" + name, user);
  }
  give(files.socket_path, user);
  give(panic_socket_of(files.socket_path), user);
  std::vector<std::string> names;
  for (const std::string& socket : {files.socket_path, default_controld_socket()}) {
    names.push_back(std::filesystem::path(socket).filename().string());
    names.push_back(std::filesystem::path(panic_socket_of(socket)).filename().string());
  }
  if (holds_only(folder_of(files.socket_path), names)) give(folder_of(files.socket_path), user);
}

// In every thread: glibc sees to that.
Result<void> become(const User& user) {
  if (initgroups(user.name.c_str(), user.gid) != 0) return errno_error("cannot take the groups of user " + user.name);
  if (setresgid(user.gid, user.gid, user.gid) != 0) return errno_error("cannot become group of user " + user.name);
  if (setresuid(user.uid, user.uid, user.uid) != 0) return errno_error("cannot become user " + user.name);
  return {};
}

std::string own_name() {
  const passwd* user = getpwuid(geteuid());
  return user != nullptr ? user->pw_name : std::to_string(geteuid());
}

Result<void> check_state_folder(const StateDir& state, const std::string& name) {
  Result<void> writable = state.check_writable();
  if (writable) return {};
  return Error{"user " + name + ", without the capabilities of root, " + writable.error() + "; chown -R " + name + " " +
               state.path() + ", or name its owner in privileges.user"};
}

std::string seccomp_text(Seccomp mode, size_t n_calls) {
  constexpr const char* kWords[] = {"on", "kill", "log", "off"};
  std::string text = std::string("seccomp ") + kWords[static_cast<size_t>(mode)];
  if (mode != Seccomp::off) text += " (" + std::to_string(n_calls) + " system calls)";
  return text;
}

}  // namespace

std::optional<User> find_user(const std::string& name) {
  const passwd* entry = getpwnam(name.c_str());
  if (entry == nullptr) return std::nullopt;
  return User{name, entry->pw_uid, entry->pw_gid};
}

Capabilities needed_by(std::span<const std::string> drivers) {
  Capabilities capabilities = 0;
  for (const std::string& driver : drivers) {
    for (const DriverNeeds& needs : kDriverNeeds) {
      if (driver.starts_with(needs.prefix)) capabilities |= needs.capabilities;
    }
  }
  return capabilities;
}

Result<Privileges> reduce_privileges(const PrivilegeSettings& settings, std::span<const std::string> drivers,
                                     const OwnFiles& files) {
  Privileges privileges;
  const Capabilities had = own_capabilities();
  const Capabilities kept = had & (needed_by(drivers) | settings.keep);
  if (Result<void> done = forbid_gaining(); !done) return Error{"cannot give up capabilities: " + done.error()};
  if (settings.user && settings.user->uid != geteuid()) {
    if (geteuid() == 0) {
      hand_over(files, *settings.user);
      if (Result<void> done = become(*settings.user); !done) return Error{done.error()};
    } else {
      privileges.notes.push_back("privileges.user is " + settings.user->name + ": only root can become somebody else");
    }
  }
  if (Result<void> done = keep_only(kept); !done) return Error{"cannot give up capabilities: " + done.error()};
  const std::string name = own_name();
  if (Result<void> usable = check_state_folder(files.state, name); !usable) return Error{usable.error()};
  if (access(folder_of(files.socket_path).c_str(), W_OK) != 0) {
    privileges.notes.push_back(files.socket_path + " will stay behind: user " + name + " may not write its folder");
  }

  std::string seccomp = seccomp_text(Seccomp::off, 0);
  const Result<size_t> n_calls = filter_system_calls(settings.seccomp);
  if (n_calls) {
    seccomp = seccomp_text(settings.seccomp, *n_calls);
  } else {
    privileges.notes.push_back("system calls are not filtered: " + n_calls.error());
  }
  privileges.text = "user " + name + ", capabilities: " + (kept == had && kept != 0 ? "all" : names_of(kept)) +
                    ", no_new_privs, " + seccomp;
  return privileges;
}

}  // namespace weir::dataplane
