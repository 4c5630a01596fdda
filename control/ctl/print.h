#pragma once

#include <string>

#include "control/answer/report_json.h"

// Pieces of answers that several commands print.
namespace weir::control::ctl {

std::string generation_text(const Json& generation);  // 7 (epoch 0123456789abcdef); none
std::string joined(const Json& strings);              // a, b, c; -
std::string layout_text(const Json& shape);           // line8: 0.5 % wanted
std::string bits_per_key_text(const Json& shape);     // 11.6; -

std::string capture_text(const Json& capture);  // on; 12 of 20 samples written, 8 past a list's limit, 0 lost

void print_diagnostics(const Json& diagnostics);  // as format() does, to stderr
void print_targets(const Json& outcomes);         // of reload and bypass: those that failed to stderr

}  // namespace weir::control::ctl
