#include <algorithm>
#include <cstdio>
#include <memory>

#include "common/clock.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/explain_frame.h"
#include "control/ctl/explain_text.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/model/time_text.h"
#include "control/tell/answer/explain.h"

// Walks a key through the running generation: key -> shapes -> page, line, bits -> rule -> lists -> file and line.
namespace weir::control::ctl {

namespace cmd_explain {

void show(const PacketExplanation& explanation) {
  print("{}: {}\n", explanation.packet, verdict_text(explanation.verdict));
  show_table("entries that match it", table_of(explanation.origins, true, origin_table()));
  show_more(explanation.origins.size(), explanation.n_origins);
  show_own(explanation.own);
  show_provenance(explanation.origins);
}

void show(const Explanation& explanation) {
  print("{} as source: {}\n", explanation.key, verdict_text(explanation.as_source));
  print("{} as destination: {}\n", explanation.key, verdict_text(explanation.as_destination));
  const Table alone = table_of(explanation.origins, true, origin_table());
  const Table more = table_of(explanation.of_ports, false, table_of(explanation.origins, false, origin_table()));
  if (alone.empty() && more.empty()) print("\nno entry names it\n");
  show_table("entries that name it", alone);
  show_table("entries that ask for more of a packet, or have ended", more);
  show_more(explanation.origins.size() + explanation.of_ports.size(), explanation.n_origins + explanation.n_of_ports);
  show_own(explanation.own);
  show_provenance(explanation.origins);
  show_provenance(explanation.of_ports);
}

// How the filters were asked.
void show_probes(const Explanation& explanation) {
  for (const ShapeProbe& probe : explanation.probes) {
    print("\nkey type {}: key {}\n  filter  {}, {}: {}\n", probe.shape, probe.key, probe.layout, bits_text(probe),
          filter_said(probe));
    if (probe.rule != 0) {
      print("  exact   rule {}: lists as source: {}; as destination: {}\n", probe.rule, joined(probe.source_lists),
            joined(probe.destination_lists));
    }
    for (const ShapeCondition& condition : probe.conditions) {
      print("  asks    as {}, {}: lists {}\n", condition.side, condition.text, joined(condition.lists));
    }
  }
  if (explanation.probes.empty()) print("\nno filter is asked about such a key alone\n");
  if (explanation.flow_shapes.empty()) return;
  print("\nkey types that need more of a packet: {}\n", joined(explanation.flow_shapes));
}

void show_answer(const ExplainAnswer& answer) {
  if (!answer.now.empty()) print("{}\n", answer.now);
  if (answer.of_packet) show(*answer.of_packet);
  if (answer.of_key) show(*answer.of_key);
  if (answer.of_frame) show_frame(*answer.of_frame);
  print("\ngeneration {}\n", generation_text(answer.generation));
  if (answer.then) print("published: {}\n", moment_text(*answer.then));
  if (!answer.notice.empty()) print("{}\n", answer.notice);
}

void show_verbose(const ExplainAnswer& answer) {
  show_answer(answer);
  if (answer.of_key && answer.notice.empty()) show_probes(*answer.of_key);
  if (answer.of_frame) show_filters(*answer.of_frame);
}

// Says what is wrong.
bool read_time(const std::string& text, Request& asked) {
  const auto now = unix_now();
  if (const auto time = parse_time(text); time && *time != kNever) {
    asked.at = *time;
  } else if (const auto ago = parse_duration(text)) {
    asked.at = std::max<int64_t>(now - int64_t{*ago}, 0);
  } else {
    print(stderr, "controlctl: --at is '{}': it must be a time like 2026-12-01T00:00:00Z, or how long ago, as 2h\n",
          text);
    return false;
  }
  if (*asked.at <= now) return true;
  print(stderr, "controlctl: --at is '{}': that is still to come\n", text);
  return false;
}

Run configure(Options& options) {
  auto key = std::make_shared<std::string>();
  auto frame = std::make_shared<FrameArguments>();
  auto verbose = std::make_shared<bool>(false);
  auto at = std::make_shared<std::string>();
  auto generation = std::make_shared<unsigned>(0);
  options.argument(
      "KEY", *key,
      "an address, a.b.c.d:port, [v6]:port, or a packet: 'src 10.0.0.1 dst 203.0.113.9 proto tcp dport 443'");
  add_frame_options(options, *frame);
  options.exactly_one({"KEY", "--packet", "--pcap"});
  options.text("--at", "TIME", *at, "what was enforced then: 2026-12-01T00:00:00Z, or how long ago, as 2h or 3d");
  options.number("--generation", "N", *generation, "what this generation enforced (`controlctl history` lists them)")
      .range(1, 4294967295.0);
  options.flag("--verbose", *verbose,
               "also how the filters were asked about an address or a frame: pages, lines, bits");
  return [key, frame, verbose, at, generation](const Context& context) {
    Request asked{"explain"};
    if (!at->empty() && !read_time(*at, asked)) return static_cast<int>(kUsage);
    if (*generation != 0) asked.number = *generation;
    if (*verbose) asked.verbose = true;
    if (!key->empty() || !frame->is_given()) {
      asked.key = *key;
    } else if (!read_frame(context, *frame, asked)) {
      return static_cast<int>(kFailed);
    }
    return request(context, asked, *verbose ? show_verbose : show_answer);
  };
}

}  // namespace cmd_explain

const Command kExplain = {
    "explain",
    Group::everyday,
    "why an address, a packet or a frame drops or passes: verdict, list, entry, file and line",
    "The verdict on an address is that of a packet with this key in which nothing else matches. "
    "Of a frame every layer is judged, outer and in tunnels: the keys that are looked up, what is "
    "found, the conditions of a rule and whether they hold. With --at or --generation the answer is that of what was "
    "enforced then, as far as `history` of the policy keeps it.",
    cmd_explain::configure,
    [](MemberTable& table) { table.add<ExplainAnswer>("explain"); },
    false,
    "why find lookup"};

}  // namespace weir::control::ctl
