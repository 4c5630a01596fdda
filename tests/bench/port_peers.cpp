#include "tests/bench/port_peers.h"

#include <rte_acl.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_member.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

namespace weir::bench {
namespace {

constexpr unsigned kProtocolAt = 9, kSourceAt = 12;  // RFC 791, of the header
constexpr unsigned kSourceAt6 = 8;                   // RFC 8200
constexpr unsigned kHostBits = 32, kHostBits6 = 128;

std::string dpdk_error(const char* what, int error) {
  return std::string(what) + ": " + rte_strerror(error < 0 ? -error : error);
}

uint32_t source_of(const uint8_t* header) {
  return ipv4_from_bytes(header + kSourceAt);
}

uint32_t address_of(const Prefix& prefix) {
  return static_cast<uint32_t>(prefix.address);
}

class Io : public PortPeer {
 public:
  uint64_t listed(const uint8_t* const*, unsigned) override { return 0; }
};

class Fib : public PortPeer {
 public:
  ~Fib() override { rte_fib_free(fib_); }

  Result<void> fill(std::span<const Prefix> prefixes) {
    std::set<uint32_t> long_blocks;  // /24s that hold something longer: a group of 256 each
    for (const Prefix& prefix : prefixes) {
      if (prefix.bits > 24) long_blocks.insert(address_of(prefix) >> 8);
    }
    rte_fib_conf conf = {};
    conf.type = RTE_FIB_DIR24_8;
    conf.max_routes = static_cast<int>(prefixes.size() + 1);
    conf.dir24_8.nh_sz = RTE_FIB_DIR24_8_4B;
    conf.dir24_8.num_tbl8 = static_cast<uint32_t>(long_blocks.size() + 1);
    fib_ = rte_fib_create("peer", SOCKET_ID_ANY, &conf);
    if (fib_ == nullptr) return Error{dpdk_error("rte_fib_create", rte_errno)};
    for (const Prefix& prefix : prefixes) {
      if (const int code = rte_fib_add(fib_, address_of(prefix), prefix.bits, 1); code != 0) {
        return Error{dpdk_error("rte_fib_add", code)};
      }
    }
    return {};
  }

  uint64_t listed(const uint8_t* const* headers, unsigned n) override {
    uint32_t addresses[kPeerBurst];
    uint64_t next_hops[kPeerBurst], hits = 0;
    for (unsigned i = 0; i < n; i++) addresses[i] = source_of(headers[i]);
    rte_fib_lookup_bulk(fib_, addresses, next_hops, static_cast<int>(n));
    for (unsigned i = 0; i < n; i++) hits |= next_hops[i] << i;
    return hits;
  }

 private:
  rte_fib* fib_ = nullptr;
};

std::vector<Prefix> networks_of(std::span<const Prefix> prefixes) {
  std::vector<Prefix> networks;
  std::copy_if(prefixes.begin(), prefixes.end(), std::back_inserter(networks),
               [](const Prefix& prefix) { return prefix.bits < kHostBits; });
  return networks;
}

class Hash : public PortPeer {
 public:
  ~Hash() override { rte_hash_free(hash_); }

  Result<void> fill(std::span<const Prefix> prefixes) {
    const std::vector<Prefix> networks = networks_of(prefixes);
    rte_hash_parameters parameters = {};
    parameters.name = "peer";
    parameters.entries =
        static_cast<uint32_t>(std::max<size_t>(prefixes.size() * 5 / 4, 64));  // cuckoo tables fill to about 95 %
    parameters.key_len = sizeof(uint32_t);
    parameters.hash_func = rte_hash_crc;
    parameters.socket_id = SOCKET_ID_ANY;
    hash_ = rte_hash_create(&parameters);
    if (hash_ == nullptr) return Error{dpdk_error("rte_hash_create", rte_errno)};
    for (const Prefix& prefix : prefixes) {
      if (prefix.bits < kHostBits) continue;
      const uint32_t address = address_of(prefix);
      const int code = rte_hash_add_key(hash_, &address);
      if (code < 0) return Error{dpdk_error("rte_hash_add_key", code)};
    }
    has_networks_ = !networks.empty();
    return has_networks_ ? networks_.fill(networks) : Result<void>();
  }

  uint64_t listed(const uint8_t* const* headers, unsigned n) override {
    uint32_t addresses[kPeerBurst];
    const void* keys[kPeerBurst];
    uint64_t hits = 0;
    for (unsigned i = 0; i < n; i++) {
      addresses[i] = source_of(headers[i]);
      keys[i] = &addresses[i];
    }
    rte_hash_lookup_bulk_data(hash_, keys, n, &hits, data_);
    return has_networks_ ? hits | networks_.listed(headers, n) : hits;
  }

