#include "control/compile/preview/radius.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "common/ip.h"
#include "control/compile/prove/verdict.h"
#include "control/policy/model/packet.h"

namespace weir::control {

namespace {

constexpr size_t kMostTalkers = 10;
constexpr const char* kDefault = "policy.default";
constexpr const char* kUnparsed = "policy.unparsed";

// Of one frame by one snapshot: list >= 0, or one of these.
constexpr int kByDefault = -1, kByUnparsed = -2, kByNobody = -3;
struct Outcome {
  bool is_dropped;
  int credit;
  int let_through_by = kByNobody;  // the pass list without which a drop list would drop it
};

// Returns the pass list that keeps a drop list from dropping the packet; kByNobody: no drop list matches.
int let_through_by(const weir_snapshot_header& header, const weir_set& matched, int pass_list) {
  return first_list(lists_in(matched, header.drop_lists)) != kNoList ? pass_list : kByNobody;
}

Outcome judge_frame(const Enforcing& enforcing, const SeenFrame& frame, uint64_t now) {
  const weir_snapshot_header& header = enforcing.header();
  if (frame.kind == wire::FrameKind::not_ip) return {false, kByNobody};
  if (frame.kind == wire::FrameKind::malformed) return {header.unparsed_action == WEIR_DROP, kByUnparsed};
  const weir_set matched = match(enforcing, frame.outer, now);
  const Judgement outer = judge(header, matched);
  const int outer_credit = outer.list == kNoList ? kByDefault : outer.list;
  if (outer.action == WEIR_DROP) return {true, outer_credit};
  int let_through = let_through_by(header, matched, outer.list);
  if (header.tunnels == 0) return {false, outer_credit, let_through};
  for (const weir_packet& packet : frame.inner) {
    const weir_set inner_matched = match(enforcing, packet, now);
    const Judgement inner = judge(header, inner_matched);
    if (inner.action == WEIR_DROP) return {true, inner.list == kNoList ? kByDefault : inner.list};
    if (let_through == kByNobody) let_through = let_through_by(header, inner_matched, inner.list);
  }
  return {false, outer_credit, let_through};
}

std::string credit_name(const Enforcing& enforcing, int credit) {
  if (credit == kByNobody) return "";
  if (credit == kByDefault) return kDefault;
  if (credit == kByUnparsed) return kUnparsed;
  const char* name = enforcing.base.lists()[static_cast<size_t>(credit)].name;
  return std::string(name, strnlen(name, WEIR_LIST_NAME_BYTES));
}

std::string address_text(const weir_packet& packet, weir_side side) {
  return packet.family == 4 ? to_string(address_of<Ipv4>(packet, side)) : to_string(address_of<Ipv6>(packet, side));
}

struct Sum {
  double weight = 0;
  uint64_t samples = 0;
  void add(double more) { weight += more, samples++; }
};

struct Changed {
  Sum dropped, passed;
  double weight() const { return dropped.weight + passed.weight; }
};

// Who talks: address, side, and whether it is newly dropped.
using TalkerKey = std::tuple<std::string, weir_side, bool>;
struct TalkerSum : Sum {
  std::map<std::string, double> credits;
};

}  // namespace

Share share_of(double of, double all, double n) {
  if (all <= 0 || n <= 0) return {};
  constexpr double kZ = 1.959964;  // 95 % of a normal distribution
  const double p = std::min(1.0, of / all), z2 = kZ * kZ;
  const double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kZ / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {p, std::max(0.0, std::min(p, middle - half)), std::min(1.0, std::max(p, middle + half))};
}

SeenVerdict judge_seen(const Enforcing& enforcing, const SeenFrame& frame, uint64_t now) {
  const Outcome outcome = judge_frame(enforcing, frame, now);
  return {outcome.is_dropped, credit_name(enforcing, outcome.credit)};
}

Radius radius_of(const Enforcing& before, const Enforcing& after, std::span<const SeenFrame> frames, uint64_t now,
                 const std::set<std::string>& accepted) {
  Radius radius;
  radius.samples = frames.size();
  radius.are_tunnels_different = before.header().tunnels != after.header().tunnels;
  double squares = 0, bytes = 0, dropped_before = 0, dropped_after = 0;
  uint64_t oldest = UINT64_MAX, newest = 0;
  Changed changed, changed_bytes;
  std::map<std::string, Changed> credits;
  std::map<std::string, Sum> let_through;
  std::map<TalkerKey, TalkerSum> talkers;
  for (const SeenFrame& frame : frames) {
    radius.frames += frame.weight;
    squares += frame.weight * frame.weight;
    bytes += frame.weight * frame.bytes;
    oldest = std::min(oldest, frame.time_unix_ns);
    newest = std::max(newest, frame.time_unix_ns);
    const Outcome was = judge_frame(before, frame, now), will = judge_frame(after, frame, now);
    if (was.is_dropped) dropped_before += frame.weight;
    if (will.is_dropped) dropped_after += frame.weight;
    if (will.let_through_by != kByNobody) let_through[credit_name(after, will.let_through_by)].add(frame.weight);
    if (was.is_dropped == will.is_dropped) continue;
    if (accepted.contains(credit_name(before, was.credit)) || accepted.contains(credit_name(after, will.credit))) {
      continue;
    }
    const std::string credit = will.is_dropped ? credit_name(after, will.credit) : credit_name(before, was.credit);
    const auto sum_of = [&](Changed& of) -> Sum& { return will.is_dropped ? of.dropped : of.passed; };
    sum_of(changed).add(frame.weight);
    sum_of(changed_bytes).add(frame.weight * frame.bytes);
    sum_of(credits[credit]).add(frame.weight);
    if (frame.kind != wire::FrameKind::packets) continue;
    for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      TalkerSum& talker = talkers[{address_text(frame.outer, side), side, will.is_dropped}];
      talker.add(frame.weight);
      talker.credits[credit] += frame.weight;
    }
  }
  const double n = squares > 0 ? radius.frames * radius.frames / squares : 0;
  const auto share = [&](double of) { return share_of(of, radius.frames, n); };
  radius.seconds = frames.empty() ? 0 : (newest - oldest) / 1'000'000'000;
  radius.dropped_before = share(dropped_before);
  radius.dropped_after = share(dropped_after);
  radius.newly_dropped = share(changed.dropped.weight);
  radius.newly_passed = share(changed.passed.weight);
  if (bytes > 0) {
    radius.newly_dropped_bytes = changed_bytes.dropped.weight / bytes;
    radius.newly_passed_bytes = changed_bytes.passed.weight / bytes;
  }
  for (const auto& [name, sum] : credits) {
    radius.credits.push_back(
        {name, share(sum.dropped.weight), share(sum.passed.weight), sum.dropped.samples + sum.passed.samples});
  }
  std::stable_sort(radius.credits.begin(), radius.credits.end(), [](const auto& a, const auto& b) {
    return a.newly_dropped.value + a.newly_passed.value > b.newly_dropped.value + b.newly_passed.value;
  });
  for (const auto& [list, sum] : let_through) radius.let_through.push_back({list, share(sum.weight), sum.samples});
  std::stable_sort(radius.let_through.begin(), radius.let_through.end(),
                   [](const auto& a, const auto& b) { return a.share.value > b.share.value; });
  for (const auto& [key, sum] : talkers) {
    const auto most = std::max_element(sum.credits.begin(), sum.credits.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    radius.talkers.push_back({std::get<0>(key), std::get<1>(key) == WEIR_SIDE_SOURCE ? "src" : "dst", std::get<2>(key),
                              share(sum.weight), sum.samples, most->first});
  }
  std::stable_sort(radius.talkers.begin(), radius.talkers.end(),
                   [](const auto& a, const auto& b) { return a.share.value > b.share.value; });
  if (radius.talkers.size() > kMostTalkers) radius.talkers.resize(kMostTalkers);
  return radius;
}

}  // namespace weir::control
