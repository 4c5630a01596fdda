// Any bytes as what a peer of BGP says, before and after its session is established: nothing outside is read, a session
// that ends says why, and what it sends is BGP. The first byte says in which pieces they come.
#include <algorithm>
#include <cstdlib>

#include "control/policy/model/range_text.h"
#include "control/sources/flowspec/rules.h"
#include "control/sources/flowspec/session.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::flowspec;

namespace {

void require(bool holds) {
  if (!holds) abort();
}

constexpr uint64_t kNow = 1'800'000'000;

struct Peer : SessionEvents {
  RuleTable table{{64, 256}, [](const Flow& flow) -> Result<std::string> { return flow_line(flow); }};
  std::string why;
  void established(const Open&) override { table.begin_anew(); }
  void updated(const Update& update) override {
    for (const RuleKey& key : update.withdrawn) table.withdraw(key);
    for (const RuleKey& key : update.announced) table.announce(key, update.action);
    for (const Family family : update.ends) table.end_of_rib(family);
    table.list().look(kNow, {});
    while (const std::optional<FollowedList::Batch> batch = table.list().next(kNow)) table.list().done(*batch);
    const RuleTable::Counts counts = table.counts();
    require(counts.rules <= 64 && counts.refused <= counts.rules && counts.entries <= 256 && counts.pending == 0);
  }
  void ended(const std::string& reason) override {
    require(why.empty() && !reason.empty());
    why = reason;
  }
};

void require_messages(BytesView output) {
  while (!output.empty()) {
    const Framed framed = frame(output);
    require(framed.message.has_value() && !framed.fault);
    output = output.subspan(framed.bytes);
  }
}

void run(bool is_established, size_t piece, BytesView bytes) {
  Peer peer;
  Session session({65000, 65001, 1, 90}, peer, {});
  if (is_established) {
    require(session.receive(encode_open({65001, 90, 2, true, true, true}), {}));
    require(session.receive(encode_message(MessageType::keepalive, {}), {}));
  }
  require(session.is_established() == is_established);
  for (bool goes_on = true; goes_on && !bytes.empty();) {
    const size_t n = std::min(piece, bytes.size());
    goes_on = session.receive(bytes.first(n), {});
    require(goes_on == !session.is_over());
    bytes = bytes.subspan(n);
  }
  require(session.is_over() == !peer.why.empty());
  require_messages(session.output());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const BytesView bytes(data + 1, size - 1);
  const size_t piece = data[0] % 2 == 0 ? SIZE_MAX : 1 + data[0];
  run(false, piece, bytes);
  run(true, piece, bytes);

  const ParsedOpen open = parse_open(bytes);
  if (!open.fault) {
    const Framed framed = frame(encode_open(open.open));
    require(framed.message.has_value() || !framed.fault);
  }
  for (const bool has_as4 : {false, true}) {
    const ParsedUpdate update = parse_update(bytes, has_as4);
    require(!update.fault || !update.fault->what.empty());
  }
  require(!parse_notification(bytes).what.empty());
  return 0;
}
