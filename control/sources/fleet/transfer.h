#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/sources/etcd/client.h"
#include "control/sources/fleet/names.h"
#include "control/sources/fleet/pieces.h"
#include "control/sources/fleet/revision.h"

// The bytes of files, to etcd and from there.
namespace weir::control::fleet {

// Puts what etcd does not have.
class Sender {
 public:
  Sender(etcd::Client& client, const Names& names) : client_(client), names_(names) {}
  // digest: of the bytes. False: etcd has all of them.
  Result<bool> send(const std::string& digest, std::string_view bytes);
  uint64_t bytes_sent() const { return bytes_sent_; }  // packed

 private:
  Result<void> list_pieces();
  Result<void> put(etcd::Transaction& some);

  etcd::Client& client_;
  const Names& names_;
  std::set<std::string> there_;  // digests of pieces
  bool is_listed_ = false;
  uint64_t bytes_sent_ = 0;
};

// Error: etcd does not have it, or it is not of that size.
Result<Pieces> fetch_pieces(etcd::Client& client, const Names& names, const BlobFile& file);
// Those that are wanted, each to where it belongs in `to`, which has the size of the whole; the rest of it stays. What
// comes is of the right size; whether its digest is right, whoever uses it looks. is_wanted: one for each piece.
Result<void> fetch_bytes(etcd::Client& client, const Names& names, const Pieces& pieces,
                         const std::vector<bool>& is_wanted, std::span<std::byte> to);

}  // namespace weir::control::fleet