 private:
  rte_hash* hash_ = nullptr;
  Fib networks_;
  bool has_networks_ = false;
  void* data_[kPeerBurst] = {};
};

// A summary of hosts. It finds some hosts that are not listed, and so drops their packets.
class Member : public PortPeer {
 public:
  explicit Member(rte_member_setsum_type type) : type_(type) {}
  ~Member() override { rte_member_free(members_); }

  Result<void> fill(std::span<const Prefix> prefixes) {
    const std::vector<Prefix> networks = networks_of(prefixes);
    const size_t n_hosts = prefixes.size() - networks.size();
    rte_member_parameters parameters = {};
    parameters.name = "peer";
    parameters.type = type_;
    parameters.num_keys = static_cast<uint32_t>(std::max<size_t>(n_hosts * 5 / 4, 64));  // a full HT loses keys
    parameters.key_len = sizeof(uint32_t);
    parameters.num_set = 1;
    parameters.false_positive_rate = kFalsePositives;
    parameters.prim_hash_seed = 1;
    parameters.sec_hash_seed = 11;
    parameters.socket_id = SOCKET_ID_ANY;
    members_ = rte_member_create(&parameters);
    if (members_ == nullptr) return Error{dpdk_error("rte_member_create", rte_errno)};
    for (const Prefix& prefix : prefixes) {
      if (prefix.bits < kHostBits) continue;
      const uint32_t address = address_of(prefix);
      const int code = rte_member_add(members_, &address, 1);
      if (code < 0) return Error{dpdk_error("rte_member_add", code)};
    }
    has_networks_ = !networks.empty();
    return has_networks_ ? networks_.fill(networks) : Result<void>();
  }

  uint64_t listed(const uint8_t* const* headers, unsigned n) override {
    static_assert(kPeerBurst <= RTE_MEMBER_LOOKUP_BULK_MAX);
    uint32_t addresses[kPeerBurst];
    const void* keys[kPeerBurst];
    member_set_t found[kPeerBurst] = {};
    uint64_t hits = 0;
    for (unsigned i = 0; i < n; i++) {
      addresses[i] = source_of(headers[i]);
      keys[i] = &addresses[i];
    }
    rte_member_lookup_bulk(members_, keys, n, found);
    for (unsigned i = 0; i < n; i++) hits |= uint64_t{found[i] != RTE_MEMBER_NO_MATCH} << i;
    return has_networks_ ? hits | networks_.listed(headers, n) : hits;
  }

 private:
  static constexpr float kFalsePositives = 0.005F;  // as weir's filter has
  const rte_member_setsum_type type_;
  rte_member_setsum* members_ = nullptr;
  Fib networks_;
  bool has_networks_ = false;
};

// The trie takes 24 bits of an address by one table, and 8 bits by each group of 256 behind it.
class Fib6 : public PortPeer {
 public:
  ~Fib6() override { rte_fib6_free(fib_); }
  bool is_v6() const override { return true; }

  Result<void> fill(std::span<const Prefix> prefixes) {
    uint64_t groups = 1;
    for (const Prefix& prefix : prefixes) groups += prefix.bits > 24 ? (prefix.bits - 24U + 7) / 8 : 0;
    rte_fib6_conf conf = {};
    conf.type = RTE_FIB6_TRIE;
    conf.max_routes = static_cast<int>(prefixes.size() + 1);
    conf.trie.nh_sz = RTE_FIB6_TRIE_4B;
    conf.trie.num_tbl8 = static_cast<uint32_t>(groups);
    fib_ = rte_fib6_create("peer", SOCKET_ID_ANY, &conf);
    const uint64_t mib = (groups * 256 * sizeof(uint32_t)) >> 20;
    if (fib_ == nullptr) {
      return Error{dpdk_error("rte_fib6_create", rte_errno) + "; its groups need " + std::to_string(mib) + " MiB"};
    }
    for (const Prefix& prefix : prefixes) {
      const std::array<uint8_t, 16> address = to_bytes(prefix.address);
      if (const int code = rte_fib6_add(fib_, address.data(), prefix.bits, 1); code != 0) {
        return Error{dpdk_error("rte_fib6_add", code)};
      }
    }
    return {};
  }

  uint64_t listed(const uint8_t* const* headers, unsigned n) override {
    uint8_t addresses[kPeerBurst][16];
    uint64_t next_hops[kPeerBurst], hits = 0;
    for (unsigned i = 0; i < n; i++) memcpy(addresses[i], headers[i] + kSourceAt6, sizeof addresses[i]);
    rte_fib6_lookup_bulk(fib_, addresses, next_hops, static_cast<int>(n));
    for (unsigned i = 0; i < n; i++) hits |= next_hops[i] << i;
    return hits;
  }

