// Lists of hosts in XDP: weir's program beside what the kernel's maps make of the same list. In a network and a mount
// namespace of its own, which go when it does. Prints JSON.
//   lookup   nanoseconds a packet, without a network (BPF_PROG_TEST_RUN)
//   lane     a generator, a pair of veth, and what filters at their other end; runs on commands
//   load     from a list in memory to its first verdict
//   hosts    the members of a list, as text
//   fill-xdp-filter   a list into the maps of xdp-filter, in the namespaces of the caller
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/ip.h"
#include "tests/bench/xdp_hosts.h"
#include "tests/bench/xdp_peers.h"
#include "tests/bench/xdp_traffic.h"
#include "tests/bench/xdp_weir.h"

namespace weir::bench {
namespace {

using nlohmann::json;

const std::string kWeir = "weir";

struct Options {
  uint32_t entries = 1'000'000;
  std::vector<double> hits = {0, 0.01, 0.5, 1};
  std::vector<std::string> peers = {"parse", "hash", "lpm", "bloom", kWeir};
  std::string peer = "none";
  std::string format = "plain";
  uint32_t rounds = 5;
  unsigned family = 4, tags = 0;
  double false_positive_rate = 0.005;
  uint32_t overlay = 0;
};

Error errno_error(const std::string& what) {
  return Error{fmt::format("{}: {}", what, strerror(errno))};
}

// One mount after the other: the root folder is none in a plain chroot.
void make_mounts_private() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, point;
    if (words >> id >> parent >> device >> root >> point) mount(nullptr, point.c_str(), nullptr, MS_PRIVATE, nullptr);
  }
}

