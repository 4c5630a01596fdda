// What the page-choosing hash invites without a secret (the "choke point" of Zawierucha's section 6): 10,000 crafted
// entries among a million on one page of a page-blocked filter. The bits in the page come from a keyed hash everywhere,
// so that only the choice of the page is attacked.

#include "tests/reproduce/page_hash.h"
#include "tests/reproduce/probes.h"

namespace weir::reproduce {
namespace {

constexpr uint64_t kHonest = 1'000'000, kCrafted = 10'000, kBitsPerKey = 12;
constexpr uint64_t kPages = ((kHonest + kCrafted) * kBitsPerKey + 32767) / 32768;
constexpr uint64_t kTarget = kPages / 2;
constexpr unsigned kK = 7;
constexpr weir_u64 kBitSecret[2] = {0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};  // any
constexpr weir_u64 kPageSecret[2] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b};

template <class PageHash>
class Filter {
 public:
  explicit Filter(PageHash page_hash) : page_hash_(page_hash), words_(kPages << 15, kSmallPage), load_(kPages) {}

  void add(const TextKey& key) {
    load_[page(key)]++;
    for (unsigned i = 0; i < kK; i++) {
      const uint64_t at = position(key, i);
      words_.get()[at >> 6] |= uint64_t{1} << (at & 63);
    }
  }
  bool check(const TextKey& key) const {
    for (unsigned i = 0; i < kK; i++) {
      if (!bit_at(words_.get(), position(key, i))) return false;
    }
    return true;
  }
  uint64_t page(const TextKey& key) const { return reduce(page_hash_(key), kPages); }
  std::span<const uint64_t> load() const { return load_; }

 private:
  uint64_t position(const TextKey& key, unsigned i) const {
    return page(key) << 15 | siphash(key, kBitSecret) * (scatter(i) | 1) >> 49;
  }
  PageHash page_hash_;
  Words words_;
  std::vector<uint64_t> load_;
};

// The crafted keys were made for `page_hash`, or for another one that the defender has replaced.
template <class PageHash>
Json attack(const char* name, PageHash page_hash, std::span<const TextKey> crafted) {
  say(std::string("page attack: ") + name);
  Filter filter(page_hash);
  for (uint64_t i = 0; i < kHonest; i++) filter.add(text_key(i));
  for (const TextKey& key : crafted) filter.add(key);

  const auto& load = filter.load();
  const auto fullest = static_cast<uint64_t>(std::max_element(load.begin(), load.end()) - load.begin());
  uint64_t found = 0, asked_fullest = 0, found_fullest = 0;
  const uint64_t strangers = 4'000'000;
  for (uint64_t i = 0; i < strangers; i++) {
    const TextKey key = text_key(kStrangers + i);
    const bool hit = filter.check(key), on_fullest = filter.page(key) == fullest;
    found += hit;
    asked_fullest += on_fullest;
    found_fullest += on_fullest && hit;
  }
  const double mean = static_cast<double>(kHonest + crafted.size()) / kPages;
  return {{"page_hash", name},
          {"fullest_page_keys", load[fullest]},
          {"mean_page_keys", mean},
          {"fullest_sigmas", (static_cast<double>(load[fullest]) - mean) / std::sqrt(mean)},
          {"rate", static_cast<double>(found) / static_cast<double>(strangers)},
          {"rate_of_fullest_page", static_cast<double>(found_fullest) / static_cast<double>(asked_fullest)}};
}

// ns to craft one key.
template <class Craft>
std::pair<std::vector<TextKey>, double> timed(Craft craft) {
  const double start = thread_ns();
  std::vector<TextKey> keys = craft();
  return {std::move(keys), (thread_ns() - start) / static_cast<double>(kCrafted)};
}

Json run() {
  const auto fnv = [](const TextKey& key) { return fnv1a(key, kFnvBasis); };
  const auto xxh = [](const TextKey& key) { return xxh64(key, 0); };
  const auto crc = [](const TextKey& key) { return crc32c(key, 0); };
  const auto crc_seeded = [](const TextKey& key) {
    return crc32c(key, 0x9b05688c);
  };  // a seed the attacker does not know
  const auto keyed = [](const TextKey& key) { return siphash(key, kPageSecret); };

  const auto of_page = [](auto hash) { return timed([&] { return keys_of_page(hash, kPages, kTarget, kCrafted); }); };
  const auto [for_fnv, fnv_ns] = of_page(fnv);
  const auto [for_xxh, xxh_ns] = of_page(xxh);
  const auto [for_crc, crc_ns] = timed([] { return keys_of_one_crc(kCrafted); });
  const auto with = [](Json row, const char* set, double craft_ns) {
    row["crafted_for"] = set;
    row["craft_ns_per_key"] = craft_ns;
    return row;
  };
  Json rows = Json::array();
  rows.push_back(with(attack("xxh64 seed 0", xxh, {}), "nothing: no attack", 0));
  rows.push_back(with(attack("fnv1a", fnv, for_fnv), "fnv1a", fnv_ns));
  rows.push_back(with(attack("xxh64 seed 0", xxh, for_xxh), "xxh64 seed 0", xxh_ns));
  rows.push_back(with(attack("crc32c init 0", crc, for_crc), "crc32c, any init", crc_ns));
  rows.push_back(with(attack("crc32c secret init", crc_seeded, for_crc), "crc32c, any init", crc_ns));
  rows.push_back(with(attack("siphash13 keyed", keyed, for_fnv), "fnv1a", fnv_ns));
  rows.push_back(with(attack("siphash13 keyed", keyed, for_xxh), "xxh64 seed 0", xxh_ns));
  rows.push_back(with(attack("siphash13 keyed", keyed, for_crc), "crc32c, any init", crc_ns));
  return {{"honest", kHonest}, {"crafted", kCrafted}, {"pages", kPages}, {"rows", rows}};
}

}  // namespace
}  // namespace weir::reproduce

int main() {  // --quick changes nothing: it is quick
  std::printf("%s\n", weir::reproduce::run().dump(1).c_str());
}
