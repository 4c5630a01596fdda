#include "control/tell/answer/status.h"

namespace weir::control {

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

}  // namespace weir::control
