#include "control/tell/page/health.h"
#include "tests/catch.h"
#include "tests/unit/control/tell/page/page_facts.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::page;

namespace {

// All sentences.
std::string said(const Health& health) {
  std::string text = health.headline;
  for (const Finding& finding : health.findings) text += "\n" + finding.text + " " + finding.hint;
  return text;
}

}  // namespace

TEST_CASE("all is well, and where it is enforced since when") {
  const Health health = health_of(well());
  CHECK(health.level == Gravity::good);
  CHECK(health.findings.empty());
  CHECK(health.headline == "All is well: generation 12 is enforced on 2 targets since 24 Nov 19:00 UTC.");
}

TEST_CASE("whatever is wrong is said, the gravest first") {
  struct Row {
    Gravity level;
    const char* says;
    void (*spoil)(Facts& facts);
    bool is_wrong = true;  // by the status alone: the exit code of `controlctl status`
  };
  const Row rows[] = {
      {Gravity::problem, "Bypass is on: every packet passes", [](Facts& f) { f.status.bypass = true; }},
      {Gravity::problem, "the first policy is being compiled", [](Facts& f) { f.status.generation = {}; }},
      {Gravity::problem, "the policy has no target", [](Facts& f) { f.status.targets.clear(); }, false},
      {Gravity::problem, "Target xdp:eth0 is away: no answer.",
       [](Facts& f) { f.status.targets[1].connected = false, f.status.targets[1].last_error = "no answer"; }},
      {Gravity::problem, "xdp:eth0 is behind: it enforces generation 11",
       [](Facts& f) { f.status.targets[1].acknowledged = false, f.status.targets[1].generation.number = 11; }},
      {Gravity::problem, "XDP is not attached to eth0",
       [](Facts& f) { f.status.targets[1].interfaces->at(0).attached = false; }},
      {Gravity::problem, "Target xdp:eth0 is in bypass", [](Facts& f) { f.status.targets[1].bypass = true; }},
      {Gravity::problem,
       "The last reload failed, and what was enforced stays: weir.yaml:3: no such list (2 errors in all).",
       [](Facts& f) {
         f.status.last_reload.diagnostics = {{{Severity::error, {"weir.yaml", 3, 1}, "no such list", "", ""}}, 2, 0};
       }},
      {Gravity::problem, "The policy is bad, and what ran before is enforced: gone.",
       [](Facts& f) { f.status.from_last_good = true, f.status.last_reload.error = "gone"; }},
      {Gravity::warning, "The last good policy is enforced", [](Facts& f) { f.status.from_last_good = true; }},
      {Gravity::warning, "would lose the policy that it enforces at its restart: disk full.",
       [](Facts& f) { f.status.targets[0].durable = false, f.status.targets[0].disk_error = "disk full"; }},
      {Gravity::warning, "controld would lose the policy that runs at its restart: disk full.",
       [](Facts& f) { f.status.disk_error = "disk full"; }},
      {Gravity::warning, "The feed of list scanners is refused since 24 Nov 18:00 UTC: it shrank.",
       [](Facts& f) {
         f.feeds.feeds[0].state = "refused";
         f.feeds.feeds[0].since = kNow - 7200;
         f.feeds.feeds[0].reason = "it shrank";
       },
       false},
      {Gravity::warning, "The feed of list scanners was not fetched, 3 times in a row: 404.",
       [](Facts& f) {
         f.feeds.feeds[0].fetch.emplace();
         f.feeds.feeds[0].fetch->failures = 3;
         f.feeds.feeds[0].fetch->error = "404";
       },
       false},
      {Gravity::warning, "waits for a confirmation.",
       [](Facts& f) { f.status.notice = "generation 12 waits for a confirmation"; }, false},
      {Gravity::problem, "Revision 9 of fleet edge is refused: weir.yaml:3: no such list.",
       [](Facts& f) {
         f.status.fleet = FleetStanding{"edge", "n1", "rest", 12, 8, 9, "refused", "weir.yaml:3: no such list", "", 0};
       }},
      {Gravity::warning, "Fleet edge is not followed: http://192.0.2.1: no answer.",
       [](Facts& f) {
         f.status.fleet =
             FleetStanding{"edge", "n1", "rest", 12, 8, 8, "enforcing", "", "http://192.0.2.1: no answer", 0};
       }},
      {Gravity::warning, "No list has an entry", [](Facts& f) { f.status.entries = 0; }, false},
  };
  for (const Row& row : rows) {
    Facts facts = well();
    row.spoil(facts);
    const Health health = health_of(facts);
    INFO(said(health));
    CHECK(health.level == row.level);
    CHECK(said(health).find(row.says) != std::string::npos);
    const Standing standing = standing_of(facts.status);
    CHECK(standing.is_wrong == row.is_wrong);
    CHECK((standing.is_wrong && standing.line.starts_with("OK")) == false);
  }
  CHECK(standing_of(well().status).line == "OK: generation 12 is enforced on 2 targets");
  Facts facts = well();
  for (const Row& row : rows) {
    if (std::string_view(row.says) != "the policy has no target") row.spoil(facts);  // the others spoil targets
  }
  const Health health = health_of(facts);
  CHECK(health.headline.starts_with("Bypass is on"));
  CHECK(std::is_sorted(health.findings.begin(), health.findings.end(),
                       [](const Finding& one, const Finding& other) { return one.level > other.level; }));
}

