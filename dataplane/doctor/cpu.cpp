#include <algorithm>

#include "dataplane/doctor/subject.h"

// The workers' CPUs: are they there, and does anything else run on them?
namespace weir::dataplane::doctor {

namespace {

void check_present(const Subject& subject, Section& section) {
  if (subject.online.empty()) return section.unknown("present", "/sys/devices/system/cpu/online cannot be read");
  const Cpus missing = without(subject.workers, subject.online);
  if (missing.empty())
    return section.ok("present", cpus_text(subject.workers) + " online, of " + to_text(subject.online));
  const Cpus offline = subject.tree.cpus(kCpuFolder + "present").value_or(Cpus{});
  const bool can_be_started = contains_all(offline, missing);
  section.problem(
      "present",
      cpus_text(missing) + (can_be_started ? " offline" : " not there") + "; online: " + to_text(subject.online),
      can_be_started
          ? "echo 1 | tee " + cpu_files(missing, "online")
          : "choose others: dataplane -l " + to_text(subject.moves_workers() ? subject.advised : subject.online));
}

// proc_pid_status(5); cpuset.cpus.effective and, of version 1, cpuset.effective_cpus (kernel:
// admin-guide/cgroup-v2.rst).
std::optional<Cpus> cpus_of_control_group(const Tree& tree) {
  for (const std::string& folder : control_group_folders(tree, "", 2)) {
    if (std::optional<Cpus> cpus = tree.cpus(folder + "/cpuset.cpus.effective"); cpus && !cpus->empty()) return cpus;
  }
  for (const std::string& folder : control_group_folders(tree, "cpuset", 1)) {
    if (std::optional<Cpus> cpus = tree.cpus(folder + "/cpuset.effective_cpus"); cpus && !cpus->empty()) return cpus;
  }
  return std::nullopt;
}

void check_allowed(const Subject& subject, Section& section) {
  const std::optional<std::string> text = subject.tree.value("proc/self/status", "Cpus_allowed_list");
  const std::optional<Cpus> allowed = text ? parse_cpus(*text) : std::nullopt;
  if (!allowed || allowed->empty()) return section.unknown("allowed", "/proc/self/status names no Cpus_allowed_list");
  const Cpus refused = without(subject.workers, *allowed);
  if (refused.empty()) return section.ok("allowed", "this process may run on " + cpus_text(*allowed));
  const std::optional<Cpus> group = cpus_of_control_group(subject.tree);
  const std::string found = cpus_text(refused) + " not allowed, only " + to_text(*allowed);
  if (group && contains_all(*group, refused)) {
    return section.hint("allowed", found + ": an affinity that the workers override",
                        "start without taskset or numactl, or with CPUAffinity= of the unit set to all CPUs");
  }
  section.problem("allowed", found + ": the control group's cpuset",
                  "dataplane -l " + to_text(*allowed) +
                      ", or give the group more: systemctl set-property UNIT AllowedCPUs=" + to_text(subject.workers) +
                      " (containers: --cpuset-cpus)");
}

// Everything but the workers: control, clock, kernel threads, other programs.
void check_rest(const Subject& subject, Section& section) {
  if (subject.online.empty()) return section.unknown("left", "/sys/devices/system/cpu/online cannot be read");
  const Cpus rest = without(subject.online, subject.workers);
  if (rest.empty()) {
    return section.hint("left", "no CPU is left for the control thread, controld and the system",
                        "fewer workers: leave at least one CPU out of -l");
  }
  if (!subject.workers.contains(0)) return section.ok("left", "CPUs for everything else: " + to_text(rest));
  section.hint("left", "CPU 0 is a worker's: the kernel does its own housekeeping there",
               subject.moves_workers() ? "dataplane -l " + to_text(subject.advised) : "leave CPU 0 out of -l");
}

void check_smt(const Subject& subject, Section& section) {
  const std::string advice = subject.moves_workers() ? "dataplane -l " + to_text(subject.advised)
                                                     : "fewer workers: one for each core, and none on CPU 0's";
  Cpus taken;
  Cpus shared_cpus;
  Cpus shared_cores;
  Cpus idle_siblings;
  for (const Cpus& worker : subject.eal.workers) {
    for (const unsigned cpu : worker) {
      const Cpus core = subject.siblings_of(cpu);
      if (taken.contains(cpu)) {
        shared_cpus.insert(cpu);
      } else if (share_any(core, taken)) {
        shared_cores.insert(core.begin(), core.end());
      }
      idle_siblings.insert(core.begin(), core.end());
    }
    taken.insert(worker.begin(), worker.end());
  }
  idle_siblings = without(idle_siblings, subject.workers);
  if (!shared_cpus.empty()) {
    section.hint("own-cpu", "several workers share " + cpus_text(shared_cpus) + ": each waits for the other", advice);
  } else {
    section.ok("own-cpu", plural(subject.eal.workers.size(), "worker") + ", each with CPUs of its own");
  }
  const bool readable = std::all_of(subject.workers.begin(), subject.workers.end(), [&](unsigned cpu) {
    return subject.tree.cpus(kCpuFolder + "cpu" + std::to_string(cpu) + "/topology/thread_siblings_list").has_value();
  });
  const Cpus isolated = subject.tree.cpus(kCpuFolder + "isolated").value_or(Cpus{});
  const Cpus busy_siblings = without(idle_siblings, isolated);
  if (!readable) {
    section.unknown("own-core", "topology/thread_siblings_list of a worker's CPU cannot be read");
  } else if (!shared_cores.empty()) {
    section.hint(
        "own-core",
        "workers are SMT siblings (" + cpus_text(shared_cores) + "): two on one core are slower than two cores",
        advice);
  } else if (!busy_siblings.empty()) {
    section.hint("own-core", cpus_text(busy_siblings) + ": SMT sibling of a worker, and free for any task",
                 "switch it off: echo 0 | tee " + cpu_files(busy_siblings, "online") + ", or isolate it too");
  } else {
    section.ok("own-core", idle_siblings.empty() ? "no worker shares its core"
                                                 : "SMT siblings are isolated too: " + to_text(idle_siblings));
  }
}

// One of isolcpus=, nohz_full=, rcu_nocbs= (kernel: admin-guide/kernel-parameters.txt).
struct Isolation {
  const char* check;
  const char* parameter;
  const char* flags;
  const char* meaning;
};
constexpr Isolation kTasks = {"isolated", "isolcpus=", "managed_irq,domain,", "the scheduler puts other tasks there"};
constexpr Isolation kTick = {"tick", "nohz_full=", "", "the timer interrupts it HZ times a second"};
constexpr Isolation kRcu = {"rcu", "rcu_nocbs=", "", "RCU callbacks of the kernel run there"};

void judge_isolation(const Subject& subject, const Isolation& kind, const std::optional<Cpus>& isolated,
                     Section& section) {
  if (!isolated) return section.unknown(kind.check, std::string(kind.parameter) + " cannot be read here");
  const Cpus open = without(subject.workers, *isolated);
  if (open.empty()) return section.ok(kind.check, kind.parameter + to_text(*isolated) + " covers the workers");
  const std::string found = cpus_text(open) + ": " + kind.meaning;
  if (subject.advised.empty()) {
    return section.hint(kind.check, found,
                        "first give the workers cores of their own, without CPU 0: there are too few here");
  }
  Cpus wanted = subject.advised;
  wanted.insert(isolated->begin(), isolated->end());
  const std::string parameter = std::string(kind.parameter) + kind.flags + to_text(wanted);
  section.hint(
      kind.check, found,
      (subject.moves_workers() ? "dataplane -l " + to_text(subject.advised) + ", and boot with " : "boot with ") +
          parameter,
      parameter);
}

// The CPUs behind name= on the kernel's command line; flags in front of them are skipped.
std::optional<Cpus> cpus_of_parameter(const std::string& command_line, std::string_view name) {
  Cpus cpus;
  for (const std::string_view word : words_of(command_line)) {
    if (!word.starts_with(name)) continue;
    std::string_view list = word.substr(name.size());
    const size_t digit = list.find_first_of("0123456789");
    const std::optional<Cpus> named =
        list == "all" || digit == list.npos ? std::nullopt : parse_cpus(list.substr(digit));
    if (!named) return std::nullopt;
    cpus.insert(named->begin(), named->end());
  }
  return cpus;
}

void check_isolation(const Subject& subject, Section& section) {
  std::optional<Cpus> tasks = subject.tree.cpus(kCpuFolder + "isolated");
  // Since Linux 6.7 there are isolated cpuset partitions, too.
  const std::vector<std::string> groups = control_group_folders(subject.tree, "", 2);
  if (tasks && !groups.empty()) {
    tasks->merge(subject.tree.cpus(groups.back() + "/cpuset.cpus.isolated").value_or(Cpus{}));
  }
  judge_isolation(subject, kTasks, tasks, section);

  const std::optional<std::string> command_line = subject.tree.text("proc/cmdline");
  std::optional<Cpus> tick = subject.tree.cpus(kCpuFolder + "nohz_full");
  if (!subject.tree.exists(kCpuFolder + "nohz_full")) {
    section.unknown(kTick.check, "this kernel has no nohz_full (CONFIG_NO_HZ_FULL)");
  } else {
    if (!tick && command_line) tick = cpus_of_parameter(*command_line, kTick.parameter);  // "(null)" before Linux 6.0
    judge_isolation(subject, kTick, tick, section);
  }

  std::optional<Cpus> rcu = command_line ? cpus_of_parameter(*command_line, kRcu.parameter) : std::nullopt;
  if (rcu && tick) rcu->insert(tick->begin(), tick->end());  // nohz_full brings rcu_nocbs with it
  judge_isolation(subject, kRcu, rcu, section);
}

struct Quota {
  double cpus;
  std::string file;
};

// The tightest of our control group and those above. cpu.max: "max 100000" or "50000 100000".
std::optional<Quota> find_quota(const Tree& tree) {
  std::optional<Quota> least;
  const auto take = [&](std::optional<int64_t> quota, std::optional<int64_t> period, const std::string& file) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;
    const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    if (!least || cpus < least->cpus) least = {cpus, "/" + file};
  };
  for (const std::string& folder : control_group_folders(tree, "", 2)) {
    const std::string text = tree.text(folder + "/cpu.max").value_or("");
    const std::vector<std::string_view> words = words_of(text);
    if (words.size() == 2) take(parse_number(words[0]), parse_number(words[1]), folder + "/cpu.max");
  }
  for (const std::string& folder : control_group_folders(tree, "cpu", 1)) {
    take(tree.number(folder + "/cpu.cfs_quota_us"), tree.number(folder + "/cpu.cfs_period_us"),
         folder + "/cpu.cfs_quota_us");
  }
  return least;
}

void check_quota(const Subject& subject, Section& section) {
  if (!subject.tree.exists("proc/self/cgroup")) return section.unknown("quota", "/proc/self/cgroup cannot be read");
  const std::optional<Quota> quota = find_quota(subject.tree);
  if (!quota) return section.ok("quota", "no control group limits the time on a CPU");
  char cpus[32];
  snprintf(cpus, sizeof cpus, "%.2f", quota->cpus);
  const std::string found = quota->file + " allows " + cpus + " CPUs' time";
  if (quota->cpus > static_cast<double>(subject.eal.workers.size())) return section.ok("quota", found);
  section.problem("quota",
                  found + ", and polling workers take " + std::to_string(subject.eal.workers.size()) +
                      ": they are stopped in every period, and frames are lost",
                  "systemctl set-property UNIT CPUQuota= (containers: without --cpus), or echo max into that file (-1 "
                  "into cpu.cfs_quota_us)");
}

}  // namespace

Section check_cpus(const Subject& subject) {
  Section section{"cpu", "CPUs of the workers: " + to_text(subject.workers), {}};
  check_present(subject, section);
  check_allowed(subject, section);
  check_rest(subject, section);
  check_smt(subject, section);
  check_isolation(subject, section);
  check_quota(subject, section);
  return section;
}

}  // namespace weir::dataplane::doctor
