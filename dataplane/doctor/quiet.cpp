#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "dataplane/doctor/subject.h"

// What slows the workers' CPUs down or interrupts them.
namespace weir::dataplane::doctor {

namespace {

constexpr int64_t kSlowWakeUs = 10;    // C1 takes 1 to 2 us, C6 above 100
constexpr double kMuchStolen = 0.001;  // share of time: 1 ms a second is 15,000 frames of 10 Gbit/s

std::string cpu_folder(unsigned cpu) {
  return kCpuFolder + "cpu" + std::to_string(cpu) + "/";
}

// A list as smp_affinity_list takes it; empty when the workers have every CPU.
Cpus other_cpus(const Subject& subject) {
  return without(subject.online, subject.advised.empty() ? subject.workers : subject.advised);
}

// kernel: core-api/irq/irq-affinity.rst
void check_irqs(const Subject& subject, Section& section) {
  size_t all = 0;
  size_t may = 0;
  size_t now = 0;
  for (const std::string& name : subject.tree.names("proc/irq")) {
    const std::string folder = "proc/irq/" + name + "/";
    const std::optional<Cpus> allowed = subject.tree.cpus(folder + "smp_affinity_list");
    if (!allowed || allowed->empty()) continue;
    const Cpus effective = subject.tree.cpus(folder + "effective_affinity_list").value_or(Cpus{});
    all++;
    if (share_any(*allowed, subject.workers)) may++;
    if (share_any(effective, subject.workers)) now++;
  }
  if (all == 0) return section.unknown("irqs", "/proc/irq/*/smp_affinity_list cannot be read");
  if (may == 0) return section.ok("irqs", plural(all, "interrupt") + ", none may come to a worker's CPU");
  const Cpus others = other_cpus(subject);
  section.hint("irqs", fmt::format("{} of {} interrupts may come to a worker's CPU, {} do now", may, all, now),
               others.empty()
                   ? "leave a CPU without a worker, for interrupts"
                   : fmt::format("echo {} | tee /proc/irq/*/smp_affinity_list (some refuse); with irqbalance: "
                                 "IRQBALANCE_BANNED_CPULIST={} in /etc/default/irqbalance",
                                 to_text(others), to_text(without(subject.online, others))));
}

// kernel: admin-guide/pm/cpufreq.rst
void check_governor(const Subject& subject, Section& section) {
  Cpus others;
  std::string governor;
  for (const unsigned cpu : subject.workers) {
    const std::optional<std::string> text = subject.tree.text(cpu_folder(cpu) + "cpufreq/scaling_governor");
    if (!text || text->empty()) {
      return section.unknown("governor",
                             "no cpufreq of " + cpus_text({cpu}) +
                                 (subject.virtual_machine ? ": the host decides" : ": the firmware decides"));
    }
    if (*text == "performance") continue;
    others.insert(cpu);
    governor = *text;
  }
  if (others.empty()) return section.ok("governor", "performance");
  section.hint("governor", cpus_text(others) + ": " + governor,
               "echo performance | tee " + cpu_files(others, "cpufreq/scaling_governor"));
}

void check_frequency(const Subject& subject, Section& section) {
  Cpus capped;
  int64_t cap = 0;
  int64_t most = 0;
  for (const unsigned cpu : subject.workers) {
    const std::optional<int64_t> limit = subject.tree.number(cpu_folder(cpu) + "cpufreq/scaling_max_freq");  // kHz
    const std::optional<int64_t> possible = subject.tree.number(cpu_folder(cpu) + "cpufreq/cpuinfo_max_freq");
    if (!limit || !possible) return section.unknown("frequency", "cpufreq of " + cpus_text({cpu}) + " tells no limits");
    most = std::max(most, *possible);
    if (*limit >= *possible) continue;
    capped.insert(cpu);
    cap = *limit;
  }
  if (!capped.empty()) {
    section.hint("frequency", fmt::format("{} held to {} of {} MHz", cpus_text(capped), cap / 1000, most / 1000),
                 fmt::format("echo {} | tee {}", most, cpu_files(capped, "cpufreq/scaling_max_freq")));
  } else {
    section.ok("frequency", fmt::format("up to {} MHz", most / 1000));
  }
}

void check_turbo(const Subject& subject, Section& section) {
  const std::optional<int64_t> no_turbo = subject.tree.number(kCpuFolder + "intel_pstate/no_turbo");
  const std::optional<int64_t> boost = subject.tree.number(kCpuFolder + "cpufreq/boost");
  if (!no_turbo && !boost) return section.unknown("turbo", "neither intel_pstate/no_turbo nor cpufreq/boost is there");
  const bool on = no_turbo ? *no_turbo == 0 : *boost == 1;
  if (on) return section.ok("turbo", "on: faster; a rate then depends on heat and on the other cores");
  section.hint("turbo", "off: evener rates, lower ones",
               no_turbo ? "for the highest rate: echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo"
                        : "for the highest rate: echo 1 > /sys/devices/system/cpu/cpufreq/boost");
}

// kernel: admin-guide/pm/cpuidle.rst. A worker polls and never sleeps; its sibling, its package and PCIe do.
void check_sleep(const Subject& subject, Section& section) {
  int64_t deepest_us = -1;
  std::string name;
  for (const unsigned cpu : subject.workers) {
    const std::string folder = cpu_folder(cpu) + "cpuidle/";
    for (const std::string& state : subject.tree.names(folder)) {
      const std::optional<int64_t> wake_us = subject.tree.number(folder + state + "/latency");
      if (!wake_us || *wake_us < 0 || subject.tree.number(folder + state + "/disable") == 1) continue;
      if (*wake_us <= deepest_us) continue;
      deepest_us = *wake_us;
      name = subject.tree.text(folder + state + "/name").value_or(state);
    }
  }
  if (deepest_us < 0) {
    return section.unknown(
        "c-states", subject.virtual_machine ? "no cpuidle states here: the host decides" : "no cpuidle states here");
  }
  const std::string found = fmt::format("deepest state {}, {} us to wake up", name, deepest_us);
  if (deepest_us <= kSlowWakeUs) return section.ok("c-states", found);
  section.hint("c-states", found + "; workers poll, but their package and PCIe links sleep",
               fmt::format("cpupower idle-set -D {}, or hold /dev/cpu_dma_latency open with 0, or boot with "
                           "processor.max_cstate=1 (Intel: also intel_idle.max_cstate=1)",
                           kSlowWakeUs));
}

// proc_stat(5): user nice system idle iowait irq softirq steal ...; since the boot.
void check_steal(const Subject& subject, Section& section) {
  if (!subject.virtual_machine) {
    if (!subject.tree.value("proc/cpuinfo", "flags")) return section.unknown("vm", "/proc/cpuinfo names no flags");
    return section.ok("vm", "no virtual machine, or one that hides it");
  }
  const std::string stat = subject.tree.text("proc/stat").value_or("");
  Cpus robbed;
  double most = 0;
  size_t seen = 0;
  for (const std::string_view line : split_at(stat, '\n')) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < 9 || !words[0].starts_with("cpu")) continue;
    const std::optional<int64_t> cpu = parse_number(words[0].substr(3));
    if (!cpu || *cpu < 0 || *cpu > kMaxCpu || !subject.workers.contains(static_cast<unsigned>(*cpu))) continue;
    double total = 0;
    for (size_t i = 1; i < 9; i++) total += static_cast<double>(parse_number(words[i]).value_or(0));
    const double share = total > 0 ? static_cast<double>(parse_number(words[8]).value_or(0)) / total : 0;
    seen++;
    most = std::max(most, share);
    if (share >= kMuchStolen) robbed.insert(static_cast<unsigned>(*cpu));
  }
  if (seen < subject.workers.size())
    return section.unknown("vm", "a virtual machine; /proc/stat has no line of a worker's CPU");
  const std::string found =
      fmt::format("a virtual machine; the host took {:.2f} % of a worker's CPU since the boot", most * 100);
  if (robbed.empty()) return section.ok("vm", found);
  section.hint("vm", found + ": frames are lost meanwhile",
               "on the host: give each vCPU a CPU of its own (libvirt: virsh vcpupin; cloud: dedicated CPUs)");
}

