#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fd.h"
#include "common/result.h"

// Messages between controld (or controlctl) and an enforcer, over a Unix SOCK_SEQPACKET socket: one message is one
// packet, a Header and a body of fixed-size structs, little endian, no pointers, no padding. The enforcer answers every
// request with exactly one message. Either side drops a connection whose Header is not understood, after saying so
// (type refused). Decoders take bytes of anybody: they check every length and never read past the span.
namespace weir::wire {

constexpr uint32_t kMagic = 0x52494557;  // "WEIR"
constexpr uint16_t kVersion = 6;
constexpr size_t kMaxMessageBytes = 128 * 1024;
constexpr size_t kMaxLists = 256;

enum class Type : uint16_t {
  status = 1,   // request: none;           answer: StatusBody
  publish = 2,  // request: PublishBody+fd; answer: PublishedBody
  stats = 3,    // request: none;           answer: StatsBody + n ListStats
  bypass = 4,   // request: BypassBody;     answer: StatusBody, when it is in force, and on disk or said not to be
  refused = 5,  // answer only: TextBody; the request was not understood
  // common/telemetry.h
  telemetry = 10,  // request: TelemetryRequest; answer: TelemetryBody + buckets, queues, sources
  ports = 11,      // request: none;             answer: PortsBody + n PortStats
  probes = 12,     // request: none;             answer: ProbesBody + n ShapeProbes (common/probes.h)
  samples = 20,    // request: SamplingBody;     answer: SamplesBody + n Samples, each followed by its bytes
  traffic = 21,    // request: TrafficRequest;   answer: TrafficBody + n TrafficSamples, each followed by its packets
  shadow = 22,     // request: ShadowRequest (+fd); answer: ShadowBody + lists, samples (common/shadow.h)
  // of the XDP plane alone
  interfaces = 30,  // request: none;       answer: InterfacesBody + n InterfaceBody
  detach = 31,      // request: DetachBody; answer: the same, of those that were detached
};                  // an answer has the type of its request, or refused

struct Header {
  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint16_t type = 0;
  uint32_t body_bytes = 0;
  uint32_t sequence = 0;  // the answer repeats the request's
};
static_assert(sizeof(Header) == 16);

struct Generation {
  uint64_t epoch = 0;   // random, one per state directory of controld; 0 = none
  uint64_t number = 0;  // rises by one per publication
  bool operator==(const Generation&) const = default;
};

// A snapshot, whose descriptor comes along; or an overlay, whose descriptor comes along, and behind it that of its base
// where the receiver may not enforce it yet.
struct PublishBody {
  Generation generation;
  uint64_t digest[2] = {};       // XXH3-128 (low, high) of the bytes of the snapshot, or overlay
  Generation base;               // of an overlay: on which snapshot it stands; a snapshot: {0,0}
  uint64_t base_digest[2] = {};  // of that one's bytes
  uint64_t size_bytes = 0;       // informative; the receiver trusts fstat
  // 1 = also when something newer of this epoch is enforced, which is refused otherwise.
  uint32_t allow_older = 0;
  uint32_t reserved = 0;
};

// Steps of a publication, in order (docs/operate/dataplane.md); a publication that fails names the one it failed in.
enum class Step : uint32_t { none, receive, check, map, validate, copy, persist, exchange, grace, free };
const char* step_name(Step step);

struct PublishedBody {
  Generation generation;  // what is enforced now: the new one, or the old one after a failure
  uint32_t ok = 0;        // 1 = the new generation is enforced
  Step failed_step = Step::none;
  uint32_t grace_us = 0;  // the RCU grace period
  uint32_t total_us = 0;  // all steps
  uint32_t durable = 0;   // 1 = what is enforced now would outlive a restart; 0: the enforcer tries on
  // 1 = refused, because the overlay stands on a snapshot that is not enforced here, and that did not come along.
  uint32_t needs_base = 0;
  char reason[256] = {};  // NUL-terminated; why it failed, or what the operator should know; empty: all is well
};

struct StatusBody {
  char version[32] = {};         // of the program
  Generation generation;         // {0,0}: no snapshot yet
  uint64_t start_time_unix = 0;  // seconds
  uint64_t snapshot_bytes = 0;
  uint64_t snapshot_limit_bytes = 0;
  uint32_t workers = 0;
  uint32_t ports = 0;
  uint32_t bypass = 0;      // 1 = everything passes
  uint32_t huge_pages = 0;  // 1 = the snapshot lies in huge pages
  char isa[16] = {};        // of the filter kernels in use
  uint64_t digest[2] = {};  // of the generation's snapshot, or overlay: two of one generation are told apart by it
  Generation base;          // on which its overlay stands; without an overlay: the generation itself
  uint64_t base_digest[2] = {};
  uint64_t overlay_bytes = 0;  // 0: there is none
  uint64_t overlay_keys = 0;
  // 1 = it would outlive a restart; 0: the enforcer tries on, and disk_error says why.
  uint32_t snapshot_durable = 1;
  uint32_t bypass_durable = 1;
  char disk_error[128] = {};
  Generation shadow;  // the candidate that judges beside it (common/shadow.h); {0,0}: none does
};

struct TextBody {
  char text[256] = {};  // NUL-terminated
};

struct BypassBody {
  uint32_t on = 0;
  uint32_t reserved = 0;
};

// Since the enforcer started. packets = passed + dropped; the reasons below are inside them.
struct Totals {
  uint64_t packets, bytes, passed, dropped;
  uint64_t malformed, not_ip, incomplete, default_passed, default_dropped;
  uint64_t bypassed, no_snapshot_passed, no_snapshot_dropped;
  uint64_t tx_packets;    // passed frames that left by a port
  uint64_t tx_lost;       // passed frames that the output port did not take
  uint64_t capture_lost;  // dropped frames that the drop_port did not take
  uint64_t rx_missed;     // frames the ports lost before a worker saw them (imissed + rx_nombuf)
};

struct ListStats {
  char name[64];
  uint64_t matched, dropped, passed, would_drop;                          // packets
  uint64_t matched_bytes, dropped_bytes, passed_bytes, would_drop_bytes;  // frame length without FCS
  uint64_t dropped_alone, would_drop_alone;  // of dropped, of would_drop: no other enforced drop list decides so
  uint64_t dropped_alone_bytes, would_drop_alone_bytes;
};

struct StatsBody {
  Generation generation;
  uint64_t start_time_unix = 0;
  Totals totals = {};
  uint32_t n_lists = 0;   // ListStats that follow: lists of this generation first, then former ones
  uint32_t taken_us = 0;  // of a monotonic clock, modulo 2^32: when this was told
};

// How the enforcer samples what it drops, from this request on.
struct SamplingBody {
  uint32_t one_in = 0;  // dropped frames; 0: none
  uint32_t per_list_per_second = 0;
  uint32_t snap_bytes = 0;  // of a frame, at most kMaxSnapBytes
  uint32_t reserved = 0;
};
constexpr uint32_t kMaxSnapBytes = 512;

enum class DroppedBy : uint8_t { list, default_action, unparsed, no_snapshot };

constexpr size_t kPacketBytes = 48;

// A dropped frame.
struct Sample {
  Generation generation;      // that judged it; {0,0}: none
  uint64_t time_unix_ns = 0;  // when it was judged
  uint64_t now_unix_s = 0;    // what `expires` was compared with
  // The layer that drops: struct weir_packet of filter/format/packet.h, with 0 where a packet has nothing (so its
  // family, when the frame has no headers).
  alignas(8) std::byte packet[kPacketBytes] = {};
  DroppedBy dropped_by = DroppedBy::list;
  uint8_t layer = 0;  // 0: the outer one
  uint16_t queue = 0;
  uint32_t port = 0;            // where it came in: a data plane's port, or XDP's interface by its index
  uint32_t frame_bytes = 0;     // without FCS
  uint32_t captured_bytes = 0;  // that follow, filled up with zeros to a multiple of 8
  uint32_t one_in = 0;          // dropped frames of which it is the sample
  uint32_t reserved = 0;
  char list[64] = {};  // credited; empty unless dropped_by a list
};

// Since the enforcer started: sampled = limited + lost + told + waiting.
struct SamplesBody {
  uint64_t start_time_unix = 0;
  uint64_t sampled = 0;  // dropped frames that were chosen
  uint64_t limited = 0;  // of those, past per_list_per_second
  uint64_t lost = 0;     // of those, no room: nobody asked for them in time
  uint64_t told = 0;     // of those, in answers, this one included
  uint32_t waiting = 0;  // of those, to be told
  uint32_t n_samples = 0;
};

static_assert(sizeof(Sample) == 32 + kPacketBytes + 24 + 64, "no padding");

struct SampledFrame {
  Sample sample;
  std::vector<std::byte> bytes;
};
struct Samples {
  SamplesBody body;
  std::vector<SampledFrame> frames;
};

// What frames came, of late: samples of all of them, dropped or not, without what they carry. From this request on.
struct TrafficRequest {
  uint32_t per_second = 0;  // samples of the enforcer, about as many; 0: none
  uint32_t reserved = 0;
};

enum class FrameKind : uint8_t { packets, not_ip, malformed };
constexpr uint32_t kMaxLayers = 4;

// A frame, passed or dropped. Its packets follow, kPacketBytes for each layer, the outer one first: as in Sample.
struct TrafficSample {
  uint64_t time_unix_ns = 0;  // when it was judged
  uint32_t weight = 0;        // frames that it stands for: one of so many was chosen
  uint32_t frame_bytes = 0;   // without FCS
  FrameKind kind = FrameKind::packets;
  uint8_t dropped = 0;  // 1 = it was
  uint8_t layers = 0;   // 0..kMaxLayers; 0 unless it has packets
  uint8_t reserved[5] = {};
};
static_assert(sizeof(TrafficSample) == 24, "no padding");

// Since the enforcer started: sampled = lost + told + waiting.
struct TrafficBody {
  uint64_t start_time_unix = 0;
  uint64_t sampled = 0;  // frames that were chosen
  uint64_t lost = 0;     // of those, no room: nobody asked for them in time
  uint64_t told = 0;     // of those, in answers, this one included
  uint32_t waiting = 0;  // of those, to be told
  uint32_t n_samples = 0;
};

struct SampledTraffic {
  TrafficSample sample;
  std::array<std::array<std::byte, kPacketBytes>, kMaxLayers> packets = {};  // sample.layers of them
};
struct Traffic {
  TrafficBody body;
  std::vector<SampledTraffic> samples;
};

constexpr size_t kMaxInterfaces = 256;

// Where the XDP plane enforces, or should.
struct InterfaceBody {
  char name[16] = {};
  uint32_t index = 0;     // 0: there is no such interface now
  uint32_t attached = 0;  // 1: what comes in here is judged
  uint32_t native = 0;    // where attached: 1 = in the driver; 0 = behind it, slower
  uint32_t times = 0;  // that it was attached by this program: more than once, when others detached it or made it anew
  char error[256] = {};  // why it is not attached; empty: well
  char now[16] = {};     // its name now, when it was renamed: it stays enforced
};

struct InterfacesBody {
  uint32_t n_interfaces = 0;  // InterfaceBodies that follow
  uint32_t reserved = 0;
};

// Nothing is enforced there from then on, until the target is opened anew.
struct DetachBody {
  char interface[16] = {};  // empty: all
};

struct Message {
  Header header;
  std::vector<std::byte> body;
  Fd fd;                 // with publish
  Fd base_fd;            // with publish, of an overlay's base
  bool lost_fd = false;  // one came along that this process had no descriptor for
};

// body: a trivially copyable struct, exactly body_bytes long.
template <class Body>
std::optional<Body> body_as(const Message& message) {
  static_assert(std::is_trivially_copyable_v<Body>);
  if (message.body.size() != sizeof(Body)) return std::nullopt;
  Body body;
  __builtin_memcpy(static_cast<void*>(&body), message.body.data(), sizeof body);
  return body;
}

// Text fields. What does not fit is cut; a field that arrives without a NUL ends at its end.
template <size_t N>
void set_text(char (&field)[N], std::string_view text) {
  __builtin_memset(field, 0, N);
  __builtin_memcpy(field, text.data(), text.size() < N ? text.size() : N - 1);
}
template <size_t N>
std::string get_text(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

struct Stats {
  StatsBody body;
  std::vector<ListStats> lists;
};
std::optional<Stats> stats_from(const Message& message);
std::optional<Samples> samples_from(const Message& message);
std::vector<std::byte> encode_interfaces(std::span<const InterfaceBody> interfaces);
std::optional<std::vector<InterfaceBody>> interfaces_from(const Message& message);
// Appends one frame as samples_from() reads it; sample.captured_bytes are read from bytes.
void append_sample(std::vector<std::byte>& body, const Sample& sample, const void* bytes);
constexpr size_t sample_message_bytes(uint32_t captured_bytes) {
  return sizeof(Sample) + (size_t{captured_bytes} + 7) / 8 * 8;
}
std::optional<Traffic> traffic_from(const Message& message);
// Appends one frame as traffic_from() reads it.
void append_traffic(std::vector<std::byte>& body, const SampledTraffic& sampled);
constexpr size_t traffic_message_bytes(uint32_t layers) {
  return sizeof(TrafficSample) + layers * kPacketBytes;
}

// Checks magic, version, type and length of one received packet. The error says what is wrong (another version is
// named as such).
Result<Message> decode(std::span<const std::byte> packet, Fd fd, Fd base_fd = {});
std::vector<std::byte> encode(Type type, uint32_t sequence, std::span<const std::byte> body);

template <class Body>
std::span<const std::byte> bytes_of(const Body& body) {
  return std::as_bytes(std::span(&body, 1));
}

// One packet out, with an optional descriptor, or two. Blocks as the socket does.
Result<void> send(int socket, Type type, uint32_t sequence, std::span<const std::byte> body, int fd = -1,
                  int base_fd = -1);
// One packet in. An orderly end of the peer is the error "closed by the peer". Surplus descriptors are closed.
Result<Message> receive(int socket);

// Connects to an enforcer's socket; every later send or receive fails after timeout_ms (0: it does not block).
Result<Fd> connect(const std::string& path, int timeout_ms);
// For the next request of this process. Any thread.
uint32_t next_sequence();
// What was received, checked: it answers the request of this type and sequence; refused becomes an error.
Result<Message> answer_to(Type type, uint32_t sequence, Result<Message> received);
// send + receive + the sequence and type of the answer checked (refused becomes an error).
Result<Message> call(int socket, Type type, std::span<const std::byte> body = {}, int fd = -1, int base_fd = -1);

}  // namespace weir::wire
