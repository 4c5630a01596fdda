// A feed of any format whose truth is known, drawn by the input's bytes (one a choice): nothing is silently wrong, and
// where the file is cut into parts does not matter.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/drawn/drawing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir::drawn;
  const std::vector<uint32_t> tape(data, data + size);
  Choices random(tape);
  const Document document = draw(random);
  const Reading whole = read(document, document.text.size() + 1);
  const Judgement judgement = judge(document, whole);
  const bool parts_matter = !(read(document, 1 + size % 97) == whole);
  if (judgement.verdict != Verdict::silent_wrong && !parts_matter) return 0;
  fprintf(stderr, "%s%s--- %s: %s%s\n", to_text(document).c_str(), to_text(whole).c_str(), judgement.kind.c_str(),
          judgement.why.c_str(), parts_matter ? "; another one in parts" : "");
  abort();
}
