#include <fmt/format.h>

#include <algorithm>

#include "dataplane/doctor/subject.h"

// The process: rights, limits, instruction set, and the software it runs on.
namespace weir::dataplane::doctor {

namespace {

constexpr int64_t kFewFiles = 1024;  // EAL holds a file for each huge page it takes, weir some sockets

struct Capability {
  int bit;  // linux/capability.h
  const char* name;
  const char* what_for;
};
constexpr Capability kCapabilities[] = {{12, "CAP_NET_ADMIN", "net_tap, net_af_xdp"},
                                        {13, "CAP_NET_RAW", "net_af_packet"},
                                        {14, "CAP_IPC_LOCK", "VFIO, huge pages"},
                                        {17, "CAP_SYS_RAWIO", "uio_pci_generic"},
                                        {21, "CAP_SYS_ADMIN", "physical addresses without an IOMMU"}};

void check_user(const Subject& subject, Section& section) {
  const std::string uids = subject.tree.value("proc/self/status", "Uid").value_or("");
  const std::optional<int64_t> caps = parse_number(subject.tree.value("proc/self/status", "CapEff").value_or(""), 16);
  const std::vector<std::string_view> uid = words_of(uids);
  if (uid.size() < 2 || !caps) return section.unknown("user", "/proc/self/status names no Uid or CapEff");
  std::vector<std::string> missing;
  for (const Capability& capability : kCapabilities) {
    if ((static_cast<uint64_t>(*caps) >> capability.bit & 1) != 0) continue;
    missing.push_back(fmt::format("{} ({})", capability.name, capability.what_for));
  }
  const std::string found = subject.machine.root ? "root" : "user " + std::string(uid[1]);
  if (missing.empty()) return section.ok("user", found + ", with every capability that DPDK's drivers ask for");
  section.hint("user", found + ", without " + join(missing, ", "),
               subject.machine.root
                   ? "AmbientCapabilities= and CapabilityBoundingSet= of the unit, or --cap-add of the "
                     "container, when these drivers are used"
                   : "start as root for network cards; virtual ports need nothing");
}

// Whom the data plane becomes.
void check_privileges(const Subject& subject, Section& section) {
  if (!subject.machine.root) return section.ok("becomes", "nobody else: only root can");
  const std::optional<User>& user = subject.inputs.config.privileges.user;
  if (!user) {
    section.problem("becomes",
                    fmt::format("nobody: there is no user {}, and it does not stay root by accident", kDefaultUser),
                    fmt::format("useradd --system {}, or privileges.user in dataplane.yaml", kDefaultUser));
  } else if (user->uid == 0) {
    section.hint("becomes", "nobody: it stays root, as privileges.user says",
                 fmt::format("useradd --system {}, and no privileges.user in dataplane.yaml", kDefaultUser));
  } else {
    section.ok("becomes", "user " + user->name + " once its ports run");
  }
}

// proc_pid_status(5): 0 off, 1 strict, 2 filter.
void check_seccomp(const Subject& subject, Section& section) {
  const std::optional<std::string> mode = subject.tree.value("proc/self/status", "Seccomp");
  if (!mode || parse_number(*mode).value_or(-1) < 0)
    return section.unknown("seccomp", "/proc/self/status names no Seccomp");
  if (*mode != "0")
    return section.ok("seccomp", "a filter is on already: mbind, memfd_create and ioctl have to pass it");
  section.ok("seccomp", subject.tree.exists("proc/sys/kernel/seccomp/actions_avail") ? "available, no filter is on"
                                                                                     : "this kernel has none");
}

void check_files(const Subject& subject, Section& section) {
  const std::string limits = subject.tree.text("proc/self/limits").value_or("");
  std::vector<std::string_view> words;
  for (const std::string_view line : split_at(limits, '\n')) {
    constexpr std::string_view kName = "Max open files";
    if (line.starts_with(kName)) words = words_of(line.substr(kName.size()));
  }
  const std::optional<int64_t> limit = words.empty() ? std::nullopt : parse_number(words[0]);
  if (words.empty() || (!limit && words[0] != "unlimited"))
    return section.unknown("open files", "/proc/self/limits cannot be read");
  if (!limit || *limit >= kFewFiles) return section.ok("open files", std::string(words[0]));
  section.hint("open files", fmt::format("{}: EAL holds a file for each huge page it takes", *limit),
               fmt::format("ulimit -n {}, or LimitNOFILE={} in the unit", kFewFiles * 64, kFewFiles * 64));
}

void check_instructions(const Subject& subject, Section& section) {
  const std::vector<KernelSet>& sets = subject.inputs.kernels;
  const auto best = std::find_if(sets.begin(), sets.end(), [](const KernelSet& set) { return set.usable; });
  if (best == sets.end()) return section.unknown("instructions", "this build has no filter kernels");
  std::vector<std::string> missing;
  for (auto set = sets.begin(); set != best; ++set) missing.push_back(set->name);
  if (missing.empty()) {
    section.ok("instructions", "the best filter kernels of this build: " + best->name);
  } else {
    section.hint(
        "instructions",
        fmt::format("filter kernels {}; the processor lacks what {} needs", best->name, join(missing, " and ")),
        subject.virtual_machine ? "a CPU model of the VM that shows it, if the host has it (QEMU: -cpu host)"
                                : "a newer processor, or AVX-512 enabled in the firmware");
  }
  const std::string& forced = subject.inputs.forced_isa;
  if (forced.empty()) return section.ok("forced", "WEIR_FORCE_ISA is not set");
  const auto named = std::find_if(sets.begin(), sets.end(), [&](const KernelSet& set) { return set.name == forced; });
  const std::string found = "WEIR_FORCE_ISA=" + forced;
  if (named == sets.end() || !named->usable) {
    section.problem("forced", found + (named == sets.end() ? ": no such kernels" : ": not usable on this processor"),
                    "unset WEIR_FORCE_ISA");
  } else if (named != best) {
    section.hint("forced", found + ": slower than " + best->name, "unset WEIR_FORCE_ISA");
  } else {
    section.ok("forced", found);
  }
}

void check_dpdk(const Subject& subject, Section& section) {
  section.ok("version", subject.inputs.dpdk_version);
  const std::string& folder = subject.inputs.pmd_folder;
  if (folder.empty()) return section.ok("drivers", "linked into the program");
  const size_t drivers = subject.installed_drivers().size();
  if (drivers > 0) return section.ok("drivers", fmt::format("{} of network cards in {}", drivers, folder));
  section.problem("drivers", folder + " has no librte_net_*.so.*: no port can be used",
                  "apt-get install dpdk (or the librte-net-* packages of your cards)");
}

}  // namespace

Section check_process(const Subject& subject) {
  Section section{"process", "Rights and limits", {}};
  check_user(subject, section);
  check_privileges(subject, section);
  check_seccomp(subject, section);
  check_files(subject, section);
  return section;
}

Section check_software(const Subject& subject) {
  Section section{"software", "Processor and DPDK", {}};
  check_instructions(subject, section);
  check_dpdk(subject, section);
  return section;
}

}  // namespace weir::dataplane::doctor
