// Lists of ranges, joined and cut: the addresses that are left are those that a walk over all of them finds.
#include <random>
#include <set>

#include "control/ctl/merged.h"
#include "tests/catch.h"

namespace weir::control::ctl {
namespace {

using Ranges = std::vector<Range<Ipv4>>;

NextRange<Ipv4> list_of(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return [ranges, at = size_t{0}]() mutable -> std::optional<Range<Ipv4>> {
    if (at == ranges.size()) return std::nullopt;
    return ranges[at++];
  };
}

std::set<uint64_t> addresses_of(const std::vector<Ranges>& lists) {
  std::set<uint64_t> all;
  for (const Ranges& ranges : lists) {
    for (const auto& range : ranges) {
      for (uint64_t address = range.first; address <= range.last; address++) all.insert(address);
    }
  }
  return all;
}

Union<Ipv4> union_of(const std::vector<Ranges>& lists) {
  std::vector<NextRange<Ipv4>> all;
  for (const Ranges& ranges : lists) all.push_back(list_of(ranges));
  return Union<Ipv4>(std::move(all));
}

}  // namespace

TEST_CASE("what drops and does not pass is told in the fewest prefixes") {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 500; round++) {
    const Ipv4 base = below(2) == 0 ? 0 : 0xffffff00;  // also where addresses end
    std::vector<Ranges> drops(below(4)), passes(below(3));
    for (auto* side : {&drops, &passes}) {
      for (Ranges& ranges : *side) {
        for (uint32_t i = below(8); i > 0; i--) {
          const Ipv4 first = base + below(256);
          ranges.push_back({first, std::max(first, base + below(256))});
        }
      }
    }
    std::set<uint64_t> expected = addresses_of(drops);
    for (const uint64_t address : addresses_of(passes)) expected.erase(address);
    std::set<uint64_t> found;
    size_t n_found = 0;
    uint64_t last = 0;
    Union<Ipv4> from = union_of(drops), without = union_of(passes);
    subtract<Ipv4>(from, without, [&](Range<Ipv4> range) {
      CHECK((n_found == 0 || range.first > last + 1));  // neighbours are one
      last = range.last;
      uint64_t next = range.first;
      visit_prefixes<Ipv4>(range, [&](Ipv4 first, unsigned bits) {
        REQUIRE(first == next);
        const uint64_t size = uint64_t{1} << (32 - bits);
        REQUIRE(first % size == 0);
        for (uint64_t i = 0; i < size; i++) found.insert(first + i);
        n_found += size;
        next = first + size;
      });
      CHECK(next == uint64_t{range.last} + 1);
    });
    CHECK(found == expected);
    CHECK(n_found == expected.size());
  }
}

TEST_CASE("the whole of a family is one prefix") {
  size_t n = 0;
  visit_prefixes<Ipv6>({0, static_cast<Ipv6>(~Ipv6{0})}, [&](Ipv6 first, unsigned bits) {
    n++;
    CHECK((first == 0 && bits == 0));
  });
  CHECK(n == 1);
}

}  // namespace weir::control::ctl
