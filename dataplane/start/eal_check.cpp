#include "dataplane/start/eal_check.h"

#include <fmt/format.h>
#include <getopt.h>
#include <rte_lcore.h>
#include <rte_version.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "common/nearest.h"
#include "dataplane/start/lcore_list.h"
#include "dataplane/start/pci_check.h"
#include "dataplane/start/vdev_check.h"

namespace weir::dataplane {

namespace {

enum LongOption { kBlock = 'b', kAllow = 'a', kHelp = 'h', kOther = 256, kLcores, kMainLcore, kVdev, kSocketMem };

// EAL's own tables: eal_short_options and eal_long_options of lib/eal/common/eal_common_options.c, DPDK 22.11 to 24.11.
constexpr const char* kShortOptions = ":a:b:c:s:d:hl:S:m:n:r:v";
constexpr option kLongOptions[] = {
    {"allow", required_argument, nullptr, kAllow},
    {"base-virtaddr", required_argument, nullptr, kOther},
    {"block", required_argument, nullptr, kBlock},
    {"create-uio-dev", no_argument, nullptr, kOther},
    {"file-prefix", required_argument, nullptr, kOther},
    {"force-max-simd-bitwidth", required_argument, nullptr, kOther},
    {"help", no_argument, nullptr, kHelp},
    {"huge-dir", required_argument, nullptr, kOther},
    {"huge-unlink", optional_argument, nullptr, kOther},
    {"huge-worker-stack", optional_argument, nullptr, kOther},
    {"in-memory", no_argument, nullptr, kOther},
    {"iova-mode", required_argument, nullptr, kOther},
    {"lcores", required_argument, nullptr, kLcores},
    {"legacy-mem", no_argument, nullptr, kOther},
    {"log-color", optional_argument, nullptr, kOther},
    {"log-level", required_argument, nullptr, kOther},
    {"log-timestamp", optional_argument, nullptr, kOther},
    {"main-lcore", required_argument, nullptr, kMainLcore},
    {"match-allocations", no_argument, nullptr, kOther},
    {"mbuf-pool-ops-name", required_argument, nullptr, kOther},
    {"no-hpet", no_argument, nullptr, kOther},
    {"no-huge", no_argument, nullptr, kOther},
    {"no-pci", no_argument, nullptr, kOther},
    {"no-shconf", no_argument, nullptr, kOther},
    {"no-telemetry", no_argument, nullptr, kOther},
    {"proc-type", required_argument, nullptr, kOther},
    {"single-file-segments", no_argument, nullptr, kOther},
    {"socket-limit", required_argument, nullptr, kOther},
    {"socket-mem", required_argument, nullptr, kSocketMem},
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
    {"syslog", optional_argument, nullptr, kOther},
#else
    {"syslog", required_argument, nullptr, kOther},
#endif
    {"telemetry", no_argument, nullptr, kOther},
    {"trace", required_argument, nullptr, kOther},
    {"trace-bufsz", required_argument, nullptr, kOther},
    {"trace-dir", required_argument, nullptr, kOther},
    {"trace-mode", required_argument, nullptr, kOther},
    {"vdev", required_argument, nullptr, kVdev},
    {"vfio-intr", required_argument, nullptr, kOther},
    {"vfio-vf-token", required_argument, nullptr, kOther},
    {"vmware-tsc-map", no_argument, nullptr, kOther},
    {nullptr, 0, nullptr, 0},
};
constexpr bool kTableMayBeOld = RTE_VERSION >= RTE_VERSION_NUM(24, 12, 0, 0);  // then EAL judges names itself

struct GivenOption {
  int id;            // its letter, or a LongOption
  std::string name;  // as errors show it
  std::string value;
};

std::string unknown_option(const std::string& given) {
  std::vector<std::string> written;
  for (const option& row : kLongOptions) {
    if (row.name != nullptr) written.push_back("--" + std::string(row.name));
  }
  const std::vector<std::string_view> names(written.begin(), written.end());
  const std::string_view near = nearest_name(given.substr(0, given.find('=')), names);
  return fmt::format("{}: EAL has no such option; {}", given,
                     near.empty() ? "`dataplane -h --` lists them, and the program's own options stand behind `--`"
                                  : fmt::format("did you mean `{}`?", near));
}

// getopt_long with EAL's tables: abbreviations and options in one word are read as EAL will read them.
std::vector<GivenOption> split_options(std::span<const std::string> given, std::vector<std::string>& errors) {
  std::vector<std::string> strings = {"dataplane"};
  strings.insert(strings.end(), given.begin(), given.end());
  std::vector<char*> argv;
  for (std::string& text : strings) argv.push_back(text.data());
  const int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);

