// Zawierucha's experiments with a Bloom filter blocked by 4 KiB pages (docs/develop/papers.md): distinct pages, time of
// inserting, false-positive rate, throughput of queries. k = 7 as there; each in the paper's form and in the best one
// known here.

#include <sys/resource.h>

#include <set>

#include "filter/probe/dispatch.h"
#include "tests/reproduce/line8_filter.h"
#include "tests/reproduce/probes.h"

namespace weir::reproduce {
namespace {

constexpr unsigned kK = 7;
using Flat = Standard<kK>;
using Paged = PageBlocked<kK>;
constexpr uint64_t kPageBits = uint64_t{1} << 15;
constexpr std::pair<const char*, size_t> kPageSizes[] = {{"4K", kSmallPage}, {"2M", kHugePage}};

// The paper's formula takes the probes as independent; double hashing makes them an arithmetic progression.
struct Independent {
  uint64_t bits;
  uint64_t position(uint64_t hash, unsigned i) const { return reduce(scatter(hash + i), bits); }
};

template <class Layout>
double mean_pages(Layout layout, uint64_t keys) {
  uint64_t pages = 0;
  for (uint64_t key = 0; key < keys; key++) {
    std::set<uint64_t> distinct;
    for (unsigned i = 0; i < kK; i++) distinct.insert(layout.position(scatter(key), i) / kPageBits);
    pages += distinct.size();
  }
  return static_cast<double>(pages) / static_cast<double>(keys);
}

Json distinct_pages() {
  Json rows = Json::array();
  for (const uint64_t pages : {10, 100}) {
    const double n = static_cast<double>(pages);
    rows.push_back({{"pages", pages},
                    {"expected", n * (1 - std::pow(1 - 1 / n, kK))},
                    {"standard", mean_pages(Independent{pages * kPageBits}, 200'000)},
                    {"standard_double_hashing", mean_pages(Flat{pages * kPageBits}, 200'000)},
                    {"page_blocked", mean_pages(Paged{pages}, 200'000)}});
  }
  return rows;
}

// Page faults while n keys go into memory that nothing has touched before: what the paper's title is about.
template <class Layout>
uint64_t faults_of(Layout layout, uint64_t bits, uint64_t n) {
  const size_t bytes = bits / 8 + kSmallPage;
  const Mapping fresh(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes);
  madvise(fresh.bytes().data(), bytes, MADV_NOHUGEPAGE);
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  insert_plain(layout, reinterpret_cast<uint64_t*>(fresh.bytes().data()), 0, n);
  getrusage(RUSAGE_SELF, &after);
  return static_cast<uint64_t>(after.ru_minflt - before.ru_minflt);
}

Json page_faults() {
  const uint64_t n = 1'000'000, bits = 10 * n;
  return {{"keys", n},
          {"pages", (bits + kPageBits - 1) / kPageBits},
          {"standard", faults_of(Flat{bits}, bits, n)},
          {"page_blocked", faults_of(Paged::of_bits(bits), bits, n)}};
}

// What a missed translation costs here: a chain of dependent loads through one line of each page, in random order. The
// lines fit the caches, the pages of 4 KiB not the TLB.
Json chain_times() {
  Json rows = Json::array();
  for (const uint64_t pages : {1024, 4096, 16384}) {
    Json row = {{"pages", pages}};
    for (const auto& [page_name, page_bytes] : kPageSizes) {
      const Words words(pages * kPageBits, page_bytes);
      std::vector<uint64_t> lines(pages);  // first word of each
      for (uint64_t i = 0; i < pages; i++) lines[i] = i * (kPageBits / 64) + scatter(i) % 64 * 8;
      for (uint64_t i = pages - 1; i > 0; i--) std::swap(lines[i], lines[scatter(pages + i) % (i + 1)]);
      for (uint64_t i = 0; i < pages; i++) words.get()[lines[i]] = lines[(i + 1) % pages];
      const uint64_t steps = 500'000;
      const Variant chain = {"chain", [&] {
                               uint64_t at = lines[0];
                               for (uint64_t i = 0; i < steps; i++) at = words.get()[at];
                               return at;
                             }};
      row[std::string(page_name) + "_ns"] = paired_ns(7, steps, {&chain, 1})[0];
    }
    rows.push_back(row);
  }
  return rows;
}

// The paper's programs hash the 16-byte key anew for every probe, and the paged one once more for the page. SipHash
// stands for their hash. pages = 0: no blocking.
void insert_hashing(uint64_t* words, uint64_t bits, uint64_t pages, uint64_t n) {
  for (uint64_t key = 0; key < n; key++) {
    const weir_u64 text[2] = {scatter(key), key};
    const auto hash = [&](uint64_t i) {
      const weir_u64 secret[2] = {i, 1};
      return weir_siphash13(secret, text, 2);
    };
    const uint64_t start = pages == 0 ? 0 : reduce(hash(kK), pages) * kPageBits;
    for (unsigned i = 0; i < kK; i++) {
      const uint64_t position = start + reduce(hash(i), pages == 0 ? bits : kPageBits);
      words[position >> 6] |= uint64_t{1} << (position & 63);
    }
  }
}

Json insert_times(bool quick) {
  Json rows = Json::array();
  std::vector<uint64_t> millions = {1, 2, 5};
  if (!quick) millions.insert(millions.end(), {10, 20, 50, 110});
  for (const auto& [page_name, page_bytes] : kPageSizes) {
    for (const uint64_t million : millions) {
      say("inserting " + std::to_string(million) + " M keys on " + page_name + " pages");
      const uint64_t n = million * 1'000'000, bits = 10 * n;
      const Flat flat{bits};
      const Paged paged = Paged::of_bits(bits);
      const Words words(bits + kPageBits, page_bytes);
      std::vector<Variant> variants = {
          {"standard", [&] { return insert_plain(flat, words.get(), 0, n), uint64_t{0}; }},
          {"page_blocked", [&] { return insert_plain(paged, words.get(), 0, n), uint64_t{0}; }},
          {"standard_prefetched", [&] { return insert_prefetched(flat, words.get(), 0, n), uint64_t{0}; }},
          {"page_blocked_prefetched", [&] { return insert_prefetched(paged, words.get(), 0, n), uint64_t{0}; }},
      };
      if (million <= (quick ? 1 : 5)) {  // the slowest by far
        variants.push_back({"standard_hashing", [&] { return insert_hashing(words.get(), bits, 0, n), uint64_t{0}; }});
        variants.push_back(
            {"page_blocked_hashing", [&] { return insert_hashing(words.get(), bits, paged.blocks, n), uint64_t{0}; }});
      }
      const unsigned repetitions = million < 10 ? 3 : 1;
      const std::vector<double> ns = paired_ns(repetitions, n, variants);
      Json row = {{"pages", page_name}, {"million_keys", million}, {"repetitions", repetitions}};
      for (size_t v = 0; v < variants.size(); v++) row[variants[v].name + "_s"] = ns[v] * static_cast<double>(n) * 1e-9;
      rows.push_back(row);
    }
  }
  return rows;
}

template <class Layout>
double measured_rate(Layout layout, const Words& words, uint64_t n, uint64_t first, uint64_t queries) {
  insert_prefetched(layout, words.get(), first, n);
  const uint64_t found = count_prefetched(layout, words.get(), kStrangers + first, queries);
  return static_cast<double>(found) / static_cast<double>(queries);
}

// 150,000 keys as in the paper, several key sets; more strangers than its 150,000, or the low rates are a handful.
Json rates(bool quick) {
  say("false-positive rates");
  Json rows = Json::array();
  const uint64_t n = 150'000, queries = quick ? 150'000 : 2'000'000;
  const unsigned sets = quick ? 1 : 3;
  for (unsigned bits_per_key = 2; bits_per_key <= 30; bits_per_key += quick ? 2 : 1) {
    const uint64_t bits = n * bits_per_key;
    const Flat flat{bits};
    const Paged paged = Paged::of_bits(bits);
    double standard = 0, page_blocked = 0;
    for (unsigned set = 0; set < sets; set++) {
      const uint64_t first = set * (uint64_t{1} << 32);
      Words words(bits + kPageBits, kSmallPage);
      standard += measured_rate(flat, words, n, first, queries) / sets;
      words.clear();
      page_blocked += measured_rate(paged, words, n, first, queries) / sets;
    }
    rows.push_back({{"bits_per_key", bits_per_key},
                    {"standard", standard},
                    {"page_blocked", page_blocked},
                    {"standard_formula", standard_rate(double(n), double(bits), kK)},
                    {"page_formula", blocked_rate(double(n), double(paged.blocks), double(kPageBits), kK)}});
  }
  return rows;
}

// The paper's AOL experiment in size: 700,000 keys, queries of strangers. Its queries are not here; ours are numbers.
Json throughput(bool quick) {
  say("query throughput over bits per key");
  Json rows = Json::array();
  const uint64_t n = 700'000, queries = quick ? 200'000 : 1'000'000;
  for (const auto& [page_name, page_bytes] : kPageSizes) {
    for (unsigned bits_per_key = 1; bits_per_key <= 30; bits_per_key += bits_per_key < 4 ? 1 : quick ? 8 : 2) {
      const Flat flat{n * bits_per_key};
      const Paged paged = Paged::of_bits(n * bits_per_key);
      const Words of_flat(n * bits_per_key, page_bytes), of_paged(n * bits_per_key + kPageBits, page_bytes);
      insert_prefetched(flat, of_flat.get(), 0, n);
      insert_prefetched(paged, of_paged.get(), 0, n);
      const Variant variants[] = {
          {"standard", [&] { return count_plain(flat, of_flat.get(), kStrangers, queries); }},
          {"page_blocked", [&] { return count_plain(paged, of_paged.get(), kStrangers, queries); }},
          {"standard_phased", [&] { return count_phased(flat, of_flat.get(), kStrangers, queries); }},
          {"page_blocked_phased", [&] { return count_phased(paged, of_paged.get(), kStrangers, queries); }},
      };
      const std::vector<double> ns = paired_ns(5, queries, variants);
      Json row = {{"pages", page_name}, {"bits_per_key", bits_per_key}};
      for (size_t v = 0; v < std::size(variants); v++) row[variants[v].name + "_ns"] = ns[v];
      rows.push_back(row);
    }
  }
  return rows;
}

// What every form pays for making keys and hashing them.
uint64_t sum_of_hashes(uint64_t first, uint64_t n) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; i++) sum += scatter(first + i) & 1;
  return sum;
}

// Every form of the baselines and line8, 12 bits a key, strangers and members, at sizes that fit L2, L3 and neither.
Json forms(bool quick) {
  Json rows = Json::array();
  const std::vector<uint64_t> millions = quick ? std::vector<uint64_t>{1, 10} : std::vector<uint64_t>{1, 10, 100};
  const uint64_t queries = 1'000'000;
  for (const auto& [page_name, page_bytes] : kPageSizes) {
    for (const uint64_t million : millions) {
      say("forms of lookup, " + std::to_string(million) + " M keys on " + page_name + " pages");
      const uint64_t n = million * 1'000'000, bits = 12 * n;
      const Flat flat{bits};
      const Paged paged = Paged::of_bits(bits);
      const Words of_flat(bits, page_bytes), of_paged(bits + kPageBits, page_bytes),
          of_line8(bits + kPageBits, page_bytes);
      const Line8Filter line8(of_line8.get(), bits);
      insert_prefetched(flat, of_flat.get(), 0, n);
      insert_prefetched(paged, of_paged.get(), 0, n);
      line8.insert(0, n);
      for (const bool members : {false, true}) {
        const uint64_t first = members ? 0 : kStrangers;
        const Variant variants[] = {
            {"keys_alone", [&] { return sum_of_hashes(first, queries); }},
            {"standard", [&] { return count_plain(flat, of_flat.get(), first, queries); }},
            {"page_blocked", [&] { return count_plain(paged, of_paged.get(), first, queries); }},
            {"standard_prefetched", [&] { return count_prefetched(flat, of_flat.get(), first, queries); }},
            {"page_blocked_prefetched", [&] { return count_prefetched(paged, of_paged.get(), first, queries); }},
            {"standard_phased", [&] { return count_phased(flat, of_flat.get(), first, queries); }},
            {"page_blocked_phased", [&] { return count_phased(paged, of_paged.get(), first, queries); }},
            {"line8", [&] { return line8.count(first, queries, 0); }},
            {"line8_ahead", [&] { return line8.count(first, queries, 3); }},
        };
        const std::vector<double> ns = paired_ns(quick ? 3 : 7, queries, variants);
        Json row = {{"pages", page_name}, {"million_keys", million}, {"members", members}};
        for (size_t v = 0; v < std::size(variants); v++) row[variants[v].name + "_ns"] = ns[v];
        rows.push_back(row);
      }
    }
  }
  return rows;
}

}  // namespace
}  // namespace weir::reproduce

int main(int argc, char** argv) {
  using namespace weir::reproduce;
  const bool quick = is_quick(argc, argv);
  const Json result = {{"distinct_pages", distinct_pages()},
                       {"page_faults", page_faults()},
                       {"chain", chain_times()},
                       {"rates", rates(quick)},
                       {"throughput", throughput(quick)},
                       {"insert", insert_times(quick)},
                       {"forms", forms(quick)}};
  std::printf("%s\n", result.dump(1).c_str());
}
