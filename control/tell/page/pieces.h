#pragma once

#include <cstdint>
#include <string_view>

#include "control/tell/page/html.h"

// What several sections of the page are made of.
namespace weir::control::page {

constexpr const char* kUnknown = "\u2013";  // an en dash

// 12.3 M, and exactly for whoever asks.
void number(Html& html, uint64_t value);

// 3 min ago, and when exactly for whoever asks; 0: never.
void moment(Html& html, int64_t unix_s, double now);

// A table that is wider than the window is moved by itself, also by keys.
// caption: seen where the heading does not say the same.
void begin_table(Html& html, Markup head, std::string_view caption, bool is_seen = false);
void end_table(Html& html);

// kind: a class of page.css.
void tag(Html& html, Markup kind, std::string_view text);

}  // namespace weir::control::page
