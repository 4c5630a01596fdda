#include "control/ctl/adapters.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/files.h"
#include "control/ctl/client.h"

namespace weir::control::ctl {

namespace {

constexpr const char* kInstalled = "../lib/weir/weir-connect";  // from the folder of controlctl

int start_connect(const Context& context) {
  std::error_code ignored;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path folder = own.has_parent_path() ? own.parent_path() : std::filesystem::path("/usr/bin");
  const std::filesystem::path installed = (folder / kInstalled).lexically_normal(), built = folder / "weir-connect";
  for (const std::filesystem::path& program : {built, installed}) {
    execv(program.c_str(), const_cast<char* const*>(context.line));
  }
  const std::string error = errno_error("cannot start " + installed.string()).message;
  (void)fail(context, error + "\nhint: install the package weir-connect");
  return kFailed;
}

}  // namespace

Adapters adapters = {[](const Context& context, CrowdsecArguments&) { return start_connect(context); },
                     [](const Context& context, const FlowspecArguments&) { return start_connect(context); }};

}  // namespace weir::control::ctl
