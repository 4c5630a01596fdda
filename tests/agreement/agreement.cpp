#include "tests/agreement/agreement.h"

#include <fmt/format.h>
#include <rte_mbuf.h>

#include <bit>

#include "common/bits.h"
#include "control/compile/merge/merge.h"
#include "dataplane/burst/stages.h"
#include "filter/probe/dispatch.h"
#include "tests/reference/frames.h"

namespace weir::agreement {

using control::operator|;

namespace {

constexpr size_t kMaxSegments = 3;
// Up to so many entries the reference asks every one for every packet; above, it uses its index.
constexpr uint64_t kAskEvery = 600;

uint64_t entries_of(const control::Policy& policy) {
  uint64_t entries = 0;
  for (const control::List& list : policy.lists) entries += list.entries();
  return entries;
}

// A frame in one or more buffers of just its bytes, without EAL.
class Packet {
 public:
  void set(const Frame& frame, Choices& cuts) {
    const size_t n = cuts.one_in(16) ? 1 + cuts.below(kMaxSegments) : 1;
    size_t begin = 0;
    for (size_t s = 0; s < n; s++) {
      const size_t left = frame.size() - begin;
      const size_t take = s + 1 == n ? left : cuts.below(static_cast<uint32_t>(left + 1));
      rte_mbuf& segment = segments_[s];
      bytes_[s].assign(frame.begin() + static_cast<ptrdiff_t>(begin),
                       frame.begin() + static_cast<ptrdiff_t>(begin + take));
      bytes_[s].shrink_to_fit();
      segment = {};
      segment.buf_addr = bytes_[s].data();
      segment.data_len = static_cast<uint16_t>(take);
      if (s > 0) segments_[s - 1].next = &segment;
      begin += take;
    }
    segments_[0].pkt_len = static_cast<uint32_t>(frame.size());
    segments_[0].nb_segs = static_cast<uint16_t>(n);
  }
  rte_mbuf* mbuf() { return segments_; }

