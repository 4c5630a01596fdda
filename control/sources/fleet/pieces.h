#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/base/json/fields.h"
#include "control/sources/fleet/revision.h"

// This file cuts, packs and names the bytes of files, as a fleet keeps them.
namespace weir::control::fleet {

// Bytes as they are kept: known by their digest, and compressed by zstd.

// SHA-256 in 64 hexadecimal digits.
std::string sha256_of(std::span<const std::byte> bytes);
bool is_digest(std::string_view text);

std::string pack(std::string_view bytes);
// Into `to`, which is as long as the bytes were. Error: it is not that.
Result<void> unpack(std::string_view packed, std::span<std::byte> to);

// A file in pieces whose ends its own bytes choose: where a feed changes in one place, all other pieces stay as they
// were, wherever they lie now. So what etcd and a node have of the file before does not travel again.

struct Piece {
  std::string digest;  // SHA-256 in hexadecimal digits
  uint64_t bytes = 0;
};
// Which a file consists of, in its order.
struct Pieces {
  std::vector<Piece> all;
};
void members(Fields& f, Piece& piece);
void members(Fields& f, Pieces& pieces);

constexpr size_t kMostPiece = 1 << 20;  // bytes of one, so that a request of etcd (1.5 MiB) takes it
constexpr size_t kMostPieces = 1 << 14;
constexpr size_t kMostPiecesText = 1500 << 10;

// file_bytes: of the file whose pieces these shall be like: large files have large pieces, 2048 or so.
std::vector<std::string_view> cut(std::string_view bytes, uint64_t file_bytes);
Pieces pieces_of(const std::vector<std::string_view>& cut);

std::string text_of(const Pieces& pieces);
Result<Pieces> read_pieces(std::string_view text);
// Error also when they are not the pieces of a file of so many bytes.
Result<Pieces> read_pieces(std::string_view text, uint64_t file_bytes);

// A file that is here, as the source of pieces of a newer one of so many bytes.
class Older {
 public:
  Older(std::string bytes, uint64_t newer_bytes);
  // One for each piece: it is not here.
  std::vector<bool> missing(const Pieces& newer) const;
  // All that are here, each to where it belongs in the newer file.
  void fill(const Pieces& newer, std::span<std::byte> to) const;

 private:
  std::string bytes_;
  std::map<std::string, size_t> offset_of_;  // by digest
};

}  // namespace weir::control::fleet
