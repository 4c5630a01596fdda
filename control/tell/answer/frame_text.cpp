#include "control/tell/answer/frame_text.h"

#include <fmt/format.h>

namespace weir::control {
namespace {

constexpr const char* kFrameHint =
    "hint: give a frame from its Ethernet header on, two hexadecimal digits a byte, as in 02:00:00:00:00:01 "
    "02:00:00:00:00:02 0800 45 00; without offsets and without the text beside them";

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_between(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ':';
}

std::string shown(char c) {
  return c > ' ' && c < 0x7f ? fmt::format("`{}`", c) : fmt::format("the byte {:#04x}", static_cast<unsigned char>(c));
}

Error wrong_frame(const std::string& what) {
  return Error{fmt::format("frame: {}\n{}", what, kFrameHint)};
}

}  // namespace

Result<std::vector<uint8_t>> parse_frame_text(std::string_view text) {
  std::vector<uint8_t> frame;
  for (size_t i = 0; i < text.size(); i++) {
    if (is_between(text[i])) continue;
    const int high = digit_of(text[i]);
    if (high < 0) return wrong_frame(fmt::format("character {}, {}, is no hexadecimal digit", i + 1, shown(text[i])));
    if (i + 1 == text.size()) {
      return wrong_frame(fmt::format("it ends with `{}`, half a byte (byte {})", text[i], frame.size() + 1));
    }
    const int low = digit_of(text[i + 1]);
    if (low < 0) {
      return wrong_frame(fmt::format("character {} is {}: the second digit of byte {}, `{}`, is missing", i + 2,
                                     shown(text[i + 1]), frame.size() + 1, text[i]));
    }
    if (frame.size() == kMostFrameBytes) {
      return wrong_frame(
          fmt::format("there are more than {} bytes: character {} begins one more", kMostFrameBytes, i + 1));
    }
    frame.push_back(static_cast<uint8_t>(high << 4 | low));
    i++;
  }
  if (frame.empty()) return wrong_frame("there is no byte");
  return frame;
}

std::string frame_text(std::span<const uint8_t> frame) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(frame.size() * 2);
  for (const uint8_t byte : frame) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace weir::control
