#include <fmt/format.h>

#include <algorithm>

#include "control/tell/answer/text.h"
#include "control/tell/page/pieces.h"
#include "control/tell/page/sections.h"

// Traffic, targets and lists: what weir does to packets, now and since it started.
namespace weir::control::page {

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

}  // namespace weir::control::page
