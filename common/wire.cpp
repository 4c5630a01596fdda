#include "common/wire.h"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "common/again.h"
#include "common/files.h"
#include "common/unix_socket.h"

namespace weir::wire {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little endian");
static_assert(sizeof(PublishBody) == 80 && sizeof(PublishedBody) == 296 && sizeof(StatusBody) == 320);
static_assert(sizeof(TextBody) == 256 && sizeof(BypassBody) == 8);
static_assert(sizeof(Totals) == 128 && sizeof(ListStats) == 160 && sizeof(StatsBody) == 160);

static_assert(sizeof(SamplingBody) == 16 && sizeof(SamplesBody) == 48);

static_assert(sizeof(InterfaceBody) == 304 && sizeof(InterfacesBody) == 8 && sizeof(DetachBody) == 16);
static_assert(sizeof(Header) + sizeof(InterfacesBody) + kMaxInterfaces * sizeof(InterfaceBody) <= kMaxMessageBytes);

const char* step_name(Step step) {
  switch (step) {
    case Step::none:
      return "none";
    case Step::receive:
      return "receive";
    case Step::check:
      return "check";
    case Step::map:
      return "map";
    case Step::validate:
      return "validate";
    case Step::copy:
      return "copy";
    case Step::persist:
      return "persist";
    case Step::exchange:
      return "exchange";
    case Step::grace:
      return "grace";
    case Step::free:
      return "free";
  }
  return "unknown";  // a peer may send any number
}

namespace {

bool is_known(uint16_t type) {
  switch (static_cast<Type>(type)) {
    case Type::status:
    case Type::publish:
    case Type::stats:
    case Type::bypass:
    case Type::refused:
    case Type::telemetry:
    case Type::ports:
    case Type::probes:
    case Type::samples:
    case Type::traffic:
    case Type::shadow:
    case Type::interfaces:
    case Type::detach:
      return true;
  }
  return false;
}

}  // namespace

std::optional<Stats> stats_from(const Message& message) {
  if (message.body.size() < sizeof(StatsBody)) return std::nullopt;
  Stats stats;
  memcpy(&stats.body, message.body.data(), sizeof stats.body);
  const size_t rest = message.body.size() - sizeof stats.body;
  if (rest % sizeof(ListStats) != 0 || rest / sizeof(ListStats) != stats.body.n_lists) return std::nullopt;
  stats.lists.resize(stats.body.n_lists);
  if (rest > 0) memcpy(stats.lists.data(), message.body.data() + sizeof stats.body, rest);
  return stats;
}

std::optional<Samples> samples_from(const Message& message) {
  if (message.body.size() < sizeof(SamplesBody)) return std::nullopt;
  Samples samples;
  memcpy(&samples.body, message.body.data(), sizeof samples.body);
  std::span<const std::byte> rest = std::span(message.body).subspan(sizeof samples.body);
  while (!rest.empty()) {
    if (rest.size() < sizeof(Sample)) return std::nullopt;
    SampledFrame& frame = samples.frames.emplace_back();
    memcpy(static_cast<void*>(&frame.sample), rest.data(), sizeof frame.sample);
    const uint32_t captured = frame.sample.captured_bytes;
    if (captured > kMaxSnapBytes || rest.size() < sample_message_bytes(captured)) return std::nullopt;
    const std::span<const std::byte> bytes = rest.subspan(sizeof(Sample), captured);
    frame.bytes.assign(bytes.begin(), bytes.end());
    rest = rest.subspan(sample_message_bytes(captured));
  }
  if (samples.frames.size() != samples.body.n_samples) return std::nullopt;
  return samples;
}

std::vector<std::byte> encode_interfaces(std::span<const InterfaceBody> interfaces) {
  const InterfacesBody body{static_cast<uint32_t>(interfaces.size()), 0};
  std::vector<std::byte> bytes(sizeof body + interfaces.size_bytes());
  memcpy(bytes.data(), &body, sizeof body);
  if (!interfaces.empty()) memcpy(bytes.data() + sizeof body, interfaces.data(), interfaces.size_bytes());
  return bytes;
}

std::optional<std::vector<InterfaceBody>> interfaces_from(const Message& message) {
  InterfacesBody body;
  if (message.body.size() < sizeof body) return std::nullopt;
  memcpy(static_cast<void*>(&body), message.body.data(), sizeof body);
  const size_t rest = message.body.size() - sizeof body;
  if (rest % sizeof(InterfaceBody) != 0 || rest / sizeof(InterfaceBody) != body.n_interfaces) return std::nullopt;
  std::vector<InterfaceBody> interfaces(body.n_interfaces);
  if (rest > 0) memcpy(static_cast<void*>(interfaces.data()), message.body.data() + sizeof body, rest);
  return interfaces;
}

void append_sample(std::vector<std::byte>& body, const Sample& sample, const void* bytes) {
  const size_t at = body.size();
  body.resize(at + sample_message_bytes(sample.captured_bytes));
  memcpy(body.data() + at, &sample, sizeof sample);
  if (sample.captured_bytes > 0) memcpy(body.data() + at + sizeof sample, bytes, sample.captured_bytes);
}

std::optional<Traffic> traffic_from(const Message& message) {
  if (message.body.size() < sizeof(TrafficBody)) return std::nullopt;
  Traffic traffic;
  memcpy(&traffic.body, message.body.data(), sizeof traffic.body);
  std::span<const std::byte> rest = std::span(message.body).subspan(sizeof traffic.body);
  while (!rest.empty()) {
    if (rest.size() < sizeof(TrafficSample)) return std::nullopt;
    SampledTraffic& sampled = traffic.samples.emplace_back();
    TrafficSample& sample = sampled.sample;
    memcpy(static_cast<void*>(&sample), rest.data(), sizeof sample);
    const bool is_sound = sample.kind == FrameKind::packets ? sample.layers >= 1 && sample.layers <= kMaxLayers
                                                            : sample.kind <= FrameKind::malformed && sample.layers == 0;
    if (!is_sound || sample.weight == 0 || sample.dropped > 1) return std::nullopt;
    if (rest.size() < traffic_message_bytes(sample.layers)) return std::nullopt;
    for (uint32_t layer = 0; layer < sample.layers; layer++) {
      memcpy(sampled.packets[layer].data(), rest.data() + traffic_message_bytes(layer), kPacketBytes);
    }
    rest = rest.subspan(traffic_message_bytes(sample.layers));
  }
  if (traffic.samples.size() != traffic.body.n_samples) return std::nullopt;
  return traffic;
}

void append_traffic(std::vector<std::byte>& body, const SampledTraffic& sampled) {
  const size_t at = body.size();
  body.resize(at + traffic_message_bytes(sampled.sample.layers));
  memcpy(body.data() + at, &sampled.sample, sizeof sampled.sample);
  for (uint32_t layer = 0; layer < sampled.sample.layers; layer++) {
    memcpy(body.data() + at + traffic_message_bytes(layer), sampled.packets[layer].data(), kPacketBytes);
  }
}

Result<Message> decode(std::span<const std::byte> packet, Fd fd, Fd base_fd) {
  Message message;
  if (packet.size() < sizeof(Header)) {
    return Error{"message of " + std::to_string(packet.size()) + " bytes: shorter than its header of " +
                 std::to_string(sizeof(Header))};
  }
  if (packet.size() > kMaxMessageBytes) {
    return Error{"message of " + std::to_string(packet.size()) + " bytes: longer than the limit of " +
                 std::to_string(kMaxMessageBytes)};
  }
  memcpy(&message.header, packet.data(), sizeof(Header));
  if (message.header.magic != kMagic) return Error{"not a weir message (magic number)"};
  if (message.header.version != kVersion) {
    return Error{"message of version " + std::to_string(message.header.version) + "; this program speaks version " +
                 std::to_string(kVersion)};
  }
  if (!is_known(message.header.type)) {
    return Error{"unknown message type " + std::to_string(message.header.type)};
  }
  const std::span<const std::byte> body = packet.subspan(sizeof(Header));
  if (message.header.body_bytes != body.size()) {
    return Error{"message says " + std::to_string(message.header.body_bytes) + " bytes of body and has " +
                 std::to_string(body.size())};
  }
  message.body.assign(body.begin(), body.end());
  message.fd = std::move(fd);
  message.base_fd = std::move(base_fd);
  return message;
}

std::vector<std::byte> encode(Type type, uint32_t sequence, std::span<const std::byte> body) {
  Header header;
  header.type = static_cast<uint16_t>(type);
  header.body_bytes = static_cast<uint32_t>(body.size());
  header.sequence = sequence;
  std::vector<std::byte> packet(sizeof header + body.size());
  memcpy(packet.data(), &header, sizeof header);
  if (!body.empty()) memcpy(packet.data() + sizeof header, body.data(), body.size());
  return packet;
}

Result<void> send(int socket, Type type, uint32_t sequence, std::span<const std::byte> body, int fd, int base_fd) {
  if (body.size() > kMaxMessageBytes - sizeof(Header)) {
    return Error{"message body of " + std::to_string(body.size()) + " bytes: longer than the limit"};
  }
  std::vector<std::byte> packet = encode(type, sequence, body);
  iovec part = {packet.data(), packet.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  if (fd >= 0) {
    const int both[] = {fd, base_fd};
    const size_t size_bytes = base_fd >= 0 ? sizeof both : sizeof fd;
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(size_bytes);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(size_bytes);
    memcpy(CMSG_DATA(rights), both, size_bytes);
  }
  const ssize_t sent = send_again([&] { return sendmsg(socket, &header, MSG_NOSIGNAL); });
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Error{"cannot send: the peer does not read"};
  if (sent < 0) return errno_error("cannot send");
  return {};  // a SOCK_SEQPACKET send is whole or fails
}

namespace {

// The first two descriptors of a received control buffer; all others are closed.
struct Descriptors {
  Fd first, second;
};
Descriptors take_descriptors(msghdr* header) {
  Descriptors taken;
  for (cmsghdr* item = CMSG_FIRSTHDR(header); item != nullptr; item = CMSG_NXTHDR(header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(item) + i * sizeof fd, sizeof fd);
      Fd owned(fd);
      if (!taken.first) {
        taken.first = std::move(owned);
      } else if (!taken.second) {
        taken.second = std::move(owned);
      }
    }
  }
  return taken;
}

}  // namespace

Result<Message> receive(int socket) {
  std::vector<std::byte> packet(kMaxMessageBytes);
  iovec part = {packet.data(), packet.size()};
  // Room for two descriptors: the kernel closes what does not fit.
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = not_interrupted([&] { return recvmsg(socket, &header, MSG_CMSG_CLOEXEC); });
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Error{"no message from the peer in time"};
  if (got < 0) return errno_error("cannot receive");
  Descriptors taken = take_descriptors(&header);
  if (got == 0) return Error{"closed by the peer"};
  if (header.msg_flags & MSG_TRUNC) {
    return Error{"message longer than the limit of " + std::to_string(kMaxMessageBytes) + " bytes"};
  }
  const bool has_lost_fd = (header.msg_flags & MSG_CTRUNC) != 0 && !taken.second;
  Result<Message> message =
      decode(std::span(packet).first(static_cast<size_t>(got)), std::move(taken.first), std::move(taken.second));
  if (message) message->lost_fd = has_lost_fd;
  return message;
}

Result<Fd> connect(const std::string& path, int timeout_ms) {
  return unix_socket::connect(path, unix_socket::Kind::seqpacket, timeout_ms);
}

uint32_t next_sequence() {
  static std::atomic<uint32_t> next = 1;
  return next.fetch_add(1, std::memory_order_relaxed);
}

Result<Message> answer_to(Type type, uint32_t sequence, Result<Message> received) {
  if (!received) return received;
  const Header& header = received->header;
  if (header.type == static_cast<uint16_t>(Type::refused)) {
    const std::optional<TextBody> text = body_as<TextBody>(*received);
    return Error{"refused by the peer: " + (text ? get_text(text->text) : std::string("no reason given"))};
  }
  if (header.sequence != sequence || header.type != static_cast<uint16_t>(type)) {
    return Error{"the answer does not belong to the request (type " + std::to_string(header.type) + ", sequence " +
                 std::to_string(header.sequence) + ")"};
  }
  return received;
}

Result<Message> call(int socket, Type type, std::span<const std::byte> body, int fd, int base_fd) {
  const uint32_t sequence = next_sequence();
  if (Result<void> sent = send(socket, type, sequence, body, fd, base_fd); !sent) return Error{sent.error()};
  return answer_to(type, sequence, receive(socket));
}

}  // namespace weir::wire