// What is mounted, pinned and made here is seen by nobody else, and goes with the last process in it.
Result<void> enter_own_namespaces() {
  if (unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) return errno_error("making namespaces");
  make_mounts_private();
  if (mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700") != 0) return errno_error("mounting a BPF file system");
  return {};
}

uint32_t share_of(double hits, uint32_t count) {
  return static_cast<uint32_t>(std::llround(hits * count));
}

// Everybody whose program can be run.
struct Contenders {
  std::optional<XdpPeers> peers;
  std::unique_ptr<xdp::Enforcer> weir;

  int program_fd(const std::string& name) const {
    if (name == kWeir) return weir->program_fd();
    return peers->program_fd(name);
  }
  XdpCounts counts(const std::string& name) const {
    if (name == kWeir) return counts_of(*weir);
    return name == "none" ? XdpCounts{} : peers->counts();
  }
};

Result<Contenders> open_contenders(const std::vector<std::string>& names, const Options& options, bool drop_misses,
                                   const std::string& interface, json& told) {
  Contenders all;
  const uint32_t n4 = options.family == 6 ? 0 : options.entries;
  const std::vector<uint32_t> listed = members(n4);
  const std::vector<uint64_t> listed6 = members6(options.entries - n4);
  std::vector<std::string> peers;
  for (const std::string& name : names) {
    if (name != kWeir && name != "none") peers.push_back(name);
  }
  if (!peers.empty()) {
    Result<XdpPeers> opened = XdpPeers::open(peers, listed, listed6, drop_misses);
    if (!opened) return Error{opened.error()};
    all.peers.emplace(std::move(*opened));
  }
  if (std::find(names.begin(), names.end(), kWeir) != names.end()) {
    xdp::Options plane;
    plane.bpf_dir = kBpfDir;
    if (!interface.empty()) plane.interfaces = {interface};
    plane.multi_buffer = false;  // as on interfaces with an ordinary MTU
    plane.attach = xdp::Attach::native;
    Result<std::unique_ptr<xdp::Enforcer>> opened = xdp::Enforcer::open(plane);
    if (!opened) return Error{opened.error()};
    all.weir = std::move(*opened);
    for (const xdp::InterfaceState& state : all.weir->interfaces()) {
      if (!state.attached) return Error{fmt::format("weir is not attached to {}: {}", state.name, state.error)};
    }
    const Result<control::Compiled> compiled =
        compile_hosts({listed, listed6, drop_misses, options.false_positive_rate}, 1);
    if (!compiled) return Error{compiled.error()};
    for (const control::ShapeReport& shape : compiled->report.shapes) {
      told["weir_shapes"].push_back({{"name", shape.name},
                                     {"layout", shape.shape.layout},
                                     {"expected_fpr", shape.expected_fpr},
                                     {"bits_per_key", shape.bits_per_key}});
    }
    told["weir_bytes"] = compiled->size_bytes;
    const Result<double> published = publish(*all.weir, *compiled);
    if (!published) return Error{published.error()};
    if (options.overlay != 0) {
      const std::vector<uint32_t> more = members(options.entries + options.overlay);
      const Result<double> added = publish_overlay(*all.weir, *compiled, std::span(more).last(options.overlay));
      if (!added) return Error{added.error()};
      told["overlay_seconds"] = *added;
    }
  }
  return all;
}

// lookup

Result<json> measure_lookup(const Options& options) {
  json found = {{"entries", options.entries}, {"rows", json::array()}};
  std::vector<std::string> loaded = options.peers;
  const bool has_bloom = std::find(loaded.begin(), loaded.end(), "bloom") != loaded.end();
  if (has_bloom) loaded.push_back("bloom_alone");
  Result<Contenders> all = open_contenders(loaded, options, false, "", found);
  if (!all) return Error{all.error()};
  Result<XdpTraffic> traffic = XdpTraffic::open("", options.family, options.tags);
  if (!traffic) return Error{traffic.error()};
  for (const std::string& name : options.peers) {
    if (name != kWeir) found["list_mib"][name] = all->peers->list_mib(name);
  }

  // As many frames as there are sources, so that the share of hits is what it should be to the frame.
  const auto sample = [&](const std::string& name, uint32_t expected_hits) -> Result<double> {
    if (Result<void> called = traffic->call(all->program_fd(name)); !called) return Error{called.error()};
    if (Result<double> warm = traffic->run(XDP_SOURCES / 4); !warm) return warm;  // not measured
    if (Result<void> called = traffic->call(all->program_fd(name)); !called) return Error{called.error()};
    const XdpCounts before = all->counts(name);
    const Result<double> spent = traffic->run(XDP_SOURCES);
    if (!spent) return spent;
    const XdpCounts after = all->counts(name);
    if (after.hits - before.hits != expected_hits || after.misses - before.misses != XDP_SOURCES - expected_hits) {
      return Error{fmt::format("{} counted {} hits and {} misses of {} frames with {} hits", name,
                               after.hits - before.hits, after.misses - before.misses, XDP_SOURCES, expected_hits)};
    }
    return *spent / XDP_SOURCES;
  };

  for (const double hits : options.hits) {
    const uint32_t n_hits = share_of(hits, XDP_SOURCES);
    json rounds = json::array();
    for (uint32_t round = 0; round < options.rounds; round++) {
      traffic->set_sources(draw_sources(options.family, options.entries, n_hits, XDP_SOURCES, round));
      json times = json::object();
      for (size_t i = 0; i < options.peers.size(); i++) {
        const std::string& name = options.peers[(i + round) % options.peers.size()];
        const Result<double> ns = sample(name, name.starts_with("parse") ? 0 : n_hits);
        if (!ns) return Error{ns.error()};
        times[name] = *ns;
      }
      rounds.push_back(times);
    }
    found["rows"].push_back({{"hits", hits}, {"ns", rounds}});
  }
  if (has_bloom) {
    traffic->set_sources(draw_sources(options.family, options.entries, 0, XDP_SOURCES, options.rounds));
    if (Result<void> called = traffic->call(all->program_fd("bloom_alone")); !called) return Error{called.error()};
    const XdpCounts before = all->counts("bloom_alone");
    if (Result<double> ran = traffic->run(XDP_SOURCES); !ran) return Error{ran.error()};
    found["bloom_fpr"] = static_cast<double>(all->counts("bloom_alone").hits - before.hits) / XDP_SOURCES;
    found["bloom_max_entries"] = bloom_entries(options.entries);
  }
  return found;
}

// lane

Result<void> command(const char* line) {
  if (system(line) != 0) return Error{fmt::format("`{}` failed", line)};
  return {};
}

constexpr const char* kSender = "g0";
constexpr const char* kReceiver = "r0";

Result<void> make_pair() {
  for (const char* line : {"ip link add g0 numrxqueues 1 numtxqueues 1 type veth peer name r0 numrxqueues 1 "
                           "numtxqueues 1",
                           "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
                           "ip link set r0 address 52:54:00:00:00:01",
                           // Frames that arrive go to NAPI: without, they vanish where no XDP program is.
                           "ethtool -K r0 gro on", "ip link set lo up", "ip link set g0 up", "ip link set r0 up"}) {
    if (Result<void> done = command(line); !done) return done;
  }
  return {};
}

void print(const json& line) {
  fmt::print("{}\n", line.dump());
  fflush(stdout);
}

// Commands, one a line: `run HITS SECONDS SEED`. Ends with its input.
Result<void> serve(const Options& options) {
  if (Result<void> made = make_pair(); !made) return made;
  json ready = {{"event", "ready"}, {"peer", options.peer}, {"entries", options.entries}};
  const Result<Contenders> all = open_contenders({options.peer}, options, true, kReceiver, ready);
  if (!all) return Error{all.error()};
  if (options.peer != "none" && options.peer != kWeir) {
    bpf_xdp_attach_opts attach = {};
    attach.sz = sizeof attach;
    const int result = bpf_xdp_attach(static_cast<int>(if_nametoindex(kReceiver)), all->program_fd(options.peer),
                                      XDP_FLAGS_DRV_MODE, &attach);
    if (result != 0) return Error{fmt::format("attaching {}: {}", options.peer, strerror(-result))};
  }
  Result<XdpTraffic> traffic = XdpTraffic::open(kSender);
  if (!traffic) return Error{traffic.error()};
  print(ready);

  std::optional<double> drawn_hits;
  uint32_t drawn_seed = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    double hits = 0, seconds = 0;
    uint32_t seed = 0;
    if (!(words >> verb >> hits >> seconds >> seed) || verb != "run") return Error{"not understood: " + line};
    if (drawn_hits != hits || drawn_seed != seed) {
      traffic->set_sources(
          draw_sources(options.family, options.entries, share_of(hits, XDP_SOURCES), XDP_SOURCES, seed));
      drawn_hits = hits;
      drawn_seed = seed;
    }
    const XdpCounts before = all->counts(options.peer);
    const Result<XdpTraffic::Sent> sent = traffic->send(seconds);
    if (!sent) return Error{sent.error()};
    const XdpCounts after = all->counts(options.peer);
    print({{"event", "ran"},
           {"sent", sent->frames},
           {"wall_ns", sent->wall_ns},
           {"core_ns", sent->core_ns},
           {"hits", after.hits - before.hits},
           {"misses", after.misses - before.misses}});
  }
  return {};
}

