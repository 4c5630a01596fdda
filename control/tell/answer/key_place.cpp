#include "control/tell/answer/key_place.h"

#include <algorithm>
#include <map>

#include "filter/layouts/line8.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/layouts/ribbon.h"

namespace weir::control {
namespace {

constexpr uint32_t kLineBits = WEIR_LINE_BYTES * 8;

// Bits of a page by line, each once.
class Collector {
 public:
  void add(uint32_t line, uint32_t bit) { lines_[line % WEIR_LINES_PER_PAGE].push_back(bit); }
  std::vector<LineBits> take() {
    std::vector<LineBits> all;
    for (auto& [line, bits] : lines_) {
      std::sort(bits.begin(), bits.end());
      bits.erase(std::unique(bits.begin(), bits.end()), bits.end());
      all.push_back({line, std::move(bits)});
    }
    return all;
  }

 private:
  std::map<uint32_t, std::vector<uint32_t>> lines_;
};

uint32_t bit_of(uint32_t word, uint32_t bit_in_word) {
  return word * 64 + bit_in_word;
}

}  // namespace

KeyPlace key_place(const filter::ShapeView& shape, uint64_t hash) {
  const uint32_t pages = shape.filter.lines / WEIR_LINES_PER_PAGE;
  KeyPlace place;
  Collector bits;
  switch (shape.layout) {
    case WEIR_LAYOUT_LINE8: {
      const uint32_t line = weir_hash_range(hash, shape.filter.lines);
      place.page = line / WEIR_LINES_PER_PAGE;
      for (uint32_t w = 0; w < 8; w++) bits.add(line, bit_of(w, weir_line8_bit(hash, w)));
      break;
    }
    case WEIR_LAYOUT_BITMAP: {
      const auto index = static_cast<uint32_t>(hash);
      place.page = index / kLineBits / WEIR_LINES_PER_PAGE;
      bits.add(index / kLineBits, index % kLineBits);
      break;
    }
    case WEIR_LAYOUT_PAGE2: {
      const weir_page2_place lines = weir_page2_locate(hash, shape.filter.lines, shape.filter.k);
      place.page = lines.line[0] / WEIR_LINES_PER_PAGE;
      for (uint32_t which = 0; which < 2; which++) {
        for (uint32_t w = 0; w < 8; w++) {
          if ((lines.words[which] >> w & 1) != 0)
            bits.add(lines.line[which], bit_of(w, weir_page2_bit(hash, which, w)));
        }
      }
      break;
    }
    case WEIR_LAYOUT_PAGE7:
      place.page = weir_hash_range(hash, pages);
      for (uint32_t i = 0; i < WEIR_PAGE7_K; i++) {
        const uint32_t bit = weir_page7_bit(hash, i);
        bits.add(bit / kLineBits, bit % kLineBits);
      }
      break;
    case WEIR_LAYOUT_RIBBON: {
      place.page = weir_hash_range(hash, pages);
      const uint32_t start = weir_ribbon_start(hash, pages);
      const uint64_t coefficients = weir_ribbon_coefficients(hash);
      for (uint32_t i = 0; i < WEIR_RIBBON_WIDTH; i++) {
        if ((coefficients >> i & 1) != 0) bits.add((start + i) / 64, (start + i) % 64);
      }
      break;
    }
  }
  place.lines = bits.take();
  return place;
}

}  // namespace weir::control
