#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "dataplane/doctor/subject.h"
#include "dataplane/ports/mbuf_pools.h"

// Memory: what the configuration wants of each NUMA node, and what is there.
namespace weir::dataplane::doctor {

namespace {

constexpr uint64_t kPageBytes = uint64_t{2} << 20;  // snapshots take these only (snapshot_memory.cpp)
constexpr uint64_t kMbufOverhead = 128 + 64;        // sizeof(rte_mbuf), and the pool's header of an object
constexpr uint64_t kEalBytes = uint64_t{4} << 20;   // rings, device data; measured 2 MiB with two ports
constexpr uint64_t kUsualRing = 1024;               // descriptors; each driver has its own default
constexpr int kCapIpcLock = 14;                     // linux/capability.h

std::string bytes_text(uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:g} MiB", std::ceil(mib)) : fmt::format("{:.4g} GiB", mib / 1024);
}

std::string node_folder(int64_t node) {
  return "sys/devices/system/node/node" + std::to_string(node) + "/";
}

uint64_t pages_of(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes;
}

// About: drivers choose their rings when EAL runs.
uint64_t mbuf_bytes(const Subject& subject) {
  const Config& config = subject.inputs.config;
  const auto used =
      std::count_if(subject.cards.begin(), subject.cards.end(), [](const Card& card) { return card.used; });
  uint64_t descriptors = 0;  // both directions
  if (config.ports) {
    for (const PortConfig& port : *config.ports) {
      descriptors += uint64_t{port.queues} * 2 * (port.descriptors != 0 ? port.descriptors : kUsualRing);
    }
  } else {
    descriptors = std::max<uint64_t>(static_cast<uint64_t>(used) + subject.eal.vdevs.size(), 2) * 2 * kUsualRing;
  }
  const auto n_workers = static_cast<unsigned>(subject.eal.workers.size());
  if (config.drop_port) descriptors += n_workers * kUsualRing;
  const uint64_t mbufs = config.mbufs.value_or(MbufPools::size_for(descriptors, n_workers));
  return mbufs * (kMbufOverhead + config.data_room) + kEalBytes;
}

struct Need {
  uint64_t snapshots = 0;  // bytes
  uint64_t mbufs = 0;
};

std::map<int64_t, Need> needs_of_nodes(const Subject& subject) {
  std::map<int64_t, Need> needs;
  const std::set<int64_t> workers = subject.worker_nodes();
  for (const int64_t node : workers) needs[node].snapshots = subject.inputs.config.snapshot_memory;
  bool any_card = false;
  for (const Card& card : subject.cards) {
    if (!card.used || card.numa_node < 0) continue;
    needs[card.numa_node].mbufs = mbuf_bytes(subject);
    any_card = true;
  }
  if (!any_card && !workers.empty()) needs[*workers.begin()].mbufs = mbuf_bytes(subject);
  return needs;
}

struct Pages {
  uint64_t total = 0, free = 0;  // of 2 MiB
  uint64_t other_free = 0;       // bytes in pages of other sizes: good for mbufs
};

// hugepages-2048kB
std::optional<int64_t> page_kib(std::string_view name) {
  constexpr std::string_view kFront = "hugepages-", kBack = "kB";
  if (!name.starts_with(kFront) || !name.ends_with(kBack)) return std::nullopt;
  const std::optional<int64_t> kib =
      parse_number(name.substr(kFront.size(), name.size() - kFront.size() - kBack.size()));
  return kib && *kib > 0 && *kib <= int64_t{1} << 30 ? kib : std::nullopt;
}

std::optional<Pages> pages_in(const Tree& tree, const std::string& folder) {
  Pages pages;
  bool any = false;
  for (const std::string& name : tree.names(folder)) {
    const std::optional<int64_t> kib = page_kib(name);
    const std::optional<int64_t> total = tree.number(folder + "/" + name + "/nr_hugepages");
    const std::optional<int64_t> free = tree.number(folder + "/" + name + "/free_hugepages");
    if (!kib || !total || !free || *total < 0 || *free < 0) continue;
    if (static_cast<uint64_t>(*kib) << 10 == kPageBytes) {
      pages.total = static_cast<uint64_t>(*total);
      pages.free = static_cast<uint64_t>(*free);
      any = true;
    } else {
      pages.other_free += (static_cast<uint64_t>(*free) * static_cast<uint64_t>(*kib)) << 10;
    }
  }
  return any ? std::optional(pages) : std::nullopt;
}

// kernel: admin-guide/mm/hugetlbpage.rst
std::string pages_folder(const Tree& tree, int64_t node) {
  const std::string of_node = node_folder(node) + "hugepages";
  return tree.exists(of_node) ? of_node : "sys/kernel/mm/hugepages";
}

// Bytes that the node has at all; 0: cannot be read. "Node 0 MemTotal:  24684096 kB"
uint64_t memory_of(const Tree& tree, int64_t node) {
  const std::string total = tree.value(node_folder(node) + "meminfo", fmt::format("Node {} MemTotal", node))
                                .value_or(tree.value("proc/meminfo", "MemTotal").value_or(""));
  const int64_t kib = parse_number(std::string_view(total).substr(0, total.find(' '))).value_or(0);
  return kib > 0 && kib < int64_t{1} << 50 ? static_cast<uint64_t>(kib) << 10 : 0;
}

void check_sizes(const Subject& subject, Section& section) {
  const std::string folder = "sys/kernel/mm/hugepages";
  std::vector<std::string> sizes;
  for (const std::string& name : subject.tree.names(folder)) {
    const std::optional<int64_t> total = subject.tree.number(folder + "/" + name + "/nr_hugepages");
    const std::optional<int64_t> free = subject.tree.number(folder + "/" + name + "/free_hugepages");
    const std::optional<int64_t> kib = page_kib(name);
    if (!total || !free || !kib) continue;
    sizes.push_back(fmt::format("{}: {} ({} free)", bytes_text(static_cast<uint64_t>(*kib) << 10), *total, *free));
  }
  if (sizes.empty()) return section.unknown("sizes", "/" + folder + " names no size: the kernel has none, or hides it");
  section.ok("sizes", join(sizes, ", "));
}

struct Shortage {
  int64_t node;
  uint64_t wanted;  // pages of the node in all
};

std::optional<Shortage> check_node(const Subject& subject, int64_t node, const Need& need, Section& section) {
  const std::string check = "node" + std::to_string(node);
  const std::string folder = pages_folder(subject.tree, node);
  const std::optional<Pages> pages = pages_in(subject.tree, folder);
  if (!pages) {
    section.unknown(check, "/" + folder + " tells no pages of 2 MiB");
    return std::nullopt;
  }
  const uint64_t mbufs = need.mbufs > pages->other_free ? need.mbufs - pages->other_free : 0;
  const uint64_t needed = pages_of(need.snapshots) + pages_of(mbufs);
  const std::string found =
      fmt::format("{} pages of 2 MiB needed ({} snapshot_memory, about {} for packets), {} free of {}", needed,
                  bytes_text(need.snapshots), bytes_text(need.mbufs), pages->free, pages->total);
  if (needed <= pages->free) {
    section.ok(check, found);
    return std::nullopt;
  }
  const uint64_t wanted = pages->total + (needed - pages->free);
  const uint64_t memory = memory_of(subject.tree, node);
  if (memory != 0 && wanted > memory / kPageBytes) {
    section.problem(check, found,
                    fmt::format("the node has {} in all: lower snapshot_memory in dataplane.yaml, or add memory",
                                bytes_text(memory)));
    return std::nullopt;
  }
  section.problem(check, fmt::format("{}: {} missing", found, needed - pages->free),
                  fmt::format("echo {} > /{}/hugepages-2048kB/nr_hugepages (soon after the boot), or lower "
                              "snapshot_memory in dataplane.yaml",
                              wanted, folder));
  return Shortage{node, wanted};
}

void check_nodes(const Subject& subject, Section& section) {
  const std::vector<std::string>& given = subject.inputs.eal;
  if (std::find(given.begin(), given.end(), "--no-huge") != given.end()) {
    return section.hint("node", "--no-huge: ordinary pages, and many more TLB misses", "leave --no-huge out");
  }
  std::vector<std::string> boot;
  size_t first = section.findings.size();
  const std::map<int64_t, Need> needs = needs_of_nodes(subject);
  for (const auto& [node, need] : needs) {
    const size_t at = section.findings.size();
    const std::optional<Shortage> shortage = check_node(subject, node, need, section);
    if (!shortage) continue;
    if (boot.empty()) first = at;
    boot.push_back(needs.size() == 1 ? std::to_string(shortage->wanted) : fmt::format("{}:{}", node, shortage->wanted));
  }
  if (!boot.empty()) section.findings[first].boot = "hugepagesz=2M hugepages=" + join(boot, ",");
}

void check_mount(const Subject& subject, Section& section) {
  const std::optional<std::string> mounts = subject.tree.text("proc/mounts");
  if (!mounts) return section.unknown("mount", "/proc/mounts cannot be read");
  std::vector<std::string> folders;
  for (const std::string_view line : split_at(*mounts, '\n')) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() > 2 && words[2] == "hugetlbfs") folders.emplace_back(words[1]);
  }
  const std::string found = folders.empty() ? "no hugetlbfs mount" : "hugetlbfs on " + join(folders, ", ");
  if (subject.eal.in_memory) return section.ok("mount", found + "; --in-memory needs none");
  if (!folders.empty() || !subject.machine.huge_pages) return section.ok("mount", found);
  section.hint("mount", found + ", and an EAL option asks for files: ordinary pages are used",
               "mkdir -p /dev/hugepages; mount -t hugetlbfs none /dev/hugepages; or leave --file-prefix, --huge-dir, "
               "--legacy-mem and the like out");
}

