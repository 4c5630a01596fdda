#include <vector>

#include "filter/format/siphash.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;

namespace {

// Straight from section 2 of the paper, byte by byte, sharing nothing with filter/format/siphash.h.
uint64_t paper_siphash(unsigned c, unsigned d, uint64_t k0, uint64_t k1, const std::vector<uint8_t>& message) {
  uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
  const auto rotate = [](uint64_t x, unsigned bits) { return x << bits | x >> (64 - bits); };
  const auto rounds = [&](unsigned n) {
    while (n-- > 0) {
      v[0] += v[1], v[2] += v[3];
      v[1] = rotate(v[1], 13), v[3] = rotate(v[3], 16);
      v[1] ^= v[0], v[3] ^= v[2];
      v[0] = rotate(v[0], 32);
      v[2] += v[1], v[0] += v[3];
      v[1] = rotate(v[1], 17), v[3] = rotate(v[3], 21);
      v[1] ^= v[2], v[3] ^= v[0];
      v[2] = rotate(v[2], 32);
    }
  };
  std::vector<uint8_t> padded = message;
  while (padded.size() % 8 != 7) padded.push_back(0);
  padded.push_back(static_cast<uint8_t>(message.size()));
  for (size_t at = 0; at < padded.size(); at += 8) {
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++) word |= uint64_t{padded[at + i]} << (8 * i);
    v[3] ^= word;
    rounds(c);
    v[0] ^= word;
  }
  v[2] ^= 0xff;
  rounds(d);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

std::vector<uint8_t> counting_bytes(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; i++) bytes[i] = static_cast<uint8_t>(i);
  return bytes;
}

constexpr uint64_t kSecret[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

}  // namespace

TEST_CASE("the test's own SipHash gives the paper's vector") {  // appendix A: SipHash-2-4
  REQUIRE(paper_siphash(2, 4, kSecret[0], kSecret[1], counting_bytes(15)) == 0xa129ca6149be45e5);
}

TEST_CASE("SipHash-1-3 gives the published vectors") {  // Rust's standard library tests, messages 00 01 02 ...
  constexpr uint64_t kPublished[] = {0x369095118d299a8e, 0xcc4fdd1a7d908b66, 0xf464aeb267349c8c, 0x81157b6c16a7b60d,
                                     0xc1d2363299e41531};
  for (uint32_t n = 1; n <= WEIR_MAX_KEY_WORDS; n++) {
    const std::vector<uint8_t> message = counting_bytes(n * 8);
    uint64_t words[WEIR_MAX_KEY_WORDS];
    memcpy(words, message.data(), message.size());
    REQUIRE(weir_siphash13(kSecret, words, n) == kPublished[n - 1]);
    REQUIRE(paper_siphash(1, 3, kSecret[0], kSecret[1], message) == kPublished[n - 1]);
  }
}

TEST_CASE("SipHash-1-3 equals the paper's construction on random keys and secrets") {
  test::Random random(1);
  for (int i = 0; i < 1000; i++) {
    const uint64_t secret[2] = {random.next(), random.next()};
    uint64_t words[WEIR_MAX_KEY_WORDS];
    for (uint64_t& word : words) word = random.next();
    for (uint32_t n = 1; n <= WEIR_MAX_KEY_WORDS; n++) {
      std::vector<uint8_t> message(n * 8);
      memcpy(message.data(), words, message.size());
      REQUIRE(weir_siphash13(secret, words, n) == paper_siphash(1, 3, secret[0], secret[1], message));
    }
  }
}
