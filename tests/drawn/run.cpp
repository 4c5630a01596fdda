#include "tests/drawn/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/drawn/drawing.h"

namespace weir::drawn {

Document document_of(uint64_t seed, const std::string& format) {
  Choices random(seed);
  for (const Drawer& drawer : drawers()) {
    if (drawer.format == format) return drawer.draw(random);
  }
  return draw(random);
}

Judgement judge_seed(uint64_t seed, const Document& document) {
  const Reading whole = read(document, std::max<size_t>(document.text.size(), 1));
  const Judgement judgement = judge(document, whole);
  if (seed % 8 != 0) return judgement;
  const size_t at_once = 1 + seed / 8 % 97;
  if (read(document, at_once) == whole) return judgement;
  return {Verdict::silent_wrong, document.drawn_as + ": parts", fmt::format("is another one in parts of {}", at_once)};
}

void run(uint64_t seed, Tally& tally, const std::string& format) {
  const Document document = document_of(seed, format);
  const Judgement judgement = judge_seed(seed, document);
  const auto verdict = static_cast<size_t>(judgement.verdict);
  tally.documents++;
  tally.verdicts[verdict]++;
  tally.formats[document.drawn_as][verdict]++;
  if (judgement.verdict == Verdict::right || judgement.verdict == Verdict::refused) return;
  Kind& kind = tally.kinds[verdict][judgement.kind];
  if (kind.n++ == 0) {
    kind.first_seed = seed;
    kind.why = judgement.why;
  }
}

}  // namespace weir::drawn
