#include "control/daemon/arguments.h"

namespace weir::control {

const std::vector<std::string> kSeccompModes = {"refuse", "kill", "log", "off"};

Options options_of(Arguments& arguments) {
  Options options;
  options
      .text("--config", "FILE", arguments.daemon.config, "the policy; default: ./weir.yaml, then /etc/weir/weir.yaml")
      .files();
  options.text("--socket", "PATH", arguments.socket, "where controlctl finds this controld").files();
  options.text("--state-dir", "DIR", arguments.state_dir, "instead of the policy's state_dir").files();
  options
      .texts("--target", "TARGET", arguments.targets,
             "socket of a data plane, or xdp:eth0,eth1 (attach: auto); instead of the policy's targets")
      .files();
  options.text("--bpf-dir", "DIR", arguments.daemon.bpf_dir, "BPF file system where XDP programs and maps are pinned")
      .files();
  options
      .number("--build-threads", "N", arguments.daemon.build_threads,
              "threads that build large filters; default: for half of the processors that controld may use")
      .range(1, 256);
  options.text(
      "--read-group", "GROUP", arguments.read_group,
      "whose members may ask what changes nothing; default: weir, where there is such a group; none: nobody's");
  options.text(
      "--admin-group", "GROUP", arguments.admin_group,
      "whose members may ask for everything; default: weir-admin, where there is such a group; none: nobody's");
  options
      .text("--seccomp", "MODE", arguments.seccomp,
            "what a system call that controld never makes meets: it fails, controld ends, it is logged, nothing")
      .one_of(kSeccompModes);
  options.text("--metrics", "ADDRESS", arguments.metrics,
               "where metrics are served, as in 127.0.0.1:9617 or [::1]:9617; off: nowhere; default: the policy's");
  options.flag("--allow-older", arguments.daemon.allow_older,
               "targets take what is published also when they enforce something newer: after an old copy of the state "
               "directory was brought back");
  options.flag(
      "--no-host-guard", arguments.no_host_guard,
      "this machine's own traffic is not what is filtered: its addresses, gateways and resolvers may be blocked");
  options.flag("--verbose", arguments.verbose, "also log every API request");
  return options;
}

}  // namespace weir::control