 private:
  rte_mbuf segments_[kMaxSegments] = {};
  std::vector<uint8_t> bytes_[kMaxSegments];
};

// Frames that are judged together.
constexpr size_t kUnderWay = 64;
thread_local Packet under_way[kUnderWay];
const dataplane::Route kRoute = {};

weir_set set_of(const std::vector<unsigned>& lists) {
  weir_set set = {};
  for (const unsigned list : lists) control::add_list(set, list);
  return set;
}

std::vector<unsigned> lists_of(const weir_set& set) {
  std::vector<unsigned> lists;
  for (unsigned list = 0; list < WEIR_MAX_LISTS; list++) {
    if (control::has_list(set, list)) lists.push_back(list);
  }
  return lists;
}

bool same(const weir_set& a, const weir_set& b) {
  return memcmp(&a, &b, sizeof a) == 0;
}

constexpr bool is_set(uint64_t mask, uint32_t i) {
  return (mask >> i & 1) != 0;
}

}  // namespace

std::string describe(const Frame& frame) {
  std::string text;
  for (const uint8_t byte : frame) text += fmt::format("{}{:#04x}", text.empty() ? "{" : ", ", byte);
  return text + "}";
}

Compared& Compared::operator+=(const Compared& more) {
  packets += more.packets;
  dropped += more.dropped;
  malformed += more.malformed;
  incomplete += more.incomplete;
  hits += more.hits;
  layered += more.layered;
  disagreements += more.disagreements;
  by_xdp += more.by_xdp;
  layouts |= more.layouts;
  return *this;
}

Agreement::Agreement(std::unique_ptr<DataPlane> data_plane, const filter::Kernels& kernels, XdpPlane* xdp)
    : data_plane_(std::move(data_plane)), loop_(*this, std::span(&kRoute, 1), kernels, counters_), xdp_(xdp) {
  if (xdp_ != nullptr) xdp_before_ = xdp_->stats();
}

Result<std::unique_ptr<Agreement>> Agreement::open(XdpPlane* xdp) {
  const auto kernels = filter::choose_kernels();
  if (!kernels) return Error{kernels.error()};
  Result<std::unique_ptr<DataPlane>> data_plane = DataPlane::open();
  if (!data_plane) return Error{data_plane.error()};
  return std::unique_ptr<Agreement>(new Agreement(std::move(*data_plane), **kernels, xdp));
}

Result<std::unique_ptr<Agreement>> Agreement::open(const control::Policy& policy, uint64_t secret, XdpPlane* xdp) {
  Result<std::unique_ptr<Agreement>> agreement = open(xdp);
  if (!agreement) return agreement;
  const Result<control::Publication> publication = snapshot_of(policy, secret, (*agreement)->next_generation());
  if (!publication) return Error{publication.error()};
  if (auto ok = (*agreement)->publish(policy, *publication); !ok) return Error{ok.error()};
  return agreement;
}

Result<void> Agreement::publish(const control::Policy& policy, const control::Publication& publication) {
  if (auto ok = data_plane_->publish(publication); !ok) return Error{"data plane: " + ok.error()};
  if (xdp_ != nullptr) {
    if (auto ok = xdp_->publish(publication); !ok) return Error{"XDP: " + ok.error()};
  }
  const reference::Counters so_far = judge_ ? judge_->counters() : reference::Counters();
  const bool is_small = entries_of(policy) <= kAskEvery;
  policy_ = &policy;
  judge_.emplace(policy, is_small ? reference::Ask::every_entry : reference::Ask::the_index, so_far);
  const dataplane::Snapshot& enforced = data_plane_->enter();
  for (const dataplane::Copies* copies : {enforced.base().get(), enforced.overlay()}) {
    if (copies == nullptr) continue;
    for (const filter::ShapeView& shape : copies->view().shapes()) compared_.layouts |= 1u << shape.layout;
  }
  data_plane_->leave();
  return {};
}

Result<void> Agreement::restart() {
  if (auto ok = data_plane_->restart(); !ok) return Error{"data plane: " + ok.error()};
  if (xdp_ == nullptr) return {};
  if (auto ok = xdp_->restart(); !ok) return Error{"XDP: " + ok.error()};
  return {};
}

std::optional<std::string> Agreement::judge(std::span<const Frame> frames, uint64_t now, Choices& cuts) {
  dataplane::NoWatch no_watch;
  if (xdp_ != nullptr) xdp_->set_now(now);
  const dataplane::WorkerSnapshot& mine = data_plane_->enter().of_worker(0);
  judging_ = {};
  judging_.now = now;
  judging_.cuts = &cuts;
  for (size_t begin = 0; begin < frames.size(); begin += kUnderWay) {
    judging_.frames = frames.subspan(begin, std::min<size_t>(kUnderWay, frames.size() - begin));
    judging_.received = judging_.left = 0;
    while (loop_.poll(kRoute, mine, now, no_watch)) {
    }
    loop_.finish(no_watch);
    if (judging_.left != low_bits(static_cast<uint32_t>(judging_.frames.size()))) {
      judging_.problem =
          fmt::format("of {} frames these did not come out: mask {:#x}", judging_.frames.size(), ~judging_.left);
      compared_.disagreements++;
      break;
    }
  }
  data_plane_->leave();
  return std::move(judging_.problem);
}

// Receptions of many sizes: some wait for the next one, some do not.
uint32_t Agreement::receive(const dataplane::Route&, uint32_t most, rte_mbuf** frames) {
  const size_t left = judging_.frames.size() - judging_.received;
  const auto n = static_cast<uint32_t>(std::min<size_t>({left, most, 1 + judging_.cuts->below(2 * kUnderWay)}));
  for (uint32_t i = 0; i < n; i++) {
    Packet& packet = under_way[judging_.received];
    packet.set(judging_.frames[judging_.received++], *judging_.cuts);
    frames[i] = packet.mbuf();
  }
  return n;
}

void Agreement::judged(dataplane::Burst& burst, uint64_t frames, const dataplane::Route&) {
  for (uint64_t left = frames; left != 0; left &= left - 1) {
    const auto slot = static_cast<uint32_t>(std::countr_zero(left));
    for (uint32_t i = 0; i < judging_.frames.size(); i++) {
      if (burst.pkt[slot] != under_way[i].mbuf()) continue;
      if (is_set(judging_.left, i)) judging_.problem = "a frame came out twice";
      judging_.left |= bit(i);
      compare(burst, slot, judging_.frames[i]);
    }
  }
}

void Agreement::compare(const dataplane::Burst& burst, uint32_t slot, const Frame& frame) {
  const reference::Judged expected = judge_->judge(frame, judging_.now);
  const bool not_ip = expected.kind == reference::FrameKind::not_ip;
  const bool malformed = expected.kind == reference::FrameKind::malformed;
  compared_ += {1,
                expected.verdict.action == WEIR_DROP,
                malformed,
                expected.incomplete,
                !expected.verdict.matched.empty(),
                expected.layers > 1,
                0,
                0};
  if (xdp_ != nullptr) {
    if (auto differs = compare_xdp(frame, expected.verdict.action == WEIR_DROP)) {
      compared_.disagreements++;
      if (!judging_.problem) judging_.problem = std::move(differs);
    }
  }
  weir_set matched = {};
  const auto add = [&](uint32_t at) {
    if (is_set(burst.hit, at)) matched = matched | dataplane::lists_of(burst, at);
  };
  add(slot);
  const uint32_t n_inner = is_set(burst.layered, slot) ? burst.n_inner[slot] : 0;
  for (uint32_t layer = 0; layer < n_inner; layer++) add(burst.inner[slot] - layer);

  const bool drops = is_set(burst.drop, slot);
  const bool agree = drops == (expected.verdict.action == WEIR_DROP) &&
                     same(matched, set_of(expected.verdict.matched)) && is_set(burst.not_ip, slot) == not_ip &&
                     is_set(burst.malformed, slot) == malformed &&
                     is_set(burst.incomplete, slot) == expected.incomplete;
  compared_.disagreements += !agree;
  if (agree || judging_.problem) return;
  const auto text = [](bool drop, bool other, bool bad, bool cut, const std::vector<unsigned>& lists) {
    std::string names;
    for (const unsigned list : lists) names += " " + std::to_string(list);
    return fmt::format("{}{}{}{}, lists{}", drop ? "drop" : "pass", other ? ", not_ip" : "", bad ? ", malformed" : "",
                       cut ? ", incomplete" : "", names.empty() ? " none" : names);
  };
  judging_.problem = fmt::format(
      "data plane: {}; reference: {}; frame {}",
      text(drops, is_set(burst.not_ip, slot), is_set(burst.malformed, slot), is_set(burst.incomplete, slot),
           lists_of(matched)),
      text(expected.verdict.action == WEIR_DROP, not_ip, malformed, expected.incomplete, expected.verdict.matched),
      describe(frame));
}

std::optional<std::string> Agreement::compare_xdp(const Frame& frame, bool drops) {
  if (frame.size() < kLeastXdpFrame) {
    too_short_.add(frame.size());
    return std::nullopt;
  }
  compared_.by_xdp++;
  const Result<bool> dropped = xdp_->drops(frame);
  if (!dropped) return "XDP: " + dropped.error();
  if (*dropped == drops) return std::nullopt;
  return fmt::format("XDP: {}; reference: {}; frame {}", *dropped ? "drop" : "pass", drops ? "drop" : "pass",
                     describe(frame));
}

std::optional<std::string> Agreement::check_xdp_counters() const {
  std::string problems;
  const auto check = [&](const std::string& name, uint64_t found, uint64_t before, uint64_t wanted) {
    if (found - before != wanted) problems += fmt::format("{} {} of {}; ", name, found - before, wanted);
  };
  const wire::Stats now = xdp_->stats();
  const wire::Totals &totals = now.body.totals, &before = xdp_before_.body.totals;
  const reference::Counters& expected = judge_->counters();
  const bool short_ones_drop = policy_->unparsed_action == WEIR_DROP;
  const uint64_t too_short = too_short_.packets;
  check("packets", totals.packets, before.packets, expected.packets.packets - too_short);
  check("bytes", totals.bytes, before.bytes, expected.packets.bytes - too_short_.bytes);
  check("passed", totals.passed, before.passed, expected.passed - (short_ones_drop ? 0 : too_short));
  check("dropped", totals.dropped, before.dropped, expected.dropped - (short_ones_drop ? too_short : 0));
  check("malformed", totals.malformed, before.malformed, expected.malformed - too_short);
  check("not_ip", totals.not_ip, before.not_ip, expected.not_ip);
  check("incomplete", totals.incomplete, before.incomplete, expected.incomplete);
  check("default_passed", totals.default_passed, before.default_passed, expected.default_passed);
  check("default_dropped", totals.default_dropped, before.default_dropped, expected.default_dropped);
  for (size_t l = 0; l < expected.lists.size(); l++) {
    const std::string& name = policy_->lists[l].name;
    const auto named = [&](const wire::ListStats& list) { return wire::get_text(list.name) == name; };
    const auto found = std::find_if(now.lists.begin(), now.lists.end(), named);
    const auto former = std::find_if(xdp_before_.lists.begin(), xdp_before_.lists.end(), named);
    if (found == now.lists.end()) return "XDP: list " + name + " is not counted";
    const wire::ListStats zero = {}, &from = former == xdp_before_.lists.end() ? zero : *former;
    const reference::ListTally& wanted = expected.lists[l];
    check(name + " matched", found->matched, from.matched, wanted.matched.packets);
    check(name + " dropped", found->dropped, from.dropped, wanted.dropped.packets);
    check(name + " passed", found->passed, from.passed, wanted.passed.packets);
    check(name + " would_drop", found->would_drop, from.would_drop, wanted.would_drop.packets);
    check(name + " matched bytes", found->matched_bytes, from.matched_bytes, wanted.matched.bytes);
    check(name + " dropped bytes", found->dropped_bytes, from.dropped_bytes, wanted.dropped.bytes);
    check(name + " passed bytes", found->passed_bytes, from.passed_bytes, wanted.passed.bytes);
    check(name + " would_drop bytes", found->would_drop_bytes, from.would_drop_bytes, wanted.would_drop.bytes);
    check(name + " dropped_alone", found->dropped_alone, from.dropped_alone, wanted.dropped_alone.packets);
    check(name + " would_drop_alone", found->would_drop_alone, from.would_drop_alone, wanted.would_drop_alone.packets);
    check(name + " dropped_alone bytes", found->dropped_alone_bytes, from.dropped_alone_bytes,
          wanted.dropped_alone.bytes);
    check(name + " would_drop_alone bytes", found->would_drop_alone_bytes, from.would_drop_alone_bytes,
          wanted.would_drop_alone.bytes);
  }
  if (problems.empty()) return std::nullopt;
  return "XDP counters differ: " + problems;
}

std::optional<std::string> Agreement::check_counters() const {
  if (xdp_ != nullptr) {
    if (auto differs = check_xdp_counters()) return differs;
  }
  std::string problems;
  const auto check = [&](const std::string& name, uint64_t found, uint64_t wanted) {
    if (found != wanted) problems += fmt::format("{} {} of {}; ", name, found, wanted);
  };
  const reference::Counters& expected = judge_->counters();
  check("packets", counters_.packets.get(), expected.packets.packets);
  check("bytes", counters_.bytes.get(), expected.packets.bytes);
  check("passed", counters_.passed.get(), expected.passed);
  check("dropped", counters_.dropped.get(), expected.dropped);
  check("malformed", counters_.malformed.get(), expected.malformed);
  check("not_ip", counters_.not_ip.get(), expected.not_ip);
  check("incomplete", counters_.incomplete.get(), expected.incomplete);
  check("default_passed", counters_.default_passed.get(), expected.default_passed);
  check("default_dropped", counters_.default_dropped.get(), expected.default_dropped);
  const std::vector<wire::ListStats> stats = data_plane_->lists();
  for (size_t l = 0; l < expected.lists.size(); l++) {
    const auto check_list = [&](const char* name, uint64_t packets, uint64_t bytes, const reference::Tally& wanted) {
      check(fmt::format("list {} {}", policy_->lists[l].name, name), packets, wanted.packets);
      check(fmt::format("list {} {} bytes", policy_->lists[l].name, name), bytes, wanted.bytes);
    };
    const reference::ListTally& wanted = expected.lists[l];
    check_list("matched", stats[l].matched, stats[l].matched_bytes, wanted.matched);
    check_list("dropped", stats[l].dropped, stats[l].dropped_bytes, wanted.dropped);
    check_list("passed", stats[l].passed, stats[l].passed_bytes, wanted.passed);
    check_list("would_drop", stats[l].would_drop, stats[l].would_drop_bytes, wanted.would_drop);
    check_list("dropped_alone", stats[l].dropped_alone, stats[l].dropped_alone_bytes, wanted.dropped_alone);
    check_list("would_drop_alone", stats[l].would_drop_alone, stats[l].would_drop_alone_bytes, wanted.would_drop_alone);
  }
  if (problems.empty()) return std::nullopt;
  return "counters differ: " + problems;
}

}  // namespace weir::agreement
