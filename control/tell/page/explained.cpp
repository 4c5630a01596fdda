#include "control/tell/page/explained.h"

#include <fmt/format.h>

#include "control/tell/answer/text.h"
#include "filter/format/snapshot.h"

namespace weir::control::page {

namespace {

void place(Html& html, const Origin& origin) {
  html << "<code>" << Text(origin.file);
  if (origin.line != 0) html << ":" << origin.line;
  html << "</code>";
}

// dropped by list c2, because of its entry 203.0.113.7 in feeds/c2.txt:17
void verdict(Html& html, const Verdict& verdict) {
  const bool drops = verdict.action == "drop";
  if (drops) {
    html << "<strong class=\"verdict-drop\">dropped</strong>";
  } else {
    html << "<strong class=\"verdict-pass\">passed</strong>";
  }
  if (verdict.reason == "default" && !verdict.because) {
    html << " by default: no list decides";
  } else {
    html << " by list <strong>" << Text(verdict.reason) << "</strong>";
  }
  if (verdict.because) {
    html << ", because of its entry <code>" << Text(verdict.because->entry) << "</code> in ";
    place(html, *verdict.because);
  }
  bool is_first = true;
  for (const std::string& name : verdict.monitored) {
    if (is_first) {
      html << "; only monitored by ";
    } else {
      html << ", ";
    }
    is_first = false;
    html << Text(name);
  }
  html << ".";
}

void sides(Html& html, uint8_t directions) {
  const bool src = (directions & WEIR_AS_SOURCE) != 0, dst = (directions & WEIR_AS_DESTINATION) != 0;
  if (src && dst) {
    html << "source, destination";
  } else if (src) {
    html << "source";
  } else if (dst) {
    html << "destination";
  } else {
    html << "by its fields";
  }
}

void entries(Html& html, const std::vector<Origin>& origins, size_t n, std::string_view caption) {
  if (origins.empty()) return;
  html << "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"" << Text(caption) << "\"><table><caption>"
       << Text(caption);
  if (n > origins.size()) html << " (the first " << origins.size() << " of " << Text(count(n)) << ")";
  html << "</caption><thead><tr><th scope=\"col\">List</th><th scope=\"col\">Entry</th><th scope=\"col\">As</th><th "
          "scope=\"col\">Written "
          "in</th></tr></thead><tbody>";
  for (const Origin& origin : origins) {
    html << "<tr><th scope=\"row\" class=\"path\">" << Text(origin.list) << "</th><td><code>" << Text(origin.entry)
         << "</code>";
    if (!origin.alone) html << " <span class=\"comment\">asks for more of a packet, or has ended</span>";
    html << "</td><td>";
    sides(html, origin.directions);
    html << "</td><td class=\"path\">";
    place(html, origin);
    html << "</td></tr>";
  }
  html << "</tbody></table></div>";
}

}  // namespace

void explained(Html& html, const Asked& asked) {
  html << "<div id=\"explained\" class=\"answer\">";
  if (!asked.answer) {
    html << "<p role=\"alert\"><strong>No answer:</strong> ";
    // The reason, and a hint on a line of its own.
    html << "<span class=\"lines\">" << Text(asked.error) << "</span></p></div>";
    return;
  }
  if (asked.answer->of_packet) {
    const PacketExplanation& packet = *asked.answer->of_packet;
    html << "<p>The packet <code>" << Text(packet.packet) << "</code> is ";
    verdict(html, packet.verdict);
    html << "</p>";
    entries(html, packet.origins, packet.n_origins, "Entries that match it");
    if (packet.origins.empty()) html << "<p>No entry matches it.</p>";
  } else if (asked.answer->of_key) {
    const Explanation& key = *asked.answer->of_key;
    html << "<p>Traffic from <code>" << Text(key.key) << "</code> is ";
    verdict(html, key.as_source);
    html << "</p><p>Traffic to <code>" << Text(key.key) << "</code> is ";
    verdict(html, key.as_destination);
    html << "</p>";
    entries(html, key.origins, key.n_origins, "Entries that hold it");
    entries(html, key.of_ports, key.n_of_ports, "Entries of single ports of it");
    if (key.origins.empty() && key.of_ports.empty()) html << "<p>No list holds it.</p>";
  }
  html << "<p class=\"hint\">By generation " << asked.answer->generation.number << ".";
  if (asked.answer->of_key) html << " Of a packet with this key in which nothing else matches.";
  html << "</p></div>";
}

}  // namespace weir::control::page
