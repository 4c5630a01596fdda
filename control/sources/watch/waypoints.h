#pragma once

#include <string>
#include <vector>

namespace weir::control {

// A name in a folder, on the way that a path takes.
struct Waypoint {
  std::string folder, name;
  bool operator==(const Waypoint&) const = default;
};

// What decides which file a path names, in the order of the way: each symbolic link, then the file itself. Where the
// way ends before, the name that is not there is the last one. Folders that are no links are not in it.
std::vector<Waypoint> waypoints_of(const std::string& path);

}  // namespace weir::control
