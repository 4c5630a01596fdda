#pragma once

#include <string>

#include "common/yaml/keys.h"

namespace weir::manual {

// A JSON Schema (draft 7, which editors know) of a YAML file. It knows what a row knows, and no more: a file that
// passes may still be refused by the program that reads it.
std::string schema(std::string_view file, const yaml::Section& section);

}  // namespace weir::manual
