#pragma once

#include <set>
#include <string>
#include <vector>

#include "dataplane/doctor/doctor.h"
#include "dataplane/doctor/eal.h"
#include "dataplane/doctor/tree.h"
#include "dataplane/start/eal_arguments.h"

// What the checks share: the machine and how it would be used.
namespace weir::dataplane::doctor {

// A PCI device of class 0x02 (network).
struct Card {
  std::string address;
  std::string id;      // vendor:device
  std::string driver;  // empty: none
  std::vector<std::string> interfaces;
  std::string carries;  // what would be lost without it; empty: nothing known
  int64_t numa_node = -1;
  std::string iommu_group;  // empty: none
  bool virtual_function = false;
  bool used = false;  // by EAL, with these options
};

bool is_dpdk_driver(const std::string& driver);
// Stays with its kernel driver, which DPDK works beside.
bool is_bifurcated(const std::string& driver);
// DPDK's driver for such a card, as in librte_net_mlx5.so; empty: it is no such card.
std::string dpdk_driver_beside(const std::string& driver);
std::vector<Card> find_cards(const Tree& tree, const Inputs& inputs, const EalOptions& eal);
// Interfaces of this machine, each with what would be lost without it: a default route, an SSH session.
struct Carrier {
  std::string interface;
  std::string what;
};
std::vector<Carrier> find_carriers(const Tree& tree, const Inputs& inputs);
// The same for one interface: itself and what is stacked on it (bridge, bond, VLAN).
std::string carried_by(const Tree& tree, const std::vector<Carrier>& carriers, const std::string& interface);

struct Subject {
  Tree tree;
  const Inputs& inputs;
  Machine machine;
  EalArguments completed;
  EalOptions eal;
  Cpus online;   // empty: cannot be read
  Cpus workers;  // CPUs of all workers
  Cpus advised;  // as many CPUs that would do better, or the same; empty: there are not as many
  std::vector<Card> cards;
  bool iommu = false;
  bool virtual_machine = false;

  Cpus siblings_of(unsigned cpu) const;  // SMT, itself included
  // DPDK's drivers of network cards in its folder of plugins, as "ixgbe"; empty too where they are linked in.
  std::set<std::string> installed_drivers() const;
  int64_t numa_node_of(unsigned cpu) const;  // 0 when it cannot be read
  std::set<int64_t> worker_nodes() const;
  bool moves_workers() const { return !advised.empty() && advised != workers; }
};
Result<Subject> look_at(const Inputs& inputs);

// "CPU 3" or "CPUs 3-5".
std::string cpus_text(const Cpus& cpus);
// a/b/cpu{2,3}/c; without braces for one CPU.
std::string cpu_files(const Cpus& cpus, const std::string& below);
std::string plural(size_t count, const std::string& one);

Section check_cpus(const Subject& subject);
Section check_quiet(const Subject& subject);
Section check_memory(const Subject& subject);
Section check_numa(const Subject& subject);
Section check_iommu(const Subject& subject);
Section check_cards(const Subject& subject);
Section check_process(const Subject& subject);
Section check_software(const Subject& subject);

}  // namespace weir::dataplane::doctor
