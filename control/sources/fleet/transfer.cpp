#include "control/sources/fleet/transfer.h"

#include <algorithm>
#include <map>

#include "control/sources/fleet/pieces.h"

namespace weir::control::fleet {
namespace {

using etcd::Step;

constexpr size_t kMostPut = 256 << 10;      // bytes of one, besides the last piece (1 MiB); etcd takes 1.5 MiB
constexpr uint64_t kMostFetched = 4 << 20;  // of one answer, unpacked

}  // namespace

Result<void> Sender::list_pieces() {
  if (is_listed_) return {};
  const Result<etcd::RangeAnswer> all = client_.all(names_.pieces(), true);
  if (!all) return Error{all.error()};
  for (const etcd::KeyValue& pair : all->pairs) there_.insert(pair.key.substr(names_.pieces().size()));
  is_listed_ = true;
  return {};
}

Result<void> Sender::put(etcd::Transaction& some) {
  const Result<etcd::TransactionAnswer> done = client_.commit(some);
  some.steps.clear();
  return done ? Result<void>() : Error{done.error()};
}

// The list comes last: who sees it finds all that it names.
Result<bool> Sender::send(const std::string& digest, std::string_view bytes) {
  const Result<etcd::RangeAnswer> known = client_.all(names_.blob(digest), true);
  if (!known) return Error{known.error()};
  if (!known->pairs.empty()) return false;
  if (Result<void> listed = list_pieces(); !listed) return Error{listed.error()};
  const std::vector<std::string_view> parts = cut(bytes, bytes.size());
  const Pieces pieces = pieces_of(parts);
  etcd::Transaction some;
  size_t waiting = 0;
  for (size_t n = 0; n < parts.size(); n++) {
    if (!there_.insert(pieces.all[n].digest).second) continue;
    std::string packed = pack(parts[n]);
    waiting += packed.size();
    bytes_sent_ += packed.size();
    some.steps.push_back({Step::Kind::put, names_.piece(pieces.all[n].digest), std::move(packed)});
    if (waiting < kMostPut && some.steps.size() < etcd::kMostSteps) continue;
    if (Result<void> done = put(some); !done) return Error{done.error()};
    waiting = 0;
  }
  if (!some.steps.empty()) {
    if (Result<void> done = put(some); !done) return Error{done.error()};
  }
  some.steps.push_back({Step::Kind::put, names_.blob(digest), text_of(pieces)});
  if (Result<void> done = put(some); !done) return Error{done.error()};
  return true;
}

Result<Pieces> fetch_pieces(etcd::Client& client, const Names& names, const BlobFile& file) {
  const Result<etcd::RangeAnswer> found = client.get(names.blob(file.digest));
  if (!found) return Error{found.error()};
  if (found->pairs.empty()) return Error{"etcd does not have it"};
  return read_pieces(found->pairs.front().value, file.bytes);
}

Result<void> fetch_bytes(etcd::Client& client, const Names& names, const Pieces& pieces,
                         const std::vector<bool>& is_wanted, std::span<std::byte> to) {
  std::map<std::string, std::vector<std::span<std::byte>>> places;  // that wait for these keys
  uint64_t waiting = 0, at = 0;
  const auto fetch = [&]() -> Result<void> {
    etcd::Transaction some;
    for (const auto& [key, _] : places) some.steps.push_back({Step::Kind::range, key, ""});
    const Result<etcd::TransactionAnswer> found = client.commit(some);
    if (!found) return Error{found.error()};
    for (const etcd::KeyValue& pair : found->read) {
      const auto place = places.find(pair.key);
      if (place == places.end()) continue;
      for (const std::span<std::byte> one : place->second) {
        if (Result<void> unpacked = unpack(pair.value, one); !unpacked) return unpacked;
      }
      places.erase(place);
    }
    if (!places.empty()) return Error{"etcd does not have all pieces of it"};
    waiting = 0;
    return {};
  };
  for (size_t n = 0; n < pieces.all.size(); n++) {
    const Piece& piece = pieces.all[n];
    const std::span<std::byte> place = to.subspan(at, piece.bytes);
    at += piece.bytes;
    if (!is_wanted[n]) continue;
    places[names.piece(piece.digest)].push_back(place);
    waiting += piece.bytes;
    if (waiting < kMostFetched && places.size() < etcd::kMostSteps) continue;
    if (Result<void> fetched = fetch(); !fetched) return fetched;
  }
  return places.empty() ? Result<void>() : fetch();
}

}  // namespace weir::control::fleet
