#include "dataplane/start/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/fd.h"
#include "common/files.h"
#include "common/own_folder.h"
#include "common/paths.h"
#include "dataplane/start/syscall_filter.h"

namespace weir::dataplane {

namespace {

constexpr Capabilities kNetAdmin = confine::capability(CAP_NET_ADMIN);
constexpr Capabilities kNetRaw = confine::capability(CAP_NET_RAW);

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

// A folder with anything else in it than state is not ours to give away: think of --state-dir /etc. Its files; empty:
// there is something else.
std::optional<std::vector<std::string>> state_files(const std::string& folder) {
  std::vector<std::string> files;
  const Result<std::vector<std::string>> names = names_in(folder);
  if (!names) return std::nullopt;
  for (const std::string& name : *names) {
    if (!StateDir::is_own(name)) return std::nullopt;
    files.push_back(folder + "/" + name);
  }
  return files;
}

// What is root's, alone in its place, and no link. Whether it worked where it matters is asked afterwards, of who has
// to write there.
void give(const std::string& path, const User& user) {
  const Fd file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status = {};
  if (!file || fstat(file.get(), &status) != 0 || status.st_uid != 0) return;
  // The folder may be the user's already: a second name of a file of root's is none of his.
  if (!S_ISDIR(status.st_mode) && status.st_nlink != 1) return;
  (void)!fchownat(file.get(), "", user.uid, user.gid, AT_EMPTY_PATH);
}

// The state folder with its files. The sockets stay root's, as their folder does, so that nobody but root can put
// another one in their place; the user's group may use them.
void hand_over(const OwnFiles& files, const User& user) {
  if (const auto state = state_files(files.state.path())) {
    give(files.state.path(), user);
    for (const std::string& file : *state) give(file, user);
  }
  for (const std::string& socket : {files.socket_path, panic_socket_of(files.socket_path)}) {
    (void)!lchown(socket.c_str(), static_cast<uid_t>(-1), user.gid);
  }
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

}  // namespace

Result<void> check_user(const PrivilegeSettings& settings) {
  if (geteuid() != 0 || settings.user) return {};
  const std::string name = kDefaultUser;
  return Error{"there is no user `" + name +
               "` to become, and a data plane does not stay root by accident: make it (useradd --system " + name +
               "), or name another in dataplane.yaml (privileges: {user: NAME}); `user: root` stays root"};
}

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
  const Capabilities had = confine::own_capabilities();
  const Capabilities kept = had & (needed_by(drivers) | settings.keep);
  if (Result<void> done = confine::forbid_gaining(); !done)
    return Error{"cannot give up capabilities: " + done.error()};
  if (settings.user && settings.user->uid != geteuid()) {
    if (geteuid() == 0) {
      hand_over(files, *settings.user);
      if (Result<void> done = become(*settings.user); !done) return Error{done.error()};
    } else {
      privileges.notes.push_back("privileges.user is " + settings.user->name + ": only root can become somebody else");
    }
  }
  if (Result<void> done = confine::keep_only(kept); !done) return Error{"cannot give up capabilities: " + done.error()};
  const std::string name = own_name();
  if (Result<void> usable = check_state_folder(files.state, name); !usable) return Error{usable.error()};

  std::string seccomp = confine::seccomp_text(Seccomp::off, 0);
  const Result<size_t> n_calls = filter_system_calls(settings.seccomp);
  if (n_calls) {
    seccomp = confine::seccomp_text(settings.seccomp, *n_calls);
  } else {
    privileges.notes.push_back("system calls are not filtered: " + n_calls.error());
  }
  privileges.text = "user " + name + ", capabilities: " + (kept == had && kept != 0 ? "all" : confine::names_of(kept)) +
                    ", no_new_privs, " + seccomp;
  return privileges;
}

}  // namespace weir::dataplane
