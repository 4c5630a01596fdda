#include "common/paths.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace weir {

namespace {
std::string environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

constexpr const char* kSystemRuntimeDir = "/run/weir";
constexpr const char* kDefaultConfigs[] = {"weir.yaml", "/etc/weir/weir.yaml"};

}  // namespace

std::string default_runtime_dir() {
  if (geteuid() == 0) return kSystemRuntimeDir;
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  // Where nothing makes /run/user/UID, nobody but root can make it either: what wants to listen there fails and says
  // so.
  return (runtime.empty() ? "/run/user/" + std::to_string(geteuid()) : runtime) + "/weir";
}

std::string default_state_dir() {
  if (geteuid() == 0) return "/var/lib/weir";
  const std::string state = environment("XDG_STATE_HOME");
  return (state.empty() ? environment("HOME") + "/.local/state" : state) + "/weir";
}

std::string default_dataplane_socket() {
  return default_runtime_dir() + "/dataplane.sock";
}

std::string default_controld_socket() {
  return default_runtime_dir() + "/controld.sock";
}

std::string find_controld_socket() {
  const std::string own = default_controld_socket();
  const std::string systems = std::string(kSystemRuntimeDir) + "/controld.sock";
  const bool is_systems = access(own.c_str(), F_OK) != 0 && access(kSystemRuntimeDir, F_OK) == 0;
  return is_systems ? systems : own;
}

Result<std::string> default_config() {
  for (const char* candidate : kDefaultConfigs) {
    if (access(candidate, R_OK) == 0) return std::string(candidate);
    if (errno != ENOENT && errno != ENOTDIR) {
      return Error{std::string("no policy: ") + candidate + " is there, and you may not read it: " + strerror(errno) +
                   "\nhint: be root or in its group, or name another one with --config"};
    }
  }
  return Error{std::string("no policy: there is no ") + kDefaultConfigs[0] + " and no " + kDefaultConfigs[1] +
               "; name one with --config"};
}

std::string panic_socket_of(const std::string& controld_socket) {
  return controld_socket + ".bypass";
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace weir
