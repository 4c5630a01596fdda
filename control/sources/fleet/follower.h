#pragma once

#include <cstddef>
#include <span>

#include "common/confine/helpers.h"

namespace weir::control::fleet {

// Speaks to etcd for one node, as a process of its own (common/confine/helpers.h), which holds nothing of controld's.
// Whoever takes it over can make up what the fleet's inputs are, which are judged as any other, and has this node's
// access to etcd. It hears a Follow, then Orders, and tells News (channel.h), until its socket is closed.
// Two threads: one watches, one does what it is told. What cannot be reached is tried again for ever.
void follow(int socket, std::span<std::byte> shared);

extern const confine::Job kFollowJob;  // for confine::Helpers::start

}  // namespace weir::control::fleet
