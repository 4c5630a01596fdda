#include <algorithm>
#include <ctime>

#include "common/clock.h"
#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/tell/answer/status.h"

// What targets tell of their filters once a second, and the alarm when that is not what is predicted.
namespace weir::control {

namespace {

void tell(const RateWatch::Change& change) {
  const FilterRate rate = filter_rate_of(change.target, change.rate);
  const log::Fields fields = {{"target", rate.target},   {"shape", shape_text(rate)},
                              {"verdict", rate.verdict}, {"rate", rate_text(rate)},
                              {"keys", rate.keys},       {"predicted", predicted_text(rate)}};
  if (is_outside(rate)) {
    log::warning("false positives are not what is predicted: `controlctl rebuild` draws another secret", fields);
  } else {
    log::change("false positives are what is predicted again", fields);
  }
}

}  // namespace

void Daemon::take_probes(const std::string& target, const wire::Probes& probes) {
  if (running_ == nullptr) return;
  RateWatch::Watched watched;
  const Publication& base = *running_->stands_on->publication;
  std::copy(base.digest.begin(), base.digest.end(), watched.base_digest);
  std::copy(running_->publication->digest.begin(), running_->publication->digest.end(), watched.overlay_digest);
  watched.base = running_->report.shapes;
  watched.overlay = running_->overlay.shapes;
  for (const RateWatch::Change& change : rates_.take(target, probes, watched, unix_now())) tell(change);
}

}  // namespace weir::control
