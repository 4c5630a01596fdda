#include "tests/bench/port_peers.h"

#include <rte_acl.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

namespace weir::bench {
namespace {

constexpr unsigned kProtocolAt = 9, kSourceAt = 12;  // RFC 791, of the header
constexpr unsigned kHostBits = 32;

std::string dpdk_error(const char* what, int error) {
  return std::string(what) + ": " + rte_strerror(error < 0 ? -error : error);
}

uint32_t source_of(const uint8_t* header) {
  return ipv4_from_bytes(header + kSourceAt);
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
      if (prefix.bits > 24) long_blocks.insert(prefix.address >> 8);
    }
    rte_fib_conf conf = {};
    conf.type = RTE_FIB_DIR24_8;
    conf.max_routes = static_cast<int>(prefixes.size() + 1);
    conf.dir24_8.nh_sz = RTE_FIB_DIR24_8_4B;
    conf.dir24_8.num_tbl8 = static_cast<uint32_t>(long_blocks.size() + 1);
    fib_ = rte_fib_create("peer", SOCKET_ID_ANY, &conf);
    if (fib_ == nullptr) return Error{dpdk_error("rte_fib_create", rte_errno)};
    for (const Prefix& prefix : prefixes) {
      if (const int code = rte_fib_add(fib_, prefix.address, prefix.bits, 1); code != 0) {
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

class Hash : public PortPeer {
 public:
  ~Hash() override { rte_hash_free(hash_); }

  Result<void> fill(std::span<const Prefix> prefixes) {
    std::vector<Prefix> networks;
    std::copy_if(prefixes.begin(), prefixes.end(), std::back_inserter(networks),
                 [](const Prefix& prefix) { return prefix.bits < kHostBits; });
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
      const int code = rte_hash_add_key(hash_, &prefix.address);
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
      rule.field[1].value.u32 = prefix.address;
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

template <class Peer>
Result<std::unique_ptr<PortPeer>> filled(std::span<const Prefix> prefixes) {
  auto peer = std::make_unique<Peer>();
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
    const std::optional<Ipv4> address = parse_ipv4(std::string_view(line).substr(0, slash));
    const int bits = slash == std::string::npos ? static_cast<int>(kHostBits) : atoi(line.c_str() + slash + 1);
    if (!address || bits < 1 || bits > static_cast<int>(kHostBits))
      return Error{path + ": not an IPv4 prefix: " + line};
    prefixes.push_back({*address, static_cast<uint8_t>(bits)});
  }
  return prefixes;
}

Result<std::unique_ptr<PortPeer>> make_port_peer(const std::string& name, std::span<const Prefix> prefixes) {
  if (name == "io") return std::unique_ptr<PortPeer>(std::make_unique<Io>());
  if (name == "acl") return filled<Acl>(prefixes);
  if (name == "fib") return filled<Fib>(prefixes);
  if (name == "hash") return filled<Hash>(prefixes);
  return Error{"no peer " + name + "; there are io, acl, fib and hash"};
}

}  // namespace weir::bench
