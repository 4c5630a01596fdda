#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/base/json/fields.h"

// What CrowdSec's local API tells of decisions (GET /v1/decisions/stream).
namespace weir::control::crowdsec {

// As it writes them.
struct Decision {
  uint64_t id = 0;
  std::string scope, value;      // Ip, Range, Country, AS, or what somebody made up
  std::string type;              // ban, captcha, throttle, or what somebody made up
  std::string duration;          // that is left: 3h59m58.123s; of one that ended it is negative
  std::string origin, scenario;  // who decided, and why; may be empty
};
void members(Fields& f, Decision& decision);

struct Decisions {
  std::vector<Decision> added, deleted;
};

// Error: what is wrong with the answer.
Result<Decisions> read_decisions(std::string_view json);

// Go's time.Duration, in ms, rounded down: 1h2m3.5s, -10.898208ms, 250us. Longer than 10 years is 10 years. Empty: it
// is none.
std::optional<int64_t> duration_ms(std::string_view text);
constexpr int64_t kMostMs = int64_t{10} * 366 * 86400 * 1000;

// An address, or a prefix, which may have bits behind its length, as entries of weir are written. Empty: it is neither,
// or it is wider than anybody would ban.
constexpr unsigned kWidestV4 = 8, kWidestV6 = 16;  // bits
std::optional<std::string> entry_of(std::string_view value);

// `crowdsec: SCENARIO (ORIGIN)`, 200 bytes at most.
std::string comment_of(const Decision& decision);
constexpr std::string_view kCommentBegin = "crowdsec: ";  // by which entries are known again

}  // namespace weir::control::crowdsec
