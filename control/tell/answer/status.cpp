#include "control/tell/answer/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "control/compile/plan/gates.h"
#include "control/compile/plan/plan.h"
#include "control/enforce/rates/binomial.h"
#include "control/enforce/targets/target.h"
#include "control/tell/answer/text.h"
#include "filter/format/packet.h"
#include "filter/layouts/layout.h"

namespace weir::control {

// -------------------------------------------------------------------------------------------------- false positives

void members(Fields& f, FilterRate& rate) {
  f({"target", "", "its socket"}, rate.target);
  f({"shape", "", "name of the shape"}, rate.shape);
  f({"overlay", "", "of the overlay; false: of the base"}, rate.overlay);
  f({"verdict", "", "inside, above or below what is predicted"}, rate.verdict);
  f({"since", "Unix seconds", "the verdict holds"}, rate.since);
  f({"predicted", "share", "keys of nobody that the filter lets through, as its bits say, 0 to 1"}, rate.predicted);
  f({"keys", "", "different keys of nobody, sampled of late from the traffic"}, rate.keys);
  f({"keys_let_through", "", "of these, that the filter lets through"}, rate.keys_let_through);
  f.maybe({"rate", "share", "keys_let_through of keys; missing: no key was sampled"}, rate.rate);
  f.maybe({"low", "share", "where its 95 % confidence interval begins (Clopper and Pearson)"}, rate.low);
  f.maybe({"high", "share", "where it ends"}, rate.high);
  f({"asked", "", "keys of all packets that the filter was asked for since it is enforced"}, rate.asked);
  f({"let_through", "", "of these, that it let through"}, rate.let_through);
  f({"found", "", "of these, that are on a list; the others were refused by the exact stage"}, rate.found);
  f.maybe({"of_lookups", "share", "refused of the keys of nobody, each as often as it came; missing: none came"},
          rate.of_lookups);
}

FilterRate filter_rate_of(const std::string& target, const WatchedRate& watched) {
  const wire::ShapeProbes& counts = watched.counts;
  FilterRate rate;
  rate.target = target;
  rate.shape = watched.shape;
  rate.overlay = counts.of_overlay != 0;
  rate.verdict = verdict_name(watched.verdict);
  rate.since = watched.since;
  rate.predicted = watched.predicted.rate;
  rate.keys = counts.absent;
  rate.keys_let_through = counts.absent_let_through;
  rate.asked = counts.asked;
  rate.let_through = counts.let_through;
  rate.found = counts.found;
  if (rate.keys > 0) {
    const Interval interval = clopper_pearson(rate.keys_let_through, rate.keys);
    rate.rate = static_cast<double>(rate.keys_let_through) / static_cast<double>(rate.keys);
    rate.low = interval.low;
    rate.high = interval.high;
  }
  if (rate.asked > rate.found && rate.let_through >= rate.found) {
    rate.of_lookups = static_cast<double>(rate.let_through - rate.found) / static_cast<double>(rate.asked - rate.found);
  }
  return rate;
}

std::vector<FilterRate> filter_rates_of(const RateWatch& watch, const Digest& base, const Digest& overlay) {
  std::vector<FilterRate> rates;
  for (const auto& [target, of] : watch.targets()) {
    if (!std::equal(base.begin(), base.end(), of.base_digest)) continue;
    const bool has_overlay = std::equal(overlay.begin(), overlay.end(), of.overlay_digest);
    for (const WatchedRate& watched : of.rates) {
      if (watched.counts.of_overlay == 0 || has_overlay) rates.push_back(filter_rate_of(target, watched));
    }
  }
  return rates;
}

bool is_outside(const FilterRate& rate) {
  return rate.verdict != verdict_name(RateVerdict::inside);
}

std::string shape_text(const FilterRate& rate) {
  return rate.overlay ? rate.shape + " of the overlay" : rate.shape;
}

std::string rate_text(const FilterRate& rate) {
  if (!rate.rate || !rate.low || !rate.high) return "-";
  return fmt::format("{} ({} to {})", percent(*rate.rate), percent(*rate.low), percent(*rate.high));
}

std::string predicted_text(const FilterRate& rate) {
  return percent(rate.predicted);
}

std::string outside_text(const FilterRate& rate) {
  return fmt::format("The filter of {} lets {} of the keys of nobody through at {}, where {} is predicted",
                     shape_text(rate), rate_text(rate), rate.target, percent(rate.predicted));
}

std::string outside_hint(const FilterRate& rate) {
  return rate.verdict == verdict_name(RateVerdict::above)
             ? "Nothing is dropped wrongly, but packets cost more. Somebody may know the filter's secret: "
               "`controlctl rebuild` draws another one."
             : "Bits of the filter may be lost, and entries with them: `controlctl rebuild` builds it anew.";
}

// ----------------------------------------------------------------------------------------------------------- shapes

namespace {

constexpr const char* kGateKinds[] = {"open", "closed", "tables"};  // in the order of weir_gate_kind
constexpr std::pair<weir_flow_field, const char*> kFlowFields[] = {
    {WEIR_FLOW_PROTOCOL, "proto"}, {WEIR_FLOW_SPORT, "sport"}, {WEIR_FLOW_DPORT, "dport"}};

void flag(Fields& f, const Member& member, uint8_t& value) {
  bool is_set = value != 0;
  f(member, is_set);
  if (f.reading()) value = is_set;
}

void flow_fields(Fields& f, uint8_t& mask) {
  std::vector<std::string> names;
  for (const auto& [field, name] : kFlowFields) {
    if ((mask & field) != 0) names.emplace_back(name);
  }
  f.texts({"flow_fields", "", "of a flow shape: proto, sport, dport"}, names);
  if (!f.reading()) return;
  mask = 0;
  for (const auto& [field, name] : kFlowFields) {
    if (std::find(names.begin(), names.end(), name) != names.end()) mask = static_cast<uint8_t>(mask | field);
  }
}

}  // namespace

void members(Fields& f, ShapeReport& report) {
  weir_shape& shape = report.shape;
  f({"name", "", "as v4 addr/32, v4 dst/32 + proto + dport"}, report.name);
  f({"family", "", "4 or 6"}, shape.family);
  f({"addr_bits", "bits", "leading bits of the address in a key; of a flow shape, of the source"}, shape.addr_bits);
  flag(f, {"with_port", "", "a key has a port, too"}, shape.with_port);
  flag(f, {"flow", "", "a key has fields of both sides"}, shape.flow);
  f({"destination_bits", "bits", "of a flow shape: leading bits of the destination in a key"}, shape.destination_bits);
  flow_fields(f, shape.flow_fields);
  std::string layout = layout_name(report);
  f({"layout", "", "of the filter: line8, page2, page7, ribbon, bitmap"}, layout);
  f({"layout_why", "", "why this layout; may be empty"}, report.layout_why);
  f({"k", "bits", "of a key in the filter"}, shape.k);
  f({"bits_per_key", "bits", "of the filter, for each key; 0 for a bitmap"}, report.bits_per_key);
  directions(f, {"directions", "", "src, dst: sides of a packet that are looked up"}, shape.directions);
  f({"keys", "", "that are in it"}, shape.n_keys);
  f({"filter_bytes", "bytes", "of the filter"}, shape.filter.size_bytes);
  uint64_t exact_bytes = exact_bytes_of(report);
  f({"exact_bytes", "bytes", "of the exact stage"}, exact_bytes);
  f({"expected_fpr", "share", "keys of nobody that the filter will say yes to, 0 to 1"}, report.expected_fpr);
  f.maybe({"measured_fpr", "share", "of random keys of nobody, before publication"}, report.measured_fpr);
  f({"why", "", "which prefix lengths it serves, how many keys came from expansion"}, report.why);
  if (!f.reading()) return;
  if (const filter::Layout* known = filter::layout_named(layout)) shape.layout = known->id;
  shape.exact.size_bytes = exact_bytes;
}

void members(Fields& f, weir_gate_table& table) {
  f({"prefix_bits", "bits", "leading bits of an address that it looks at"}, table.prefix_bits);
  f({"words", "", "of 64 bits, in which a value has three; 0: a bit for each value"}, table.n_words);
  f({"bytes", "bytes", "of it"}, table.bits.size_bytes);
}

void members(Fields& f, GateReport& report) {
  weir_gate& gate = report.gate;
  uint8_t side = report.side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
  std::string kind = name_of_kind(report);
  const std::span<const weir_gate_table> known = tables_of(report);
  std::vector<weir_gate_table> tables(known.begin(), known.end());
  std::string plane = report.is_of_xdp ? "xdp" : "dataplane";
  f({"name", "", "as v4 src"}, report.name);
  f({"plane", "", "dataplane, or xdp"}, plane);
  f({"family", "", "4 or 6"}, report.family);
  directions(f, {"side", "", "src or dst: whose addresses it lets through or not"}, side);
  f({"kind", "", "open: lets all through; closed: none, nothing is looked up there; tables"}, kind);
  f.array({"tables", "", "of its bits; an address that one of them knows passes"}, tables, "gate table");
  f({"expected_share", "share", "of random addresses that pass, as its bits say, 0 to 1"}, report.expected_share);
  f.maybe({"measured_share", "share", "of random addresses that passed before publication"}, report.measured_share);
  f({"why", "", "why it is as it is"}, report.why);
  if (!f.reading()) return;
  report.is_of_xdp = plane == "xdp";
  report.side = side == WEIR_AS_SOURCE ? WEIR_SIDE_SOURCE : WEIR_SIDE_DESTINATION;
  for (uint8_t i = 0; i < std::size(kGateKinds); i++) {
    if (kind == kGateKinds[i]) gate.kind = i;
  }
  gate.n_tables = static_cast<uint8_t>(std::min<size_t>(tables.size(), WEIR_MAX_GATE_TABLES));
  std::copy_n(tables.begin(), gate.n_tables, gate.table);
}

void members(Fields& f, ShapesAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f.array({"shapes", "", "of the snapshot"}, answer.shapes, "shape");
  f.array({"false_positives", "", "of each filter at each target, beside what is predicted"}, answer.false_positives,
          "filter rate");
  f.array({"gates", "", "what a packet's addresses must pass before anything is looked up"}, answer.gates, "gate");
  f({"probes_v4", "", "filter probes of an IPv4 packet, both sides counted"}, answer.probes_v4);
  f({"probes_v6", "", "filter probes of an IPv6 packet, both sides counted"}, answer.probes_v6);
  f({"entries", "", "of all lists"}, answer.entries);
  f({"sets", "", "different sets of lists"}, answer.sets);
  f({"rules", "", "different rules of keys"}, answer.rules);
  f({"snapshot_bytes", "bytes", "room for more included"}, answer.snapshot_bytes);
  f({"proved_entries", "", "entries that were looked up and found before publication"}, answer.proved_entries);
  f({"proved_strangers", "", "addresses of no list that were looked up and not found"}, answer.proved_strangers);
}

std::string layout_name(const ShapeReport& report) {
  const auto layout = static_cast<weir_layout>(report.shape.layout);
  return layout == 0 ? "" : std::string(filter::layout_of(layout).name);
}

uint64_t exact_bytes_of(const ShapeReport& report) {
  return report.shape.exact.size_bytes + report.shape.chunks.size_bytes;
}

const char* name_of_kind(const GateReport& report) {
  return kGateKinds[report.gate.kind];
}

std::span<const weir_gate_table> tables_of(const GateReport& report) {
  return {report.gate.table, report.gate.n_tables};
}

// ----------------------------------------------------------------------------------------------------------- status

void members(Fields& f, InterfaceStatus& interface) {
  f({"name", "", "of the interface"}, interface.name);
  f({"index", "", "the kernel's; 0: there is no such interface now"}, interface.index);
  f({"attached", "", "what comes in there is judged"}, interface.attached);
  f({"mode", "", "native, generic, or empty: not attached"}, interface.mode);
  f({"error", "", "why it is not attached; empty: well"}, interface.error);
}

void members(Fields& f, TargetStatus& target) {
  f({"socket", "", "names the target: the path of a data plane's socket, or xdp:eth0,eth1"}, target.socket);
  f({"connected", "", "controld reaches it"}, target.connected);
  f({"acknowledged", "", "it enforces the running generation"}, target.acknowledged);
  f({"last_error", "", "why it is away, or did not take the last publication; empty: well"}, target.last_error);
  f({"version", "", "of the program; this and what follows stays when the target is away"}, target.version);
  f.object({"generation", "", "that it enforces"}, target.generation, "generation");
  f({"bypass", "", "true: everything passes there"}, target.bypass);
  f({"workers", "", "of XDP 0"}, target.workers);
  f({"ports", "", "of XDP its interfaces"}, target.ports);
  f({"isa", "", "of the filter kernels; of XDP bpf"}, target.isa);
  f({"snapshot_bytes", "bytes", "of what it enforces"}, target.snapshot_bytes);
  f({"snapshot_limit_bytes", "bytes", "that it has room for"}, target.snapshot_limit_bytes);
  f({"huge_pages", "", "the snapshot lies in huge pages"}, target.huge_pages);
  f({"start_time", "Unix seconds", "of the program; 0: never reached"}, target.start_time);
  f({"durable", "", "what it enforces, and bypass, would outlive a restart of it"}, target.durable);
  f({"disk_error", "", "why not; it tries on. Empty: durable"}, target.disk_error);
  f.maybe_array({"interfaces", "", "of XDP alone"}, target.interfaces, "interface");
}

void members(Fields& f, Limit& limit) {
  f({"used", "", "now"}, limit.used);
  f({"max", "", "possible; 0: not known"}, limit.max);
}

void members(Fields& f, Memory& memory) {
  f({"rss_bytes", "bytes", "resident now"}, memory.rss_bytes);
  f({"peak_bytes", "bytes", "resident at most, so far"}, memory.peak_bytes);
}

void members(Fields& f, MetricsDetails& metrics) {
  f({"address", "", "where metrics are served, by HTTP; empty: nowhere"}, metrics.address);
  f({"error", "", "why not where they should be; empty: well"}, metrics.error);
}

void members(Fields& f, FleetStanding& standing) {
  f({"name", "", "of the fleet"}, standing.name);
  f({"node", "", "of this node"}, standing.node);
  f({"group", "", "of nodes that it belongs to"}, standing.group);
  f({"turn", "", "of the fleet's head that it follows"}, standing.turn);
  f({"revision", "", "that it enforces; 0: none yet"}, standing.revision);
  f({"wanted", "", "revision that its group is to enforce"}, standing.wanted);
  f({"state", "", "enforcing, publishing (not all targets have it), taking, refused, waiting (nothing was pushed)"},
    standing.state);
  f.unless_empty({"error", "", "why it does not enforce that, or what of it is not as it should be"}, standing.error);
  f.unless_empty({"etcd_error", "", "why etcd is not heard, or not followed: what is enforced stays"},
                 standing.etcd_error);
  f({"entries", "", "of the fleet, that it enforces"}, standing.entries);
}

void members(Fields& f, PhaseProgress& progress) {
  f({"done", "", "so far"}, progress.done);
  f({"of", "", "of so many; rises while more is found"}, progress.of);
  f({"unit", "", "bytes (of feeds), entries or keys"}, progress.unit);
}

void members(Fields& f, StatusAnswer& answer) {
  f({"version", "", "of controld"}, answer.version);
  f({"config", "", "path of the policy"}, answer.config);
  f({"state_dir", "", "path of the state directory"}, answer.state_dir);
  f({"pid", "", "of controld"}, answer.pid);
  f({"starting", "", "the first policy is being compiled"}, answer.starting);
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f({"published_at", "Unix seconds", "when it was"}, answer.published_at);
  f({"from_last_good", "", "the policy was bad at the start: what ran before runs"}, answer.from_last_good);
  f({"disk_error", "",
     "why what runs, or bypass, would not outlive a restart of controld; it tries on. Empty: both would"},
    answer.disk_error);
  f({"entries", "", "of all lists"}, answer.entries);
  f({"bypass", "", "everything passes until `bypass off`"}, answer.bypass);
  f.array({"targets", "", "of the policy"}, answer.targets, "target");
  f.array({"refused", "", "feeds that are not taken: their lists keep what they had"}, answer.refused, "refused feed");
  f.array({"warned", "", "warnings about the contents of feeds that are enforced"}, answer.warned, "warned feed");
  f.maybe_object({"fleet", "", "how this node stands in it; missing where there is none"}, answer.fleet,
                 "fleet standing");
  f.array({"shapes", "", "of the snapshot"}, answer.shapes, "shape");
  f.array({"false_positives", "", "of each filter at each target, beside what is predicted"}, answer.false_positives,
          "filter rate");
  f.unless_empty({"notice", "", "what is waited for: a confirmation, or a reload after a rollback"}, answer.notice);
  f.unless_empty({"reloading", "", "the phase of the reload that runs"}, answer.reloading);
  f.maybe_object({"progress", "", "how far that phase is; missing where nothing is counted"}, answer.progress,
                 "progress");
  f.object({"last_reload", "", "as reload answered"}, answer.last_reload, "reload");
  f.object({"capture", "", "as capture answers"}, answer.capture, "capture");
  f.by_name({"limits", "", "lists, shapes_v4, shapes_v6, conditions_of_a_key, overlay_keys, snapshot_bytes"},
            answer.limits, "limit");
  f.object({"memory", "", "of controld"}, answer.memory, "memory");
  f.object({"metrics", "", "and the page for people"}, answer.metrics, "metrics");
}

void members(Fields& f, DirectStatus& answer) {
  f({"controld", "", "false: it does not answer, and the targets were asked directly"}, answer.controld);
  f({"error", "", "why it is thought not to answer"}, answer.error);
  f.array({"targets", "", "that it last had, as far as it is known"}, answer.targets, "target");
}

namespace {

InterfaceStatus status_of(const wire::InterfaceBody& interface) {
  const bool attached = interface.attached != 0;
  return {wire::get_text(interface.name), interface.index, attached,
          !attached               ? ""
          : interface.native != 0 ? "native"
                                  : "generic",
          wire::get_text(interface.error)};
}

}  // namespace

TargetStatus status_of(const TargetState& state, wire::Generation running) {
  const wire::StatusBody told = state.status.value_or(wire::StatusBody{});
  TargetStatus status;
  status.socket = state.socket;
  status.connected = state.connected;
  // Before the first generation there is none to enforce.
  status.acknowledged = running.epoch != 0 && state.acknowledged == running;
  status.last_error = state.last_error;
  status.version = wire::get_text(told.version);
  status.generation = told.generation;
  status.bypass = told.bypass != 0;
  status.workers = told.workers;
  status.ports = told.ports;
  status.isa = wire::get_text(told.isa);
  status.snapshot_bytes = told.snapshot_bytes;
  status.snapshot_limit_bytes = told.snapshot_limit_bytes;
  status.huge_pages = told.huge_pages != 0;
  status.start_time = told.start_time_unix;
  status.durable = state.is_durable();
  status.disk_error = wire::get_text(told.disk_error);
  if (!state.has_interfaces) return status;
  status.interfaces.emplace();
  if (!state.interfaces) return status;
  for (const wire::InterfaceBody& interface : *state.interfaces) status.interfaces->push_back(status_of(interface));
  return status;
}

}  // namespace weir::control
