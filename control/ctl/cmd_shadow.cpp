#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "common/files.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/tell/answer/change.h"

namespace weir::control::ctl {

namespace cmd_shadow {

constexpr size_t kMostShown = 20;

struct Wanted {
  std::string file, one_in;
  bool promote = false, discard = false;
};

std::string share(uint64_t frames, uint64_t of) {
  return of == 0 ? "-" : percent(static_cast<double>(frames) / static_cast<double>(of));
}

void show_targets(const ShadowAnswer& answer) {
  Table table({{"target"},
               {"packets", Table::Align::right},
               {"newly dropped", Table::Align::right},
               {"newly passed", Table::Align::right},
               {"cycles a packet", Table::Align::right},
               {"since"},
               {""}});
  for (const ShadowTargetRow& target : answer.targets) {
    const std::string cycles = target.cycles        ? fmt::format("{:.0f}", *target.cycles)
                               : target.nanoseconds ? fmt::format("{:.0f} ns", *target.nanoseconds)
                                                    : "-";
    table.row({target.socket, count(target.packets), count(target.difference.newly_dropped),
               count(target.difference.newly_passed), cycles, target.since == 0 ? "-" : age(target.since),
               target.error});
  }
  print("\n{}", table.text());
}

void show_lists(const ShadowAnswer& answer) {
  if (answer.lists.empty()) return;
  Table table({{"list"},
               {"newly dropped", Table::Align::right},
               {"bytes", Table::Align::right},
               {"newly passed", Table::Align::right},
               {"bytes", Table::Align::right}});
  for (const ShadowListRow& list : answer.lists) {
    const ShadowDifference& difference = list.difference;
    table.row({list.list, count(difference.newly_dropped), bytes(difference.newly_dropped_bytes),
               count(difference.newly_passed), bytes(difference.newly_passed_bytes)});
  }
  print("\n{}", table.text());
}

void show_flows(const ShadowAnswer& answer) {
  if (answer.flows.empty()) return;
  Table table({{"sampled", Table::Align::right}, {"packet"}, {"what runs"}, {"the candidate"}});
  for (size_t i = 0; i < answer.flows.size() && i < kMostShown; i++) {
    const ShadowFlowRow& flow = answer.flows[i];
    table.row({count(flow.frames), flow.packet.empty() ? "(headers not understood)" : flow.packet, flow.running,
               flow.candidate});
  }
  print("\n{}", table.text());
  if (answer.flows.size() > kMostShown) print("... and {} more (--json)\n", answer.flows.size() - kMostShown);
}

void show(const ShadowAnswer& answer) {
  print_diagnostics(answer.diagnostics.kept());
  if (answer.file.empty()) {
    if (answer.ok) return print("no shadow: `controlctl shadow FILE` begins one\n");
    return print(stderr, "no shadow: {}\n", reason_text(answer.diagnostics, answer.error));
  }
  print("{}: {} of {}, begun {} beside generation {}; generation {} runs\n", answer.file,
        answer.on ? "the shadow" : "the last shadow, " + answer.ended,
        answer.one_in == 1 ? "all packets" : "one batch of packets in " + count(answer.one_in), age(answer.at),
        answer.beside.number, answer.generation.number);
  print("candidate {}: {}, {}, digest {}\n", answer.candidate.number, plural(answer.entries, "entry", "entries"),
        bytes(answer.snapshot_bytes), answer.digest);
  const ShadowDifference& difference = answer.difference;
  print("\n{} judged; newly dropped {} ({}, {}), newly passed {} ({}, {})\n",
        plural(answer.packets, "packet", "packets"), count(difference.newly_dropped),
        share(difference.newly_dropped, answer.packets), bytes(difference.newly_dropped_bytes),
        count(difference.newly_passed), share(difference.newly_passed, answer.packets),
        bytes(difference.newly_passed_bytes));
  show_lists(answer);
  show_flows(answer);
  show_targets(answer);
  if (!answer.error.empty()) {
    std::fflush(stdout);
    print(stderr, "shadow: {}\n", answer.error);
  }
}

void show_promoted(const PromoteAnswer& answer) {
  print_reload(answer.reload);
  const bool published = !answer.reload.targets.empty() || answer.reload.ok;
  if (!published) return;
  print("judged as a shadow: {}\nenforced now:       {}{}\n", answer.judged_digest, answer.enforced_digest,
        answer.overlay_digest.empty() ? "" : ", and on it what changed since: " + answer.overlay_digest);
  std::fflush(stdout);
  if (!answer.reload.notice.empty()) print(stderr, "note: {}\n", answer.reload.notice);
}

int begin(const Context& context, const Wanted& wanted) {
  Request request{"shadow-begin"};
  request.one_in = 1;
  if (!wanted.one_in.empty()) {
    uint32_t one_in = 0;
    const char* last = wanted.one_in.data() + wanted.one_in.size();
    const auto [end, error] = std::from_chars(wanted.one_in.data(), last, one_in);
    if (error != std::errc() || end != last || one_in == 0 || one_in > wire::kMostShadowOneIn) {
      print(stderr, "controlctl: --one-in is `{}`: it must be a number from 1 to {}\n", wanted.one_in,
            wire::kMostShadowOneIn);
      return kUsage;
    }
    request.one_in = one_in;
  }
  constexpr size_t kMostBytes = size_t{16} << 20;  // of a request
  const Result<std::string> text = read_file(wanted.file, kMostBytes);
  if (!text) {
    print(stderr, "controlctl: {}\n", text.error());
    return kUsage;
  }
  std::error_code none;
  request.path = std::filesystem::absolute(wanted.file, none).lexically_normal().string();
  request.policy = *text;
  return ctl::request(context, request, show);
}

int run(const Context& context, const Wanted& wanted) {
  const int n_wanted = !wanted.file.empty() + wanted.promote + wanted.discard;
  if (n_wanted > 1) {
    print(stderr, "controlctl: a shadow begins (FILE), is promoted or is discarded: one of the three\n");
    return kUsage;
  }
  if (!wanted.one_in.empty() && wanted.file.empty()) {
    print(stderr, "controlctl: --one-in belongs to the FILE of a shadow that begins\n");
    return kUsage;
  }
  if (!wanted.file.empty()) return begin(context, wanted);
  if (wanted.promote) return ctl::request(context, {"shadow-promote"}, show_promoted);
  return ctl::request(context, {wanted.discard ? "shadow-discard" : "shadow"}, show);
}

Run configure(Options& options) {
  auto wanted = std::make_shared<Wanted>();
  options.argument("FILE", wanted->file, "the policy of a candidate; without it, what the shadow has counted").files();
  options.text("--one-in", "N", wanted->one_in, "judge one batch of packets in so many; all when it is left out");
  options.flag("--promote", wanted->promote, "publish exactly the bytes that judged, and end the shadow");
  options.flag("--discard", wanted->discard, "end the shadow");
  return [wanted](const Context& context) { return run(context, *wanted); };
}

}  // namespace cmd_shadow

const Command kShadow = {
    "shadow",
    Group::change,
    "have live packets judged by another policy too, and see what it would change",
    "Changes nothing that is enforced: what the candidate would newly drop, or newly pass, is counted by list, "
    "and sampled. Changes and reloads go on beside it; entries that `add` and `del` change "
    "afterwards are in what runs alone, and `--promote` takes them along. It ends when controld stops; a "
    "target that starts anew begins its counts anew.",
    cmd_shadow::configure,
    [](MemberTable& table) {
      table.add<ShadowAnswer>("shadow");
      table.add<PromoteAnswer>("shadow --promote");
    }};

}  // namespace weir::control::ctl
