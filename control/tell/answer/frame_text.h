#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

// A frame as people paste it: two hexadecimal digits a byte, in either case; blanks, ends of lines and colons may stand
// between bytes.
//   02 00 00 00 00 01 02 00 00 00 00 02 08 00 45 00
//   02:00:00:00:00:01 02:00:00:00:00:02 0800 4500
namespace weir::control {

constexpr size_t kMostFrameBytes = 65535;

// Error: the place, what is there, then the way out.
Result<std::vector<uint8_t>> parse_frame_text(std::string_view text);

// Digits alone.
std::string frame_text(std::span<const uint8_t> frame);

}  // namespace weir::control
