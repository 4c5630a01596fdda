#include <filesystem>
#include <fstream>

#include "dataplane/start/eal_check.h"
#include "dataplane/start/lcore_list.h"
#include "tests/catch.h"

using namespace weir::dataplane;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;

// Four CPUs, one of them taken away by a cpuset, and four network cards.
class Machine {
 public:
  Machine() {
    char path[] = "/tmp/weir-eal-check-XXXXXX";
    REQUIRE(mkdtemp(path) != nullptr);
    folder = path;
    add_card("0000:03:00.0", "vfio-pci", "0x8086");
    add_card("0000:03:00.1", "ixgbe", "0x8086");
    add_card("0000:04:00.0", "mlx5_core", "0x15b3");
    add_card("0000:05:00.0", "", "0x1af4");
    add_card("0000:06:00.0", "", "0x8086");
    std::ofstream(folder / "in.pcap");
  }
  ~Machine() { fs::remove_all(folder); }

  std::vector<std::string> errors(const Arguments& arguments) const {
    return check_eal_arguments(arguments, {{0, 1, 2, 3}, {0, 1, 2}, 128}, folder.string());
  }
  std::string in(const char* name) const { return (folder / name).string(); }

  fs::path folder;

 private:
  void add_card(const char* address, const char* driver, const char* vendor) const {
    const fs::path device = folder / "bus/pci/devices" / address;
    fs::create_directories(device);
    std::ofstream(device / "vendor") << vendor << "\n";
    if (*driver != '\0') fs::create_symlink(fs::path("../../drivers") / driver, device / "driver");
  }
};

}  // namespace

TEST_CASE("what EAL takes is not refused") {
  const Machine machine;
  const Arguments good[] = {
      {},
      {"-l", "0"},
      {"-l0-2"},
      {"-l", " 0 , 2 "},
      {"-c", "0x5"},
      {"-c3"},
      {"--lcores", "0@0,1@0"},
      {"--lcores=(0-3)@(1,2),5@2"},
      {"--lcore", "0"},  // getopt takes abbreviations
      {"--lcores", "0@3-2"},
      {"--lcores", "(2,3)"},  // each on both CPUs, one of which is allowed
      {"-l", "0,1", "--main-lcore", "1"},
      {"--no-huge", "-m", "512", "--file-prefix", "x"},
      {"--huge-unlink"},
      {"--huge-unlink=never"},
      {"-vl0"},
      {"--no-such", "-h"},  // EAL shows its help
      {"--vdev", "net_null0"},
      {"--vdev=net_null0,size=64,copy=1"},
      {"--vdev", "net_null0,,size=64"},  // an empty pair is none
      {"--vdev", "net_tap0,iface=weir0,mac=fixed"},
      {"--vdev", "eth_ring0,nodeaction=a:0:CREATE"},
      {"--vdev", "net_af_packet0,iface=lo"},
      {"--vdev", "net_pcap0,rx_pcap=" + machine.in("in.pcap") + ",tx_pcap=" + machine.in("out.pcap")},
      {"--vdev", "net_memif0,role=server,socket=@weir"},
      {"--vdev", "net_vhost0,iface=" + machine.in("sock")},
      {"--vdev", "net_virtio_user0,path=" + machine.in("sock") + ",server=1"},
      {"--vdev", "crypto_null0"},
      {"-d", "librte_net_mine.so", "--vdev", "net_mine0"},
      {"-a", "0000:03:00.0"},
      {"-a", "03:00.0,some=devarg"},
      {"-a", "0000:04:00.0"},  // bifurcated: stays with its kernel driver
      {"-a", "0000:05:00.0"},  // virtio needs none
      {"-a", "0000:00:00.0"},  // "no card"
      {"-a", "auxiliary:mlx5_core.sf.4"},
  };
  for (const Arguments& arguments : good) {
    INFO((arguments.empty() ? "" : arguments.back()));
    CHECK(machine.errors(arguments) == Arguments{});
  }
}