// proc_pid_stat(5), field 41; sched(7).
void check_scheduling(const Subject& subject, Section& section) {
  const std::string stat = subject.tree.text("proc/self/stat").value_or("");
  const size_t name_end = stat.rfind(')');
  const std::vector<std::string_view> words =
      name_end == stat.npos ? std::vector<std::string_view>() : words_of(std::string_view(stat).substr(name_end + 1));
  const std::optional<int64_t> policy = words.size() > 38 ? parse_number(words[38]) : std::nullopt;
  if (!policy) return section.unknown("scheduling", "/proc/self/stat tells no policy");
  const bool real_time = *policy == 1 || *policy == 2;  // SCHED_FIFO, SCHED_RR
  if (!real_time) return section.ok("scheduling", "ordinary, not real time");
  const std::optional<int64_t> run_us = subject.tree.number("proc/sys/kernel/sched_rt_runtime_us");
  section.hint("scheduling",
               run_us == -1 ? "real time without a limit: a polling worker starves the kernel's threads on its CPU"
                            : fmt::format("real time: the kernel stops a polling worker after {} us of every period",
                                          run_us ? std::to_string(*run_us) : "kernel.sched_rt_runtime_us"),
               "start without chrt, and without CPUSchedulingPolicy= in the unit: isolated CPUs do better");
}

