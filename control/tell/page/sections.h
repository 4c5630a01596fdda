#pragma once

#include <vector>

#include "control/tell/page/facts.h"
#include "control/tell/page/html.h"
#include "control/tell/page/plot.h"

// The sections with tables and drawings, in the order of the page. Verdict and explain are in page.cpp.
namespace weir::control::page {

using Rows = std::vector<const ListDetails*>;

// Numbers that move: page.js keeps them up to date from /live.json. moving_sections.cpp
void traffic(Html& html, const Facts& facts, const History& history, const std::vector<const Series*>& dropping);
void targets(Html& html, const Facts& facts);
// shown: those that are seen at once.
void lists(Html& html, const Facts& facts, const Rows& shown, const History& history);

// What stays as it is until something happens: then page.js takes the section anew. still_sections.cpp
void feeds(Html& html, const Facts& facts);
void changes(Html& html, const Facts& facts);
void limits(Html& html, const Facts& facts);

}  // namespace weir::control::page
