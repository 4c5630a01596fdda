// Any bytes as what CrowdSec's local API answers: no crash, what is to be added is what `controlctl add` takes, and
// once it is added nothing is left to do.
#include <cstdlib>

#include "control/lists/journal/change.h"
#include "control/policy/read/entry_line.h"
#include "control/sources/crowdsec/ledger.h"

namespace {

using namespace weir::control;

constexpr uint64_t kNow = 1'800'000'000;

void require(bool holds) {
  if (!holds) abort();
}

void follow(crowdsec::Ledger& ledger, const crowdsec::Limits& limits) {
  const crowdsec::Changes changes = ledger.changes(kNow, limits);
  for (const std::string& entry : changes.del) ledger.deleted(entry);
  for (const crowdsec::Addition& addition : changes.add) {
    ListDraft draft;
    draft.match = WEIR_AS_SOURCE;
    const weir::Result<std::string> canonical = read_entry_line(addition.entry, false, draft);
    require(canonical && *canonical == addition.entry);
    require(draft.flows.empty() && draft.v4.size() + draft.v6.size() == 1);
    require(addition.expires > kNow && addition.expires - kNow <= Change::kMostTtl_s);
    require(addition.comment.size() <= Change::kMostComment && addition.comment.starts_with(crowdsec::kCommentBegin));
    ledger.added(addition);
  }
  const crowdsec::Changes again = ledger.changes(kNow, limits);
  require(again.add.empty() && again.del.empty() && again.no_room == changes.no_room);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)crowdsec::duration_ms(text);
  (void)crowdsec::entry_of(text);
  const weir::Result<crowdsec::Decisions> decisions = crowdsec::read_decisions(text);
  if (!decisions) {
    require(!decisions.error().empty());
    return 0;
  }
  for (const crowdsec::Limits& limits : {crowdsec::Limits{}, crowdsec::Limits{2, 60}}) {
    crowdsec::Ledger ledger({"ban", "captcha"});
    ledger.has("192.0.2.1", kNow + 100, "by hand");
    ledger.has("192.0.2.2", kNow + 100, "crowdsec: over");
    ledger.take_all(*decisions, int64_t{kNow} * 1000);
    follow(ledger, limits);
    ledger.take_news(*decisions, int64_t{kNow} * 1000);
    follow(ledger, limits);
  }
  return 0;
}
