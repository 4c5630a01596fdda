#include <fmt/format.h>

#include <set>

#include "control/tell/page/html.h"
#include "control/tell/page/page.h"
#include "control/tell/page/plot.h"
#include "tests/catch.h"
#include "tests/unit/control/tell/page/page_facts.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::page;

namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

size_t times(const std::string& text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) n++;
  return n;
}

// What is wrong with the markup: tags that do not match, attributes without quotes, ids that are there twice. Empty:
// nothing. Every '<' and '>' of HTML that this program writes is of a tag.
std::string fault_of(const std::string& html) {
  const std::set<std::string> empty = {"meta", "link", "br", "input"};
  std::vector<std::string> open;
  std::set<std::string> ids;
  size_t at = html.find("<html");
  while ((at = html.find('<', at)) != std::string::npos) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag does not end";
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "a < in a tag: " + tag;
    const bool ends_itself = tag.ends_with('/');
    const std::string name =
        tag.substr(tag.starts_with('/') ? 1 : 0, tag.find_first_of(" /", 1) - (tag.starts_with('/') ? 1 : 0));
    if (times(tag, "\"") % 2 != 0) return "a quote does not end: " + tag;
    for (size_t equals = tag.find('='); equals != std::string::npos;
         equals = tag.find('=', tag.find('"', equals + 2))) {
      if (tag.compare(equals, 2, "=\"") != 0) return "an attribute without quotes: " + tag;
    }
    if (const size_t id = tag.find(" id=\""); id != std::string::npos) {
      const std::string value = tag.substr(id + 5, tag.find('"', id + 5) - id - 5);
      if (!ids.insert(value).second) return "an id that is there twice: " + value;
    }
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "ended but not open: " + tag;
      open.pop_back();
    } else if (!ends_itself && !empty.contains(name)) {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty() ? "" : "not ended: " + open.back();
}

constexpr const char* kHostile = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&lt;";

void make_hostile(Facts& facts) {
  facts.host = kHostile;
  facts.status.config = facts.status.version = facts.status.notice = facts.status.reloading = facts.status.disk_error =
      kHostile;
  facts.status.last_reload.diagnostics.add({Severity::error, {kHostile, 3, 1}, kHostile, kHostile, kHostile});
  for (TargetStatus& target : facts.status.targets) {
    target.socket = target.isa = target.version = target.last_error = target.disk_error = kHostile;
    target.durable = false;
    target.acknowledged = false;
  }
  facts.status.targets[1].interfaces = {{kHostile, 2, true, kHostile, kHostile}, {kHostile, 3, false, "", kHostile}};
  facts.status.limits.emplace_back(kHostile, Limit{1, 2});
  for (ListDetails& list : facts.lists.lists) list.name = list.comment = kHostile;
  facts.stats.lists = {{kHostile, counters(5, 5)}};
  FeedDetails& feed = facts.feeds.feeds[0];
  feed.list = feed.file = feed.state = feed.format = feed.why = kHostile;
  feed.warnings = {{kHostile, kHostile}};
  facts.feeds.feeds.push_back(feed);
  facts.feeds.feeds[1].state = "refused";
  facts.feeds.feeds[1].reason = facts.feeds.feeds[1].hint = kHostile;
  facts.feeds.feeds[1].fetch.emplace();
  facts.feeds.feeds[1].fetch->url = facts.feeds.feeds[1].fetch->error = kHostile;
  facts.feeds.feeds[1].fetch->failures = 1;
  facts.history.generations[0].cause = kHostile;
  facts.history.generations[0].changes[0].name = kHostile;
}

Origin hostile_origin() {
  return {kHostile, kHostile, 3, kHostile, 1, false};
}

}  // namespace

