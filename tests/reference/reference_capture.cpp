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
#include <set>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tests/reference/classifier.h"
#include "tests/reference/frames.h"

namespace weir::reference {
namespace {

// Packets and their bytes (frame length without FCS).
struct Tally {
  uint64_t packets = 0, bytes = 0;
  void add(size_t frame_bytes) {
    packets++;
    bytes += frame_bytes;
  }
};

// Judges frame after frame (DESIGN section 4) and counts as an enforcer must.
class Judge {
 public:
  // now: Unix seconds.
  Judge(const control::Policy& policy, uint64_t now)
      : policy_(policy), classifier_(policy), now_(now), lists_(policy.lists.size()) {}

  // True: the frame drops.
  bool drops(std::span<const uint8_t> bytes) {
    const weir_action action = judge(bytes);
    packets_.add(bytes.size());
    (action == WEIR_DROP ? dropped_ : passed_)++;
    return action == WEIR_DROP;
  }

  nlohmann::ordered_json json() const {
    nlohmann::ordered_json lists = nlohmann::ordered_json::object();
    for (size_t l = 0; l < lists_.size(); l++) {
      const ListTally& list = lists_[l];
      lists[policy_.lists[l].name] = {{"matched", list.matched.packets},     {"dropped", list.dropped.packets},
                                      {"passed", list.passed.packets},       {"would_drop", list.would_drop.packets},
                                      {"matched_bytes", list.matched.bytes}, {"dropped_bytes", list.dropped.bytes}};
    }
    return {{"packets", packets_.packets}, {"bytes", packets_.bytes},           {"passed", passed_},
            {"dropped", dropped_},         {"malformed", malformed_},           {"not_ip", not_ip_},
            {"incomplete", incomplete_},   {"default_passed", default_passed_}, {"default_dropped", default_dropped_},
            {"lists", std::move(lists)}};
  }

 private:
  struct ListTally {
    Tally matched, dropped, passed, would_drop;
  };

  // The one place that asks the classifier.
  Classified classify(const PacketKeys& packet) const {
    (void)now_;  // for the classifier, once it knows entries that expire
    return classifier_.classify(packet);
  }

  // The frame drops when any of its layers does. A layer's lists count once per frame.
  weir_action judge(std::span<const uint8_t> bytes) {
    const Frame frame = parse_frame(bytes, policy_.tunnels);
    if (frame.kind == FrameKind::not_ip) {
      not_ip_++;
      return WEIR_PASS;
    }
    if (frame.kind == FrameKind::malformed) {
      malformed_++;
      return policy_.unparsed_action;
    }
    if (frame.incomplete) incomplete_++;
    std::vector<Classified> layers;  // outer first
    for (const PacketKeys& packet : frame.layers) layers.push_back(classify(packet));

    std::set<unsigned> matched, would_drop;
    for (const Classified& layer : layers) {
      const bool exempt = is_exempt(layer);
      for (const unsigned l : layer.matched) {
        matched.insert(l);
        if (policy_.lists[l].mode == WEIR_MONITOR && !exempt) would_drop.insert(l);
      }
    }
    for (const unsigned l : matched) lists_[l].matched.add(bytes.size());
    for (const unsigned l : would_drop) lists_[l].would_drop.add(bytes.size());

    const Classified* dropping = first(layers, [](const Classified& layer) { return layer.action == WEIR_DROP; });
    if (dropping != nullptr) {
      credit(*dropping, default_dropped_, &ListTally::dropped, bytes.size());
      return WEIR_DROP;
    }
    const Classified* exempting = first(layers, [this](const Classified& layer) { return is_exempt(layer); });
    credit(exempting != nullptr ? *exempting : layers.front(), default_passed_, &ListTally::passed, bytes.size());
    return WEIR_PASS;
  }

  bool is_exempt(const Classified& layer) const {
    return std::any_of(layer.matched.begin(), layer.matched.end(),
                       [this](unsigned l) { return policy_.lists[l].action == WEIR_PASS; });
  }

  // The outermost layer of which `which` holds; null: none.
  template <class Which>
  static const Classified* first(const std::vector<Classified>& layers, Which which) {
    const auto found = std::find_if(layers.begin(), layers.end(), which);
    return found == layers.end() ? nullptr : &*found;
  }

  // The frame's verdict is this layer's: its list's, or the default's.
  void credit(const Classified& layer, uint64_t& by_default, Tally ListTally::*tally, size_t frame_bytes) {
    if (layer.credited < 0) {
      by_default++;
    } else {
      (lists_[static_cast<size_t>(layer.credited)].*tally).add(frame_bytes);
    }
  }

  const control::Policy& policy_;
  const Classifier classifier_;
  const uint64_t now_;
  Tally packets_;
  uint64_t passed_ = 0, dropped_ = 0;
  uint64_t malformed_ = 0, not_ip_ = 0, incomplete_ = 0, default_passed_ = 0, default_dropped_ = 0;
  std::vector<ListTally> lists_;
};

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

  Judge judge(*policy, *now);
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  int got = 0;
  while ((got = pcap_next_ex(input.pcap.get(), &header, &bytes)) == 1) {
    const bool drop = judge.drops({bytes, header->caplen});
    if (pcap_dumper_t* out = (drop ? dropped : passed).get()) pcap_dump(reinterpret_cast<u_char*>(out), header, bytes);
  }
  // A file that ends inside a frame: the whole frames count, as in scripts/replay.
  if (got == PCAP_ERROR) fmt::print(stderr, "{}: {}\n", arguments.pcap, pcap_geterr(input.pcap.get()));
  if (!arguments.json.empty()) std::ofstream(arguments.json) << judge.json().dump(2) << "\n";
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
