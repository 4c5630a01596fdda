#include "control/answer/capture_json.h"

namespace weir::control {

Json to_json(const CaptureState& state) {
  const CaptureCounts& counts = state.counts;
  Json json = {{"on", state.on},
               {"last_error", state.error},
               {"sampled", counts.sampled},
               {"written", counts.written},
               {"filtered", counts.filtered},
               {"limited", counts.limited},
               {"lost", counts.lost},
               {"waiting", counts.waiting}};
  if (!state.on) return json;
  const CaptureSettings& settings = state.settings;
  json.update({{"folder", settings.folder},
               {"one_in", settings.one_in},
               {"per_list_per_second", settings.per_list_per_second},
               {"snap_bytes", settings.snap_bytes},
               {"filter", settings.filter},
               {"file_bytes", settings.file_bytes},
               {"file_age_s", settings.file_age_s},
               {"files", settings.files},
               {"current", state.current}});
  Json targets = Json::array();
  for (const CaptureState::Target& target : state.targets) {
    targets.push_back({{"socket", target.socket}, {"last_error", target.error}});
  }
  json["targets"] = std::move(targets);
  return json;
}

}  // namespace weir::control