  std::vector<GivenOption> options;
  optind = 0;  // glibc: begin anew
  opterr = 0;
  int index = 0;
  for (int id = 0; (id = getopt_long(argc, argv.data(), kShortOptions, kLongOptions, &index)) != -1;) {
    const std::string last = argv[static_cast<size_t>(optind) - 1];
    if (id == ':') {
      errors.push_back(last + ": its value is missing");
    } else if (id == '?') {
      const bool is_short = !last.starts_with("--") && optopt != 0;
      if (!kTableMayBeOld)
        errors.push_back(unknown_option(is_short ? std::string{'-', static_cast<char>(optopt)} : last));
    } else {
      const bool is_long = id >= kOther || last.starts_with("--");
      options.push_back(
          {id, is_long ? "--" + std::string(kLongOptions[index].name) : std::string{'-', static_cast<char>(id)},
           optarg == nullptr ? "" : optarg});
    }
  }
  for (int i = optind; errors.empty() && i < argc; i++) {
    errors.push_back(std::string(argv[static_cast<size_t>(i)]) +
                     ": belongs to no option, and EAL would leave it out; the program's own options stand behind `--`");
  }
  optind = 0;
  return options;
}

std::string list(const std::set<unsigned>& numbers) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    while (std::next(last) != numbers.end() && *std::next(last) == *last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(*first);
    if (last != first) text += "-" + std::to_string(*last);
    first = std::next(last);
  }
  return text;
}

class Checker {
 public:
  Checker(const CpuFacts& cpus, const std::string& sysfs, std::vector<std::string>& errors)
      : cpus_(cpus), sysfs_(sysfs), errors_(errors) {}

  void check(const std::vector<GivenOption>& options) {
    options_ = options;
    check_lcores();
    for (const GivenOption& one : options) {
      if (one.id == kVdev) add(check_vdev(one.value, find('d') != nullptr));
      if (one.id != kAllow) continue;
      const std::string error = check_pci_device(one.value, sysfs_);
      if (!error.empty()) errors_.push_back(error);
    }
    check_pairs();
  }

 private:
  const GivenOption* find(int id) const {
    const auto found = std::find_if(options_.begin(), options_.end(), [&](const auto& one) { return one.id == id; });
    return found == options_.end() ? nullptr : &*found;
  }
  const GivenOption* find(std::string_view name) const {
    const auto found =
        std::find_if(options_.begin(), options_.end(), [&](const auto& one) { return one.name == name; });
    return found == options_.end() ? nullptr : &*found;
  }
  void add(const std::vector<std::string>& errors) { errors_.insert(errors_.end(), errors.begin(), errors.end()); }
  void add(const GivenOption& one, const std::string& what) {
    errors_.push_back(fmt::format("{} {}: {}", one.name, one.value, what));
  }

  void check_lcores() {
    const GivenOption* chosen = nullptr;
    for (const GivenOption& one : options_) {
      if (one.id != 'l' && one.id != 'c' && one.id != kLcores) continue;
      if (chosen != nullptr) {
        add(one,
            fmt::format("{} {} says already which lcores there are; keep one of them", chosen->name, chosen->value));
        return;
      }
      chosen = &one;
    }
    if (chosen == nullptr) return;
    const Result<std::vector<LcoreCpus>> lcores = chosen->id == 'l'   ? parse_core_list(chosen->value)
                                                  : chosen->id == 'c' ? parse_core_mask(chosen->value)
                                                                      : parse_lcores(chosen->value);
    if (!lcores) return add(*chosen, lcores.error());
    std::set<unsigned> known;
    for (const LcoreCpus& one : *lcores) {
      known.insert(one.lcore);
      if (one.lcore >= cpus_.most_lcores) {
        return add(*chosen, fmt::format("lcore {}: this DPDK has lcores 0 to {}; place them with --lcores, such as "
                                        "`--lcores 0@{}`",
                                        one.lcore, cpus_.most_lcores - 1, *one.cpus.begin()));
      }
      if (!check_cpus(*chosen, one)) return;
    }
    check_main_lcore(known);
  }

