#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "control/tell/page/facts.h"
#include "control/tell/page/html.h"
#include "control/tell/page/plot.h"

// The page consists of these sections and the pieces that they share.
namespace weir::control::page {

// ----------------------------------------------------------------------------------------------------------- pieces

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

// --------------------------------------------------------------------------------------------------------- sections

// The sections with tables and drawings, in the order of the page. Verdict and explain are in page.cpp.

using Rows = std::vector<const ListDetails*>;

void traffic(Html& html, const Facts& facts, const History& history, const std::vector<const Series*>& dropping);
void targets(Html& html, const Facts& facts);
// shown: those that are seen at once.
void lists(Html& html, const Facts& facts, const Rows& shown, const History& history);

void feeds(Html& html, const Facts& facts);
void changes(Html& html, const Facts& facts);
void limits(Html& html, const Facts& facts);

}  // namespace weir::control::page
