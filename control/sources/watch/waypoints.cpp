#include "control/sources/watch/waypoints.h"

#include <sys/stat.h>

#include <deque>
#include <filesystem>

namespace weir::control {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel follows (path_resolution(7))

void put_in_front(const fs::path& way, std::deque<fs::path>& rest) {
  const fs::path relative = way.relative_path();
  std::deque<fs::path> parts(relative.begin(), relative.end());
  rest.insert(rest.begin(), parts.begin(), parts.end());
}

}  // namespace

std::vector<Waypoint> waypoints_of(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return {};
  std::vector<Waypoint> way;
  std::deque<fs::path> rest;
  put_in_front(absolute, rest);
  fs::path folder = "/";
  int links = 0;
  while (!rest.empty()) {
    const fs::path name = rest.front();
    rest.pop_front();
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      folder = folder.parent_path();
      continue;
    }
    const fs::path here = folder / name;
    struct stat status = {};
    const bool is_there = lstat(here.c_str(), &status) == 0;
    const bool is_link = is_there && S_ISLNK(status.st_mode);
    if (!is_there || is_link || rest.empty()) way.push_back({folder.string(), name.string()});
    if (!is_there || (is_link && ++links > kMostLinks)) break;
    if (!is_link) {
      folder = here;
      continue;
    }
    const fs::path target = fs::read_symlink(here, error);
    if (error) break;
    if (target.is_absolute()) folder = "/";
    put_in_front(target, rest);
  }
  return way;
}

}  // namespace weir::control
