#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "bpf/enforcer.h"
#include "bpf/program.h"
#include "common/files.h"

namespace weir::xdp {

namespace {

constexpr std::string_view kLinkPrefix = "weir_link_";

// What pin_path() wrote.
std::string decoded(std::string_view pin) {
  std::string name;
  for (size_t i = 0; i < pin.size(); i++) {
    const std::string_view code = pin.substr(i, 3);
    if (code != "%2e" && code != "%25") {
      name += pin[i];
      continue;
    }
    name += code == "%2e" ? '.' : '%';
    i += 2;
  }
  return name;
}

}  // namespace

Result<std::vector<std::string>> pinned_interfaces(const std::string& bpf_dir) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(bpf_dir.c_str()), closedir);
  if (!folder && errno == ENOENT) return names;
  if (!folder) return errno_error("cannot read " + bpf_dir);
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view pin = entry->d_name;
    if (pin.starts_with(kLinkPrefix)) names.push_back(decoded(pin.substr(kLinkPrefix.size())));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace weir::xdp
