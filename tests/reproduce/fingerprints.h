// Two filters that store fingerprints and can delete: cuckoo (Fan, Andersen, Kaminsky, Mitzenmacher 2014) and quotient
// (Bender et al. 2012).
#pragma once

#include <cassert>
#include <cstring>

#include "tests/reproduce/measure.h"

namespace weir::reproduce {

// Buckets of four 12-bit fingerprints, two for a key. The second is H(fingerprint) - first modulo the number of
// buckets: its own inverse, as the paper's XOR, and any number of buckets will do.
class CuckooFilter {
 public:
  static constexpr unsigned kCells = 4, kTagBits = 12, kMaxKicks = 500;
  static constexpr double kLoad = 0.95;

  explicit CuckooFilter(uint64_t n)
      : buckets_(static_cast<uint64_t>(static_cast<double>(n) / (kLoad * kCells)) + 1), words_(bits(), kHugePage) {}

  uint64_t bits() const { return buckets_ * kCells * kTagBits; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    __builtin_prefetch(bytes(first(hash)));
    __builtin_prefetch(bytes(other(first(hash), tag(hash))));
  }
  bool check(uint64_t hash) const {
    const uint64_t at = first(hash), of = tag(hash), too = other(at, of);
    const bool in_first = holds(load(at), of), in_other = holds(load(too), of);  // both loads at once, no branch
    return in_first | in_other | (of == victim_tag_ && (at == victim_at_ || too == victim_at_));
  }
  // False when no cell was found within kMaxKicks: the filter is full (its last victim is kept aside and still found).
  bool insert(uint64_t hash) {
    uint64_t at = first(hash), of = tag(hash);
    if (put(at, of)) return true;
    at = other(at, of);
    for (unsigned kick = 0; kick < kMaxKicks; kick++) {
      if (put(at, of)) return true;
      random_ = scatter(random_);
      of = swap(at, static_cast<unsigned>(random_ % kCells), of);
      at = other(at, of);
    }
    assert(victim_tag_ == 0);
    victim_tag_ = of, victim_at_ = at;
    return false;
  }
  void erase(uint64_t hash) {
    const uint64_t of = tag(hash);
    for (const uint64_t at : {first(hash), other(first(hash), of)}) {
      for (unsigned cell = 0; cell < kCells; cell++) {
        if ((load(at) >> cell * kTagBits & kTagMask) != of) continue;
        swap(at, cell, 0);
        return;
      }
    }
    if (of == victim_tag_) victim_tag_ = 0;
  }

 private:
  static constexpr uint64_t kTagMask = (1u << kTagBits) - 1, kBucketMask = (uint64_t{1} << kCells * kTagBits) - 1;
  static constexpr uint64_t kEach = 0x001001001001;  // the lowest bit of each cell

  static uint64_t tag(uint64_t hash) { return 1 + ((hash & 0xffffffff) * kTagMask >> 32); }  // 0 is an empty cell
  uint64_t first(uint64_t hash) const { return reduce(hash, buckets_); }
  uint64_t other(uint64_t at, uint64_t of) const {
    const uint64_t sum = reduce(scatter(of), buckets_);
    return sum >= at ? sum - at : sum + buckets_ - at;
  }
  char* bytes(uint64_t at) const { return reinterpret_cast<char*>(words_.get()) + at * kCells * kTagBits / 8; }
  uint64_t load(uint64_t at) const {
    uint64_t word;
    std::memcpy(&word, bytes(at), sizeof word);
    return word & kBucketMask;
  }
  // A cell of `bucket` is `of`: a zero among the differences (Mycroft's trick, one lane per cell).
  static bool holds(uint64_t bucket, uint64_t of) {
    const uint64_t difference = bucket ^ of * kEach;
    return ((difference - kEach) & ~difference & kEach << (kTagBits - 1)) != 0;
  }
  uint64_t swap(uint64_t at, unsigned cell, uint64_t of) {
    uint64_t word;
    std::memcpy(&word, bytes(at), sizeof word);
    const uint64_t old = word >> cell * kTagBits & kTagMask;
    word ^= (old ^ of) << cell * kTagBits;
    std::memcpy(bytes(at), &word, sizeof word);
    return old;
  }
  bool put(uint64_t at, uint64_t of) {
    for (unsigned cell = 0; cell < kCells; cell++) {
      if ((load(at) >> cell * kTagBits & kTagMask) != 0) continue;
      swap(at, cell, of);
      return true;
    }
    return false;
  }

