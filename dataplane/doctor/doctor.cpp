#include "dataplane/doctor/doctor.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <rte_build_config.h>
#include <rte_version.h>

#include <algorithm>
#include <cstdlib>

#include "dataplane/doctor/subject.h"
#include "filter/probe/dispatch.h"

namespace weir::dataplane::doctor {

namespace {

std::vector<InterfaceAddress> own_addresses() {
  std::vector<InterfaceAddress> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const void* bytes = nullptr;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    if (family == AF_INET6) bytes = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    char text[INET6_ADDRSTRLEN];
    if (bytes == nullptr || inet_ntop(family, bytes, text, sizeof text) == nullptr) continue;
    addresses.push_back({entry->ifa_name, text});
  }
  freeifaddrs(first);
  return addresses;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

const char* name_of(Health health) {
  constexpr const char* kNames[] = {"ok", "hint", "problem", "unknown"};
  return kNames[static_cast<size_t>(health)];
}

size_t Report::count(Health health) const {
  size_t count = 0;
  for (const Section& section : sections) {
    count += static_cast<size_t>(std::count_if(section.findings.begin(), section.findings.end(),
                                               [&](const Finding& finding) { return finding.health == health; }));
  }
  return count;
}

Inputs look_at_process(std::vector<std::string> eal, Config config) {
  Inputs inputs;
  inputs.eal = std::move(eal);
  inputs.config = std::move(config);
  inputs.addresses = own_addresses();
  inputs.ssh_connection = variable("SSH_CONNECTION");
  inputs.forced_isa = variable("WEIR_FORCE_ISA");
  for (const filter::Kernels* kernels : filter::all_kernels()) {
    inputs.kernels.push_back({std::string(kernels->name), kernels->usable()});
  }
  inputs.dpdk_version = rte_version();
#ifdef RTE_EAL_PMD_PATH
  inputs.pmd_folder = RTE_EAL_PMD_PATH;
#endif
  return inputs;
}

Result<Report> examine(const Inputs& inputs) {
  const Result<Subject> subject = look_at(inputs);
  if (!subject) return Error{subject.error()};
  Report report;
  for (const auto check :
       {check_cpus, check_quiet, check_numa, check_memory, check_iommu, check_cards, check_process, check_software}) {
    report.sections.push_back(check(*subject));
  }
  return report;
}

}  // namespace weir::dataplane::doctor
