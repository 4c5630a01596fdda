#pragma once

#include "control/tell/page/facts.h"
#include "control/tell/page/html.h"

namespace weir::control::page {

// What is known of the key or packet that a visitor asked for: verdict, list, entry, file and line.
void explained(Html& html, const Asked& asked);

}  // namespace weir::control::page
