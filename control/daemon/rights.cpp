#include "control/daemon/rights.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/confine/capabilities.h"
#include "common/files.h"
#include "control/enforce/targets/kinds.h"

namespace weir::control {

namespace {

using confine::SystemCalls;

// By who makes them.
constexpr const char* kCalls[] = {
    // sockets: their mode and group
    "fchmod", "lchown", "fchown", "link",
    // XDP: what it may do is a matter of capabilities
    "bpf", "capget",
    // the process that makes parsers of feeds, at the end
    "wait4",
    // files of feeds and captures; the event loop
    "fadvise64", "copy_file_range", "sendfile", "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
    "epoll_pwait2"};

constexpr SystemCalls::Argument kCallsWith[] = {
    {"socket", 0, confine::kAllBits, AF_NETLINK},  // XDP: interfaces
    {"unshare", 0, confine::kAllBits, CLONE_FS},   // of the thread that binds a socket
    {"setpriority", 1, confine::kAllBits, 0},      // of the thread that builds beside all else
};

// Metrics: also for an address that a reload brings.
constexpr SystemCalls::Argument kServing[] = {
    {"socket", 0, confine::kAllBits, AF_INET},
    {"socket", 0, confine::kAllBits, AF_INET6},
};

}  // namespace

Result<std::string> reduce_rights(const std::string& config, std::span<const TargetSpec> targets, confine::Seccomp mode,
                                  Network network) {
  const Result<bool> is_readable = confine::works_without([&] { return access(config.c_str(), R_OK) == 0; });
  if (!is_readable) return Error{"cannot give up rights: " + is_readable.error()};
  confine::Capabilities needed = *is_readable ? 0 : confine::capability(CAP_DAC_READ_SEARCH);
  for (const TargetSpec& target : targets) needed |= functions_of(target.kind).capabilities;
  const confine::Capabilities kept = confine::own_capabilities() & needed;
  if (Result<void> done = confine::forbid_gaining(); !done) return Error{"cannot give up rights: " + done.error()};
  if (Result<void> done = confine::keep_only(kept); !done) return Error{"cannot give up rights: " + done.error()};
  std::vector<SystemCalls::Argument> calls_with(std::begin(kCallsWith), std::end(kCallsWith));
  if (network == Network::serves) calls_with.insert(calls_with.end(), std::begin(kServing), std::end(kServing));
  const Result<size_t> n_calls = confine::filter_system_calls({kCalls, calls_with, {}}, mode);
  const std::string seccomp =
      n_calls ? confine::seccomp_text(mode, *n_calls) : "system calls are not filtered: " + n_calls.error();
  return "capabilities: " + confine::names_of(kept) + ", no_new_privs, " + seccomp;
}

Result<std::optional<gid_t>> find_group(const std::string& name, const char* usual) {
  using Found = std::optional<gid_t>;
  if (name == "none") return Found();
  const bool is_asked = !name.empty();
  const group* entry = getgrnam(is_asked ? name.c_str() : usual);
  if (entry == nullptr) return is_asked ? Result<Found>(Error{"there is no group `" + name + "` here"}) : Found();
  const gid_t wanted = entry->gr_gid;
  std::vector<gid_t> groups(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
  groups.resize(static_cast<size_t>(std::max(0, getgroups(static_cast<int>(groups.size()), groups.data()))));
  if (getegid() == wanted || std::find(groups.begin(), groups.end(), wanted) != groups.end()) return Found(wanted);
  groups.push_back(wanted);
  if (geteuid() == 0 && setgroups(groups.size(), groups.data()) == 0) return Found(wanted);
  if (!is_asked) return Found();
  return Error{"controld is no member of group `" + name +
               "`, and cannot give it a socket: start it as root, or as a member"};
}

}  // namespace weir::control