  uint64_t buckets_;
  Words words_;
  uint64_t random_ = 1, victim_tag_ = 0, victim_at_ = 0;
};

// Slots of a 13-bit remainder and three bits of metadata. The quotient is any range, not a power of two. Equal
// fingerprints are stored as often as they come, so that deleting one key keeps the other. No wrap-around: a tail
// behind the last slot.
class QuotientFilter {
 public:
  static constexpr unsigned kRemainderBits = 13;
  static constexpr uint64_t kTail = 4096;  // slots; far longer than any cluster at loads that make sense

  explicit QuotientFilter(uint64_t slots) : quotients_(slots), words_(bits(), kHugePage) {}
  static uint64_t slots_for(uint64_t n) { return n * 4 / 3; }  // load 0.75; the surveys: slow above

  uint64_t bits() const { return (quotients_ + kTail) * 16; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const { __builtin_prefetch(slots() + quotient(hash)); }
  bool check(uint64_t hash) const { return find(hash).found; }
  bool insert(uint64_t hash) {
    const uint64_t home = quotient(hash);
    uint16_t* slot = slots();
    if ((slot[home] & kMetadata) == 0) {
      slot[home] = static_cast<uint16_t>(remainder(hash) << 3 | kOccupied);
      return true;
    }
    const bool had_run = slot[home] & kOccupied;
    slot[home] |= kOccupied;
    const uint64_t run = run_start(home);
    uint64_t at = run;
    uint64_t entry = remainder(hash) << 3;
    if (had_run) {
      while (slot[at] >> 3 <= remainder(hash)) {
        if ((slot[++at] & kContinuation) == 0) break;
      }
      if (at == run)
        slot[run] |= kContinuation;
      else
        entry |= kContinuation;
    }
    if (at != home) entry |= kShifted;
    for (;; at++) {  // occupied bits belong to the place and stay, the rest moves on
      assert(at < quotients_ + kTail);
      const uint64_t old = slot[at];
      slot[at] = static_cast<uint16_t>(entry | (old & kOccupied));
      if ((old & kMetadata) == 0) return true;
      entry = (old & ~uint64_t{kOccupied}) | kShifted;
    }
  }
  void erase(uint64_t hash) {
    const Place place = find(hash);
    if (!place.found) return;
    uint16_t* slot = slots();
    uint64_t run = quotient(hash);  // whose run the entry moved next belongs to
    if ((slot[place.at] & kContinuation) == 0) {
      if (slot[place.at + 1] & kContinuation) {
        slot[place.at + 1] &= static_cast<uint16_t>(~kContinuation);
        run--;  // the search below finds this run again
      } else {
        slot[run] &= static_cast<uint16_t>(~kOccupied);
      }
    }
    uint64_t at = place.at;
    for (; slot[at + 1] & kShifted; at++) {
      uint64_t entry = slot[at + 1] & ~uint64_t{kOccupied};
      if ((entry & kContinuation) == 0) {
        do run++;
        while ((slot[run] & kOccupied) == 0);
      }
      if (at == run) entry &= ~uint64_t{kShifted};
      slot[at] = static_cast<uint16_t>(entry | (slot[at] & kOccupied));
    }
    slot[at] &= kOccupied;
  }

 private:
  enum : uint16_t { kOccupied = 1, kContinuation = 2, kShifted = 4, kMetadata = 7 };
  struct Place {
    bool found;
    uint64_t at;
  };

  uint16_t* slots() const { return reinterpret_cast<uint16_t*>(words_.get()); }
  uint64_t quotient(uint64_t hash) const { return reduce(hash, quotients_); }
  static uint64_t remainder(uint64_t hash) { return hash & ((1u << kRemainderBits) - 1); }

  // First slot of the run of an occupied quotient: back to the cluster's start, then forward run by run.
  uint64_t run_start(uint64_t home) const {
    const uint16_t* slot = slots();
    uint64_t of = home;
    while (slot[of] & kShifted) of--;
    uint64_t at = of;
    while (of != home) {
      do at++;
      while (slot[at] & kContinuation);
      do of++;
      while ((slot[of] & kOccupied) == 0);
    }
    return at;
  }
  Place find(uint64_t hash) const {
    const uint16_t* slot = slots();
    if ((slot[quotient(hash)] & kOccupied) == 0) return {false, 0};
    uint64_t at = run_start(quotient(hash));
    do {
      if (slot[at] >> 3 >= remainder(hash)) return {slot[at] >> 3 == remainder(hash), at};
      at++;
    } while (slot[at] & kContinuation);
    return {false, at};
  }

  uint64_t quotients_;
  Words words_;
};

}  // namespace weir::reproduce
