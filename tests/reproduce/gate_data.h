// The real lists and captures that tests/bench/papers/reproduce_gate.py has laid out: lists/NAME.yaml, a policy of one
// list each, read as controld reads it; and captures.txt, a line for each capture: its name and its files, by tabs.
#pragma once

#include <pcap/pcap.h>

#include <compare>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "control/compile/merge/merge.h"
#include "control/compile/plan/flow_index.h"
#include "control/compile/plan/plan.h"
#include "control/policy/read/policy.h"
#include "tests/reference/frames.h"
#include "tests/reproduce/measure.h"

namespace weir::reproduce {

// Empty: there is no data.
inline std::string data_folder() {
  const char* folder = std::getenv("REPRODUCE_GATE_DATA");
  return folder == nullptr ? "" : folder;
}

// A policy of one list, and what the product's planner makes of it.
struct PlannedList {
  std::string name;
  control::Policy policy;
  control::Planned planned;
};

// Nothing when the list cannot be read, or holds nothing: said on stderr.
inline std::optional<PlannedList> plan_list(const std::filesystem::path& path) {
  const std::string name = path.stem().string();
  Diagnostics diagnostics;
  std::optional<control::Policy> policy = control::read_policy(path.string(), diagnostics);
  if (!policy || policy->lists.empty() || policy->lists[0].entries() == 0) {
    say("gate: " + name + " holds no entries that the product reads");
    return std::nullopt;
  }
  control::Merged merged = control::merge(*policy);
  if (const auto indexed = control::index_flows(*policy, merged); !indexed) give_up(name + ": " + indexed.error());
  Result<control::Planned> planned = control::plan(merged, *policy);
  if (!planned) give_up(name + ": " + planned.error());
  return PlannedList{name, std::move(*policy), std::move(*planned)};
}

// By name.
inline std::vector<std::filesystem::path> list_paths() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder() + "/lists")) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// One side of a packet: who is asked about. IPv4 in the low 32 bits.
struct Talker {
  uint8_t family = 4;
  Ipv6 address = 0;
  bool has_port = false;
  uint16_t port = 0;
  auto operator<=>(const Talker&) const = default;

  // As gates take it.
  uint64_t gate_address() const {
    return family == 4 ? static_cast<uint64_t>(address) << 32 : static_cast<uint64_t>(address >> 64);
  }
};
using Talkers = std::map<Talker, uint64_t>;  // and their packets

struct Capture {
  std::string name;
  uint64_t packets = 0;                // with addresses
  Talkers side[2];                     // by enum weir_side
  std::vector<uint32_t> v4_sources{};  // of each such packet in turn, as on the wire
};

// The frame with an Ethernet header in front where the capture has another link type; empty: no IP is in it.
inline std::vector<uint8_t> ethernet_of(int link_type, std::span<const uint8_t> frame) {
  if (link_type == DLT_EN10MB) return {frame.begin(), frame.end()};
  constexpr size_t kCookedBytes = 16;
  uint8_t type[2] = {0x08, 0x00};
  if (link_type == DLT_LINUX_SLL) {
    if (frame.size() < kCookedBytes) return {};
    type[0] = frame[kCookedBytes - 2], type[1] = frame[kCookedBytes - 1];
    frame = frame.subspan(kCookedBytes);
  } else if (frame.empty() || (link_type != DLT_RAW && link_type != DLT_IPV4 && link_type != DLT_IPV6)) {
    return {};
  } else if (frame[0] >> 4 == 6) {
    type[0] = 0x86, type[1] = 0xdd;
  }
  std::vector<uint8_t> made(12);
  made.insert(made.end(), type, type + 2);
  made.insert(made.end(), frame.begin(), frame.end());
  return made;
}

inline void add_frame(std::span<const uint8_t> bytes, Capture& capture) {
  const reference::Frame frame = reference::parse_frame(bytes);
  if (frame.layers.empty()) return;
  const reference::PacketKeys& keys = frame.layers[0];
  capture.packets++;
  capture.side[WEIR_SIDE_SOURCE][{keys.family, keys.src, keys.has_ports, keys.sport}]++;
  capture.side[WEIR_SIDE_DESTINATION][{keys.family, keys.dst, keys.has_ports, keys.dport}]++;
  if (keys.family == 4) capture.v4_sources.push_back(__builtin_bswap32(static_cast<uint32_t>(keys.src)));
}

// A file that ends inside a frame counts up to there, one that is no capture not at all: some are so on purpose.
inline void add_file(const std::string& path, Capture& capture) {
  char why[PCAP_ERRBUF_SIZE] = {};
  const std::unique_ptr<pcap_t, void (*)(pcap_t*)> file(pcap_open_offline(path.c_str(), why), pcap_close);
  if (file == nullptr) return;
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  while (pcap_next_ex(file.get(), &header, &bytes) == 1) {
    add_frame(ethernet_of(pcap_datalink(file.get()), {bytes, header->caplen}), capture);
  }
}

inline std::vector<Capture> read_captures() {
  std::vector<Capture> captures;
  std::ifstream lines(data_folder() + "/captures.txt");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Capture capture;
    std::getline(words, capture.name, '\t');
    for (std::string path; std::getline(words, path, '\t');) add_file(path, capture);
    captures.push_back(std::move(capture));
  }
  return captures;
}

}  // namespace weir::reproduce
