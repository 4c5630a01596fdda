#include "docs/manual/tables.h"

#include <algorithm>

#include "control/daemon/arguments.h"
#include "control/policy/read/policy_file.h"
#include "control/policy/read/steer_file.h"
#include "dataplane/start/config_keys.h"
#include "dataplane/start/options.h"

namespace weir::manual {

const std::vector<YamlFile>& yaml_files() {
  static const std::vector<YamlFile> kFiles = {{"weir.yaml", &control::policy_section()},
                                               {"dataplane.yaml", &dataplane::kConfigSection},
                                               {"steer.yaml", &control::kSteerSection}};
  return kFiles;
}

const yaml::Section* section_of(std::string_view file) {
  const auto& files = yaml_files();
  const auto found = std::find_if(files.begin(), files.end(), [&](const YamlFile& f) { return f.name == file; });
  return found == files.end() ? nullptr : found->section;
}

const Options* options_of(std::string_view program) {
  static control::Arguments arguments;
  static const Options controld = control::options_of(arguments);
  static dataplane::Options filled;
  static const Options dataplane = dataplane::rows_of(filled);
  if (program == "controld") return &controld;
  return program == "dataplane" ? &dataplane : nullptr;
}

}  // namespace weir::manual
