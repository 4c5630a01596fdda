#pragma once

#include <string>

#include "common/result.h"

namespace weir {

// Where sockets and state go when nothing says otherwise: /run/weir and /var/lib/weir for root, else
// $XDG_RUNTIME_DIR/weir (or /run/user/UID/weir) and $XDG_STATE_HOME/weir (or ~/.local/state/weir). No slash at the end.
std::string default_runtime_dir();
std::string default_state_dir();

std::string default_dataplane_socket();  // RUNTIME/dataplane.sock
std::string default_controld_socket();   // RUNTIME/controld.sock

std::string folder_of(const std::string& path);  // of a file; "." when the path names none

// Whose members may look at what a controld enforces, and who may change it, where nothing says otherwise.
constexpr const char* kReadGroup = "weir";
constexpr const char* kAdminGroup = "weir-admin";

// Where controlctl looks: our own, where there is one, else the system's.
std::string find_controld_socket();

// The policy when no --config names one: ./weir.yaml, then /etc/weir/weir.yaml. Error: neither can be read.
Result<std::string> default_config();

// Of the panic switch of the controld that answers on this socket.
std::string panic_socket_of(const std::string& controld_socket);

}  // namespace weir
