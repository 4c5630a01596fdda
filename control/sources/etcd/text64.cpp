#include "control/sources/etcd/text64.h"

#include <openssl/evp.h>

#include <charconv>

namespace weir::control::etcd {

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends it with a NUL
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(n));
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  if (text.empty()) return std::string();
  const Error wrong{"etcd says something that is not base64"};
  if (text.size() % 4 != 0) return wrong;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (n < 0) return wrong;
  // It counts what stands for the padding, too.
  size_t padding = 0;
  while (padding < 2 && text[text.size() - 1 - padding] == '=') padding++;
  bytes.resize(static_cast<size_t>(n) - padding);
  // It takes padding and blanks in many places.
  if (to_base64(bytes) != text) return wrong;
  return bytes;
}

Result<int64_t> whole_of(std::string_view text) {
  int64_t number = 0;
  if (text.empty()) return number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error{"etcd says `" + std::string(text.substr(0, 40)) + "` for a number"};
  }
  return number;
}

}  // namespace weir::control::etcd
