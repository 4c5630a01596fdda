#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "dataplane/doctor/tree.h"

// What EAL's options say about CPUs, cards and memory (DPDK: doc/guides/linux_gsg/linux_eal_parameters.rst).
namespace weir::dataplane::doctor {

struct EalOptions {
  std::vector<Cpus> workers;       // [lcore, ascending]: where it may run
  std::vector<std::string> allow;  // PCI addresses of -a, in full
  std::vector<std::string> block;
  std::vector<std::string> vdevs;  // driver and arguments
  bool no_pci = false;
  bool no_huge = false;
  bool in_memory = false;
};

// arguments: as completed (eal_arguments.h).
Result<EalOptions> parse_eal_options(std::span<const std::string> arguments);

// 03:00.0 and 0000:03:00.0,arg=1 as 0000:03:00.0; empty when it is no PCI address.
std::string full_pci_address(std::string_view text);

}  // namespace weir::dataplane::doctor
