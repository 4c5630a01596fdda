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

void follow(FollowedList& list, const FollowedList::Limits& limits) {
  list.look(kNow, limits);
  const uint64_t no_room = list.counts().no_room;
  while (const std::optional<FollowedList::Batch> batch = list.next(kNow)) {
    for (const FollowedList::Row& row : batch->rows) {
      if (!batch->is_add) continue;
      ListDraft draft;
      draft.match = WEIR_AS_SOURCE;
      const weir::Result<std::string> canonical = read_entry_line(row.entry, false, draft);
      require(canonical && *canonical == row.entry);
      require(draft.flows.empty() && draft.v4.size() + draft.v6.size() == 1);
      require(row.expires > kNow && row.expires - kNow <= Change::kMostTtl_s);
      require(row.comment.size() <= Change::kMostComment && row.comment.starts_with(crowdsec::kCommentBegin));
    }
    list.done(*batch);
  }
  list.look(kNow, limits);
  require(!list.next(kNow) && list.counts().no_room == no_room);
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
  for (const FollowedList::Limits& limits : {FollowedList::Limits{}, FollowedList::Limits{2, 60}}) {
    crowdsec::Ledger ledger({"ban", "captcha"});
    ledger.list().has("192.0.2.1", kNow + 100, false);
    ledger.list().has("192.0.2.2", kNow + 100, true);
    ledger.take_all(*decisions, int64_t{kNow} * 1000);
    follow(ledger.list(), limits);
    ledger.take_news(*decisions, int64_t{kNow} * 1000);
    follow(ledger.list(), limits);
  }
  return 0;
}
