#include "control/compile/merge/merge.h"

namespace weir::control {
namespace {

// One list's claim on one prefix: 8 bytes for IPv4, so that sorting half a million of them stays in cache.
template <class Addr>
struct Claim {
  Addr address;
  uint16_t port;
  uint8_t list;
  uint8_t directions;

  uint32_t tail() const { return uint32_t{port} << 16 | uint32_t{list} << 8 | directions; }
  bool operator<(const Claim& other) const {
    return address != other.address ? address < other.address : tail() < other.tail();
  }
};

// The same with an end: of one list's claims on the same prefix the last to expire counts.
template <class Addr>
struct ExpiringClaim {
  Claim<Addr> claim;
  uint32_t expires;

  bool operator<(const ExpiringClaim& other) const {
    if (claim < other.claim) return true;
    return !(other.claim < claim) && expires > other.expires;
  }
  bool same_claim(const ExpiringClaim& other) const { return !(claim < other.claim) && !(other.claim < claim); }
};

template <class Addr>
struct ClaimsOfLength {
  std::vector<Claim<Addr>> lasting;
  std::vector<ExpiringClaim<Addr>> expiring;
};

template <class Addr>
using ClaimsByLength = std::array<ClaimsOfLength<Addr>, kAddrBits<Addr> + 1>;

template <class Addr>
struct Claims {
  ClaimsByLength<Addr> any_port;
  ClaimsByLength<Addr> one_port;

  uint64_t lasting() const {
    uint64_t n = 0;
    for (const auto* by_length : {&any_port, &one_port}) {
      for (const ClaimsOfLength<Addr>& claims : *by_length) n += claims.lasting.size();
    }
    return n;
  }
  void add(unsigned list, const Rows<Addr>& rows) {
    for (const Entry<Addr> entry : rows) {
      auto& by_length = entry.port == 0 ? any_port : one_port;
      split_range(entry.first, entry.last, [&](Addr address, unsigned bits) {
        const Claim<Addr> claim = {address, entry.port, static_cast<uint8_t>(list), entry.directions};
        if (entry.expires == kNever) {
          by_length[bits].lasting.push_back(claim);
        } else {
          by_length[bits].expiring.push_back({claim, entry.expires});
        }
      });
    }
  }
};

// The rule of one list alone, the usual case, without asking the book again.
class SingleListRules {
 public:
  explicit SingleListRules(RuleBook& book) : book_(book) {}

  uint32_t rule(unsigned list, unsigned directions) {
    uint32_t& known = rules_[list][directions & kBothDirections];
    if (known == 0) {
      weir_set source = {}, destination = {};
      if ((directions & WEIR_AS_SOURCE) != 0) add_list(source, list);
      if ((directions & WEIR_AS_DESTINATION) != 0) add_list(destination, list);
      known = book_.rule(source, destination);
    }
    return known;
  }

 private:
  static constexpr unsigned kBothDirections = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
  RuleBook& book_;
  uint32_t rules_[WEIR_MAX_LISTS][kBothDirections + 1] = {};
};

// Sorts the claims and unites those of the same prefix and port. Empties claims.
template <class Addr>
std::vector<RuledPrefix<Addr>> unite(std::vector<Claim<Addr>>& claims, RuleBook& book, SingleListRules& single,
                                     Progress* progress) {
  sort_runs(claims);
  ProgressCount count(progress);
  std::vector<RuledPrefix<Addr>> prefixes;
  prefixes.reserve(claims.size());
  for (size_t begin = 0, end = 0; begin < claims.size(); begin = end) {
    const Claim<Addr>& first = claims[begin];
    weir_set source = {}, destination = {};
    for (; end < claims.size() && claims[end].address == first.address && claims[end].port == first.port; end++) {
      count.one();
      if ((claims[end].directions & WEIR_AS_SOURCE) != 0) add_list(source, claims[end].list);
      if ((claims[end].directions & WEIR_AS_DESTINATION) != 0) add_list(destination, claims[end].list);
    }
    const uint32_t rule = end - begin == 1 ? single.rule(first.list, first.directions) : book.rule(source, destination);
    prefixes.push_back({first.address, rule, first.port});
  }
  claims = {};
  return prefixes;
}

template <class Addr>
std::vector<RuledPrefix<Addr>> conditional(std::vector<ExpiringClaim<Addr>>& claims, RuleBook& book) {
  std::sort(claims.begin(), claims.end());
  std::vector<RuledPrefix<Addr>> prefixes;
  const ExpiringClaim<Addr>* before = nullptr;
  for (const ExpiringClaim<Addr>& expiring : claims) {
    if (before != nullptr && before->same_claim(expiring)) continue;
    before = &expiring;
    weir_residual condition = {};
    condition.asks = WEIR_ASKS_EXPIRES;
    condition.expires_unix_s = expiring.expires;
    const Claim<Addr>& claim = expiring.claim;
    prefixes.push_back({claim.address, book.rule_if(condition, claim.directions, claim.list), claim.port});
  }
  return prefixes;
}

template <class Addr>
MergedFamily<Addr> merge_family(Claims<Addr> claims, RuleBook& book, SingleListRules& single, Progress* progress) {
  MergedFamily<Addr> merged;
  const auto merge_length = [&](ClaimsOfLength<Addr>& claimed, std::vector<RuledPrefix<Addr>>& prefixes) {
    prefixes = unite(claimed.lasting, book, single, progress);
    add_prefixes(prefixes, conditional(claimed.expiring, book), book);
  };
  for (unsigned bits = 0; bits <= kAddrBits<Addr>; bits++) {
    merge_length(claims.any_port[bits], merged.any_port[bits]);
    merge_length(claims.one_port[bits], merged.one_port[bits]);
  }
  return merged;
}

}  // namespace

Merged merge(const Policy& policy, Progress* progress) {
  Claims<Ipv4> v4;
  Claims<Ipv6> v6;
  for (unsigned list = 0; list < policy.lists.size(); list++) {
    v4.add(list, policy.lists[list].v4());
    v6.add(list, policy.lists[list].v6());
  }
  if (progress != nullptr) progress->expect(v4.lasting() + v6.lasting());
  Merged merged;
  SingleListRules single(merged.book);
  merged.v4 = merge_family(std::move(v4), merged.book, single, progress);
  merged.v6 = merge_family(std::move(v6), merged.book, single, progress);
  return merged;
}

}  // namespace weir::control
