#include "control/policy/feeds/take.h"

// PeerGuardian's text: `name:FIRST-LAST` a line. A name may have colons and hyphens in it.
namespace weir::control::feeds {
namespace p2p {

// The entry behind the name: after the last colon, or (IPv6) after the first one.
std::string_view range_in(std::string_view line) {
  const std::string_view behind_last = line.substr(line.rfind(':') + 1);
  if (behind_last.find('.') != std::string_view::npos) return behind_last;
  return line.substr(line.find(':') + 1);
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, ListDraft& list) {
  if (line[0] == '#') return {};
  const bool has_no_name = is_entry(line);
  if (!has_no_name && line.find(':') == std::string_view::npos) return "no `name:FIRST-LAST`";
  const std::string_view range = has_no_name ? line : trim(range_in(line));
  if (!has_no_name && lower(line).find("::ffff:") != std::string::npos)
    return "IPv4-mapped IPv6 never appears in a packet";
  const size_t hyphen = range.find('-');
  const bool is_v4_host = range.find_first_of(":/-") == std::string_view::npos;
  if (is_v4_host) return take_range(range, range, {number}, options, list);  // with leading zeros, as ranges have them
  if (hyphen == std::string_view::npos) return take(range, {number}, options, list);
  return take_range(trim(range.substr(0, hyphen)), trim(range.substr(hyphen + 1)), {number}, options, list);
}

bool is_like(std::string_view line) {
  ListDraft list;
  const std::string_view range = line.find(':') == std::string_view::npos ? "" : range_in(line);
  return range.find('-') != std::string_view::npos && read_line(line, 1, {}, list).kind == Outcome::fine;
}

std::string recognise(std::string_view beginning) {
  return recognise_lines(beginning, is_like, "is `name:FIRST-LAST`");
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return [options](std::string_view part, ListDraft& list) {
    read_lines(part, list,
               [&](std::string_view line, uint32_t number) { return read_line(line, number, options, list); });
  };
}

}  // namespace p2p

extern const Format kP2pFormat;
const Format kP2pFormat = {"p2p", "`name:FIRST-LAST` a line, as PeerGuardian has it", p2p::recognise, p2p::start};

}  // namespace weir::control::feeds
