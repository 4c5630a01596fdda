#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "common/wire.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::wire;

namespace {

struct Pair {
  Fd left, right;
};

Pair socket_pair() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

size_t open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  size_t count = 0;
  while (readdir(folder) != nullptr) count++;
  closedir(folder);
  return count;
}

void store(std::vector<std::byte>& packet, size_t at, uint32_t value) {
  memcpy(packet.data() + at, &value, sizeof value);
}

std::atomic<int> refused_sends = 0;  // how many of the next ones the kernel has no memory for
std::atomic<int> sends = 0;

}  // namespace

// Instead of libc's.
extern "C" __attribute__((used, visibility("default"))) ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  sends++;
  if (refused_sends > 0) {
    refused_sends--;
    errno = ENOBUFS;
    return -1;
  }
  return syscall(SYS_sendmsg, socket, message, flags);
}

TEST_CASE("a message that the kernel has no memory for is sent a moment later, or there is an error") {
  const Pair pair = socket_pair();
  for (const int refused : {1, 3}) {
    refused_sends = refused;
    REQUIRE(send(pair.left.get(), Type::status, 7, {}));
    const Result<Message> message = receive(pair.right.get());
    REQUIRE(message);
    CHECK(message->header.sequence == 7);
  }
  refused_sends = 1'000'000;
  sends = 0;
  const Result<void> never = send(pair.left.get(), Type::status, 8, {});
  refused_sends = 0;
  REQUIRE_FALSE(never);
  CHECK(never.error() == "cannot send: No buffer space available");
  CHECK(sends.load() < 20);  // nobody is held up
  REQUIRE(send(pair.left.get(), Type::status, 9, {}));
  const Result<Message> message = receive(pair.right.get());
  REQUIRE(message);
  CHECK(message->header.sequence == 9);
}

TEST_CASE("what is encoded is decoded") {
  BypassBody body;
  body.on = 1;
  const std::vector<std::byte> packet = encode(Type::bypass, 77, bytes_of(body));
  const Result<Message> message = decode(packet, Fd());
  REQUIRE(message);
  CHECK(message->header.type == static_cast<uint16_t>(Type::bypass));
  CHECK(message->header.sequence == 77);
  REQUIRE(body_as<BypassBody>(*message));
  CHECK(body_as<BypassBody>(*message)->on == 1);
  CHECK_FALSE(body_as<StatusBody>(*message));  // another length
}

TEST_CASE("hostile packets are refused in words, on exact-size buffers") {
  const std::vector<std::byte> good = encode(Type::status, 1, std::vector<std::byte>(8));
  for (size_t length = 0; length < good.size(); length++) {
    const std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
    CHECK_FALSE(decode(cut, Fd()));
  }
  const auto error = [&](size_t at, uint32_t value) {
    std::vector<std::byte> packet = good;
    store(packet, at, value);
    const Result<Message> message = decode(packet, Fd());
    REQUIRE_FALSE(message);
    return message.error();
  };
  CHECK(error(0, 0) == "not a weir message (magic number)");
  CHECK(error(4, 0x00010003) == "message of version 3; this program speaks version 6");
  CHECK(error(4, 0x00000006) == "unknown message type 0");
  CHECK(error(4, 0x00060006) == "unknown message type 6");
  CHECK(error(8, 0xffffffff) == "message says 4294967295 bytes of body and has 8");
  CHECK(error(8, 7) == "message says 7 bytes of body and has 8");
  CHECK_FALSE(decode(encode(Type::status, 1, std::vector<std::byte>(kMaxMessageBytes)), Fd()));
}

TEST_CASE("stats are read only when the lists are all there") {
  StatsBody body;
  body.n_lists = 2;
  std::vector<std::byte> bytes(sizeof body + 2 * sizeof(ListStats));
  memcpy(bytes.data(), &body, sizeof body);
  ListStats second = {};
  set_text(second.name, "second");
  second.dropped = 5;
  memcpy(bytes.data() + sizeof body + sizeof second, &second, sizeof second);
  const auto read = [](const std::vector<std::byte>& content) {
    Message message;
    message.body = content;
    return stats_from(message);
  };
  REQUIRE(read(bytes));
  CHECK(get_text(read(bytes)->lists[1].name) == "second");
  CHECK(read(bytes)->lists[1].dropped == 5);
  for (size_t length = 0; length < bytes.size(); length++) {
    CHECK_FALSE(read({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)}));
  }
  body.n_lists = UINT32_MAX;
  memcpy(bytes.data(), &body, sizeof body);
  CHECK_FALSE(read(bytes));
}

