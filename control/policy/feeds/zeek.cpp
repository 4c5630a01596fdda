#include <memory>
#include <vector>

#include "control/policy/feeds/take.h"

// Zeek's intel files: columns divided by TAB, named by a line `#fields indicator indicator_type ...`. Indicators of
// other types than addresses and subnets are skipped.
namespace weir::control::feeds {
namespace zeek {

struct Columns {
  size_t indicator = 0, type = 1;  // where no line names them
};

std::string_view column(std::string_view line, size_t wanted) {
  while (wanted > 0) {
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos) return {};
    line.remove_prefix(tab + 1);
    wanted--;
  }
  return trim(line.substr(0, line.find('\t')));
}

void read_fields(std::string_view names, Columns& columns) {
  size_t number = 0;
  for (std::string_view name = next_word(names); !name.empty(); name = next_word(names), number++) {
    if (name == "indicator") columns.indicator = number;
    if (name == "indicator_type") columns.type = number;
  }
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, Columns& columns, ListDraft& list) {
  if (line[0] == '#') {
    if (line.starts_with("#fields")) read_fields(line.substr(7), columns);
    return {};
  }
  const std::string_view type = column(line, columns.type), indicator = column(line, columns.indicator);
  if (type == "Intel::ADDR" || type == "Intel::SUBNET") return take(indicator, {number}, options, list);
  if (type.starts_with("Intel::")) return Outcome::skip("an indicator of another type");
  return "no type of an indicator (Intel::ADDR, Intel::SUBNET) in its column";
}

bool names_types(std::string_view beginning) {
  while (!beginning.empty()) {
    std::string_view line = next_line(beginning);
    if (!line.starts_with("#fields")) continue;
    bool has_indicator = false, has_type = false;
    for (std::string_view name = next_word(line); !name.empty(); name = next_word(line)) {
      has_indicator |= name == "indicator";
      has_type |= name == "indicator_type";
    }
    return has_indicator && has_type;
  }
  return false;
}

std::string recognise(std::string_view beginning) {
  if (names_types(beginning)) return "its line #fields names `indicator` and `indicator_type`";
  return beginning.find("\tIntel::") != std::string_view::npos ? "it has types of indicators like Intel::ADDR" : "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  auto columns = std::make_shared<Columns>();
  return [options, columns](std::string_view part, ListDraft& list) {
    read_lines(part, list, [&](std::string_view line, uint32_t number) {
      return read_line(line, number, options, *columns, list);
    });
  };
}

}  // namespace zeek

extern const Format kZeekFormat;
const Format kZeekFormat = {"zeek", "Zeek's intel file: Intel::ADDR and Intel::SUBNET of it", zeek::recognise,
                            zeek::start};

}  // namespace weir::control::feeds
