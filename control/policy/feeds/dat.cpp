#include "control/policy/feeds/format.h"
#include "control/policy/feeds/take.h"

// eMule's ipfilter.dat: `001.002.003.000 - 001.002.003.255 , 000 , name` a line. The number is an access level: ranges
// above 127 are let through.
namespace weir::control::feeds {
namespace dat {

constexpr unsigned kMostBlocked = 127;

Outcome read_line(std::string_view line, uint32_t number, const Options& options, ListDraft& list) {
  if (line[0] == '#' || line.starts_with("//")) return {};
  const size_t comma = line.find(',');
  const std::string_view range = trim(line.substr(0, comma));
  const size_t hyphen = range.find('-');
  if (hyphen == std::string_view::npos) return "no `FIRST - LAST , LEVEL , name`";
  const std::string_view first = trim(range.substr(0, hyphen)), last = trim(range.substr(hyphen + 1));
  ListDraft tried;
  if (const char* why = take_range(first, last, {number}, options, tried)) return why;
  if (comma != std::string_view::npos) {
    const std::string_view rest = line.substr(comma + 1);
    const std::string_view level = trim(rest.substr(0, rest.find(',')));
    if (!is_number(level) || level.size() > 9) return "the access level is not a number";
    if (std::stoul(std::string(level)) > kMostBlocked) return Outcome::skip("its access level lets it through");
  }
  return take_range(first, last, {number}, options, list);
}

// Plain but for the level, or for its zeros.
bool is_like(std::string_view line) {
  ListDraft list;
  return line.find(',') != std::string_view::npos && line.find('-') < line.find(',') &&
         read_line(line, 1, {}, list).kind != Outcome::bad;
}

std::string recognise(std::string_view beginning) {
  constexpr unsigned kAsked = 32;
  const bool is_all = beginning.size() < kBeginningBytes;
  unsigned asked = 0, alike = 0, others = 0, first = 0, number = 0;
  while (!beginning.empty() && asked < kAsked) {
    const bool is_whole = beginning.find('\n') != std::string_view::npos;
    const std::string_view line = trim(next_line(beginning));
    number++;
    if (line.empty() || line[0] == '#' || line.starts_with("//") || (!is_whole && !is_all && asked > 0)) continue;
    asked++;
    if (!is_like(line)) {
      others += is_plain_entry(line);
    } else if (alike++ == 0) {
      first = number;
    }
  }
  return alike > others ? "line " + std::to_string(first) + " is `FIRST - LAST , LEVEL , name`" : "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return [options](std::string_view part, ListDraft& list) {
    read_lines(part, list,
               [&](std::string_view line, uint32_t number) { return read_line(line, number, options, list); });
  };
}

}  // namespace dat

extern const Format kDatFormat;
const Format kDatFormat = {
    "dat", "`FIRST - LAST , LEVEL , name` a line, as eMule's ipfilter.dat; octets may be padded by zeros",
    dat::recognise, dat::start};

}  // namespace weir::control::feeds