TEST_CASE("the page says what is so, in whole markup") {
  const std::string html = page_html(well());
  CHECK(fault_of(html).empty());
  CHECK(times(html, "<h1>") == 1);
  CHECK(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
  for (const char* part :
       {"<title>OK: weir on rack7</title>", "All is well", "200 entries in 2 lists", ">60 min ago</time>",
        "Bypass is off", "data plane: 2 workers, 2 ports, avx2, 4 KiB pages", "XDP: eth0 native",
        ">12.3 M</span> since start", "<data value=\"2000000\">2.00 M</data>", "/etc/weir/feeds/scanners.txt",
        "+5 \u22123, now 100", "user 1000", "feed of scanners changed", "3.0 MiB", "512.0 MiB"}) {
    INFO(part);
    CHECK(contains(html, part));
  }
}

TEST_CASE("nothing of the page is another host's, or script or style inside") {
  const std::string html = page_html(well());
  CHECK(times(html, "<script") == 1);
  for (const char* part : {"http://", "https://", "style=", "<style", " on", "javascript:"}) {
    INFO(part);
    // `on` begins words of text, too: attributes are followed by =
    if (std::string_view(part) == " on") {
      for (const char* handler : {" onload=", " onclick=", " onerror=", " onsubmit="})
        CHECK_FALSE(contains(html, handler));
    } else {
      CHECK_FALSE(contains(html, part));
    }
  }
  CHECK_FALSE(contains(std::string(style()), "url("));
  CHECK_FALSE(contains(std::string(style()), "@import"));
  for (const char* part :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"}) {
    INFO(part);
    CHECK_FALSE(contains(std::string(script()), part));
  }
}

TEST_CASE("what others wrote is text, wherever it is shown") {
  Facts facts = well();
  make_hostile(facts);
  facts.asked.emplace();
  facts.asked->key = kHostile;
  SECTION("with an answer for a key") {
    facts.asked->answer.emplace();
    Explanation& key = facts.asked->answer->of_key.emplace();
    key.key = kHostile;
    key.origins = {hostile_origin()};
    key.of_ports = {hostile_origin()};
    key.n_origins = key.n_of_ports = 1000;
    key.as_source = {"drop", kHostile, hostile_origin(), {kHostile}, {kHostile}};
    key.as_destination = {kHostile, "default", std::nullopt, {}, {kHostile}};
  }
  SECTION("with an answer for a packet") {
    facts.asked->answer.emplace();
    PacketExplanation& packet = facts.asked->answer->of_packet.emplace();
    packet.packet = kHostile;
    packet.verdict = {"pass", kHostile, hostile_origin(), {}, {}};
    packet.origins = {hostile_origin()};
    packet.n_origins = 1;
  }
  SECTION("with a reason why there is none") {
    facts.asked->error = kHostile;
  }
  SECTION("with a journal that cannot be read") {
    facts.history_error = kHostile;
  }
  const std::string html = page_html(facts);
  CHECK(fault_of(html) == "");
  CHECK(times(html, "<script") == 1);
  CHECK_FALSE(contains(html, "<img"));
  CHECK_FALSE(contains(html, kHostile));
  CHECK(times(html, "&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;&amp;lt;") >
        20);
}

TEST_CASE("before the first policy there is only that it is compiled") {
  Facts facts;
  facts.now = kNow;
  facts.status.starting = true;
  const std::string html = page_html(facts);
  CHECK(fault_of(html) == "");
  CHECK(contains(html, "the first policy is being compiled"));
  CHECK_FALSE(contains(html, "id=\"lists\""));
}

TEST_CASE("a policy of nothing is shown as one") {
  Facts facts = well();
  facts.lists.lists.clear();
  facts.stats = {};
  facts.feeds.feeds.clear();
  facts.history.generations.clear();
  facts.status.targets.clear();
  facts.status.entries = 0;
  const std::string html = page_html(facts);
  CHECK(fault_of(html) == "");
  for (const char* part :
       {"The policy has no list", "The policy names no target", "No list has a feed", "There was none yet"}) {
    CHECK(contains(html, part));
  }
}

TEST_CASE("bypass is what is seen first") {
  Facts facts = well();
  facts.status.bypass = true;
  const std::string html = page_html(facts);
  CHECK(contains(html, "<title>Problem: weir on rack7</title>"));
  CHECK(contains(html, "<section id=\"verdict\" class=\"problem\""));
  CHECK(contains(html, "Problem</strong> <span>Bypass is on"));
  CHECK(contains(html, "Bypass is <strong>on</strong>"));
}

TEST_CASE("of many lists those that matched most are shown at once, and all are there") {
  Facts facts = well();
  facts.lists.lists.clear();
  facts.stats.lists.clear();
  for (int i = 0; i < 256; i++) {
    const std::string name = fmt::format("{:x<60}{:03}", "a-list-with-a-long-name", i);
    facts.lists.lists.push_back(list_called(name, i % 3 == 0 ? "pass" : "drop", i % 7 == 1 ? "monitor" : "enforce"));
    wire::ListStats counters = {};
    counters.matched = counters.dropped = i >= 200 && i < 220 ? static_cast<uint64_t>(1000 * i) : 0;
    facts.stats.lists.emplace_back(name, counters);
  }
  const std::vector<const ListDetails*> shown = shown_lists(facts);
  REQUIRE(shown.size() == kShownLists);
  for (size_t i = 0; i < shown.size(); i++) CHECK(shown[i] == &facts.lists.lists[200 + i]);
  const std::string html = page_html(facts);
  CHECK(fault_of(html) == "");
  CHECK(contains(html, "236 more lists"));
  CHECK(times(html, "data-list=") == 256);
  CHECK(times(html, "class=\"spark\"") == kShownLists);
  CHECK(html.size() < 300'000);
}

TEST_CASE("drawings show what was measured, and say it") {
  Facts facts = well();
  Looks looks;
  facts.looks = &looks;
  CHECK(contains(page_html(facts), "Nothing was measured in the last 5 minutes yet."));
  for (uint32_t second = 0; second <= 60; second += 2) {
    StatsAnswer stats;
    TargetStats target = stats_called("/run/weir/dataplane.sock", second * 1'000'000, second * 100'000);
    list_of(target.lists, "scanners") = counters(second * 10'000, second * 10'000);
    add(stats, target);
    looks.add(stats, static_cast<double>(kNow) - 60 + second);
  }
  const std::string html = page_html(facts);
  CHECK(fault_of(html) == "");
  for (const char* part : {"passed 90.0 k a second on average, 90.0 k at most; dropped 10.0 k a second",
                           "packets a second on average, by list: scanners 10.0 k.", "<path class=\"band band1\" d=\"M",
                           "data-rate=\"packets\">100 k</span>"}) {
    INFO(part);
    CHECK(contains(html, part));
  }
  CHECK(nice_above(0) == 1);
  CHECK(nice_above(1) == 1);
  CHECK(nice_above(1.1) == 2);
  CHECK(nice_above(100'000) == 100'000);
  CHECK(nice_above(210'000) == 500'000);
  CHECK(nice_above(510'000) == 1'000'000);
}

TEST_CASE("rows of lists tell their counters and rates") {
  Facts facts = well();
  Looks looks;
  facts.looks = &looks;
  for (uint32_t second = 0; second <= 4; second += 2) {
    facts.stats = {};
    TargetStats target = stats_called("/run/weir/dataplane.sock", second * 1'000'000, second * 100'000);
    list_of(target.lists, "scanners") = counters(second * 10'000, second * 9'000);
    add(facts.stats, target);
    looks.add(facts.stats, static_cast<double>(kNow) - 4 + second);
  }
  const std::string html = page_html(facts);
  const auto row_of = [&](const std::string& name) {
    const size_t begin = html.find("<tr data-list=\"" + name + "\"");
    return begin == std::string::npos ? "" : html.substr(begin, html.find("</tr>", begin) - begin);
  };
  CHECK(contains(row_of("scanners"), "data-total=\"matched\"><data value=\"40000\">40.0 k<"));
  CHECK(contains(row_of("scanners"), "data-total=\"effect\"><data value=\"36000\">36.0 k<"));
  CHECK(contains(row_of("scanners"), "data-rate=\"effect\">9.00 k<"));
  CHECK(contains(row_of("partners"), "data-rate=\"effect\">0<"));
  CHECK(contains(html, "data-rate=\"packets\">100 k<"));
  CHECK(contains(html, "data-rate=\"dropped\">10.0 k<"));
}
