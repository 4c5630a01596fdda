#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "control/tell/answer/text.h"
#include "control/tell/page/health.h"
#include "control/tell/page/pieces.h"
#include "control/tell/page/sections.h"

// Feeds, changes and limits: what is enforced was made of, and how much room there is.
namespace weir::control::page {

// ------------------------------------------------------------------------------------------------------------ feeds

namespace {

void feed_row(Html& html, const FeedDetails& feed, double now) {
  html << "<tr><th scope=\"row\" class=\"path\">" << Text(feed.list) << "<span class=\"comment\">";
  if (feed.fetch) {
    html << Text(feed.fetch->url);
  } else {
    html << Text(feed.file);
  }
  html << "</span></th><td>";
  if (feed.state == "refused") {
    tag(html, "problem", "refused");
  } else if (feed.fetch && feed.fetch->failures > 0) {
    tag(html, "warning", "not fetched");
  } else if (!feed.warnings.empty()) {
    tag(html, "warning", plural(feed.warnings.size(), "warning"));
  } else {
    tag(html, "good", feed.state);
  }
  html << "</td><td class=\"n\">" << Text(count(feed.entries)) << "</td><td class=\"n\">" << Text(count(feed.bad))
       << "</td><td>";
  moment(html, feed.taken_at, now);
  html << "</td><td>";
  if (feed.fetch) {
    moment(html, feed.fetch->fetched_at, now);
    html << "</td><td>";
    if (feed.fetch->next_at == 0) {
      html << Text(kUnknown);
    } else {
      moment(html, feed.fetch->next_at, now);
    }
  } else {
    html << "a file</td><td>when it changes";
  }
  html << "</td></tr>";
  const bool is_refused = feed.state == "refused";
  const bool is_unfetched = feed.fetch && !feed.fetch->error.empty();
  if (!is_refused && !is_unfetched && feed.warnings.empty()) return;
  html << "<tr class=\"why\"><td colspan=\"7\">";
  if (is_refused) {
    html << "Refused since " << Text(clock_time(feed.since, now)) << ": " << Text(feed.reason);
    if (!feed.hint.empty()) html << ". What to do: " << Text(feed.hint);
  }
  if (is_unfetched) {
    if (is_refused) html << "<br>";
    html << "Not fetched, " << Text(plural(feed.fetch->failures, "time")) << " in a row, last ";
    moment(html, feed.fetch->tried_at, now);
    html << ": " << Text(feed.fetch->error);
  }
  bool is_first = !is_refused && !is_unfetched;
  for (const FeedNote& warning : feed.warnings) {
    if (!is_first) html << "<br>";
    is_first = false;
    if (is_refused) {
      html << "Warning: the last good content ";
    } else {
      html << "Warning: the feed ";
    }
    html << Text(warning.reason) << ". What to do: " << Text(warning.hint);
  }
  html << "</td></tr>";
}

}  // namespace

void feeds(Html& html, const Facts& facts) {
  html << "<section id=\"feeds\" aria-labelledby=\"feeds-title\"><h2 id=\"feeds-title\">Feeds</h2>";
  if (facts.feeds.feeds.empty()) {
    html << "<p>No list has a feed.</p></section>";
    return;
  }
  begin_table(html,
              "<thead><tr><th scope=\"col\">List and source</th><th scope=\"col\">State</th><th scope=\"col\" "
              "class=\"n\">Entries</th>"
              "<th scope=\"col\" class=\"n\">Bad lines</th><th scope=\"col\">Content is of</th><th scope=\"col\">Last "
              "success</th>"
              "<th scope=\"col\">Next look</th></tr></thead>",
              "Feeds, in the order of the policy");
  for (const FeedDetails& feed : facts.feeds.feeds) feed_row(html, feed, facts.now);
  end_table(html);
  html << "</section>";
}

// ---------------------------------------------------------------------------------------------------------- changes

namespace {

constexpr size_t kShownChanges = 12;     // publications
constexpr size_t kShownListChanges = 4;  // lists of one of them

void list_change(Html& html, const ListChange& change) {
  html << "<li><span class=\"name\">" << Text(change.name) << "</span> ";
  if (change.state == "gone") {
    html << "gone";
  } else if (change.state == "new") {
    html << "new, " << Text(plural(change.entries, "entry", "entries"));
  } else {
    html << "+" << Text(count(change.added)) << " \u2212" << Text(count(change.removed)) << ", now "
         << Text(count(change.entries));
  }
  html << "</li>";
}

}  // namespace

void changes(Html& html, const Facts& facts) {
  html << "<section id=\"changes\" aria-labelledby=\"changes-title\"><h2 id=\"changes-title\">Last changes</h2>";
  if (!facts.history_error.empty()) {
    html << "<p>The journal does not tell of them: " << Text(facts.history_error) << "</p></section>";
    return;
  }
  if (facts.history.generations.empty()) {
    html << "<p>There was none yet.</p></section>";
    return;
  }
  begin_table(
      html,
      "<thead><tr><th scope=\"col\" class=\"n\">Generation</th><th scope=\"col\">When</th><th scope=\"col\">Cause</th>"
      "<th scope=\"col\">By</th><th scope=\"col\">What changed</th></tr></thead>",
      "The last publications, the newest first");
  size_t n = 0;
  for (const HistoryRow& row : facts.history.generations) {
    if (n++ == kShownChanges) break;
    html << "<tr><th scope=\"row\" class=\"n\">" << row.number << "</th><td><span class=\"clock\">"
         << Text(clock_time(row.at, facts.now)) << "</span> <span class=\"comment\">";
    moment(html, row.at, facts.now);
    html << "</span></td><td class=\"prose\">" << Text(row.cause) << "</td><td>";
    if (!row.by) {
      html << "controld";
    } else if (*row.by == 0) {
      html << "root";
    } else {
      html << "user " << *row.by;
    }
    html << "</td><td class=\"prose\">";
    if (row.changes.empty()) {
      html << "no entry";
    } else {
      html << "<ul class=\"plain\">";
      for (size_t i = 0; i < std::min(row.changes.size(), kShownListChanges); i++) list_change(html, row.changes[i]);
      if (row.changes.size() > kShownListChanges) {
        html << "<li>and " << Text(plural(row.changes.size() - kShownListChanges, "more list")) << "</li>";
      }
      html << "</ul>";
    }
    html << "</td></tr>";
  }
  end_table(html);
  html << "</section>";
}

// ----------------------------------------------------------------------------------------------------------- limits

namespace {

struct LimitName {
  std::string_view name;
  Markup text;
  bool is_bytes;
};
constexpr LimitName kLimitNames[] = {
    {"lists", "Lists", false},
    {"shapes_v4", "IPv4 key types", false},
    {"shapes_v6", "IPv6 key types", false},
    {"conditions_of_a_key", "Conditions of one key", false},
    {"overlay_keys", "Keys of the overlay", false},
    {"snapshot_bytes", "Snapshot", true},
};

// How much of the most is used: of 0 nobody knows.
void limit_cells(Html& html, uint64_t used, uint64_t most, std::string (*text)(uint64_t)) {
  html << "<td class=\"n\">" << Text(text(used)) << "</td><td class=\"n\">";
  if (most == 0) return (void)(html << Text(kUnknown) << "</td><td></td></tr>");
  const double share = std::min(1.0, static_cast<double>(used) / static_cast<double>(most));
  html << Text(text(most))
       << "</td><td class=\"bars\"><svg class=\"bar\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" "
          "aria-hidden=\"true\">"
          "<rect class=\"all\" width=\"100\" height=\"8\"/><rect class=\"used\" height=\"8\" width=\"";
  html.tenths(share * 100) << "\"/></svg> " << Text(fmt::format("{:.0f} %", std::floor(share * 100))) << "</td></tr>";
}

}  // namespace

void limits(Html& html, const Facts& facts) {
  html << "<section id=\"limits\" aria-labelledby=\"limits-title\"><h2 id=\"limits-title\">Limits</h2>";
  begin_table(
      html,
      "<thead><tr><th scope=\"col\">Of</th><th scope=\"col\" class=\"n\">Used</th><th scope=\"col\" class=\"n\">At "
      "most</th><th scope=\"col\">Share</th></tr></thead>",
      "What is used of each limit");
  for (const auto& [name, limit] : facts.status.limits) {
    const auto known = std::find_if(std::begin(kLimitNames), std::end(kLimitNames),
                                    [&wanted = name](const LimitName& one) { return one.name == wanted; });
    html << "<tr><th scope=\"row\">";
    if (known == std::end(kLimitNames)) {
      html << Text(name);
    } else {
      html << known->text;
    }
    html << "</th>";
    limit_cells(html, limit.used, limit.max, known != std::end(kLimitNames) && known->is_bytes ? bytes : count);
  }
  for (const TargetStatus& target : facts.status.targets) {
    if (target.snapshot_limit_bytes == 0) continue;
    html << "<tr><th scope=\"row\" class=\"path\">Snapshot at " << Text(target.socket) << "</th>";
    limit_cells(html, target.snapshot_bytes, target.snapshot_limit_bytes, bytes);
  }
  html << "<tr><th scope=\"row\">Memory of controld</th><td class=\"n\">" << Text(bytes(facts.status.memory.rss_bytes))
       << "</td><td class=\"n\">" << Text(kUnknown) << "</td><td>at most so far "
       << Text(bytes(facts.status.memory.peak_bytes)) << "</td></tr>";
  end_table(html);
  html << "</section>";
}

}  // namespace weir::control::page
