// The walk of a frame: what it tells, and its verdicts against the reference that reads frames and policies by itself.

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "common/digest.h"
#include "common/files.h"
#include "control/compile/overlay.h"
#include "control/tell/answer/walk.h"
#include "tests/reference/judge.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/control/compile/make_policy.h"
#include "tests/unit/filter/frame/random_frames.h"

namespace weir::control {
namespace {

using test::Bytes;
using test::operator+;
using Texts = std::vector<std::string>;

constexpr uint64_t kThen = 1'800'000'000;

Policy walked_policy() {
  Policy policy = make_policy({
      make_list("own", WEIR_PASS, kEither, {"192.0.2.128/25", "10.0.0.3"}),
      make_list("hosts", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.2", "2001:db8::9", "192.0.2.0/24"}),
      make_list("c2", WEIR_DROP, kDestination, {"10.0.0.5", "198.51.100.7:443", "2001:db8::2"}),
      make_list("watch", WEIR_DROP, kEither, {"10.0.0.0/30", "2001:db8::/120"}),
  });
  policy.lists[3].mode = WEIR_MONITOR;
  Flow service;  // of one network, to one host
  service.family = 4;
  service.src = {{0x0a000000, 0x0a0000ff}};
  service.dst = {{0xc6336408, 0xc6336408}};
  service.protocol = 6;
  service.dport = PortRange{8000, 8010};
  service.line = 33;
  Flow syn;
  syn.family = 4;
  syn.dst = {{0x0a000006, 0x0a000006}};
  syn.protocol = 6;
  syn.tcp_flags = weir_masked{2, 0x12};
  syn.line = 34;
  Flow echo;
  echo.protocol = 58;
  echo.icmp_type = 128;
  echo.line = 35;
  Flow dns;
  dns.protocol = 17;
  dns.sport = PortRange{53, 53};
  dns.expires = static_cast<uint32_t>(kThen + 1);
  dns.line = 36;
  auto c2 = edit(policy.lists[2]);
  for (const Flow& flow : {service, syn, echo, dns}) c2->flows.push_back(flow);
  return policy;
}

std::string joined_texts(const Texts& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : " ") + text;
  return all;
}

std::string text_of(const Verdict& verdict) {
  return verdict.action + " " + verdict.reason + ": " + joined_texts(verdict.matched);
}

Bytes v4_frame(uint32_t source, uint32_t destination, uint8_t protocol, const Bytes& payload) {
  test::V4 packet;
  packet.source = source;
  packet.destination = destination;
  packet.protocol = protocol;
  packet.payload = payload;
  return test::ethernet(0x0800) + test::ipv4(packet);
}

// What does not hold in the walk of any frame; empty: all does.
std::string unsound(const FrameWalk& walked) {
  if ((walked.outcome == "ip") != !walked.layers.empty()) return "layers of a frame that is not ip";
  bool drops = false;
  std::set<std::string> matched_in_frame;
  for (const LayerWalk& layer : walked.layers) {
    std::set<std::string> by_keys;
    for (const KeyWalk& key : layer.keys) {
      if (key.rule != 0 && !key.filter_hit) return "a rule behind a filter that says no";
      std::set<std::string> of_key(key.always.begin(), key.always.end());
      for (const ConditionWalk& condition : key.conditions) {
        if (condition.holds) of_key.insert(condition.lists.begin(), condition.lists.end());
      }
      if (std::set<std::string>(key.matched.begin(), key.matched.end()) != of_key) return "lists of " + key.key;
      if (key.rule == 0 && !of_key.empty()) return "lists without a rule";
      const bool at_closed_gate = std::any_of(layer.gates.begin(), layer.gates.end(), [&](const GateWalk& gate) {
        return gate.side == key.side && !gate.lets_through;
      });
      if (at_closed_gate) return "a key is asked behind a gate that keeps it out";
      by_keys.insert(of_key.begin(), of_key.end());
    }
    const std::set<std::string> said(layer.verdict.matched.begin(), layer.verdict.matched.end());
    if (said != by_keys) return "lists of a layer: " + layer.packet;
    std::set<std::string> by_origins;
    for (const Origin& origin : layer.origins) by_origins.insert(origin.list);
    if (layer.n_origins <= kMaxOrigins && by_origins != said) return "entries of a layer: " + layer.packet;
    if ((layer.verdict.reason != "default") != layer.verdict.because.has_value()) return "no entry that decides";
    drops = drops || layer.verdict.action == "drop";
    matched_in_frame.insert(said.begin(), said.end());
  }
  if (walked.outcome != "ip") return "";
  if ((walked.verdict.action == "drop") != drops) return "the frame's verdict is none of its layers'";
  if (std::set<std::string>(walked.verdict.matched.begin(), walked.verdict.matched.end()) != matched_in_frame) {
    return "lists of the frame";
  }
  return "";
}

// In what the walk and the reference differ; empty: in nothing.
std::string differs(const Policy& policy, const FrameWalk& walked, const reference::Judged& judged) {
  const auto name = [&](unsigned list) { return policy.lists[list].name; };
  const char* outcome = judged.kind == reference::FrameKind::ip       ? "ip"
                        : judged.kind == reference::FrameKind::not_ip ? "not_ip"
                                                                      : "malformed";
  if (walked.outcome != outcome) return "outcome " + walked.outcome;
  if (walked.is_incomplete != judged.incomplete) return "incomplete";
  if (walked.outcome == "ip" && walked.layers.size() != judged.layers) return "layers";
  if (walked.verdict.action != (judged.verdict.action == WEIR_DROP ? "drop" : "pass")) return "action";
  Texts matched;
  for (const unsigned list : judged.verdict.matched) matched.push_back(name(list));
  if (walked.verdict.matched != matched) return "lists " + joined_texts(walked.verdict.matched);
  const std::string reason = judged.kind == reference::FrameKind::ip && judged.verdict.credited >= 0
                                 ? name(static_cast<unsigned>(judged.verdict.credited))
                             : judged.kind == reference::FrameKind::ip     ? "default"
                             : judged.kind == reference::FrameKind::not_ip ? "not_ip"
                                                                           : "unparsed";
  return walked.verdict.reason == reason ? "" : "reason " + walked.verdict.reason;
}

// Random frames, many of which the policy's entries match.
struct Seen {
  uint64_t frames = 0, drops = 0, listed = 0, layered = 0, malformed = 0;
};
void compare(const Enforcing& enforcing, const Policy& policy, test::Random& random, int n_frames, Seen& seen) {
  reference::Judge judge(policy, reference::Ask::every_entry);
  const Judge lists(policy.lists, policy.default_action, policy.unparsed_action, policy.tunnels);
  for (int i = 0; i < n_frames; i++) {
    const Bytes frame = test::random_frame(random);
    const uint64_t now = kThen + random.below(3);
    const FrameWalk walked = walk({enforcing, policy.lists}, frame, now);
    const reference::Judged judged = judge.judge(frame, now);
    const std::string what = differs(policy, walked, judged), inside = unsound(walked);
    if (!what.empty() || !inside.empty()) FAIL(what << inside << ": " << frame_text(frame));
    const std::string alone = differs(policy, walk(lists, frame, now), judged);
    if (!alone.empty()) FAIL("by lists alone: " << alone << ": " << frame_text(frame));
    seen.frames++;
    seen.drops += walked.verdict.action == "drop";
    seen.listed += !walked.verdict.matched.empty();
    seen.layered += walked.layers.size() > 1;
    seen.malformed += walked.outcome == "malformed";
  }
}

}  // namespace

TEST_CASE("walks of frames") {
  Policy policy = walked_policy();
  policy.tunnels = WEIR_TUNNEL_VXLAN | WEIR_TUNNEL_GRE;
  policy.unparsed_action = WEIR_DROP;
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  const Bytes blocked = v4_frame(0x0a000001, 0x08080808, test::kUdp, test::udp_payload());
  const Bytes blocked_packet(blocked.begin() + 14, blocked.end());
  const Bytes tagged = test::ethernet(0x8100) + test::vlan(0x0800) + blocked_packet;
  const Bytes vxlan = v4_frame(0x08080808, 0x08080404, test::kUdp, test::udp(1, 4789, test::vxlan() + blocked));
  const Bytes gre = v4_frame(0x0a000003, 0x08080404, test::kGre, test::gre(0x0800) + blocked_packet);
  struct Row {
    const char* what;
    Bytes frame;
    const char* outcome;
    const char* verdict;
    size_t layer;
    Texts layers;  // tunnel, verdict
  };
  const Row rows[] = {
      {"a blocked host", blocked, "ip", "drop hosts: hosts watch", 1, {" drop hosts: hosts watch"}},
      {"behind a tag", tagged, "ip", "drop hosts: hosts watch", 1, {" drop hosts: hosts watch"}},
      {"in VXLAN", vxlan, "ip", "drop hosts: hosts watch", 2, {" pass default: ", "vxlan drop hosts: hosts watch"}},
      {"a pass list exempts its own layer alone",
       gre,
       "ip",
       "drop hosts: own hosts watch",
       2,
       {" pass own: own watch", "gre drop hosts: hosts watch"}},
      {"a service", v4_frame(1, 0xc6336407, test::kTcp, test::tcp(2)), "ip", "drop c2: c2", 1, {" drop c2: c2"}},
      {"no ports", v4_frame(1, 0xc6336407, test::kTcp, {4, 4}), "ip", "pass default: ", 0, {" pass default: "}},
      {"IPv6", test::ethernet(0x86dd) + test::ipv6({}), "ip", "drop c2: c2 watch", 1, {" drop c2: c2 watch"}},
      {"ARP", test::ethernet(0x0806) + Bytes(28, 0), "not_ip", "pass not_ip: ", 0, {}},
      {"cut in its header", Bytes(blocked.begin(), blocked.begin() + 30), "malformed", "drop unparsed: ", 0, {}},
      {"one byte", {2}, "malformed", "drop unparsed: ", 0, {}},
      {"none", {}, "malformed", "drop unparsed: ", 0, {}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    const FrameWalk walked = walk({snapshot.view(), policy.lists}, row.frame, kThen);
    CHECK(walked.outcome == row.outcome);
    CHECK(text_of(walked.verdict) == row.verdict);
    CHECK(walked.layer == row.layer);
    CHECK(walked.bytes == row.frame.size());
    Texts layers;
    for (const LayerWalk& layer : walked.layers) layers.push_back(layer.tunnel + " " + text_of(layer.verdict));
    CHECK(layers == row.layers);
    CHECK(unsound(walked).empty());
  }
  // A tunnel that the policy does not name is none; what it says of malformed frames counts.
  policy.tunnels = 0;
  policy.unparsed_action = WEIR_PASS;
  const BuiltSnapshot other = build_unproven(policy, 1);
  CHECK(text_of(walk({other.view(), policy.lists}, vxlan, kThen).verdict) == "pass default: ");
  CHECK(text_of(walk({other.view(), policy.lists}, Bytes{2}, kThen).verdict) == "pass unparsed: ");
}

TEST_CASE("a walk says what was asked, found and demanded") {
  const Policy policy = walked_policy();
  const BuiltSnapshot snapshot = build_unproven(policy, 3);
  const auto conditions = [&](const Bytes& frame, uint64_t now) {
    Texts texts;
    for (const LayerWalk& layer : walk({snapshot.view(), policy.lists}, frame, now).layers) {
      for (const KeyWalk& key : layer.keys) {
        for (const ConditionWalk& condition : key.conditions) {
          texts.push_back(key.side + ": " + key.key + ": " + condition.text + (condition.holds ? ": holds" : ": no"));
        }
      }
    }
    return texts;
  };
  const Bytes syn = v4_frame(0x0a000001, 0x0a000006, test::kTcp, test::tcp(2));
  const Bytes answer = v4_frame(0x0a000001, 0x0a000006, test::kTcp, test::tcp(0x12));
  CHECK(conditions(syn, kThen) == Texts{"destination: 10.0.0.6/32: tcp tcp-flags syn/syn,ack: holds"});
  CHECK(conditions(answer, kThen) == Texts{"destination: 10.0.0.6/32: tcp tcp-flags syn/syn,ack: no"});

  const Bytes dns = v4_frame(0x08080808, 0x0a0000ff, test::kUdp, test::udp(53, 4444, {}));
  const FrameWalk walked = walk({snapshot.view(), policy.lists}, dns, kThen);
  REQUIRE(walked.layers.size() == 1);
  const LayerWalk& layer = walked.layers[0];
  CHECK(layer.packet == "src 8.8.8.8 dst 10.0.0.255 proto udp sport 53 dport 4444 length 28");
  CHECK(text_of(walked.verdict) == "drop c2: c2");
  REQUIRE(walked.verdict.because);
  CHECK(walked.verdict.because->line == 36);
  const auto flow =
      std::find_if(layer.keys.begin(), layer.keys.end(), [](const KeyWalk& key) { return key.side == "both"; });
  REQUIRE(flow != layer.keys.end());
  CHECK(flow->key == "proto udp sport 53");
  CHECK(flow->always == Texts{"c2"});  // while it is not expired
  REQUIRE(layer.gates.size() == 2);
  CHECK((layer.gates[0].side == "source" && layer.gates[1].side == "destination" && layer.gates[0].is_asked));
  CHECK(text_of(walk({snapshot.view(), policy.lists}, dns, kThen + 1).verdict) == "pass default: ");
}

TEST_CASE("walks of random frames agree with the reference") {
  test::Random random(7);
  Seen seen;
  for (int round = 0; round < 8; round++) {
    Policy policy = walked_policy();
    policy.tunnels = static_cast<uint8_t>(round % 4 == 3 ? random.byte() & WEIR_TUNNELS : WEIR_TUNNELS);
    policy.unparsed_action = round % 2 == 0 ? WEIR_DROP : WEIR_PASS;
    policy.default_action = round % 4 == 2 ? WEIR_DROP : WEIR_PASS;
    const BuiltSnapshot snapshot = build_unproven(policy, 11 + static_cast<uint64_t>(round));
    compare(snapshot.view(), policy, random, 1500, seen);
  }
  INFO(seen.frames << " frames: " << seen.drops << " drop, " << seen.listed << " listed, " << seen.layered
                   << " with tunnels, " << seen.malformed << " malformed");
  CHECK(seen.drops * 10 > seen.frames);
  CHECK(seen.listed * 4 > seen.frames);
  CHECK(seen.layered * 5 > seen.frames);
  CHECK(seen.malformed * 50 > seen.frames);
}

TEST_CASE("walks honour an overlay") {
  Policy policy = walked_policy();
  policy.tunnels = WEIR_TUNNELS;
  const Book before = policy.lists;
  BuiltSnapshot base = build_unproven(policy, 5);
  base.header().epoch = 5;
  base.header().number = 1;
  const filter::SnapshotView view = base.view();
  edit(policy.lists[1])->v4[0].first = 0x0a000007;  // 10.0.0.1 leaves the list, 10.0.0.7 comes
  edit(policy.lists[1])->v4[0].last = 0x0a000007;
  const Result<Overlaid> made = compile_overlay(policy, {view, weir::digest_of(base.bytes()), before}, {5, 2});
  if (!made) FAIL(made.error());
  REQUIRE(made->needs_rebuild.empty());
  const Result<Mapping> bytes = map_read_only(made->compiled.snapshot.get(), made->compiled.size_bytes);
  REQUIRE(bytes);
  const Result<filter::SnapshotView> overlay = filter::SnapshotView::open(bytes->bytes());
  REQUIRE(overlay);
  const Enforcing enforcing(view, &*overlay);
  const auto of = [&](uint32_t source) {
    return walk({enforcing, policy.lists}, v4_frame(source, 0x08080808, test::kUdp, test::udp_payload()), kThen);
  };
  CHECK(text_of(of(0x0a000001).verdict) == "pass default: watch");
  const FrameWalk added = of(0x0a000007);
  CHECK(text_of(added.verdict) == "drop hosts: hosts");
  REQUIRE(added.layers.size() == 1);
  CHECK_FALSE(added.layers[0].gates[0].is_asked);
  CHECK(std::any_of(added.layers[0].keys.begin(), added.layers[0].keys.end(),
                    [](const KeyWalk& key) { return key.shape == "v4 addr/32, overlay" && key.rule != 0; }));
  test::Random random(9);
  Seen seen;
  compare(enforcing, policy, random, 3000, seen);
  CHECK(seen.drops * 10 > seen.frames);
}

TEST_CASE("frames as text") {
  struct Row {
    const char* text;
    const char* frame;  // or a part of the error
  };
  const Row rows[] = {
      {"0200", "0200"},
      {"02:00:aB:cD", "0200abcd"},
      {" 02 00\n0800\t45\r\n00 ", "020008004500"},
      {"", "frame: there is no byte"},
      {" \n", "frame: there is no byte"},
      {"02 0", "frame: it ends with `0`, half a byte (byte 2)"},
      {"02 0 0", "frame: character 5 is the byte 0x20: the second digit of byte 2, `0`, is missing"},
      {"02 0:0", "frame: character 5 is `:`: the second digit of byte 2, `0`, is missing"},
      {"0x0000: 0200", "frame: character 2 is `x`: the second digit of byte 1, `0`, is missing"},
      {"02 gg", "frame: character 4, `g`, is no hexadecimal digit"},
      {"02\x1b", "frame: character 3, the byte 0x1b, is no hexadecimal digit"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto frame = parse_frame_text(row.text);
    const std::string got = frame ? frame_text(*frame) : frame.error().substr(0, frame.error().find('\n'));
    CHECK(got == row.frame);
    if (!frame) CHECK(frame.error().find("\nhint: give a frame") != std::string::npos);
  }
  CHECK(parse_frame_text(std::string(2 * kMostFrameBytes, '0')));
  const auto too_long = parse_frame_text(std::string(2 * kMostFrameBytes + 2, '0'));
  REQUIRE_FALSE(too_long);
  CHECK(too_long.error().find("more than 65535 bytes: character 131071 begins one more") != std::string::npos);
}

}  // namespace weir::control
