// Writes the seeds of the targets whose inputs are structs: book, events (from the seeds of policy), snapshot and wire.
// make_corpus.py writes the others.
//   make-corpus FOLDER
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/probes.h"
#include "common/shadow.h"
#include "common/telemetry.h"
#include "common/wire.h"
#include "common/yaml/events.h"
#include "control/lists/book/disk.h"
#include "control/policy/read/policy.h"
#include "tests/fuzz/snapshot_edits.h"

namespace {

using namespace weir;

std::filesystem::path folder;

void save(const char* target, const std::string& name, std::span<const std::byte> content) {
  std::filesystem::create_directories(folder / target);
  std::ofstream file(folder / target / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  if (!file) {
    fprintf(stderr, "make-corpus: cannot write %s\n", (folder / target / name).c_str());
    std::exit(1);
  }
}

// An input of fuzz_snapshot: the first byte and 32-bit edits.
class Edits {
 public:
  explicit Edits(uint8_t first) : bytes_(1, std::byte{first}) {}
  Edits& set(size_t offset, uint32_t value) {
    fuzz::Edit edit = {static_cast<uint32_t>(offset), {}};
    memcpy(edit.bytes, &value, sizeof value);
    const auto part = std::as_bytes(std::span(&edit, 1));
    bytes_.insert(bytes_.end(), part.begin(), part.end());
    return *this;
  }
  void write(const std::string& name) const { save("snapshot", name, bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

void books() {
  constexpr struct {
    const char* name;
    const char* entries;
  } kLists[] = {
      {"hosts", "192.0.2.1, 192.0.2.2, 192.0.2.9"},
      {"ranges", "192.0.2.0/24, 192.0.2.1-192.0.2.9, \"2001:db8::/32\", \"2001:db8::1\""},
      {"ports", "\"192.0.2.1:443\", \"[2001:db8::7]:53\", 192.0.2.1"},
      {"flows", "{src: 10.0.0.0/8, proto: tcp, dport: 80-90}, {proto: icmp, icmp: {type: 8}}"},
      {"expiring", "{entry: 192.0.2.1, expires: 2030-01-01T00:00:00Z}, 192.0.2.1"},
  };
  const auto save_book = [](const std::string& name, const control::Book& book) {
    const std::string bytes = control::write_book(book);
    save("book", name, std::as_bytes(std::span(bytes)));
  };
  control::Book all;
  for (const auto& list : kLists) {
    Diagnostics diagnostics;
    const auto policy = control::parse_policy("weir.yaml",
                                              std::string("version: 1\nlists:\n- {name: ") + list.name +
                                                  ", action: drop, match: either, entries: [" + list.entries + "]}\n",
                                              diagnostics);
    if (!policy) {
      fprintf(stderr, "make-corpus: %s\n", format(diagnostics).c_str());
      std::exit(1);
    }
    save_book(list.name, policy->lists);
    all.insert(all.end(), policy->lists.begin(), policy->lists.end());
  }
  all[0].feed = {"feed.txt", "plain", "named", 9, 3, 2, 1, 0, {{4, "bad", "no address"}}, {}};
  save_book("all", all);
  save_book("empty", {});
}

// Each seed of policy as a text, and as what is told of it.
void events() {
  for (const auto& seed : std::filesystem::directory_iterator(folder / "policy")) {
    const Result<std::string> text = read_file(seed.path().string(), size_t{1} << 20);
    if (!text) continue;
    std::string told = "\1";
    (void)yaml::parse_here(*text, [&](const yaml::Event& event) {
      const yaml::EventHead head = yaml::head_of(event);
      told.append(reinterpret_cast<const char*>(&head), sizeof head).append(event.text);
    });
    const std::string name = seed.path().filename().string(), honest = std::string(1, '\0') + *text;
    save("events", "text-" + name, std::as_bytes(std::span(honest)));
    save("events", "told-" + name, std::as_bytes(std::span(told)));
  }
}

constexpr uint32_t kValues[] = {0, 1, 3, 4, 0x3f, 0x40, 0xff, 0x1000, 0x10000, 0x7fffffff, 0xffffffff};

void snapshots() {
  constexpr struct {
    const char* name;
    uint8_t first;
  } kGood[] = {{"v4", 1}, {"v6", 3}, {"flows", 5}, {"page2", 7}, {"page7", 8}, {"overlay", 12}, {"networks", 15}};
  save("snapshot", "empty", {});
  save("snapshot", "raw-short", std::as_bytes(std::span("\0WEIR")));
  constexpr auto kHeader = static_cast<uint32_t>(sizeof(weir_snapshot_header));
  for (const auto& good : kGood) {
    const std::string name = good.name;
    Edits(good.first).write(name);
    for (const uint32_t length : {0u, 1u, 63u, kHeader - 1, kHeader, 4096u, 8192u, 16384u}) {
      Edits cut(static_cast<uint8_t>(0xf0 + good.first));
      cut.set(length, 0).write(name + "-cut-" + std::to_string(length));
    }
    // Every word of the header that means something, and the beginnings of what it leads to.
    const bool all = good.first == 1 || good.first == 15;
    for (size_t at = 0; all && at < offsetof(weir_snapshot_header, shapes) + 3 * sizeof(weir_shape); at += 4) {
      Edits(good.first).set(at, 0xffffffff).write(name + "-header-" + std::to_string(at));
      if (good.first == 1) Edits(good.first).set(at, 1).write(name + "-header-one-" + std::to_string(at));
    }
    for (uint32_t page = 1; page < 5; page++) {
      for (uint32_t word = 0; word < 512; word += good.first == 1 ? 4 : 64) {
        const size_t at = page * WEIR_PAGE_BYTES + word;
        Edits(good.first).set(at, 0xffffffff).write(name + "-section-" + std::to_string(at));
      }
    }
    for (uint32_t page = 5; page < 50; page++) {
      const size_t at = fuzz::kAnywhere | page * WEIR_PAGE_BYTES;
      Edits(good.first).set(at, 0xffffffff).set(at + 60, 0x01010101).write(name + "-page-" + std::to_string(page));
    }
  }
  // Each single field, to each telling value.
  using H = weir_snapshot_header;
  const size_t shape = offsetof(H, shapes), gate = offsetof(H, gates);
  const struct {
    const char* name;
    size_t at;
  } fields[] = {{"n_lists", offsetof(H, n_lists)},
                {"n_shapes", offsetof(H, n_shapes)},
                {"n_sets", offsetof(H, n_sets)},
                {"n_rules", offsetof(H, n_rules)},
                {"n_residuals", offsetof(H, n_residuals)},
                {"total_bytes", offsetof(H, total_bytes)},
                {"lists.size", offsetof(H, lists) + offsetof(weir_section, size_bytes)},
                {"lists.offset", offsetof(H, lists)},
                {"gate", gate},
                {"gate.multiplier", gate + offsetof(weir_gate, multiplier)},
                {"gate.table", gate + offsetof(weir_gate, table)},
                {"gate.n_set", gate + offsetof(weir_gate, table) + offsetof(weir_gate_table, n_set)},
                {"gate.offset", gate + offsetof(weir_gate, table) + offsetof(weir_gate_table, bits)},
                {"xdp_gate.table", offsetof(H, xdp_gates) + offsetof(weir_gate, table)},
                {"gate_v6.table", gate + 2 * sizeof(weir_gate) + offsetof(weir_gate, table)},
                {"shape", shape},
                {"shape.layout", shape + offsetof(weir_shape, layout) - 3},
                {"shape.flow", shape + offsetof(weir_shape, directions)},
                {"n_keys", shape + offsetof(weir_shape, n_keys)},
                {"filter_lines", shape + offsetof(weir_shape, filter_lines)},
                {"exact_buckets", shape + offsetof(weir_shape, exact_buckets)},
                {"filter.offset", shape + offsetof(weir_shape, filter)},
                {"exact.offset", shape + offsetof(weir_shape, exact)},
                {"chunks.size", shape + offsetof(weir_shape, chunks) + offsetof(weir_section, size_bytes)}};
  for (const auto& good : kGood) {
    for (const auto& field : fields) {
      for (const uint32_t value : kValues) {
        Edits(good.first)
            .set(field.at, value)
            .write(std::string(good.name) + "-" + field.name + "-" + std::to_string(value));
      }
    }
    // Shape fields are bytes: family, addr_bits, with_port, layout | directions, k, flow, destination_bits |
    // flow_fields.
    for (uint32_t at = 0; at < 16; at++) {
      for (const uint32_t value : {0u, 1u, 2u, 3u, 4u, 6u, 8u, 33u, 129u, 255u}) {
        // The other three bytes of the word get the value too where it is last; single bytes are for the fuzzer.
        Edits(good.first)
            .set(shape + at, value)
            .write(std::string(good.name) + "-shape-" + std::to_string(at) + "-" + std::to_string(value));
      }
    }
  }
}

void messages() {
  using namespace wire;
  const auto keep = [](const char* name, Type type, std::span<const std::byte> body) {
    save("wire", name, encode(type, 7, body));
  };
  keep("status-request", Type::status, {});
  StatusBody status = {.generation = {1, 2}, .workers = 3};
  set_text(status.version, "0.1.0");
  set_text(status.isa, "avx2");
  keep("status", Type::status, bytes_of(status));
  PublishBody publish = {.generation = {1, 2}, .size_bytes = 5};
  keep("publish", Type::publish, bytes_of(publish));
  publish.base = {1, 1};
  keep("publish-overlay", Type::publish, bytes_of(publish));
  for (uint32_t step = 0; step <= 10; step++) {
    PublishedBody published = {.generation = {1, 2}, .ok = step == 0, .failed_step = static_cast<Step>(step)};
    set_text(published.reason, "why not");
    keep(("published-" + std::to_string(step)).c_str(), Type::publish, bytes_of(published));
  }
  keep("stats-request", Type::stats, {});
  for (const uint32_t n : {0u, 1u, 3u}) {
    std::vector<std::byte> body;
    StatsBody stats = {.n_lists = n};
    body.insert(body.end(), bytes_of(stats).begin(), bytes_of(stats).end());
    for (uint32_t i = 0; i < n; i++) {
      ListStats list = {};
      set_text(list.name, "list");
      body.insert(body.end(), bytes_of(list).begin(), bytes_of(list).end());
    }
    keep(("stats-" + std::to_string(n)).c_str(), Type::stats, body);
    if (n > 0) keep(("stats-cut-" + std::to_string(n)).c_str(), Type::stats, std::span(body).first(body.size() - 1));
  }
  keep("bypass", Type::bypass, bytes_of(BypassBody{1, 0}));
  keep("sampling", Type::samples, bytes_of(SamplingBody{10, 100, 256, 0}));
  for (const uint32_t n : {0u, 1u, 3u}) {
    const SamplesBody samples = {.sampled = 3, .n_samples = n};
    std::vector<std::byte> body(bytes_of(samples).begin(), bytes_of(samples).end());
    for (uint32_t i = 0; i < n; i++) {
      Sample sample;
      sample.captured_bytes = 13 + i;
      set_text(sample.list, "list");
      append_sample(body, sample, "a frame of some bytes");
    }
    keep(("samples-" + std::to_string(n)).c_str(), Type::samples, body);
    keep(("samples-cut-" + std::to_string(n)).c_str(), Type::samples, std::span(body).first(body.size() - 1));
  }
  Probes probes;
  for (uint32_t n = 0; n <= 2; n++) {
    keep(("probes-" + std::to_string(n)).c_str(), Type::probes, encode_probes(probes));
    probes.shapes.push_back({n, n % 2, 100, 10, 5, 50, n});
  }
  keep("traffic-request", Type::traffic, bytes_of(TrafficRequest{500, 0}));
  for (const uint32_t n : {0u, 1u, 5u}) {
    const TrafficBody traffic = {.sampled = 5, .n_samples = n};
    std::vector<std::byte> body(bytes_of(traffic).begin(), bytes_of(traffic).end());
    for (uint32_t i = 0; i < n; i++) {
      SampledTraffic sampled;
      sampled.sample.weight = 1 + i;
      sampled.sample.layers = static_cast<uint8_t>(i);
      sampled.sample.kind = i == 0 ? FrameKind::not_ip : FrameKind::packets;
      append_traffic(body, sampled);
    }
    keep(("traffic-" + std::to_string(n)).c_str(), Type::traffic, body);
    keep(("traffic-cut-" + std::to_string(n)).c_str(), Type::traffic, std::span(body).first(body.size() - 1));
  }
  keep("shadow-request", Type::shadow, bytes_of(ShadowRequest{}));
  for (const uint32_t n : {0u, 1u, 3u}) {
    Shadow shadow;
    shadow.lists.resize(n);
    shadow.samples.resize(n);
    for (ShadowSample& sample : shadow.samples) sample.by_candidate.dropped = 1;
    const std::vector<std::byte> body = encode_shadow(shadow);
    keep(("shadow-" + std::to_string(n)).c_str(), Type::shadow, body);
    keep(("shadow-cut-" + std::to_string(n)).c_str(), Type::shadow, std::span(body).first(body.size() - 1));
  }
  TextBody text;
  set_text(text.text, "not understood");
  keep("refused", Type::refused, bytes_of(text));
  Telemetry telemetry;
  telemetry.pass_cycles = {{10, 1}, {20, 2}};
  telemetry.latency_cycles = {{30, 3}};
  telemetry.body.sampled = 2560;
  telemetry.queues = {{0, 1, 0, 70}, {0, 3, 0, 4}};
  telemetry.sources = {{0xcb007107, 4, 0, 1792}, {0x20010db800000001, 6, 0, 256}};
  keep("telemetry-request", Type::telemetry, bytes_of(TelemetryRequest{}));
  keep("telemetry", Type::telemetry, encode_telemetry(telemetry));
  keep("ports", Type::ports, encode_ports({1, {{}, {}}}));
  InterfaceBody interface;
  set_text(interface.name, "eth0");
  set_text(interface.error, "there is no such interface");
  const std::vector<std::byte> interfaces = encode_interfaces(std::vector<InterfaceBody>{interface, {}});
  keep("interfaces", Type::interfaces, interfaces);
  keep("interfaces-cut", Type::interfaces, std::span(interfaces).first(interfaces.size() - 1));
  keep("detach", Type::detach, bytes_of(DetachBody{"eth0"}));
  keep("unknown-type", static_cast<Type>(6), {});
  const std::vector<std::byte> packet = encode(Type::status, 1, {});
  const auto spoilt = [&](const char* name, size_t field) {
    std::vector<std::byte> bytes = packet;
    bytes[field] ^= std::byte{8};
    save("wire", name, bytes);
  };
  spoilt("magic", offsetof(Header, magic));
  spoilt("version", offsetof(Header, version));
  spoilt("length", offsetof(Header, body_bytes));
  save("wire", "short", std::span(packet).first(15));
  save("wire", "long", std::vector<std::byte>(kMaxMessageBytes + 1));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: make-corpus FOLDER\n");
    return 2;
  }
  folder = argv[1];
  books();
  events();
  snapshots();
  messages();
}