TEST_CASE("the first line of status names the gravest, its way out, and how many more there are") {
  Facts facts = well();
  facts.status.refused.push_back({"scanners", "feeds/a.txt", "it shrank", "look at it", kNow});
  CHECK(standing_of(facts.status).is_wrong);
  CHECK(standing_of(facts.status).line ==
        "WARNING: The feed of list scanners is refused: it shrank. The list keeps its last good content; controlctl "
        "feeds tells the way out.");
  facts.status.bypass = true;
  CHECK(standing_of(facts.status).line ==
        "PROBLEM: Bypass is on: every packet passes, nothing is dropped. controlctl bypass off ends it. (1 more)");
}

TEST_CASE("what packets meet now is said where it is not the policy's verdict") {
  const auto now = [](void (*spoil)(Facts & facts)) {
    Facts facts = well();
    spoil(facts);
    return not_enforced(facts.status.bypass, facts.status.targets);
  };
  CHECK(now([](Facts&) {}).empty());
  CHECK(now([](Facts& f) { f.status.bypass = true; }).starts_with("PASSES NOW: bypass is on"));
  CHECK(now([](Facts& f) { f.status.targets.clear(); }).starts_with("NOT ENFORCED: the policy has no target"));
  CHECK(now([](Facts& f) { f.status.targets[0].connected = false; }) ==
        "NOT ENFORCED EVERYWHERE: 1 of 2 targets. The policy says:");
  CHECK(now([](Facts& f) { f.status.targets[0].bypass = true; }).starts_with("NOT ENFORCED EVERYWHERE"));
  CHECK(now([](Facts& f) {
          f.status.targets[0].acknowledged = false;
          f.status.targets[1].interfaces->at(0).attached = false;
        }).starts_with("NOT ENFORCED: 0 of 2 targets"));
}

TEST_CASE("warnings do not hide where it is enforced") {
  Facts facts = well();
  facts.status.notice = "rolled back";
  CHECK(health_of(facts).headline == "Generation 12 is enforced on 2 targets since 24 Nov 19:00 UTC, with 1 warning.");
}

TEST_CASE("packets that are lost now are a warning, those of an hour ago are not") {
  Facts facts = well();
  facts.stats.totals.rx_missed = 1'000'000;
  CHECK(health_of(facts).level == Gravity::good);
  Looks looks;
  StatsAnswer before, after;
  TargetStats target = stats_called("a", 1'000'000, 100);
  add(before, target);
  looks.add(before, kNow - 2);
  target.taken_us = 2'000'000;
  target.totals.rx_missed = 5000;
  add(after, target);
  looks.add(after, kNow);
  facts.looks = &looks;
  CHECK(health_of(facts).level == Gravity::warning);
  CHECK(said(health_of(facts)).find("Packets are lost now: 5.00 k a second") != std::string::npos);
}

TEST_CASE("times are short, and say their zone") {
  CHECK(when(0, kNow) == "never");
  CHECK(when(kNow - 30, kNow) == "30 s ago");
  CHECK(when(kNow + 600, kNow) == "in 10 min");
  CHECK(clock_time(kNow, kNow) == "24 Nov 20:00 UTC");
  CHECK(clock_time(kNow - 365 * 86400, kNow) == "24 Nov 2025 20:00 UTC");
}
