#pragma once

#include <string_view>

namespace weir::control::web {

// Whether who asks for `host` (a header `Host`: a name or an address, and perhaps a port) means this machine. A page of
// somebody else, whose name is made to lead here after it was loaded (DNS rebinding), asks for its own name; so only
// addresses, `localhost`, and the name that this machine has itself are right. machine: as the kernel knows it; its
// first label will do, too.
bool is_own_host(std::string_view host, std::string_view machine);

}  // namespace weir::control::web