TEST_CASE("interfaces come back as they were sent, and only when all of them are there") {
  InterfaceBody first, second;
  set_text(first.name, "eth0");
  first.index = 3;
  first.attached = 1;
  set_text(second.name, "fifteen-letters");
  set_text(second.error, "there is no such interface");
  std::vector<std::byte> bytes = encode_interfaces(std::vector<InterfaceBody>{first, second});
  const auto read = [](const std::vector<std::byte>& content) {
    Message message;
    message.body = content;
    return interfaces_from(message);
  };
  const auto again = read(bytes);
  REQUIRE(again);
  REQUIRE(again->size() == 2);
  CHECK(get_text((*again)[0].name) == "eth0");
  CHECK((*again)[0].attached == 1);
  CHECK(get_text((*again)[1].name) == "fifteen-letters");
  CHECK(get_text((*again)[1].error) == "there is no such interface");
  for (size_t length = 0; length < bytes.size(); length++) {
    CHECK_FALSE(read({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)}));
  }
  const InterfacesBody lies{UINT32_MAX, 0};
  memcpy(bytes.data(), &lies, sizeof lies);
  CHECK_FALSE(read(bytes));
  REQUIRE(read(encode_interfaces({})));
  CHECK(read(encode_interfaces({}))->empty());
}

TEST_CASE("text fields end somewhere") {
  TextBody body;
  set_text(body.text, std::string(1000, 'x'));
  CHECK(get_text(body.text) == std::string(sizeof body.text - 1, 'x'));
  memset(body.text, 'y', sizeof body.text);  // a peer that sends no NUL
  CHECK(get_text(body.text) == std::string(sizeof body.text, 'y'));
  set_text(body.text, "short");
  CHECK(get_text(body.text) == "short");
}

