// reference-capture --config P.yaml --pcap IN --passed OUT.pcap --dropped OUT.pcap --json OUT.json [--now TIME]
// What scripts/replay --once must write, by the reference classifier: every frame of a capture is judged on its own,
// slowly and plainly. Reads captures with libpcap. Exit code: 0; 1 when something cannot be read or written.

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "control/policy/read/policy.h"
#include "tests/reference/judge.h"

namespace weir::reference {
namespace {

nlohmann::ordered_json json_of(const Counters& counters, const control::Policy& policy) {
  nlohmann::ordered_json lists = nlohmann::ordered_json::object();
  for (size_t l = 0; l < counters.lists.size(); l++) {
    const ListTally& list = counters.lists[l];
    lists[policy.lists[l].name] = {{"matched", list.matched.packets},     {"dropped", list.dropped.packets},
                                   {"passed", list.passed.packets},       {"would_drop", list.would_drop.packets},
                                   {"matched_bytes", list.matched.bytes}, {"dropped_bytes", list.dropped.bytes}};
  }
  return {{"packets", counters.packets.packets},
          {"bytes", counters.packets.bytes},
          {"passed", counters.passed},
          {"dropped", counters.dropped},
          {"malformed", counters.malformed},
          {"not_ip", counters.not_ip},
          {"incomplete", counters.incomplete},
          {"default_passed", counters.default_passed},
          {"default_dropped", counters.default_dropped},
          {"lists", std::move(lists)}};
}

struct Arguments {
  std::string config, pcap, passed, dropped, json, now;
};

struct ClosePcap {
  void operator()(pcap_t* pcap) const { pcap_close(pcap); }
};
using Pcap = std::unique_ptr<pcap_t, ClosePcap>;

struct CloseDumper {
  void operator()(pcap_dumper_t* dumper) const { pcap_dump_close(dumper); }
};
using Dumper = std::unique_ptr<pcap_dumper_t, CloseDumper>;

constexpr int kLongestRecord = 262144;  // MAXIMUM_SNAPLEN of libpcap

// The capture as it lies on disk, and how it is opened: a file of microseconds stays one, nanosecond files and pcapng
// are kept in nanoseconds.
struct Input {
  std::string bytes;
  u_int precision = PCAP_TSTAMP_PRECISION_NANO;
  int snap_length = kLongestRecord;  // as the header of a pcap says; what is written says it too
  Pcap pcap;
};

// Null pcap: message says why.
Input open_input(const std::string& path, char (&message)[PCAP_ERRBUF_SIZE]) {
  Input input;
  std::ifstream file(path, std::ios::binary);
  input.bytes.assign(std::istreambuf_iterator<char>(file), {});
  const std::string magic = input.bytes.substr(0, 4);
  const bool little = magic == "\xd4\xc3\xb2\xa1" || magic == "\x4d\x3c\xb2\xa1";
  const bool big = magic == "\xa1\xb2\xc3\xd4" || magic == "\xa1\xb2\x3c\x4d";
  if (magic == "\xd4\xc3\xb2\xa1" || magic == "\xa1\xb2\xc3\xd4") input.precision = PCAP_TSTAMP_PRECISION_MICRO;
  // libpcap cuts frames at the snap length of the header (offset 16), which some writers set too low. A frame is what
  // its record holds.
  if ((little || big) && input.bytes.size() >= 24) {
    uint32_t snap_length = 0;
    std::memcpy(&snap_length, input.bytes.data() + 16, sizeof snap_length);
    input.snap_length = static_cast<int>(little ? snap_length : __builtin_bswap32(snap_length));
    input.bytes.replace(16, 4, little ? std::string("\0\0\4\0", 4) : std::string("\0\4\0\0", 4));
  }
  FILE* stream = fmemopen(input.bytes.data(), std::max<size_t>(input.bytes.size(), 1), "rb");
  if (stream != nullptr) {
    input.pcap.reset(pcap_fopen_offline_with_tstamp_precision(stream, input.precision, message));
    if (!input.pcap) fclose(stream);
  }
  return input;
}

// Null when no path is given, or with a message when the file cannot be written.
Dumper open_output(pcap_t* format, const std::string& path) {
  if (path.empty()) return nullptr;
  Dumper dumper(pcap_dump_open(format, path.c_str()));
  if (!dumper) fmt::print(stderr, "{}\n", pcap_geterr(format));
  return dumper;
}

// Unix seconds of 2026-12-01T00:00:00Z; of no text, the clock's. Empty: it is no time.
std::optional<uint64_t> time_of(const std::string& text) {
  if (text.empty()) return static_cast<uint64_t>(time(nullptr));
  tm parts = {};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<uint64_t>(timegm(&parts));
}

int run(const Arguments& arguments) {
  const std::optional<uint64_t> now = time_of(arguments.now);
  if (!now) {
    fmt::print(stderr, "--now {}: not a time like 2026-12-01T00:00:00Z\n", arguments.now);
    return 1;
  }
  Diagnostics diagnostics;
  const std::optional<control::Policy> policy = control::read_policy(arguments.config, diagnostics);
  if (!policy) {
    fmt::print(stderr, "{}", format(diagnostics));
    return 1;
  }
  char message[PCAP_ERRBUF_SIZE] = "";
  const Input input = open_input(arguments.pcap, message);
  if (!input.pcap || pcap_datalink(input.pcap.get()) != DLT_EN10MB) {
    fmt::print(stderr, "{}: {}\n", arguments.pcap, input.pcap ? "not Ethernet" : message);
    return 1;
  }
  const Pcap format(pcap_open_dead_with_tstamp_precision(DLT_EN10MB, input.snap_length, input.precision));
  const Dumper passed = open_output(format.get(), arguments.passed);
  const Dumper dropped = open_output(format.get(), arguments.dropped);
  if ((!passed && !arguments.passed.empty()) || (!dropped && !arguments.dropped.empty())) return 1;

  Judge judge(*policy);
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  int got = 0;
  while ((got = pcap_next_ex(input.pcap.get(), &header, &bytes)) == 1) {
    const bool drop = judge.judge({bytes, header->caplen}, *now).verdict.action == WEIR_DROP;
    if (pcap_dumper_t* out = (drop ? dropped : passed).get()) pcap_dump(reinterpret_cast<u_char*>(out), header, bytes);
  }
  // A file that ends inside a frame: the whole frames count, as in scripts/replay.
  if (got == PCAP_ERROR) fmt::print(stderr, "{}: {}\n", arguments.pcap, pcap_geterr(input.pcap.get()));
  if (!arguments.json.empty()) std::ofstream(arguments.json) << json_of(judge.counters(), *policy).dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace weir::reference

int main(int argc, char** argv) {
  weir::reference::Arguments arguments;
  CLI::App app("What scripts/replay --once must write, by the reference classifier.", "reference-capture");
  app.add_option("--config", arguments.config, "the policy")->required();
  app.add_option("--pcap", arguments.pcap, "Ethernet capture")->required();
  app.add_option("--passed", arguments.passed, "frames that pass");
  app.add_option("--dropped", arguments.dropped, "frames that drop");
  app.add_option("--json", arguments.json, "totals");
  app.add_option("--now", arguments.now, "the clock for `expires`, as 2026-12-01T00:00:00Z; the system's by default");
  CLI11_PARSE(app, argc, argv);
  return weir::reference::run(arguments);
}