// load

Result<json> load_weir(const std::vector<uint32_t>& listed) {
  const double compile_start = wall_ns();
  const Result<control::Compiled> first = compile_hosts({.members = listed}, 1);
  const double compile_s = (wall_ns() - compile_start) / 1e9;
  const Result<control::Compiled> second = compile_hosts({.members = listed}, 2);
  if (!first || !second) return Error{!first ? first.error() : second.error()};
  xdp::Options plane;
  plane.bpf_dir = kBpfDir;
  plane.multi_buffer = false;
  Result<std::unique_ptr<xdp::Enforcer>> enforcer = xdp::Enforcer::open(plane);
  if (!enforcer) return Error{enforcer.error()};
  Result<XdpTraffic> traffic = XdpTraffic::open("");
  if (!traffic) return Error{traffic.error()};
  if (Result<void> called = traffic->call((*enforcer)->program_fd()); !called) return Error{called.error()};
  const uint64_t member = __builtin_bswap32(listed[listed.size() / 2]);
  const auto verdict = [&](uint32_t wanted) -> Result<void> {
    const Result<uint32_t> found = traffic->verdict(member);
    if (!found) return Error{found.error()};
    if (*found != wanted) return Error{fmt::format("a member's verdict is {}, not {}", *found, wanted)};
    return {};
  };
  if (Result<void> passed = verdict(XDP_PASS); !passed) return Error{passed.error()};
  json found = {{"weir_compile", compile_s}};
  for (const auto& [name, compiled] : {std::pair("weir", &*first), std::pair("weir_swap", &*second)}) {
    const double start = wall_ns();
    if (Result<double> published = publish(**enforcer, *compiled); !published) return Error{published.error()};
    if (Result<void> dropped = verdict(XDP_DROP); !dropped) return Error{dropped.error()};
    found[name] = (wall_ns() - start) / 1e9;
  }
  return found;
}

// One round: every peer once.
Result<json> measure_load(const Options& options) {
  const std::vector<uint32_t> listed = members(options.entries);
  Result<json> found = load_weir(listed);
  if (!found) return found;
  for (const auto& [name, fill] :
       {std::pair("hash", Fill::hash), std::pair("hash_batch", Fill::hash_batch), std::pair("lpm", Fill::lpm),
        std::pair("lpm_batch", Fill::lpm_batch), std::pair("bloom", Fill::bloom)}) {
    const Result<double> seconds = time_fill(fill, listed);
    if (!seconds) return Error{seconds.error()};
    (*found)[name] = *seconds;
  }
  return found;
}

