#pragma once

#include <string_view>
#include <vector>

#include "common/options/option.h"
#include "common/yaml/keys.h"

// The tables that the programs use.
namespace weir::manual {

struct YamlFile {
  std::string_view name;
  const yaml::Section* section;
};
const std::vector<YamlFile>& yaml_files();
const yaml::Section* section_of(std::string_view file);  // null: there is no such file

const Options* options_of(std::string_view program);  // controld, dataplane; null: another one

}  // namespace weir::manual
