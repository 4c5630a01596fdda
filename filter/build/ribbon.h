#pragma once

#include <cstdint>
#include <span>

namespace weir::filter {

// Writes one ribbon page (512 words) so that every key in it is found (filter/layouts/ribbon.h). hashes: of the keys of
// this page, of `pages`. seed: of the bits that no key fixes; strangers that look at them pass with 2^-8. No keys are
// too many: past 9 bits a key more and more strangers pass.
void solve_ribbon_page(std::span<const uint64_t> hashes, uint32_t pages, uint64_t seed, uint64_t page[512]);

}  // namespace weir::filter