// kernel: admin-guide/cgroup-v2.rst and cgroup-v1/hugetlb.rst
void check_group_limit(const Subject& subject, Section& section) {
  if (!subject.tree.exists("proc/self/cgroup")) return section.unknown("cgroup", "/proc/self/cgroup cannot be read");
  uint64_t needed = 0;
  for (const auto& [node, need] : needs_of_nodes(subject)) needed += need.snapshots + need.mbufs;
  std::vector<std::string> files;
  for (const std::string& folder : control_group_folders(subject.tree, "", 2))
    files.push_back(folder + "/hugetlb.2MB.max");
  for (const std::string& folder : control_group_folders(subject.tree, "hugetlb", 1)) {
    files.push_back(folder + "/hugetlb.2MB.limit_in_bytes");
  }
  for (const std::string& file : files) {
    const std::optional<int64_t> limit = subject.tree.number(file);  // not a number: "max"
    if (!limit || *limit < 0 || static_cast<uint64_t>(*limit) >= needed) continue;
    return section.problem(
        "cgroup",
        fmt::format("/{} is {}, {} needed", file, bytes_text(static_cast<uint64_t>(*limit)), bytes_text(needed)),
        fmt::format("echo {} > /{}", pages_of(needed) * kPageBytes, file));
  }
  section.ok("cgroup", "no control group limits huge pages below what is needed");
}

