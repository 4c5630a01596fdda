#include "common/paths.h"

#include <unistd.h>

#include <cstdlib>

namespace weir {

namespace {
std::string environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}
}  // namespace

std::string default_runtime_dir() {
  if (geteuid() == 0) return "/run/weir";
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  return runtime.empty() ? "/tmp/weir-" + std::to_string(geteuid()) : runtime + "/weir";
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

}  // namespace weir
