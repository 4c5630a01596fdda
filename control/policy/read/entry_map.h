#pragma once

#include "control/policy/model/policy.h"
#include "control/policy/read/policy_file.h"

namespace weir::control {

// Appends one entry with named fields: {entry: TEXT, expires: TIME} as the text says; {src, dst, expires, and the
// keys of control/policy/model/fields.h} as an Entry when that can hold it, else as a Flow. Whatever is wrong with it
// is reported.
void read_entry_map(const PolicyFile& file, const yaml::Node& node, bool allow_any, ListDraft& list);

}  // namespace weir::control
