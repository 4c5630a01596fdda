#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::control {

// Whose inputs a node takes, and as whom: `fleet` of a node's file.
struct FleetSettings {
  std::string name;                          // of the fleet
  std::string node;                          // of this machine
  std::string group = "rest";                // of nodes that take a revision together
  std::vector<std::string> endpoints;        // of etcd: http(s)://HOST:PORT
  std::string ca_file, cert_file, key_file;  // PEM, absolute or relative to the process; empty: none
  std::string user, password_file;           // of etcd; empty: none
  std::vector<std::string> shared_lists;     // what is added to them on this node is added everywhere
  uint64_t shared_per_minute = 60;           // at most; the rest stays on this node
  uint64_t shared_ttl_s = 3600;              // the longest that a shared entry stays elsewhere
  bool operator==(const FleetSettings&) const = default;
};

}  // namespace weir::control