TEST_CASE("what EAL would refuse is said with the argument, the value and the way out") {
  const Machine machine;
  struct Row {
    Arguments arguments;
    std::string words[2];
  };
  const Row rows[] = {
      {{"--vdve", "net_null0"}, {"--vdve: EAL has no such option", "did you mean `--vdev`?"}},
      {{"--vdve=net_null0"}, {"--vdve=net_null0: ", "did you mean `--vdev`?"}},
      {{"-q"}, {"-q: EAL has no such option", "behind `--`"}},
      {{"-l"}, {"-l: ", "value is missing"}},
      {{"-l", "0", "1"}, {"1: belongs to no option", "behind `--`"}},
      {{"-l", "0,"}, {"-l 0,: ", "`0,2-3`"}},
      {{"-l", "2-0"}, {"-l 2-0: ", "`0,2-3`"}},
      {{"-l", "all"}, {"-l all: ", "`0,2-3`"}},
      {{"-l", "0,7"}, {"-l 0,7: there is no CPU 7 here", "there are 0-3"}},
      {{"-l", "3"}, {"-l 3: CPU 3 is not allowed", "0-2 are"}},
      {{"-l", "200"}, {"-l 200: lcore 200: this DPDK has lcores 0 to 127", "--lcores 0@200"}},
      {{"-c", "0xg"}, {"-c 0xg: ", "`0x5`"}},
      {{"-c", "10"}, {"-c 10: there is no CPU 4", "there are 0-3"}},
      {{"--lcores", "0-1@0"}, {"--lcores 0-1@0: ", "`0@2,1@3`"}},
      {{"--lcores", "0@9"}, {"--lcores 0@9: there is no CPU 9", "0-3"}},
      {{"--lcores", "(0"}, {"--lcores (0: ", "parentheses"}},
      {{"-l", "0", "--lcores", "1"}, {"--lcores 1: -l 0 says already", "keep one"}},
      {{"-l", "0", "--main-lcore", "2"}, {"--main-lcore 2: ", "one of the lcores 0"}},
      {{"-a", "0000:03:00.0", "-b", "0000:03:00.1"}, {"-a and -b: ", "leave one out"}},
      {{"-m", "64", "--socket-mem", "64"}, {"-m and --socket-mem: ", "leave one out"}},
      {{"--vdev", "net_nul0"}, {"--vdev net_nul0: DPDK has no driver", "did you mean `net_null0`?"}},
      {{"--vdev", "tap0"}, {"--vdev tap0: DPDK has no driver", "net_tap"}},
      {{"--vdev", ",size=64"}, {"--vdev ,size=64: the device has no name", "net_tap0"}},
      {{"--vdev", "net_null0,=64"}, {"`=64` has no key", "KEY=VALUE"}},
      {{"--vdev", "net_af_packet0,iface"}, {"iface: has no value", "iface=VALUE"}},
      {{"--vdev", "net_af_xdp0,iface=no-such-if"}, {"there is no network interface `no-such-if`", "there are: "}},
      {{"--vdev", "net_af_packet0"}, {"needs `iface=`", "--vdev net_af_packet0,iface="}},
      {{"--vdev", "net_pcap0,rx_pcap=/no/such.pcap"}, {"rx_pcap: cannot read /no/such.pcap: No such", "name a file"}},
      {{"--vdev", "net_pcap0,tx_pcap=/no/such/out.pcap"}, {"tx_pcap: cannot write to the folder of", "make it"}},
      {{"--vdev", "virtio_user0,path=/no/such"}, {"path: there is no socket /no/such", "server=1"}},
      {{"--vdev", "virtio_user0,path=/dev/no-vhost"}, {"path: there is no /dev/no-vhost", "modprobe vhost_net"}},
      {{"-a", "0000:09:00.0"}, {"there is no PCI device 0000:09:00.0", "dpdk-devbind.py --status-dev net"}},
      {{"-a", "03:00.1"}, {"the kernel driver ixgbe holds it", "dpdk-devbind.py -b vfio-pci 0000:03:00.1"}},
      {{"-a", "pci:0000:06:00.0"}, {"no kernel driver holds it", "dpdk-devbind.py -b vfio-pci 0000:06:00.0"}},
  };
  for (const Row& row : rows) {
    const std::vector<std::string> errors = machine.errors(row.arguments);
    INFO(row.words[0]);
    REQUIRE(errors.size() == 1);
    for (const std::string& words : row.words) CHECK_THAT(errors[0], Catch::Matchers::ContainsSubstring(words));
  }
}

TEST_CASE("every wrong argument is named") {
  const Machine machine;
  CHECK(machine.errors({"-l", "9", "--vdev", "net_nul0", "--vdev", "net_nul1", "-a", "0000:09:00.0"}).size() == 4);
}

TEST_CASE("lcores are placed as EAL places them") {
  const auto text = [](const auto& lcores) {
    REQUIRE(lcores);
    std::string all;
    for (const LcoreCpus& one : *lcores) {
      all += std::to_string(one.lcore) + "@";
      for (const unsigned cpu : one.cpus) all += std::to_string(cpu) + ".";
      all += " ";
    }
    return all;
  };
  CHECK(text(parse_core_list("3,0-1")) == "0@0. 1@1. 3@3. ");
  CHECK(text(parse_core_mask("0x1B")) == "0@0. 1@1. 3@3. 4@4. ");
  // The example of eal_parse_lcores.
  CHECK(text(parse_lcores("1,2@(5-7),(3-5)@(0,2),(0,6),7-8")) ==
        "1@1. 2@5.6.7. 3@0.2. 4@0.2. 5@0.2. 0@0.6. 6@0.6. 7@7. 8@8. ");
}