  // An lcore may run on several CPUs; EAL asks for all to be there, the kernel for one that is allowed.
  bool check_cpus(const GivenOption& given, const LcoreCpus& lcore) {
    bool any_usable = false;
    for (const unsigned cpu : lcore.cpus) {
      any_usable = any_usable || cpus_.usable.contains(cpu);
      if (cpus_.online.contains(cpu)) continue;
      add(given, fmt::format("there is no CPU {} here; there are {}", cpu, list(cpus_.online)));
      return false;
    }
    if (any_usable) return true;
    add(given, fmt::format("CPU {} is not allowed for this process (a cpuset of its service or container); {} are",
                           list(lcore.cpus), list(cpus_.usable)));
    return false;
  }

  void check_main_lcore(const std::set<unsigned>& lcores) {
    const GivenOption* main = find(kMainLcore);
    if (main == nullptr) return;
    const Result<std::vector<LcoreCpus>> value = parse_core_list(main->value);
    if (value && value->size() == 1 && lcores.contains(value->front().lcore)) return;
    add(*main, "write one of the lcores " + list(lcores));
  }

  // What eal_check_common_options and eal_parse_common_option refuse together.
  void check_pairs() {
    constexpr std::string_view kNever[][2] = {
        {"-m", "--socket-mem"},
        {"--no-huge", "--socket-mem"},
        {"--no-huge", "--match-allocations"},
        {"--legacy-mem", "--match-allocations"},
        {"--legacy-mem", "--in-memory"},
    };
    for (const auto& [one, other] : kNever) contradict(find(one), find(other));
    contradict(find(kAllow), find(kBlock));
  }
  void contradict(const GivenOption* one, const GivenOption* other) {
    if (one == nullptr || other == nullptr) return;
    errors_.push_back(fmt::format("{} and {}: EAL takes one of them, not both; leave one out", one->name, other->name));
  }

  const CpuFacts& cpus_;
  const std::string& sysfs_;
  std::vector<std::string>& errors_;
  std::vector<GivenOption> options_;
};

std::set<unsigned> cpus_in(const cpu_set_t& cpus) {
  std::set<unsigned> numbers;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &cpus)) numbers.insert(cpu);
  }
  return numbers;
}

}  // namespace

// What taskset took away may be taken back, what a cpuset took may not: asking for every CPU tells which are left.
CpuFacts look_at_cpus() {
  CpuFacts facts;
  facts.most_lcores = RTE_MAX_LCORE;
  cpu_set_t before, wanted;
  CPU_ZERO(&before);
  CPU_ZERO(&wanted);
  if (sched_getaffinity(0, sizeof before, &before) != 0) return facts;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) CPU_SET(cpu, &wanted);
  cpu_set_t usable = before;
  if (sched_setaffinity(0, sizeof wanted, &wanted) == 0) {
    sched_getaffinity(0, sizeof usable, &usable);
    sched_setaffinity(0, sizeof before, &before);
  }
  facts.usable = cpus_in(usable);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (access(fmt::format("/sys/devices/system/cpu/cpu{}/topology/core_id", cpu).c_str(), F_OK) == 0) {
      facts.online.insert(cpu);  // as eal_cpu_detected
    }
  }
  return facts;
}

std::vector<std::string> check_eal_arguments(std::span<const std::string> given, const CpuFacts& cpus,
                                             const std::string& sysfs) {
  std::vector<std::string> errors;
  const std::vector<GivenOption> options = split_options(given, errors);
  const bool asks_for_help =
      std::any_of(options.begin(), options.end(), [](const auto& one) { return one.id == kHelp; });
  if (asks_for_help || (kTableMayBeOld && !errors.empty())) return {};
  Checker(cpus, sysfs, errors).check(options);
  return errors;
}

}  // namespace weir::dataplane
