#include "tests/hostile/variants.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/digest.h"
#include "common/files.h"
#include "common/telemetry.h"
#include "control/compile/compile.h"
#include "control/policy/read/policy.h"
#include "filter/format/snapshot.h"
#include "tests/agreement/random_policy.h"

namespace weir::hostile {

using agreement::Choices;

namespace {

constexpr size_t kLargestSnapshot = size_t{4} << 20;

uint64_t odd_number(Choices& choices, size_t size) {
  const uint64_t numbers[] = {0,
                              1,
                              size,
                              size - 1,
                              size + 1,
                              UINT64_MAX,
                              UINT64_MAX - size,
                              INT64_MAX,
                              UINT32_MAX,
                              uint64_t{1} << 31,
                              4096,
                              64,
                              choices.next()};
  return choices.of(numbers);
}

void overwrite(Bytes& bytes, size_t at, const void* source, size_t n) {
  memcpy(bytes.data() + at, source, std::min(n, bytes.size() - at));
}

constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

// Seals of which one may be missing.
int seals_of(Choices& choices) {
  constexpr int kSeals[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL};
  return choices.one_in(24) ? kAllSeals & ~choices.of(kSeals) : kAllSeals;
}

Fd memory_file(const Bytes& bytes, int seals) {
  Fd fd(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t put = write(fd.get(), bytes.data() + at, bytes.size() - at);
    if (put <= 0) abort();
    at += static_cast<size_t>(put);
  }
  (void)add_seals(fd.get(), seals);
  return fd;
}

// Whatever a descriptor may be.
Fd other_descriptor(Choices& choices) {
  constexpr const char* kPaths[] = {"/", "/dev/zero", "/dev/null", "/proc/self/status"};
  const unsigned kind = choices.below(6);
  if (kind < 4) return Fd(open(kPaths[kind], O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (kind == 4) {
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) abort();
  } else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    abort();
  }
  close(ends[1]);
  return Fd(ends[0]);
}

template <class Body>
Bytes plain(const Body& body) {
  const auto bytes = wire::bytes_of(body);
  return {bytes.begin(), bytes.end()};
}

template <class Body>
Bytes random_body(Choices& choices) {
  Bytes bytes(sizeof(Body));
  for (std::byte& byte : bytes) byte = choices.one_in(3) ? static_cast<std::byte>(choices.next()) : std::byte{0};
  return bytes;
}

// A head with a number of things, and some of them.
template <class Head, class Part>
Bytes parts_of(Choices& choices, uint32_t Head::*count, uint32_t most) {
  Head head = {};
  const uint32_t n = choices.below(most);
  head.*count = choices.one_in(8) ? static_cast<uint32_t>(odd_number(choices, n)) : n;
  Bytes bytes = plain(head);
  for (uint32_t i = 0; i < n; i++) {
    const Bytes part = random_body<Part>(choices);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

Bytes telemetry_of(Choices& choices) {
  if (choices.one_in(4)) return random_body<wire::TelemetryBody>(choices);
  wire::Telemetry telemetry;
  const Bytes head = random_body<wire::TelemetryBody>(choices);
  memcpy(static_cast<void*>(&telemetry.body), head.data(), head.size());
  for (uint32_t n = choices.below(20); n > 0; n--) telemetry.pass_cycles.push_back({choices.next(), choices.next()});
  for (uint32_t n = choices.below(20); n > 0; n--) {
    telemetry.queues.push_back({static_cast<uint16_t>(choices.next()), 0, 0, choices.next()});
  }
  for (uint32_t n = choices.below(20); n > 0; n--) {
    const uint32_t family = choices.one_in(40) ? static_cast<uint32_t>(choices.next()) : choices.one_in(2) ? 4 : 6;
    telemetry.sources.push_back({choices.next(), family, 0, choices.next()});
  }
  return wire::encode_telemetry(telemetry);
}

Bytes packet_of(Choices& choices, wire::Type type, uint32_t sequence, Bytes body) {
  if (choices.one_in(3)) mutate(choices, body, 64);
  Bytes packet = wire::encode(type, sequence, body);
  if (choices.one_in(4)) mutate(choices, packet, sizeof(wire::Header));
  if (packet.size() > wire::kMaxMessageBytes + 64) packet.resize(wire::kMaxMessageBytes + 64);
  return packet;
}

wire::Type some_type(Choices& choices) {
  constexpr wire::Type kTypes[] = {wire::Type::status,  wire::Type::stats,      wire::Type::telemetry,
                                   wire::Type::ports,   wire::Type::interfaces, wire::Type::detach,
                                   wire::Type::samples, wire::Type::publish,    wire::Type::refused};
  return choices.one_in(40) ? static_cast<wire::Type>(choices.next()) : choices.of(kTypes);
}

}  // namespace

Fd sealed(const Bytes& bytes) {
  return memory_file(bytes, kAllSeals);
}

void mutate(Choices& choices, Bytes& bytes, size_t near) {
  for (unsigned n = 1 + choices.below(4); n > 0 && !bytes.empty(); n--) {
    const size_t within = choices.one_in(4) ? bytes.size() : std::min(near, bytes.size());
    const size_t at = choices.next() % within;
    const uint64_t number = odd_number(choices, bytes.size());
    switch (choices.below(6)) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1u << choices.below(8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(choices.next());
        break;
      case 2:
        overwrite(bytes, at & ~size_t{3}, &number, 4);
        break;
      case 3:
        overwrite(bytes, at & ~size_t{7}, &number, 8);
        break;
      case 4: {
        const size_t from = choices.next() % bytes.size();
        const size_t size = std::min({size_t{64}, bytes.size() - at, bytes.size() - from});
        memmove(bytes.data() + at, bytes.data() + from, size);
        break;
      }
      default:
        if (choices.one_in(2)) {
          bytes.resize(choices.one_in(2) ? at : bytes.size() + choices.below(8192));
        } else {
          memset(bytes.data() + at, 0, std::min<size_t>(64, bytes.size() - at));
        }
    }
  }
}

std::vector<Bytes> good_snapshots(size_t n, uint64_t seed) {
  std::vector<Bytes> snapshots;
  for (; snapshots.size() < n; seed++) {
    Choices choices(seed);
    Diagnostics diagnostics;
    const auto policy = control::parse_policy("random.yaml", agreement::random_policy(choices), diagnostics);
    if (!policy) continue;
    const auto compiled = control::compile(*policy, {1, 1});
    if (!compiled || compiled->size_bytes > kLargestSnapshot) continue;
    const auto mapping = map_read_only(compiled->snapshot.get(), compiled->size_bytes);
    if (!mapping) continue;
    snapshots.emplace_back(mapping->bytes().begin(), mapping->bytes().end());
  }
  return snapshots;
}

Publication publication_of(Choices& choices, const Bytes& snapshot, wire::Generation generation) {
  constexpr size_t kHeaderAndSections = 5 * WEIR_PAGE_BYTES;  // where every byte counts
  Bytes bytes = snapshot;
  memcpy(bytes.data() + offsetof(weir_snapshot_header, epoch), &generation.epoch, sizeof generation.epoch);
  memcpy(bytes.data() + offsetof(weir_snapshot_header, number), &generation.number, sizeof generation.number);
  if (!choices.one_in(16)) mutate(choices, bytes, kHeaderAndSections);
  Publication publication;
  publication.body.generation = generation;
  publication.body.size_bytes = choices.one_in(24) ? odd_number(choices, bytes.size()) : bytes.size();
  const Digest digest = digest_of(bytes);
  memcpy(publication.body.digest, digest.data(), sizeof publication.body.digest);
  if (choices.one_in(24)) publication.body.digest[choices.below(2)] ^= choices.next();
  if (choices.one_in(24)) publication.body.generation.number = odd_number(choices, 7);
  if (choices.one_in(24)) {
    publication.fd = choices.one_in(3) ? Fd() : other_descriptor(choices);
  } else {
    publication.fd = memory_file(bytes, seals_of(choices));
  }
  return publication;
}

Bytes message_of(Choices& choices) {
  const wire::Type type = some_type(choices);
  Bytes body;
  if (type == wire::Type::publish) body = random_body<wire::PublishBody>(choices);
  if (type == wire::Type::telemetry) body = plain(wire::TelemetryRequest{});
  if (type == wire::Type::samples) body = random_body<wire::SamplingBody>(choices);
  if (type == wire::Type::detach) body = random_body<wire::DetachBody>(choices);
  return packet_of(choices, type, choices.next(), std::move(body));
}

Bytes answer_of(Choices& choices, const wire::Message& request) {
  auto type = static_cast<wire::Type>(request.header.type);
  Bytes body;
  switch (type) {
    case wire::Type::publish:
      body = random_body<wire::PublishedBody>(choices);
      break;
    case wire::Type::stats:
      body = parts_of<wire::StatsBody, wire::ListStats>(choices, &wire::StatsBody::n_lists, 300);
      break;
    case wire::Type::ports:
      body = parts_of<wire::PortsBody, wire::PortStats>(choices, &wire::PortsBody::n_ports, 40);
      break;
    case wire::Type::samples:
      body = parts_of<wire::SamplesBody, wire::Sample>(choices, &wire::SamplesBody::n_samples, 20);
      break;
    case wire::Type::interfaces:
      body = parts_of<wire::InterfacesBody, wire::InterfaceBody>(choices, &wire::InterfacesBody::n_interfaces, 40);
      break;
    case wire::Type::telemetry:
      body = telemetry_of(choices);
      break;
    default:
      body = random_body<wire::StatusBody>(choices);
  }
  if (choices.one_in(40)) type = some_type(choices);
  return packet_of(choices, type, request.header.sequence, std::move(body));
}

std::string request_of(Choices& choices) {
  constexpr const char* kRequests[] = {
      R"({"command":"status"})",
      R"({"command":"stats"})",
      R"({"command":"explain","key":"203.0.113.7:443"})",
      R"({"command":"explain","key":"src 10.0.0.1 dst 203.0.113.9 proto tcp dport 443 tcp-flags syn"})",
      R"({"command":"list","name":"l1"})",
      R"({"command":"shapes"})",
      R"({"command":"capture"})",
      R"({"command":"telemetry"})",
      R"({"command":"detach","interface":"none"})",
      R"({"command":"relaod"})",
  };
  std::string line = choices.of(kRequests);
  for (unsigned n = choices.below(5); n > 0 && !line.empty(); n--) {
    const size_t at = choices.next() % line.size();
    switch (choices.below(6)) {
      case 0:
        line[at] = static_cast<char>(choices.next());
        break;
      case 1:
        line.erase(at, 1 + choices.below(8));
        break;
      case 2:
        line.insert(at, choices.below(40), choices.one_in(2) ? '[' : '{');
        break;
      case 3:
        line.insert(at, line.substr(choices.next() % line.size(), 20));
        break;
      case 4:
        line.insert(at, choices.one_in(50) ? 70'000 : choices.below(300), static_cast<char>(choices.next()));
        break;
      default: {
        constexpr const char* kWords[] = {"null", "1e999", "-0",  "18446744073709551616", "\\ud800", "\\u0000",
                                          ",",    "\"",    "true"};
        line.insert(at, choices.of(kWords));
      }
    }
  }
  return choices.one_in(16) ? line : line + "\n";
}

}  // namespace weir::hostile
