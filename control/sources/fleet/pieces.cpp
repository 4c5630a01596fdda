#include "control/sources/fleet/pieces.h"

#include <openssl/evp.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "control/base/json/json.h"

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

namespace {

// A number for each byte, the same in every program: nodes cut as those who push do.
constexpr std::array<uint64_t, 256> kGear = [] {
  std::array<uint64_t, 256> gear{};
  uint64_t state = 0;
  for (uint64_t& one : gear) {  // splitmix64
    uint64_t mixed = state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    one = mixed ^ (mixed >> 31);
  }
  return gear;
}();

// Bytes of a piece, in the mean; a power of two.
size_t mean_of(uint64_t file_bytes) {
  constexpr uint64_t kLeast = 64 << 10, kWanted = 2048;
  return static_cast<size_t>(std::min(std::bit_ceil(std::max(kLeast, file_bytes / kWanted)), kMostBlob / kWanted));
}

}  // namespace

void members(Fields& f, Piece& piece) {
  f({"digest", "", "SHA-256 of its bytes"}, piece.digest);
  f({"bytes", "bytes", "of it"}, piece.bytes);
}

void members(Fields& f, Pieces& pieces) {
  f.array({"pieces", "", "of a file, in its order"}, pieces.all, "piece");
}

// A piece ends where the last 64 bytes, shifted into a sum of their numbers, leave its leading bits zero.
std::vector<std::string_view> cut(std::string_view bytes, uint64_t file_bytes) {
  const size_t mean = mean_of(file_bytes), least = mean / 4, most = std::min(4 * mean, kMostPiece);
  const int shift = 64 - std::countr_zero(mean);
  std::vector<std::string_view> pieces;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.size(), most);
    size_t at = std::min(end, least);
    for (uint64_t sum = 0; at < end;) {
      sum = (sum << 1) + kGear[static_cast<unsigned char>(bytes[at++])];
      if (sum >> shift == 0) break;
    }
    pieces.push_back(bytes.substr(0, at));
    bytes.remove_prefix(at);
  }
  return pieces;
}

Pieces pieces_of(const std::vector<std::string_view>& cut) {
  Pieces pieces;
  pieces.all.reserve(cut.size());
  for (const std::string_view piece : cut) {
    pieces.all.push_back({sha256_of(std::as_bytes(std::span(piece))), piece.size()});
  }
  return pieces;
}

std::string text_of(const Pieces& pieces) {
  return write_json(pieces).line();
}

Result<Pieces> read_pieces(std::string_view text) {
  if (text.size() > kMostPiecesText) return Error{"the list of its pieces is longer than 1500 KiB"};
  const Result<Document> document = Document::parse(text);
  if (!document) return Error{"the list of its pieces is not understood: " + document.error()};
  Result<Pieces> pieces = read_json<Pieces>(*document);
  if (!pieces) return Error{"the list of its pieces is not understood: " + pieces.error()};
  if (pieces->all.size() > kMostPieces) return Error{"it has more than 16384 pieces"};
  for (const Piece& piece : pieces->all) {
    if (!is_digest(piece.digest)) return Error{"one of its pieces has no digest"};
    if (piece.bytes == 0 || piece.bytes > kMostPiece) return Error{"one of its pieces is empty, or larger than 1 MiB"};
  }
  return pieces;
}

Result<Pieces> read_pieces(std::string_view text, uint64_t file_bytes) {
  Result<Pieces> pieces = read_pieces(text);
  if (!pieces) return pieces;
  uint64_t bytes = 0;
  for (const Piece& piece : pieces->all) bytes += piece.bytes;
  if (bytes != file_bytes) return Error{"its pieces have another size in all than the revision says"};
  return pieces;
}

Older::Older(std::string bytes, uint64_t newer_bytes) : bytes_(std::move(bytes)) {
  const std::vector<std::string_view> pieces = cut(bytes_, newer_bytes);
  for (const std::string_view piece : pieces) {
    offset_of_.emplace(sha256_of(std::as_bytes(std::span(piece))), piece.data() - bytes_.data());
  }
}

std::vector<bool> Older::missing(const Pieces& newer) const {
  std::vector<bool> missing;
  for (const Piece& piece : newer.all) missing.push_back(!offset_of_.contains(piece.digest));
  return missing;
}

void Older::fill(const Pieces& newer, std::span<std::byte> to) const {
  for (size_t at = 0; const Piece& piece : newer.all) {
    const auto here = offset_of_.find(piece.digest);
    if (here != offset_of_.end() && piece.bytes <= bytes_.size() - here->second) {
      memcpy(to.data() + at, bytes_.data() + here->second, piece.bytes);
    }
    at += piece.bytes;
  }
}

}  // namespace weir::control::fleet