void check_clock(const Subject& subject, Section& section) {
  const std::string folder = "sys/devices/system/clocksource/clocksource0/";
  const std::optional<std::string> flags = subject.tree.value("proc/cpuinfo", "flags");
  const std::optional<std::string> source = subject.tree.text(folder + "current_clocksource");
  if (!flags || !source || source->empty())
    return section.unknown("clock", "/proc/cpuinfo or current_clocksource cannot be read");
  const bool steady = has_word(*flags, "constant_tsc") && has_word(*flags, "nonstop_tsc");
  const std::string found = fmt::format("clock source {}, TSC {}", *source, steady ? "steady" : "not steady");
  if (!steady) {
    return section.hint(
        "clock", found + " (constant_tsc, nonstop_tsc): DPDK's timing is wrong when the frequency changes",
        subject.virtual_machine ? "a CPU model of the VM with an invariant TSC (QEMU: -cpu host,+invtsc)"
                                : "hold the frequency: governor performance, no C-states");
  }
  const std::string available = subject.tree.text(folder + "available_clocksource").value_or("");
  if (*source == "tsc" || !has_word(available, "tsc")) return section.ok("clock", found);
  section.hint("clock", found + ": reading the time is slower than it need be",
               "echo tsc > /" + folder + "current_clocksource, or boot with tsc=reliable", "tsc=reliable");
}

void check_numa_balancing(const Subject& subject, Section& section) {
  const std::optional<int64_t> balancing = subject.tree.number("proc/sys/kernel/numa_balancing");
  const std::optional<Cpus> nodes = subject.tree.cpus("sys/devices/system/node/online");
  if (!balancing || !nodes)
    return section.unknown("numa-balancing", "kernel.numa_balancing or the nodes cannot be read");
  if (*balancing == 0 || nodes->size() < 2) {
    return section.ok("numa-balancing", *balancing == 0 ? "off" : "nothing to balance: one NUMA node");
  }
  section.hint("numa-balancing", "on: the kernel unmaps pages to see who uses them, and workers fault",
               "sysctl -w kernel.numa_balancing=0", "numa_balancing=disable");
}

// For information: what they cost is the operator's decision.
void check_mitigations(const Subject& subject, Section& section) {
  const std::string folder = kCpuFolder + "vulnerabilities";
  size_t mitigated = 0;
  size_t open = 0;
  for (const std::string& name : subject.tree.names(folder)) {
    const std::string text = subject.tree.text(folder + "/" + name).value_or("");
    if (text.starts_with("Mitigation")) mitigated++;
    if (text.starts_with("Vulnerable")) open++;
  }
  if (!subject.tree.exists(folder)) return section.unknown("mitigations", "/" + folder + " is not there");
  section.ok("mitigations",
             fmt::format("of CPU weaknesses: {} active, {} left open (a polling worker makes no system calls)",
                         mitigated, open));
}

}  // namespace

Section check_quiet(const Subject& subject) {
  Section section{"quiet", "Speed and peace of these CPUs", {}};
  check_irqs(subject, section);
  check_governor(subject, section);
  check_frequency(subject, section);
  check_turbo(subject, section);
  check_sleep(subject, section);
  check_steal(subject, section);
  check_scheduling(subject, section);
  check_clock(subject, section);
  check_numa_balancing(subject, section);
  check_mitigations(subject, section);
  return section;
}

}  // namespace weir::dataplane::doctor