// hosts

constexpr size_t kPerStatement = 20'000;  // elements, for nft: one netlink message each

void print_hosts(const Options& options) {
  const std::vector<uint32_t> listed = members(options.entries);
  std::string text;
  for (size_t i = 0; i < listed.size(); i++) {
    if (options.format == "ipset") text += "add members ";
    if (options.format == "nft") text += i % kPerStatement == 0 ? "add element FAMILY bench members { " : ", ";
    text += to_string(Ipv4{listed[i]});
    if (options.format != "nft") {
      text += '\n';
    } else if ((i + 1) % kPerStatement == 0 || i + 1 == listed.size()) {
      text += " }\n";
    }
  }
  fwrite(text.data(), 1, text.size(), stdout);
}

// fill-xdp-filter

// The value of an element that `xdp-filter ip` made tells what all of them have to be.
Result<void> fill_xdp_filter(const Options& options) {
  const Fd map(bpf_obj_get("/sys/fs/bpf/xdp-filter/filter_ipv4"));
  if (!map) return errno_error("opening the map of xdp-filter");
  uint32_t first = 0;
  if (bpf_map_get_next_key(map.get(), nullptr, &first) != 0) return errno_error("xdp-filter has no element yet");
  std::vector<uint64_t> value(static_cast<size_t>(libbpf_num_possible_cpus()));
  if (bpf_map_lookup_elem(map.get(), &first, value.data()) != 0) return errno_error("reading an element");
  for (const uint32_t member : members(options.entries)) {
    const uint32_t key = __builtin_bswap32(member);
    if (bpf_map_update_elem(map.get(), &key, value.data(), BPF_ANY) != 0) return errno_error("filling xdp-filter");
  }
  return {};
}

int fail(const std::string& why) {
  fmt::print(stderr, "xdp_bench: {}\n", why);
  return 1;
}

template <class T>
int finish(const Result<T>& result) {
  if (!result) return fail(result.error());
  if constexpr (!std::is_void_v<T>) print(*result);
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Lists of hosts in XDP: weir beside the kernel's maps. Prints JSON.");
  app.require_subcommand(1);
  CLI::App* lookup = app.add_subcommand("lookup", "nanoseconds a packet, without a network");
  CLI::App* lane = app.add_subcommand("lane", "veth and what filters there; reads `run HITS SECONDS SEED`");
  CLI::App* load = app.add_subcommand("load", "one round of times to load a list, in seconds");
  CLI::App* hosts = app.add_subcommand("hosts", "the members, as text");
  CLI::App* fill = app.add_subcommand("fill-xdp-filter", "the members into the maps of xdp-filter");
  for (CLI::App* each : {lookup, lane, load, hosts, fill}) {
    each->add_option("--entries", options.entries)->check(CLI::Range(1u, 1u << 27));
  }
  lookup->add_option("--hits", options.hits, "shares of the frames")->delimiter(',')->check(CLI::Range(0.0, 1.0));
  lookup->add_option("--peers", options.peers, "parse, hash, lpm, bloom, weir; of IPv6 parse6, hash6, weir")
      ->delimiter(',');
  lookup->add_option("--rounds", options.rounds);
  lookup->add_option("--false-positive-rate", options.false_positive_rate, "of weir");
  lookup->add_option("--overlay", options.overlay, "IPv4 hosts beside those, in an overlay of weir's");
  lookup->add_option("--family", options.family, "4 or 6")->check(CLI::IsMember({4u, 6u}));
  lookup->add_option("--tags", options.tags, "VLAN tags of each frame of IPv4; only weir reads such")
      ->check(CLI::Range(0u, 7u));
  lane->add_option("--peer", options.peer, "as above, or none");
  hosts->add_option("--format", options.format)->check(CLI::IsMember({"plain", "nft", "ipset"}));
  CLI11_PARSE(app, argc, argv);

  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (hosts->parsed()) return print_hosts(options), 0;
  if (fill->parsed()) return finish(fill_xdp_filter(options));
  if (Result<void> entered = enter_own_namespaces(); !entered) return fail(entered.error());
  if (lookup->parsed()) return finish(measure_lookup(options));
  return lane->parsed() ? finish(serve(options)) : finish(measure_load(options));
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  return weir::bench::run(argc, argv);
}
