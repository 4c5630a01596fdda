#include "control/tell/page/page.h"

#include <fmt/format.h>

#include "control/policy/model/time_text.h"
#include "control/tell/answer/text.h"
#include "control/tell/page/health.h"
#include "control/tell/page/html.h"
#include "control/tell/page/plot.h"
#include "control/tell/page/sections.h"
#include "filter/format/snapshot.h"

namespace weir::control::page {

namespace {

Markup level_class(Gravity level) {
  constexpr Markup kClasses[] = {"good", "warning", "problem"};
  return kClasses[static_cast<size_t>(level)];
}

Markup level_word(Gravity level) {
  constexpr Markup kWords[] = {"OK", "Warning", "Problem"};
  return kWords[static_cast<size_t>(level)];
}

// ---------------------------------------------------------------------------------------------------------- verdict

void verdict(Html& html, const Facts& facts) {
  const Health health = health_of(facts);
  const StatusAnswer& status = facts.status;
  html << "<section id=\"verdict\" class=\"" << level_class(health.level)
       << "\" aria-labelledby=\"verdict-title\"><h2 id=\"verdict-title\" class=\"unseen\">Is all well?</h2>"
          "<p class=\"headline\" role=\"status\"><strong class=\"mark "
       << level_class(health.level) << "\">" << level_word(health.level) << "</strong> <span>" << Text(health.headline)
       << "</span></p>";
  if (!health.findings.empty()) {
    html << "<ul>";
    for (const Finding& finding : health.findings) {
      html << "<li><strong class=\"mark " << level_class(finding.level) << "\">" << level_word(finding.level)
           << "</strong> <span>" << Text(finding.text);
      if (!finding.hint.empty()) html << " " << Text(finding.hint);
      html << "</span></li>";
    }
    html << "</ul>";
  }
  html << "<p class=\"about\">";
  if (status.generation.number != 0) {
    html << Text(plural(status.entries, "entry", "entries")) << " in " << Text(plural(facts.lists.lists.size(), "list"))
         << ", published ";
    moment(html, status.published_at, facts.now);
    html << ". ";
  }
  if (!status.reloading.empty()) html << "A policy is being compiled now (" << Text(status.reloading) << "). ";
  html << "Bypass is ";
  if (status.bypass) {
    html << "<strong>on</strong>.";
  } else {
    html << "off.";
  }
  html << "</p></section>";
}

// ---------------------------------------------------------------------------------------------------------- explain

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

void own(Html& html, const OwnClaims& claims) {
  entries(html, claims.own, claims.own.size(),
          "Own addresses of the policy, which drop lists match only by entries with named fields");
  entries(html, claims.cut, claims.cut.size(), "Entries that own addresses are cut out of");
}

// The answer to what a visitor asked: verdict, list, entry, file and line.
void explained(Html& html, const Asked& asked) {
  html << "<div id=\"explained\" class=\"answer\">";
  if (!asked.answer) {
    html << "<p role=\"alert\"><strong>No answer:</strong> ";
    // The reason, and a hint on a line of its own.
    html << "<span class=\"lines\">" << Text(asked.error) << "</span></p></div>";
    return;
  }
  if (!asked.answer->now.empty()) html << "<p><strong>" << Text(asked.answer->now) << "</strong></p>";
  if (asked.answer->of_packet) {
    const PacketExplanation& packet = *asked.answer->of_packet;
    html << "<p>The packet <code>" << Text(packet.packet) << "</code> is ";
    verdict(html, packet.verdict);
    html << "</p>";
    entries(html, packet.origins, packet.n_origins, "Entries that match it");
    if (packet.origins.empty()) html << "<p>No entry matches it.</p>";
    own(html, packet.own);
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
    own(html, key.own);
  }
  html << "<p class=\"hint\">By generation " << asked.answer->generation.number << ".";
  if (asked.answer->of_key) html << " Of a packet with this key in which nothing else matches.";
  html << "</p></div>";
}

void explain(Html& html, const Facts& facts) {
  html << "<section id=\"explain\" aria-labelledby=\"explain-title\"><h2 id=\"explain-title\">Explain</h2>"
          "<form action=\"/#explain\" method=\"get\"><label for=\"key\">Address, address:port, or a packet</label>"
          "<div class=\"ask\"><input id=\"key\" name=\"key\" type=\"text\" required maxlength=\"500\" "
          "autocomplete=\"off\" "
          "autocapitalize=\"none\" spellcheck=\"false\" aria-describedby=\"key-hint\" value=\"";
  if (facts.asked) html << Text(facts.asked->key);
  html << "\"><button type=\"submit\">Explain</button></div><p id=\"key-hint\" class=\"hint\">As "
          "<code>203.0.113.7</code>, <code>[2001:db8::7]:443</code>, or <code>src 10.0.0.1 dst 203.0.113.9 proto tcp "
          "dport 443</code>.</p></form>";
  if (facts.asked) explained(html, *facts.asked);
  html << "</section>";
}

// -------------------------------------------------------------------------------------------------------------- all

void head(Html& html, const Facts& facts) {
  const Health health = health_of(facts);
  html << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" << level_word(health.level)
       << ": weir";
  if (!facts.host.empty()) html << " on " << Text(facts.host);
  html << "</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" "
          "content=\"light dark\">"
          "<meta name=\"referrer\" content=\"no-referrer\"><link rel=\"icon\" href=\"/icon.svg\" "
          "type=\"image/svg+xml\"><link rel=\"stylesheet\" "
          "href=\"/page.css\">"
          "<script src=\"/page.js\" defer></script></head><body><a class=\"skip\" href=\"#main\">To the facts</a>"
          "<header><h1>weir";
  if (!facts.host.empty()) html << " <span class=\"host\">on " << Text(facts.host) << "</span>";
  html << "</h1><nav aria-label=\"Parts of this page\"><ul><li><a href=\"#traffic\">Traffic</a></li><li><a "
          "href=\"#targets\">Targets</a></li>"
          "<li><a href=\"#lists\">Lists</a></li><li><a href=\"#feeds\">Feeds</a></li><li><a "
          "href=\"#changes\">Changes</a></li>"
          "<li><a href=\"#limits\">Limits</a></li><li><a href=\"#explain\">Explain</a></li></ul></nav></header><main "
          "id=\"main\">";
}

void foot(Html& html, const Facts& facts) {
  html << "</main><footer><p>controld " << Text(facts.status.version) << ", policy <code>" << Text(facts.status.config)
       << "</code>, as of <time datetime=\"" << Text(time_text(static_cast<uint32_t>(facts.now))) << "\">"
       << Text(time_text(static_cast<uint32_t>(facts.now)))
       << "</time><span id=\"live\"></span>. <a href=\"/metrics\">Metrics</a>. This page changes nothing: "
          "<code>controlctl</code> "
          "does.</p></footer></body></html>\n";
}

}  // namespace

std::string page_html(const Facts& facts) {
  Html html;
  head(html, facts);
  verdict(html, facts);
  if (facts.status.generation.number != 0) {
    const Rows shown = shown_lists(facts);
    const History history = history_of(facts, shown);
    traffic(html, facts, history, most_dropping(facts, history));
    targets(html, facts);
    lists(html, facts, shown, history);
    explain(html, facts);
    feeds(html, facts);
    changes(html, facts);
    limits(html, facts);
  }
  foot(html, facts);
  return html.take();
}

}  // namespace weir::control::page