 private:
  rte_fib6* fib_ = nullptr;
};

class Acl : public PortPeer {
 public:
  ~Acl() override { rte_acl_free(acl_); }

  Result<void> fill(std::span<const Prefix> prefixes) {
    rte_acl_param parameters = {};
    parameters.name = "peer";
    parameters.socket_id = SOCKET_ID_ANY;
    parameters.rule_size = RTE_ACL_RULE_SZ(kFields);
    parameters.max_rule_num = static_cast<uint32_t>(prefixes.size() + 1);
    acl_ = rte_acl_create(&parameters);
    if (acl_ == nullptr) return Error{dpdk_error("rte_acl_create", rte_errno)};
    for (const Prefix& prefix : prefixes) {
      Rule rule = {};
      rule.data.category_mask = 1;
      rule.data.priority = 1;
      rule.data.userdata = 1;
      rule.field[1].value.u32 = address_of(prefix);
      rule.field[1].mask_range.u32 = prefix.bits;
      if (const int code = rte_acl_add_rules(acl_, reinterpret_cast<rte_acl_rule*>(&rule), 1); code != 0) {
        return Error{dpdk_error("rte_acl_add_rules", code)};
      }
    }
    rte_acl_config config = {};
    config.num_categories = 1;
    config.num_fields = kFields;
    // The first field must be one byte; any protocol will do.
    config.defs[0] = {
        .type = RTE_ACL_FIELD_TYPE_BITMASK, .size = 1, .field_index = 0, .input_index = 0, .offset = kProtocolAt};
    config.defs[1] = {
        .type = RTE_ACL_FIELD_TYPE_MASK, .size = 4, .field_index = 1, .input_index = 1, .offset = kSourceAt};
    if (const int code = rte_acl_build(acl_, &config); code != 0) return Error{dpdk_error("rte_acl_build", code)};
    return {};
  }

  uint64_t listed(const uint8_t* const* headers, unsigned n) override {
    uint32_t results[kPeerBurst];
    uint64_t hits = 0;
    rte_acl_classify(acl_, const_cast<const uint8_t**>(headers), results, n, 1);
    for (unsigned i = 0; i < n; i++) hits |= uint64_t{results[i]} << i;
    return hits;
  }

 private:
  static constexpr unsigned kFields = 2;
  RTE_ACL_RULE_DEF(Rule, kFields);
  rte_acl_ctx* acl_ = nullptr;
};

// The prefixes of this family.
template <class Peer, class... Arguments>
Result<std::unique_ptr<PortPeer>> filled(std::span<const Prefix> all, Arguments... arguments) {
  auto peer = std::make_unique<Peer>(arguments...);
  std::vector<Prefix> prefixes;
  std::copy_if(all.begin(), all.end(), std::back_inserter(prefixes),
               [&](const Prefix& prefix) { return prefix.is_v6 == peer->is_v6(); });
  if (Result<void> done = peer->fill(prefixes); !done) return Error{done.error()};
  return std::unique_ptr<PortPeer>(std::move(peer));
}

}  // namespace

Result<std::vector<Prefix>> read_prefixes(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{"cannot open " + path};
  std::vector<Prefix> prefixes;
  for (std::string line; std::getline(file, line);) {
    const size_t slash = line.find('/');
    const std::string_view text = std::string_view(line).substr(0, slash);
    const bool is_v6 = text.find(':') != std::string_view::npos;
    const int host_bits = static_cast<int>(is_v6 ? kHostBits6 : kHostBits);
    const std::optional<Ipv6> address = is_v6 ? parse_ipv6(text) : std::optional<Ipv6>(parse_ipv4(text));
    const int bits = slash == std::string::npos ? host_bits : atoi(line.c_str() + slash + 1);
    if (!address || bits < 1 || bits > host_bits) return Error{path + ": not a prefix: " + line};
    prefixes.push_back({*address, static_cast<uint8_t>(bits), is_v6});
  }
  return prefixes;
}

Result<std::unique_ptr<PortPeer>> make_port_peer(const std::string& name, std::span<const Prefix> prefixes) {
  if (name == "io") return std::unique_ptr<PortPeer>(std::make_unique<Io>());
  if (name == "acl") return filled<Acl>(prefixes);
  if (name == "fib") return filled<Fib>(prefixes);
  if (name == "fib6") return filled<Fib6>(prefixes);
  if (name == "hash") return filled<Hash>(prefixes);
  if (name == "member_vbf") return filled<Member>(prefixes, RTE_MEMBER_TYPE_VBF);
  if (name == "member_ht") return filled<Member>(prefixes, RTE_MEMBER_TYPE_HT);
  return Error{"no peer " + name + "; there are io, acl, fib, fib6, hash, member_vbf and member_ht"};
}

}  // namespace weir::bench
