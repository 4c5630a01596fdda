#include "control/tell/page/pieces.h"

#include "control/policy/model/time_text.h"
#include "control/tell/answer/text.h"
#include "control/tell/page/health.h"

namespace weir::control::page {

void number(Html& html, uint64_t value) {
  html << "<data value=\"" << value << "\">" << Text(scaled(static_cast<double>(value))) << "</data>";
}

void moment(Html& html, int64_t unix_s, double now) {
  if (unix_s == 0) return (void)(html << "never");
  html << "<time datetime=\"" << Text(time_text(static_cast<uint32_t>(unix_s))) << "\" title=\""
       << Text(clock_time(unix_s, now)) << "\">" << Text(when(unix_s, now)) << "</time>";
}

void begin_table(Html& html, Markup head, std::string_view caption, bool is_seen) {
  html << "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"" << Text(caption) << "\"><table><caption";
  if (!is_seen) html << " class=\"unseen\"";
  html << ">" << Text(caption) << "</caption>" << head << "<tbody>";
}

void end_table(Html& html) {
  html << "</tbody></table></div>";
}

void tag(Html& html, Markup kind, std::string_view text) {
  html << "<span class=\"tag " << kind << "\">" << Text(text) << "</span>";
}

}  // namespace weir::control::page
