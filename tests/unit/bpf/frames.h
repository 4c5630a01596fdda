// Frames made of keys, what a plane makes of them, and snapshots without a policy that are published to it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/digest.h"
#include "common/files.h"
#include "tests/unit/bpf/plane.h"
#include "tests/unit/filter/support.h"

namespace weir::xdp {

using filter::Key;
using filter::KeyTable;
using filter::test::Buffer;
using filter::test::Random;

using Frame = std::vector<uint8_t>;

// What a frame is made of; addresses and ports as on the wire.
struct Flow {
  unsigned family = 4;
  uint8_t address[2][16] = {};  // by side; IPv4: the first four bytes
  uint8_t port[2][2] = {{0x0f, 0xa0}, {0, 53}};
  uint8_t protocol = 17;
};

inline Flow stranger(unsigned family, Random& random) {
  Flow flow;
  flow.family = family;
  for (auto& address : flow.address) {
    for (uint8_t& byte : address) byte = static_cast<uint8_t>(random.next());
    address[0] = 0xc6;  // 198/8 and c6../8: no key is there
  }
  return flow;
}

inline void append_ip(Frame& frame, const Flow& flow, unsigned protocol, size_t payload_bytes) {
  const bool is_v4 = flow.family == 4;
  const size_t address_bytes = is_v4 ? 4 : 16;
  const size_t length = is_v4 ? 20 + payload_bytes : payload_bytes;
  const size_t fixed_bytes = is_v4 ? 12 : 8;  // before the addresses
  const size_t at = frame.size();
  frame.resize(at + fixed_bytes + 2 * address_bytes);
  uint8_t* header = frame.data() + at;
  header[0] = is_v4 ? 0x45 : 0x60;
  header[is_v4 ? 2 : 4] = static_cast<uint8_t>(length >> 8);
  header[is_v4 ? 3 : 5] = static_cast<uint8_t>(length);
  header[is_v4 ? 8 : 7] = 64;
  header[is_v4 ? 9 : 6] = static_cast<uint8_t>(protocol);
  for (size_t side = 0; side < 2; ++side)
    std::memcpy(header + fixed_bytes + side * address_bytes, flow.address[side], address_bytes);
}

enum class Kind { plain, vlan, tunnel };

// 18 bytes of UDP; in a tunnel, the outer addresses are an IPv4 stranger's.
inline Frame frame_of(const Flow& flow, Kind kind, Random& random) {
  constexpr size_t kTransportBytes = 18;
  Frame frame(12);
  frame[5] = 1;
  if (kind == Kind::vlan) frame.insert(frame.end(), {0x81, 0, 0, 7});
  const bool is_v4 = flow.family == 4 || kind == Kind::tunnel;
  frame.insert(frame.end(), {static_cast<uint8_t>(is_v4 ? 0x08 : 0x86), static_cast<uint8_t>(is_v4 ? 0 : 0xdd)});
  if (kind == Kind::tunnel) {
    const size_t inner = (flow.family == 4 ? 20 : 40) + kTransportBytes;
    append_ip(frame, stranger(4, random), flow.family == 4 ? 4 : 41, inner);
  }
  append_ip(frame, flow, flow.protocol, kTransportBytes);
  for (const auto& port : flow.port) frame.insert(frame.end(), port, port + 2);
  frame.insert(frame.end(), kTransportBytes - 4, 0);
  return frame;
}

inline bool drops(const Plane& plane, const Frame& frame, int times = 1) {
  LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(), .data_size_in = static_cast<uint32_t>(frame.size()),
              .repeat = times);
  REQUIRE(bpf_prog_test_run_opts(plane.enforcer->program_fd(), &run) == 0);
  return run.retval == XDP_DROP;
}

inline Fd sealed(const Buffer& snapshot) {
  const std::span<const std::byte> bytes = snapshot.bytes();
  Fd fd(memfd_create("snapshot", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  REQUIRE(write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(add_seals(fd.get(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0);
  return fd;
}

// Of a snapshot, or of an overlay; base: comes along.
inline wire::Message message_of(const Buffer& snapshot, const Buffer* base = nullptr) {
  const auto& header = *reinterpret_cast<const weir_snapshot_header*>(snapshot.bytes().data());
  wire::PublishBody body;
  body.generation = {header.epoch, header.number};
  const Digest digest = digest_of(snapshot.bytes());
  std::copy(digest.begin(), digest.end(), body.digest);
  if (header.base_number != 0) body.base = {header.epoch, header.base_number};
  std::copy_n(header.base_digest, 2, body.base_digest);
  body.size_bytes = snapshot.bytes().size();
  wire::Message message;
  message.body.assign(wire::bytes_of(body).begin(), wire::bytes_of(body).end());
  message.fd = sealed(snapshot);
  if (base != nullptr) message.base_fd = sealed(*base);
  return message;
}

inline void publish(const Plane& plane, const Buffer& snapshot, const Buffer* base = nullptr) {
  const wire::PublishedBody answer = plane.enforcer->publish(message_of(snapshot, base));
  INFO(answer.reason);
  REQUIRE(answer.ok == 1);
  REQUIRE(answer.reason[0] == '\0');
}

// A packet that has key i of the table on this side; what the key does not tell is a stranger's.
inline Flow member(const KeyTable& table, size_t i, unsigned side, Random& random) {
  Flow flow = stranger(table.shape.family, random);
  const Key key = filter::test::key_at(table, i);
  const bool is_v4 = table.shape.family == 4;
  const size_t bytes = is_v4 ? 4 : 16;
  if (table.shape.flow) {
    memcpy(flow.address[0], &key.word[0], bytes);
    memcpy(flow.address[1], reinterpret_cast<const uint8_t*>(&key.word[0]) + bytes, bytes);
    const auto* fields = reinterpret_cast<const uint8_t*>(&key.word[is_v4 ? 1 : 4]);
    memcpy(flow.port, fields, 4);
    flow.protocol = fields[4];
  } else {
    memcpy(flow.address[side], &key.word[0], bytes);
    if (table.shape.with_port) memcpy(flow.port[side], reinterpret_cast<const uint8_t*>(&key.word[0]) + bytes, 2);
  }
  return flow;
}

constexpr Kind kKinds[] = {Kind::plain, Kind::vlan, Kind::tunnel};

}  // namespace weir::xdp
