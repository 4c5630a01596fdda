#include "dataplane/start/config_keys.h"

#include "dataplane/start/config.h"

namespace weir::dataplane {

namespace {

using yaml::Key;
using yaml::Section;
namespace row = yaml::row;

constexpr uint64_t kLeastSnapshotMemory = uint64_t{4} << 20;  // two huge pages: two snapshots of nothing
constexpr uint64_t kMostSnapshotMemory = uint64_t{1} << 40;
constexpr uint64_t kMostMbufs = uint64_t{1} << 28;
constexpr uint64_t kMostDescriptors = 32768;
constexpr uint64_t kMostPauseUs = 1000;    // past it a pause is a sleep that keeps the core busy
constexpr uint64_t kMostSleepUs = 10'000;  // rings overflow long before

constexpr Key kUser = row::text("", "A name or a number.").called("user");
constexpr Key kSocketKeys[] = {
    row::text("path",
              "The Unix socket where controld and controlctl speak to this data plane. Without root it is "
              "$XDG_RUNTIME_DIR/weir/dataplane.sock, or the same below /run/user/UID.")
        .called("path")
        .by_default("/run/weir/dataplane.sock"),
    row::sequence(
        "allow_uid", kUser,
        "Users who may connect, by name or number, besides root and the user of the data plane itself. A name "
        "that does not exist here is a warning.")
        .by_default("[]"),
};
constexpr Section kSocket = {"`socket`", kSocketKeys};

constexpr Key kMempoolKeys[] = {
    row::integer(
        "mbufs", 1, kMostMbufs,
        "Packet buffers on each NUMA node. auto: what rings and caches hold; infinite_rx of net_pcap needs more "
        "than the capture has frames, for every queue.")
        .or_word("auto")
        .by_default("auto"),
    row::size("data_room", kLeastDataRoom, kMostDataRoom,
              "Bytes of each buffer. 128 of them are headroom, the others hold the frame.")
        .by_default("2176"),
};
constexpr Section kMempool = {"`mempool`", kMempoolKeys};

constexpr Key kCapability =
    row::text("capability", "The name of a capability, without CAP_.").matching("[a-z_]+").called("name");
constexpr Key kPrivilegesKeys[] = {
    row::text("user", "Whom root becomes once the ports run. Left out: weir, which has to exist; root stays root.")
        .called("user")
        .by_default("weir"),
    row::sequence(
        "keep", kCapability,
        "Capabilities that are kept besides those that the drivers need, such as net_admin (capabilities(7)). "
        "[all] gives none up.")
        .by_default("[]"),
    row::choice("seccomp", "refuse | kill | log | off",
                "What a system call that a data plane never makes meets: it fails, the process ends, it is logged, or "
                "nothing happens.")
        .by_default("refuse"),
};
constexpr Section kPrivileges = {"`privileges`", kPrivilegesKeys};

constexpr Key kIdleKeys[] = {
    row::choice("mode", "poll | pause | interrupt",
                "What a worker does while no frame comes. poll: it goes on polling. pause: it pauses its core between "
                "polls, up to pause_us. interrupt: it sleeps until a port raises an interrupt, or up to sleep_us where "
                "the port cannot.")
        .by_default("pause"),
    row::integer("pause_us", 1, kMostPauseUs, "The longest pause, in microseconds.").by_default("5"),
    row::integer("sleep_us", 1, kMostSleepUs, "The longest sleep, in microseconds.").by_default("50"),
};
constexpr Section kIdle = {"`idle`", kIdleKeys};

constexpr Key kTelemetryKeys[] = {
    row::integer("sample_one_in", 0, kMostSampleOneIn,
                 "How many passes of a worker are timed: one in so many. 1: all of them, 0: none.")
        .by_default("64"),
};
constexpr Section kTelemetry = {"`telemetry`", kTelemetryKeys};

constexpr Key kPortKeys[] = {
    row::integer("port", 0, kMaxPortNumber, "The port's number in DPDK.").required(),
    row::integer("queues", 1, kMaxQueues,
                 "Receive queues. More than one: the card spreads frames over them by their addresses (RSS), with a "
                 "random key.")
        .by_default("1"),
    row::integer("descriptors", 1, kMostDescriptors, "Of each ring. Left out: what the driver prefers."),
    row::integer("mtu", kLeastMtu, UINT16_MAX, "Bytes of a frame's payload. Left out: as the device has it."),
    row::boolean("promiscuous", "false: the card drops what is not for its MAC address.").by_default("true"),
    row::integer(
        "spread", 2, kMaxSpread,
        "The one queue of a device without RSS is spread in software over so many workers. Left out: it is not."),
};
constexpr Section kPort = {"the port", kPortKeys};
constexpr Key kPortItem = row::map("", kPort, "Each port has these keys.");

constexpr Key kKeys[] = {
    row::map("socket", kSocket, "Where controld and controlctl speak to this data plane."),
    row::text("state_dir",
              "The folder of the last good snapshot and of the bypass switch. It holds the secret of the "
              "filter: 0700. Without root it is ~/.local/state/weir/dataplane.")
        .called("folder")
        .by_default("/var/lib/weir/dataplane"),
    row::size("snapshot_memory", kLeastSnapshotMemory, kMostSnapshotMemory,
              "Memory for snapshots on each NUMA node in use. A swap holds two of them, so one may have half of it. A "
              "larger one is refused before it is mapped.")
        .by_default("1GiB"),
    row::choice("no_snapshot", "pass | drop",
                "What happens to frames before the first snapshot is there and none is on disk.")
        .by_default("pass"),
    row::choice(
        "forward", "pair | hairpin | sink",
        "pair: ports in the order of `ports`, the first with the second, the third with the fourth. hairpin: back "
        "out of the port that a frame came from. sink: what passes is counted and freed.")
        .by_default("pair"),
    row::integer("drop_port", 0, kMaxPortNumber,
                 "What is dropped leaves by this port: an analyser, a honeypot, a file. Left out: it is freed."),
    row::map("mempool", kMempool, "The packet buffers."),
    row::map("privileges", kPrivileges, "What the process may do once its ports run."),
    row::map("idle", kIdle, "What workers do while no frame comes."),
    row::map("telemetry", kTelemetry, "How workers measure themselves."),
    row::sequence(
        "ports", kPortItem,
        "Which ports receive, and with how many queues. Queues are dealt in turn to the workers (option -l of "
        "EAL), to those on the NUMA node of the port first. Left out: every port, one queue each."),
};

}  // namespace

constexpr Section kConfigSection = {"dataplane.yaml", kKeys};

}  // namespace weir::dataplane
