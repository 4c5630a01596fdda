#include "control/policy/read/capture_settings.h"

#include <filesystem>

#include "control/policy/read/frame_filter.h"

namespace weir::control {

using yaml::MapReader;

CaptureSettings read_capture_settings(const std::string& policy_path, MapReader reader) {
  CaptureSettings settings;
  if (const auto folder = reader.text("folder")) {
    if (folder->empty()) {
      reader.error(*reader.find("folder"), "`folder` is empty", "name a folder, or take the key out");
    }
    settings.folder = (std::filesystem::path(policy_path).parent_path() / *folder).string();
  }
  reader.take("one_in", settings.one_in);
  reader.take("per_list_per_second", settings.per_list_per_second);
  reader.take("snap_bytes", settings.snap_bytes);
  reader.take("filter", settings.filter);
  reader.take("file_size", settings.file_bytes);
  reader.take("file_age", settings.file_age_s);
  reader.take("files", settings.files);
  reader.finish();
  return settings;
}

void check_capture_filter(const PolicyFile& file, const yaml::Node* filter) {
  if (filter == nullptr) return;
  const Result<FrameFilter> compiled = FrameFilter::compile(filter->text);
  if (compiled) return;
  file.error(*filter, "`filter` is `" + filter->text + "`: " + compiled.error(),
             "pcap-filter(7) tells what can be written, as in tcp port 443");
}

}  // namespace weir::control
