#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "dataplane/start/privileges.h"

// dataplane.yaml (configs/dataplane.yaml is its manual by example). Everything has a default.
namespace weir::dataplane {

enum class Forward : uint8_t { pair, hairpin, sink };
enum class IdleMode : uint8_t { poll, pause, interrupt };

constexpr uint16_t kMaxQueues = 1024;        // of a port; RTE_MAX_QUEUES_PER_PORT
constexpr uint16_t kMaxSpread = 16;          // RTE_PMD_RING_MAX_RX_RINGS
constexpr uint16_t kLeastMtu = 68;           // RFC 791
constexpr uint16_t kMaxPortNumber = 1023;    // Debian's RTE_MAX_ETHPORTS is 32; DPDK itself refuses what it cannot hold
constexpr uint32_t kDefaultDataRoom = 2176;  // 2048 bytes of frame behind 128 of headroom, as DPDK's default
constexpr uint32_t kLeastDataRoom = 256;     // headroom and the headers of a plain frame
constexpr uint32_t kDefaultSampleOneIn = 64;
constexpr uint32_t kMostSampleOneIn = 1'000'000;
constexpr uint32_t kMostDataRoom = 65535;  // mbuf data_room is 16 bits

// Where a value stands, for errors that are only found when the ports are known.
struct Place {
  Location where;
  std::string source_line;
};

struct PortConfig {
  uint16_t port = 0;
  uint16_t queues = 1;
  uint16_t descriptors = 0;  // of each ring; 0: what the driver prefers
  uint16_t mtu = 0;          // bytes of a frame's payload; 0: as the device has it
  bool promiscuous = true;
  uint16_t spread = 0;  // over how many software queues its one hardware queue is spread; 0: it is not

  // Queues that workers receive from.
  uint16_t width() const { return spread != 0 ? spread : queues; }
  Place place;
};

// What workers do while nothing comes (idle.h).
struct IdleConfig {
  IdleMode mode = IdleMode::pause;
  uint32_t pause_us = 5;   // the longest pause
  uint32_t sleep_us = 50;  // the longest sleep, where a port raises no interrupts
};

struct Config {
  std::string socket_path;
  std::vector<uid_t> allow_uid;  // besides our own and 0
  std::string state_dir;
  uint64_t snapshot_memory = uint64_t{1} << 30;  // bytes for two snapshots
  bool pass_without_snapshot = true;
  Forward forward = Forward::pair;
  std::optional<std::vector<PortConfig>> ports;  // empty: every port, one queue each
  std::optional<uint16_t> drop_port;
  std::optional<uint32_t> mbufs;  // empty: computed from rings and caches
  uint32_t data_room = kDefaultDataRoom;
  PrivilegeSettings privileges;
  IdleConfig idle;
  uint32_t sample_one_in = kDefaultSampleOneIn;  // passes of a worker that are timed; 0: none
  Place forward_place, ports_place, drop_port_place;
};

// What holds when there is no file.
Config default_config();
// Check diagnostics.ok() before use.
Config read_config(const std::string& path, Diagnostics& diagnostics);
Config parse_config(std::string path, std::string text, Diagnostics& diagnostics);

}  // namespace weir::dataplane
