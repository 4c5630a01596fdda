// One account for every feed: whatever a reader takes, skips or cannot read adds up to what the document holds. Random
// documents of every format with a known truth; `drawn_feeds --only SEED` shows one.
#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/drawn/drawing.h"
#include "tests/drawn/run.h"

using namespace weir::drawn;

TEST_CASE("no random feed is silently wrong") {
  constexpr uint64_t kSeed = 20'261'127, kDocuments = 20'000;
  INFO("seed " << kSeed);
  Tally tally;
  for (uint64_t i = 0; i < kDocuments; i++) run(kSeed + i, tally);
  for (const Verdict verdict : {Verdict::false_refusal, Verdict::silent_wrong, Verdict::wrong_count}) {
    for (const auto& [name, kind] : tally.kinds[static_cast<size_t>(verdict)]) {
      FAIL_CHECK(kVerdictNames[static_cast<size_t>(verdict)]
                 << ": " << kind.n << " of " << name << "; drawn_feeds --only " << kind.first_seed << ": " << kind.why);
    }
  }
  CHECK(tally.of(Verdict::right) > kDocuments / 4);
}

TEST_CASE("documents of one seed are the same, and every format is drawn") {
  std::set<std::string> drawn;
  for (uint64_t seed = 1; seed < 500; seed++) {
    const Document document = document_of(seed);
    CHECK(document.text == document_of(seed).text);
    CHECK(!document.items.empty());
    drawn.insert(document.drawn_as);
  }
  for (const Drawer& drawer : drawers()) CHECK(drawn.contains(drawer.format));
}

TEST_CASE("the judge sees what is missing, what is too much, and what is not counted") {
  Document document;
  document.items = {{"a", {{{1 << 16, 1 << 16, 0, true}}}}, {"b", {}, 1}};
  document.owners = {{1, 0}, {2, 1}};
  const auto verdict = [&](std::vector<Range> entries, uint64_t bad) {
    Reading reading;
    reading.entries = std::move(entries);
    reading.bad = bad;
    return judge(document, reading).verdict;
  };
  const Range a = {1 << 16, 1 << 16, 0, true}, b = {2 << 16, 2 << 16, 0, true}, other = {3 << 16, 3 << 16, 0, true};
  CHECK(verdict({a}, 1) == Verdict::right);
  CHECK(verdict({a}, 0) == Verdict::silent_wrong);
  CHECK(verdict({}, 1) == Verdict::silent_wrong);
  CHECK(verdict({}, 2) == Verdict::right);
  CHECK(verdict({a}, 2) == Verdict::wrong_count);
  CHECK(verdict({a, b}, 1) == Verdict::silent_wrong);
  CHECK(verdict({a, other}, 1) == Verdict::silent_wrong);
  Reading refused;
  refused.is_refused = true;
  CHECK(judge(document, refused).verdict == Verdict::false_refusal);
  document.must_read = false;
  CHECK(judge(document, refused).verdict == Verdict::refused);
}
