#pragma once

#include <cstdint>
#include <functional>

#include "common/result.h"
#include "common/wire.h"
#include "control/enforce/publish/store.h"
#include "control/policy/model/policy.h"

// What controld would send, and how.
namespace weir::agreement {

constexpr uint64_t kEpoch = 0x7e57;

// The policy's snapshot with this secret, not proven: what it shows can be made again.
Result<control::Publication> snapshot_of(const control::Policy& policy, uint64_t secret, wire::Generation generation);

// Asks an enforcer to publish it: an overlay first without its base, and with it when that is asked for. Error: it is
// refused, and why.
using Publish = std::function<wire::PublishedBody(wire::Message)>;
Result<void> send_to(const Publish& enforcer, const control::Publication& publication);

}  // namespace weir::agreement
