// Any text as a frame for `explain`: what is taken is written and taken again as it is, and the walk of its bytes
// through a small snapshot says what the reference says, layer by layer, whatever the bytes are.
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "control/compile/merge/merge.h"
#include "control/compile/plan/flow_index.h"
#include "control/compile/plan/plan.h"
#include "control/policy/model/columns.h"
#include "control/tell/answer/walk.h"
#include "tests/reference/judge.h"

using namespace weir;
using namespace weir::control;

namespace {

constexpr uint64_t kNow = 1'800'000'000;

void require(bool holds) {
  if (!holds) abort();
}

List list_of(const char* name, weir_action action, uint8_t match) {
  List list;
  list.name = name;
  list.action = action;
  list.match = match;
  list.policy_path = "weir.yaml";
  return list;
}

// What the seeds' addresses are near to: 10.0.0.0/8, 192.0.2.0/24, 2001:db8::/32.
Policy small_policy() {
  Policy policy;
  policy.path = "weir.yaml";
  policy.tunnels = WEIR_TUNNELS;
  policy.unparsed_action = WEIR_DROP;
  List allowed = list_of("allowed", WEIR_PASS, WEIR_AS_SOURCE), blocked = list_of("blocked", WEIR_DROP, WEIR_AS_SOURCE),
       watched = list_of("watched", WEIR_DROP, WEIR_AS_SOURCE | WEIR_AS_DESTINATION);
  watched.mode = WEIR_MONITOR;
  ListDraft of_allowed, of_blocked, of_watched;
  of_allowed.v4.push_back({0xc0000201, 0xc0000201, 1, 0, WEIR_AS_SOURCE, 0});
  of_blocked.v4.push_back({0xc0000200, 0xc00002ff, 2, 0, WEIR_AS_SOURCE, 0});
  of_blocked.v4.push_back({0x0a000000, 0x0a00000f, 3, 0, WEIR_AS_SOURCE, 0});
  of_blocked.v6.push_back({Ipv6{0x20010db8} << 96, (Ipv6{0x20010db8} << 96) + 0xffff, 4, 0, WEIR_AS_DESTINATION, 0});
  Flow service;
  service.protocol = 17;
  service.dport = PortRange{1, 1024};
  service.line = 5;
  Flow syn;
  syn.family = 4;
  syn.dst = {{0xc0000202, 0xc0000202}};
  syn.protocol = 6;
  syn.tcp_flags = weir_masked{2, 0x12};
  syn.line = 6;
  Flow later;
  later.fragment = weir_one_of{uint64_t{1} << WEIR_FRAGMENT_LATER};
  later.line = 7;
  for (const Flow& flow : {service, syn, later}) of_blocked.flows.push_back(flow);
  of_watched.v4.push_back({0, UINT32_MAX, 8, 443, WEIR_AS_SOURCE | WEIR_AS_DESTINATION, 0});
  allowed.content = make_entries(std::move(of_allowed));
  blocked.content = make_entries(std::move(of_blocked));
  watched.content = make_entries(std::move(of_watched));
  policy.lists = {allowed, blocked, watched};
  return policy;
}

struct Built {
  Policy policy = small_policy();
  std::byte* bytes = nullptr;
  filter::SnapshotView view = build();

  filter::SnapshotView build() {
    Merged merged = merge(policy);
    require(static_cast<bool>(index_flows(policy, merged)));
    Result<Planned> planned = plan(merged, policy);
    require(static_cast<bool>(planned));
    planned->layout.header.secret[0] = 7;
    const size_t size = planned->layout.header.total_bytes;
    bytes = static_cast<std::byte*>(aligned_alloc(WEIR_PAGE_BYTES, size));
    require(bytes != nullptr);
    memset(bytes, 0, size);
    require(static_cast<bool>(filter::build_snapshot(planned->input, planned->layout, {bytes, size})));
    const Result<filter::SnapshotView> opened = filter::SnapshotView::open({bytes, size});
    require(static_cast<bool>(opened));
    return *opened;
  }
};

const Built& built() {
  static const Built* const kBuilt = new Built;
  return *kBuilt;
}

bool is_list(const Policy& policy, const std::string& name, int list) {
  return list >= 0 && policy.lists[static_cast<size_t>(list)].name == name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<std::vector<uint8_t>> frame = parse_frame_text({reinterpret_cast<const char*>(data), size});
  if (!frame) {
    require(frame.error().find("\nhint: ") != std::string::npos);
    return 0;
  }
  const Result<std::vector<uint8_t>> again = parse_frame_text(frame_text(*frame));
  require(again && *again == *frame);

  const Policy& policy = built().policy;
  const FrameWalk walked = walk({built().view, policy.lists}, *frame, kNow);
  reference::Judge judge(policy, reference::Ask::every_entry);
  const reference::Judged judged = judge.judge(*frame, kNow);
  require((walked.outcome == "ip") == (judged.kind == reference::FrameKind::ip));
  require((walked.outcome == "not_ip") == (judged.kind == reference::FrameKind::not_ip));
  require(walked.is_incomplete == judged.incomplete && walked.layers.size() == judged.layers);
  require((walked.verdict.action == "drop") == (judged.verdict.action == WEIR_DROP));
  require(walked.verdict.matched.size() == judged.verdict.matched.size());
  for (size_t i = 0; i < judged.verdict.matched.size(); i++) {
    require(is_list(policy, walked.verdict.matched[i], static_cast<int>(judged.verdict.matched[i])));
  }
  if (walked.outcome != "ip") return 0;
  require(judged.verdict.credited < 0 ? walked.verdict.reason == "default"
                                      : is_list(policy, walked.verdict.reason, judged.verdict.credited));
  for (const LayerWalk& layer : walked.layers) {
    require((layer.verdict.reason != "default") == layer.verdict.because.has_value());
    require(layer.n_origins >= layer.verdict.matched.size());  // some entry of each list
  }
  return 0;
}
