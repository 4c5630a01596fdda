#include "control/policy/read/feed_names.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/digest.h"

namespace weir::control {
namespace {

constexpr const char* kUnfinished[] = {"~", ".new", ".part", ".swp", ".tmp"};

bool is_pattern(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}

bool is_kind(const std::string& path, mode_t kind) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

Result<std::vector<std::string>> matches(const std::string& pattern) {
  glob_t found = {};
  // A folder that cannot be read may hold what the pattern means: who is told "none" would take entries away.
  const int code = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  const int reason = errno;
  std::vector<std::string> paths;
  if (code == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (code == GLOB_NOSPACE) return Error{pattern + ": no memory"};
  if (code == GLOB_ABORTED) return Error{fmt::format("{}: a folder cannot be read ({})", pattern, strerror(reason))};
  return paths;
}

Result<std::vector<std::string>> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool is_done = std::none_of(std::begin(kUnfinished), std::end(kUnfinished),
                                      [&](const char* ending) { return name.ends_with(ending); });
    if (name.front() != '.' && is_done) paths.push_back(it->path().string());
  }
  if (error) return Error{fmt::format("cannot read the folder {} ({})", folder, error.message())};
  return paths;
}

}  // namespace

bool stands_for_several(const std::string& path) {
  if (is_kind(path, S_IFDIR)) return true;
  return (path.ends_with('/') || is_pattern(path)) && !is_kind(path, S_IFREG);
}

Result<std::vector<std::string>> feed_names(const std::string& path) {
  Result<std::vector<std::string>> names =
      path.ends_with('/') || is_kind(path, S_IFDIR) ? files_in(path) : matches(path);
  if (!names) return names;
  std::erase_if(*names, [](const std::string& name) { return !is_kind(name, S_IFREG); });
  std::sort(names->begin(), names->end());
  if (names->size() <= kMostFeedFiles) return names;
  return Error{fmt::format("{} stands for {} files, more than the {} that a list may have", path, names->size(),
                           kMostFeedFiles)};
}

std::vector<std::string> feed_folders(const std::string& path) {
  if (path.ends_with('/') || is_kind(path, S_IFDIR)) return {path};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!is_pattern(folder)) return {folder};
  const Result<std::vector<std::string>> found = matches(folder);
  std::vector<std::string> folders = found ? *found : std::vector<std::string>();
  std::erase_if(folders, [](const std::string& one) { return !is_kind(one, S_IFDIR); });
  return folders;
}

FileIdentity identity_of(const std::vector<std::string>& names) {
  PartsDigest digest;
  for (const std::string& name : names) digest.add(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  const Digest value = digest.value();
  return {.device = value[0], .inode = value[1], .size_bytes = names.size()};
}

}  // namespace weir::control
