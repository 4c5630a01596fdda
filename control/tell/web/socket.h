#pragma once

#include <vector>

#include "common/fd.h"
#include "common/result.h"
#include "control/policy/model/listen.h"

namespace weir::control::web {

// A socket of TCP that listens there. Error: why it cannot, and what may be done.
Result<Fd> listen_at(const ListenAddress& address);

// Where a socket listens: the port that it got.
ListenAddress place_of(int socket);

}  // namespace weir::control::web
