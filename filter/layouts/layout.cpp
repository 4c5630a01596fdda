#include "filter/layouts/layout.h"

#include <algorithm>

#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/layouts/ribbon.h"

namespace weir::filter {
namespace {

constexpr double kLine8Rate = 0.001;

constexpr uint32_t kPage = WEIR_LINES_PER_PAGE;

uint64_t* line_at(const FilterWords& filter, uint32_t line) {
  return filter.words + size_t{line} * 8;
}
const uint64_t* line_at(const FilterBits& filter, uint32_t line) {
  return reinterpret_cast<const uint64_t*>(filter.bits) + size_t{line} * 8;
}

template <class Filter>
auto page_at(const Filter& filter, uint64_t hash) {
  return line_at(filter, weir_hash_range(hash, filter.lines / kPage) * kPage);
}

constexpr Layout kLayouts[] = {
    {.id = WEIR_LAYOUT_LINE8,
     .name = "line8",
     .what = "one bit in each of the eight words of one cache line; the default",
     .unit_lines = 1,
     .min_k = 8,
     .max_k = 8,
     .step_k = 1,
     .mark = [](const FilterWords& f,
                uint64_t hash) { weir_line8_mark(line_at(f, weir_hash_range(hash, f.lines)), hash); },
     .check = [](const FilterBits& f,
                 uint64_t hash) { return weir_line8_check(line_at(f, weir_hash_range(hash, f.lines)), hash) != 0; }},
    {.id = WEIR_LAYOUT_BITMAP,
     .name = "bitmap",
     .what = "one bit for each possible key; IPv4 networks only",
     .unit_lines = 1,
     .min_k = 1,
     .max_k = 1,
     .step_k = 1,
     .mark = nullptr,
     .check = [](const FilterBits& f,
                 uint64_t index) { return weir_bitmap_check(f.bits, static_cast<uint32_t>(index)) != 0; }},
    {.id = WEIR_LAYOUT_PAGE2,
     .name = "page2",
     .what = "two lines of one page; for rates below 0.1 %",
     .unit_lines = kPage,
     .min_k = WEIR_PAGE2_MIN_K,
     .max_k = WEIR_PAGE2_MAX_K,
     .step_k = 2,
     .mark = [](const FilterWords& f, uint64_t hash) { weir_page2_mark(page_at(f, hash), f.lines, f.k, hash); },
     .check = [](const FilterBits& f,
                 uint64_t hash) { return weir_page2_check(page_at(f, hash), f.lines, f.k, hash) != 0; }},
    {.id = WEIR_LAYOUT_PAGE7,
     .name = "page7",
     .what = "seven bits anywhere in a 4 KiB page (Zawierucha); on request, as a baseline",
     .unit_lines = kPage,
     .min_k = WEIR_PAGE7_K,
     .max_k = WEIR_PAGE7_K,
     .step_k = 1,
     .mark = [](const FilterWords& f, uint64_t hash) { weir_page7_mark(page_at(f, hash), hash); },
     .check = [](const FilterBits& f, uint64_t hash) { return weir_page7_check(page_at(f, hash), hash) != 0; }},
    {.id = WEIR_LAYOUT_RIBBON,
     .name = "ribbon",
     .what = "a homogeneous ribbon in each page, 9 bits a key for 0.4 %; for memory-bound policies",
     .unit_lines = kPage,
     .min_k = WEIR_RIBBON_BITS,
     .max_k = WEIR_RIBBON_BITS,
     .step_k = 1,
     .mark = nullptr,
     .check = [](const FilterBits& f,
                 uint64_t hash) { return weir_ribbon_check(page_at(f, hash), f.lines / kPage, hash) != 0; }},
};

}  // namespace

std::span<const Layout> all_layouts() {
  return kLayouts;
}

const Layout& layout_of(weir_layout id) {
  return *std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& l) { return l.id == id; });
}

const Layout* layout_named(std::string_view name) {
  const auto at =
      std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& l) { return l.name == name; });
  return at == std::end(kLayouts) ? nullptr : at;
}

weir_layout layout_for_rate(double false_positive_rate) {
  return false_positive_rate >= kLine8Rate ? WEIR_LAYOUT_LINE8 : WEIR_LAYOUT_PAGE2;
}

}  // namespace weir::filter
