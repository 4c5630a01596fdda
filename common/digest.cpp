#include "common/digest.h"

#include <xxhash.h>

#include <new>

namespace weir {
namespace {

Digest in_order(const XXH128_hash_t& hash) {
  return {hash.low64, hash.high64};
}

}  // namespace

Digest digest_of(std::span<const std::byte> bytes) {
  return in_order(XXH3_128bits(bytes.data(), bytes.size()));
}

void PartsDigest::Free::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

PartsDigest::PartsDigest() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void PartsDigest::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

Digest PartsDigest::value() const {
  return in_order(XXH3_128bits_digest(state_.get()));
}

}  // namespace weir
