#pragma once

#include <optional>

#include "control/policy/model/list.h"
#include "control/policy/read/feed_file.h"

// These functions find what `default: drop` takes from a network that its operator probably needs.
namespace weir::control {

// IPv6 ends when neighbours forget each other's addresses. Empty: pass lists let neighbour discovery (RFC 4861)
// through, which needs fe80::/10, as source or destination, and ff02::/16 as destination; or an entry for ICMPv6.
std::optional<Complaint> ends_ipv6(const Book& lists);

// own: `policy.own`, which is cut out of drop lists and passes nothing. Empty: pass lists hold all of it.
std::optional<Complaint> drops_own(const Book& lists, const ListDraft& own);

}  // namespace weir::control
