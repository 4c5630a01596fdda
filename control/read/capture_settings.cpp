#include "control/read/capture_settings.h"

#include <filesystem>

#include "common/wire.h"
#include "control/read/frame_filter.h"

namespace weir::control {

namespace {

using yaml::MapReader;
using yaml::Node;

constexpr uint64_t kMostOneIn = 1'000'000'000, kMostPerSecond = 100'000, kMostFiles = 10'000;
constexpr uint64_t kLeastSnapBytes = 64;  // Ethernet, IPv6 and the ports
constexpr uint64_t kLeastFile = uint64_t{64} << 10, kMostFile = uint64_t{1} << 40;
constexpr uint64_t kMostAge_s = 366 * 86400;

template <class Number>
void read_number(MapReader& reader, std::string_view key, uint64_t least, uint64_t most, Number& number) {
  if (const auto value = reader.integer(key, least, most)) number = static_cast<Number>(*value);
}

}  // namespace

CaptureSettings read_capture_settings(const yaml::Document& document, const Node& section, Diagnostics& diagnostics) {
  MapReader reader(document, &section, "`capture`", diagnostics);
  CaptureSettings settings;
  if (const auto folder = reader.text("folder")) {
    if (folder->empty()) {
      reader.error(*reader.find("folder"), "`folder` is empty", "name a folder, or take the key out");
    }
    settings.folder = (std::filesystem::path(document.path).parent_path() / *folder).string();
  }
  read_number(reader, "one_in", 1, kMostOneIn, settings.one_in);
  read_number(reader, "per_list_per_second", 1, kMostPerSecond, settings.per_list_per_second);
  read_number(reader, "snap_bytes", kLeastSnapBytes, wire::kMaxSnapBytes, settings.snap_bytes);
  settings.filter = reader.text("filter").value_or("");
  settings.file_bytes = reader.size_bytes("file_size", kLeastFile, kMostFile).value_or(settings.file_bytes);
  settings.file_age_s = reader.seconds("file_age", 1, kMostAge_s).value_or(settings.file_age_s);
  read_number(reader, "files", 1, kMostFiles, settings.files);
  reader.finish();
  return settings;
}

void check_capture_filter(const yaml::Document& document, const Node& section, const CaptureSettings& settings,
                          Diagnostics& diagnostics) {
  const Result<FrameFilter> filter = FrameFilter::compile(settings.filter);
  if (filter) return;
  MapReader reader(document, &section, "`capture`", diagnostics);
  reader.error(*reader.find("filter"), "`filter` is `" + settings.filter + "`: " + filter.error(),
               "pcap-filter(7) tells what can be written, as in tcp port 443");
}

}  // namespace weir::control
