#include "control/tell/page/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "control/policy/model/time_text.h"
#include "control/tell/answer/text.h"
#include "control/tell/page/health.h"

namespace weir::control::page {

// ----------------------------------------------------------------------------------------------------------- pieces

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

// ---------------------------------------------------------------------------------------------------------- traffic

namespace {

struct Tile {
  Markup name, live;
  std::string now, unit;
  uint64_t total;
};

}  // namespace

void traffic(Html& html, const Facts& facts, const History& history, const std::vector<const Series*>& dropping) {
  const Rates* rates = facts.looks == nullptr ? nullptr : facts.looks->now();
  const wire::Totals& totals = facts.stats.totals;
  const auto rate = [&](double Rates::*member) { return rates == nullptr ? kUnknown : scaled(rates->*member); };
  const Tile tiles[] = {
      {"Packets", "packets", rate(&Rates::packets), "/s", totals.packets},
      {"Passed", "passed", rate(&Rates::passed), "/s", totals.passed},
      {"Dropped", "dropped", rate(&Rates::dropped), "/s", totals.dropped},
      {"Lost at ports", "lost", rate(&Rates::lost), "/s", totals.rx_missed + totals.tx_lost},
      {"Bits", "bits", rate(&Rates::bits), "bit/s", 0},
  };
  html << "<section id=\"traffic\" aria-labelledby=\"traffic-title\"><h2 id=\"traffic-title\">Traffic</h2><dl "
          "class=\"tiles\">";
  for (const Tile& tile : tiles) {
    html << "<div class=\"" << tile.live << "\"><dt>" << tile.name << "</dt><dd class=\"now\"><span data-rate=\""
         << tile.live << "\">" << Text(tile.now) << "</span> <span class=\"unit\">" << Text(tile.unit)
         << "</span></dd><dd class=\"all\">";
    if (tile.unit == "/s") {
      html << "<span data-total=\"" << tile.live << "\">" << Text(scaled(static_cast<double>(tile.total)))
           << "</span> since start";
    } else {
      html << "of frames";
    }
    html << "</dd></div>";
  }
  html << "</dl><div class=\"figures\"><figure id=\"plot-traffic\"><figcaption>Packets a second</figcaption>";
  draw_traffic(html, history);
  html << "<ul class=\"legend\"><li><span class=\"swatch passed\"></span>passed (above)</li>"
          "<li><span class=\"swatch dropped\"></span>dropped (below)</li></ul></figure>"
          "<figure id=\"plot-drops\"><figcaption>Drops a second, by list</figcaption>";
  draw_drops(html, history, dropping);
  html << "<ol class=\"legend\">";
  size_t n = 0;
  for (const Series* series : dropping) {
    html << "<li><span class=\"swatch band" << ++n << "\"></span><span class=\"name\">" << Text(series->name)
         << "</span> <span class=\"number\">" << Text(series->values.empty() ? kUnknown : scaled(series->values.back()))
         << "</span></li>";
  }
  html << "</ol>";
  if (dropping.empty()) html << "<p class=\"hint\">No list dropped anything in the last 5 minutes.</p>";
  html << "</figure></div><details><summary>All counters since start</summary>";
  begin_table(html,
              "<thead><tr><th scope=\"col\">Counter</th><th scope=\"col\" class=\"n\">Packets</th><th "
              "scope=\"col\">Meaning</th></tr></thead>",
              "Counters of all targets since their start");
  for (const TotalRow& row : totals_rows()) {
    html << "<tr><th scope=\"row\"><code>" << Text(row.name) << "</code></th><td class=\"n\">"
         << Text(count(totals.*row.member)) << "</td><td>" << Text(row.unit) << " " << Text(row.meaning)
         << "</td></tr>";
  }
  end_table(html);
  html << "</details></section>";
}

// ---------------------------------------------------------------------------------------------------------- targets

namespace {

void target_state(Html& html, const TargetStatus& target) {
  if (!target.connected) {
    tag(html, "problem", "away");
  } else if (!target.acknowledged) {
    tag(html, "problem", "behind");
  } else if (!target.bypass) {
    tag(html, "good", "enforces");
  }
  if (target.bypass) tag(html, "problem", "bypass on");
  if (!target.durable) tag(html, "warning", "not durable");
}

void target_mode(Html& html, const TargetStatus& target) {
  if (!target.interfaces) {
    if (target.start_time == 0) return (void)(html << "data plane, never reached");
    html << "data plane: " << Text(plural(target.workers, "worker")) << ", " << Text(plural(target.ports, "port"))
         << ", " << Text(target.isa);
    if (target.huge_pages) {
      html << ", huge pages";
    } else {
      html << ", 4 KiB pages";
    }
    return;
  }
  html << "XDP: ";
  bool is_first = true;
  for (const InterfaceStatus& interface : *target.interfaces) {
    if (!is_first) html << ", ";
    is_first = false;
    html << Text(interface.name) << " ";
    if (interface.attached) {
      html << Text(interface.mode);
    } else {
      tag(html, "problem", "not attached");
    }
  }
}

}  // namespace

void targets(Html& html, const Facts& facts) {
  const Rates* rates = facts.looks == nullptr ? nullptr : facts.looks->now();
  html << "<section id=\"targets\" aria-labelledby=\"targets-title\"><h2 id=\"targets-title\">Targets</h2>";
  if (facts.status.targets.empty()) {
    html << "<p>The policy names no target.</p></section>";
    return;
  }
  begin_table(html,
              "<thead><tr><th scope=\"col\">Target</th><th scope=\"col\">State</th><th scope=\"col\" "
              "class=\"n\">Generation</th>"
              "<th scope=\"col\">What it is</th><th scope=\"col\" class=\"n\">Packets/s</th><th scope=\"col\" "
              "class=\"n\">Dropped/s</th>"
              "<th scope=\"col\" class=\"n\">Lost/s</th><th scope=\"col\" class=\"n\">Snapshot</th><th "
              "scope=\"col\">Started</th></tr></thead>",
              "What enforces the policy");
  for (const TargetStatus& target : facts.status.targets) {
    const TargetRate* rate = rates == nullptr ? nullptr : rates->target(target.socket);
    const auto per_second = [&](double TargetRate::*member) {
      return rate == nullptr ? kUnknown : scaled(rate->*member);
    };
    html << "<tr data-target=\"" << Text(target.socket) << "\"><th scope=\"row\" class=\"path\">" << Text(target.socket)
         << "</th><td>";
    target_state(html, target);
    html << "</td><td class=\"n\">";
    if (target.generation.number == 0) {
      html << "none";
    } else {
      html << target.generation.number;
    }
    html << "</td><td class=\"prose\">";
    target_mode(html, target);
    html << "</td><td class=\"n\" data-rate=\"packets\">" << Text(per_second(&TargetRate::packets))
         << "</td><td class=\"n\" data-rate=\"dropped\">" << Text(per_second(&TargetRate::dropped))
         << "</td><td class=\"n\" data-rate=\"lost\">" << Text(per_second(&TargetRate::lost)) << "</td><td class=\"n\">"
         << Text(target.snapshot_bytes == 0 ? kUnknown : bytes(target.snapshot_bytes)) << "</td><td>";
    moment(html, static_cast<int64_t>(target.start_time), facts.now);
    html << "</td></tr>";
  }
  end_table(html);
  html << "</section>";
}

// ------------------------------------------------------------------------------------------------------------ lists

namespace {

// What a list did, among matched, dropped, would_drop and passed.
uint64_t effect_of(const ListDetails& list, const wire::ListStats& counters) {
  if (list.action == "pass") return counters.passed;
  return list.mode == "monitor" ? counters.would_drop : counters.dropped;
}

double effect_of(const ListDetails& list, const ListRate& rate) {
  if (list.action == "pass") return rate.passed;
  return list.mode == "monitor" ? rate.would_drop : rate.dropped;
}

const wire::ListStats& counters_of(const Facts& facts, const std::string& name) {
  static const wire::ListStats kNothing = {};
  const ListCounters& all = facts.stats.lists;
  const auto known = std::find_if(all.begin(), all.end(), [&](const auto& list) { return list.first == name; });
  return known == all.end() ? kNothing : known->second;
}

void list_row(Html& html, const Facts& facts, const ListDetails& list, const History& history) {
  const wire::ListStats& counters = counters_of(facts, list.name);
  const Rates* rates = facts.looks == nullptr ? nullptr : facts.looks->now();
  const ListRate* rate = rates == nullptr ? nullptr : rates->list(list.name);
  const uint64_t effect = effect_of(list, counters);
  html << "<tr data-list=\"" << Text(list.name) << "\"><th scope=\"row\" class=\"path\">" << Text(list.name);
  if (!list.comment.empty()) html << "<span class=\"comment\">" << Text(list.comment) << "</span>";
  html << "</th><td>";
  if (list.action == "pass") {
    tag(html, "pass", "pass");
  } else if (list.mode == "monitor") {
    tag(html, "monitor", "would drop");
  } else {
    tag(html, "drop", "drop");
  }
  html << "</td><td class=\"n\">" << Text(count(list.entries)) << "</td><td class=\"n\" data-total=\"matched\">";
  number(html, counters.matched);
  html << "</td><td class=\"n\" data-total=\"effect\">";
  number(html, effect);
  html << "</td><td class=\"n\">"
       << Text(facts.stats.totals.packets == 0
                   ? kUnknown
                   : percent(static_cast<double>(effect) / static_cast<double>(facts.stats.totals.packets)))
       << "</td><td class=\"n\" data-rate=\"effect\">"
       << Text(rates == nullptr  ? kUnknown
               : rate == nullptr ? "0"
                                 : scaled(effect_of(list, *rate)))
       << "</td><td class=\"drawn\">";
  const auto series = std::find_if(history.lists.begin(), history.lists.end(),
                                   [&](const Series& one) { return one.name == list.name; });
  if (series != history.lists.end()) draw_spark(html, history, *series);
  html << "</td></tr>";
}

constexpr Markup kListHead =
    "<thead><tr><th scope=\"col\">List</th><th scope=\"col\">Action</th><th scope=\"col\" class=\"n\">Entries</th>"
    "<th scope=\"col\" class=\"n\">Matched</th><th scope=\"col\" class=\"n\">Effect</th><th scope=\"col\" "
    "class=\"n\">Of all packets</th>"
    "<th scope=\"col\" class=\"n\">Now, /s</th><th scope=\"col\">Last 5 minutes</th></tr></thead>";

}  // namespace

void lists(Html& html, const Facts& facts, const Rows& shown, const History& history) {
  const std::vector<ListDetails>& all = facts.lists.lists;
  html << "<section id=\"lists\" aria-labelledby=\"lists-title\"><h2 id=\"lists-title\">Lists</h2>";
  if (all.empty()) {
    html << "<p>The policy has no list.</p></section>";
    return;
  }
  const bool is_part = shown.size() < all.size();
  begin_table(html, kListHead,
              is_part ? fmt::format("The {} lists that matched most, in the order of the policy", shown.size())
                      : std::string("Lists, in the order of the policy"),
              is_part);
  for (const ListDetails* list : shown) list_row(html, facts, *list, history);
  end_table(html);
  if (is_part) {
    html << "<details><summary>" << Text(plural(all.size() - shown.size(), "more list")) << "</summary>";
    begin_table(html, kListHead, "All other lists, in the order of the policy");
    for (const ListDetails& list : all) {
      if (std::find(shown.begin(), shown.end(), &list) == shown.end()) list_row(html, facts, list, history);
    }
    end_table(html);
    html << "</details>";
  }
  html << "<p class=\"hint\">Matched: packets that an entry of the list matches. Effect: of these, what the list "
          "itself dropped, let pass, or "
          "would drop if it were enforced; the first list of the policy that decides is credited. Both since the "
          "targets started.</p></section>";
}

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
    if (row.uid == kNobody) {
      html << "controld";
    } else if (row.uid == 0) {
      html << "root";
    } else {
      html << "user " << row.uid;
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
