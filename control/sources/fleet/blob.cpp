#include "control/sources/fleet/blob.h"

#include <openssl/evp.h>
#include <zstd.h>

#include <algorithm>

namespace weir::control::fleet {

std::string sha256_of(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned i = 0; i < size; i++) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string pack(std::string_view bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), ZSTD_CLEVEL_DEFAULT));
  return packed;
}

Result<void> unpack(std::string_view packed, std::span<std::byte> to) {
  const size_t got = ZSTD_decompress(to.data(), to.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0) return Error{std::string("it cannot be unpacked: ") + ZSTD_getErrorName(got)};
  if (got != to.size()) return Error{"it is shorter than the revision says"};
  return {};
}

}  // namespace weir::control::fleet
