#pragma once

#include <span>

#include "common/ip.h"

// Networks that everybody should know before he blocks them. Each table ascends, and its ranges lie apart.
namespace weir::control {

template <class Addr>
struct NamedRange {
  Addr first, last;
  const char* what;
};

// Where strangers never send from: RFC 6890, but for the blocks of documentation and benchmarks. what: the block.
template <class Addr>
std::span<const NamedRange<Addr>> reserved_networks();

// What very many people use: public resolvers, root servers of the DNS, networks that carry the sites of others. what:
// whose it is. As their owners published them in 2025; not all there are.
template <class Addr>
std::span<const NamedRange<Addr>> popular_networks();

}  // namespace weir::control