TEST_CASE("the descriptor of an overlay's base travels behind that of the overlay") {
  const Pair pair = socket_pair();
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC)), zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  REQUIRE(send(pair.left.get(), Type::publish, 1, bytes_of(PublishBody()), zero.get(), null.get()));
  const size_t before = open_descriptors();
  {
    const Result<Message> message = receive(pair.right.get());
    REQUIRE(message);
    REQUIRE((message->fd && message->base_fd));
    CHECK_FALSE(message->lost_fd);
    char byte = 1;
    CHECK(read(message->fd.get(), &byte, 1) == 1);
    CHECK(read(message->base_fd.get(), &byte, 1) == 0);
    CHECK(open_descriptors() == before + 2);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a descriptor travels with its message, surplus ones are closed") {
  const Pair pair = socket_pair();
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  REQUIRE(send(pair.left.get(), Type::publish, 1, bytes_of(PublishBody()), null.get()));
  const size_t before = open_descriptors();
  {
    const Result<Message> message = receive(pair.right.get());
    REQUIRE(message);
    CHECK(message->fd);
    CHECK((fcntl(message->fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(open_descriptors() == before + 1);
  }
  CHECK(open_descriptors() == before);

  for (const bool understood : {true, false}) {
    constexpr int kMany = 5;
    std::vector<std::byte> packet = encode(Type::status, 1, {});
    if (!understood) packet.resize(3);
    int fds[kMany];
    for (int& fd : fds) fd = null.get();
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
    iovec part = {packet.data(), packet.size()};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(rights), fds, sizeof fds);
    REQUIRE(sendmsg(pair.left.get(), &header, 0) == static_cast<ssize_t>(packet.size()));
    CHECK(bool(receive(pair.right.get())) == understood);
    CHECK(open_descriptors() == before);
  }
}

TEST_CASE("the peer's end and silence are errors with names") {
  Pair pair = socket_pair();
  const timeval soon = {0, 1000};
  REQUIRE(setsockopt(pair.right.get(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0);
  CHECK(receive(pair.right.get()).error() == "no message from the peer in time");
  pair.left.reset();
  CHECK(receive(pair.right.get()).error() == "closed by the peer");
  CHECK_FALSE(send(pair.right.get(), Type::status, 1, {}));
  CHECK_FALSE(send(pair.right.get(), Type::status, 1, std::vector<std::byte>(kMaxMessageBytes)));
  CHECK_FALSE(connect("/nowhere/at/all", 10));
  CHECK_FALSE(connect(std::string(200, 'x'), 10));
}

TEST_CASE("a call takes only its own answer") {
  struct Row {
    Type type;
    uint32_t sequence_offset;
    const char* words;
  };
  const Row rows[] = {{Type::status, 0, ""},
                      {Type::status, 1, "does not belong"},
                      {Type::stats, 0, "does not belong"},
                      {Type::refused, 0, "refused by the peer: because"}};
  for (const Row& row : rows) {
    const Pair pair = socket_pair();
    std::thread peer([&] {
      const Result<Message> request = receive(pair.right.get());
      TextBody text;
      set_text(text.text, "because");
      if (request) {
        (void)send(pair.right.get(), row.type, request->header.sequence + row.sequence_offset, bytes_of(text));
      }
    });
    const Result<Message> answer = call(pair.left.get(), Type::status);
    peer.join();
    if (*row.words == 0) {
      CHECK(answer);
    } else {
      REQUIRE_FALSE(answer);
      CHECK_THAT(answer.error(), Catch::Matchers::ContainsSubstring(row.words));
    }
  }
}

TEST_CASE("every step has a name") {
  for (uint32_t step = 0; step <= static_cast<uint32_t>(Step::free); step++) {
    CHECK(std::string(step_name(static_cast<Step>(step))) != "unknown");
  }
  CHECK(std::string(step_name(static_cast<Step>(99))) == "unknown");
}

TEST_CASE("samples are read as they were written; a length that lies is refused") {
  SamplesBody head = {.sampled = 9, .n_samples = 3};
  std::vector<std::byte> body(bytes_of(head).begin(), bytes_of(head).end());
  const std::string frame = "a frame of 23 bytes....";
  for (const uint32_t captured : {0u, 8u, 23u}) {
    Sample sample;
    sample.captured_bytes = captured;
    set_text(sample.list, "list" + std::to_string(captured));
    append_sample(body, sample, frame.data());
  }
  Message message;
  message.body = body;
  const std::optional<Samples> samples = samples_from(message);
  REQUIRE(samples);
  CHECK(samples->body.sampled == 9);
  REQUIRE(samples->frames.size() == 3);
  CHECK(get_text(samples->frames[2].sample.list) == "list23");
  CHECK(memcmp(samples->frames[2].bytes.data(), frame.data(), 23) == 0);
  for (size_t length = 0; length < body.size(); length++) {
    message.body.assign(body.begin(), body.begin() + static_cast<ptrdiff_t>(length));
    CHECK_FALSE(samples_from(message));
  }
  message.body = body;
  const uint32_t long_frame = kMaxSnapBytes + 1;
  memcpy(message.body.data() + sizeof head + offsetof(Sample, captured_bytes), &long_frame, sizeof long_frame);
  message.body.resize(4096);
  CHECK_FALSE(samples_from(message));
}

TEST_CASE("sampled traffic is read as it was written; layers that lie are refused") {
  std::vector<SampledTraffic> written(4);
  for (uint32_t i = 0; i < written.size(); i++) {
    SampledTraffic& one = written[i];
    one.sample.time_unix_ns = 100 + i;
    one.sample.weight = 1 + i;
    one.sample.frame_bytes = 60 + i;
    one.sample.layers = static_cast<uint8_t>(i);
    one.sample.kind = i == 0 ? FrameKind::not_ip : FrameKind::packets;
    for (uint32_t layer = 0; layer < i; layer++) one.packets[layer].fill(std::byte(0x10 * i + layer));
  }
  TrafficBody head;
  head.n_samples = static_cast<uint32_t>(written.size());
  const auto message_of = [&](const std::vector<SampledTraffic>& all) {
    std::vector<std::byte> body(sizeof head);
    memcpy(body.data(), &head, sizeof head);
    for (const SampledTraffic& one : all) append_traffic(body, one);
    Message message;
    message.body = std::move(body);
    return message;
  };
  const Message message = message_of(written);
  const std::optional<Traffic> traffic = traffic_from(message);
  REQUIRE(traffic);
  REQUIRE(traffic->samples.size() == written.size());
  for (uint32_t i = 0; i < written.size(); i++) {
    CHECK(memcmp(&traffic->samples[i].sample, &written[i].sample, sizeof(TrafficSample)) == 0);
    CHECK(traffic->samples[i].packets == written[i].packets);
  }
  for (size_t cut = 1; cut < message.body.size(); cut++) {
    Message shorter;
    shorter.body.assign(message.body.begin(), message.body.end() - static_cast<ptrdiff_t>(cut));
    CHECK_FALSE(traffic_from(shorter));
  }
  const auto is_refused = [&](auto change) {
    std::vector<SampledTraffic> wrong = written;
    change(wrong);
    return !traffic_from(message_of(wrong));
  };
  CHECK(is_refused([](auto& all) { all[0].sample.layers = 1; }));  // a frame that is not IP has none
  CHECK(is_refused([](auto& all) { all[3].sample.kind = FrameKind::malformed; }));
  CHECK(is_refused([](auto& all) { all[0].sample.kind = FrameKind(3); }));
  CHECK(is_refused([](auto& all) { all[0].sample.kind = FrameKind::packets; }));  // IP, and no packet
  CHECK(is_refused([](auto& all) { all[1].sample.weight = 0; }));
  CHECK(is_refused([](auto& all) { all[1].sample.dropped = 2; }));
  CHECK(is_refused([](auto& all) { all.pop_back(); }));
}