// kernel: admin-guide/mm/transhuge.rst. What the snapshots fall back to.
void check_transparent(const Subject& subject, Section& section) {
  const std::string file = "sys/kernel/mm/transparent_hugepage/enabled";
  const std::string text = subject.tree.text(file).value_or("");  // always [madvise] never
  const size_t open = text.find('[');
  const size_t close = text.find(']', open == text.npos ? 0 : open);
  if (open == text.npos || close == text.npos) return section.unknown("transparent", "/" + file + " cannot be read");
  const std::string mode = text.substr(open + 1, close - open - 1);
  if (mode != "never") return section.ok("transparent", mode + ": a snapshot without huge pages is merged into some");
  section.hint("transparent", "never: a snapshot without reserved huge pages runs on pages of 4 KiB",
               "echo madvise > /" + file);
}

void check_locked(const Subject& subject, Section& section) {
  const std::string limits = subject.tree.text("proc/self/limits").value_or("");
  std::vector<std::string_view> words;
  for (const std::string_view line : split_at(limits, '\n')) {
    constexpr std::string_view kName = "Max locked memory";
    if (line.starts_with(kName)) words = words_of(line.substr(kName.size()));
  }
  const std::optional<int64_t> caps = parse_number(subject.tree.value("proc/self/status", "CapEff").value_or(""), 16);
  if (words.size() < 2 || !caps)
    return section.unknown("memlock", "/proc/self/limits or CapEff in /proc/self/status cannot be read");
  const std::optional<int64_t> limit = parse_number(words[0]);
  const std::string found =
      limit ? bytes_text(static_cast<uint64_t>(std::max<int64_t>(*limit, 0))) : std::string(words[0]);
  const bool exempt = (static_cast<uint64_t>(*caps) >> kCapIpcLock & 1) != 0;
  if (exempt || words[0] == "unlimited") {
    return section.ok("memlock", found + (exempt ? ", and CAP_IPC_LOCK exempts from it" : ""));
  }
  const uint64_t needed = mbuf_bytes(subject);
  if (!limit) return section.unknown("memlock", "/proc/self/limits has no number: " + found);
  if (static_cast<uint64_t>(std::max<int64_t>(*limit, 0)) >= needed) return section.ok("memlock", found);
  const std::string what =
      fmt::format("{} may be locked; VFIO and AF_XDP lock the packet memory, about {}", found, bytes_text(needed));
  const std::string fix =
      "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit, or memlock in /etc/security/limits.conf";
  const bool vfio = std::any_of(subject.cards.begin(), subject.cards.end(),
                                [](const Card& card) { return card.used && card.driver == "vfio-pci"; });
  return vfio ? section.problem("memlock", what, fix) : section.hint("memlock", what, fix);
}

}  // namespace

Section check_memory(const Subject& subject) {
  Section section{"memory", "Huge pages", {}};
  check_sizes(subject, section);
  check_nodes(subject, section);
  check_mount(subject, section);
  check_group_limit(subject, section);
  check_transparent(subject, section);
  check_locked(subject, section);
  return section;
}

}  // namespace weir::dataplane::doctor
