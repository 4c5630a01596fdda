#pragma once

#include <cstddef>
#include <cstdint>

#include "filter/format/snapshot.h"

// What an input of fuzz_snapshot means, for it and for make_corpus.
namespace weir::fuzz {

// overlay: on the one of v4.
enum class Choice : uint8_t { raw, v4, v6, flows, page2, page7, networks, overlay };

// A snapshot of networks is 40 times as large as the others: one value in 16.
constexpr Choice choice_of(uint8_t byte) {
  constexpr Choice kChoices[16] = {Choice::raw,     Choice::v4,    Choice::v4,    Choice::v6,
                                   Choice::v6,      Choice::flows, Choice::flows, Choice::page2,
                                   Choice::page7,   Choice::v4,    Choice::v6,    Choice::flows,
                                   Choice::overlay, Choice::page2, Choice::page7, Choice::networks};
  return kChoices[byte % 16];
}

// The good snapshot is cut off, where the first four bytes say, instead of edited.
constexpr bool choice_cuts(uint8_t byte) {
  return byte >= 0xf0;
}

struct Edit {  // as it lies in the input
  uint32_t offset;
  uint8_t bytes[4];
};

constexpr uint32_t kAnywhere = uint32_t{1} << 31;

// Where an offset points: into the header and the small sections, where every byte counts; with kAnywhere anywhere.
constexpr size_t place(uint32_t offset, size_t size) {
  const size_t small = 5 * WEIR_PAGE_BYTES < size ? 5 * WEIR_PAGE_BYTES : size;
  return (offset & kAnywhere) != 0 ? (offset & ~kAnywhere) % size : offset % small;
}

}  // namespace weir::fuzz
