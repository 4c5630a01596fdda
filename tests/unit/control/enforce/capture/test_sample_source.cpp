// What controld knows of the samples of a data plane, whatever becomes of either.
#include <poll.h>
#include <sys/socket.h>

#include "common/unix_socket.h"
#include "control/enforce/capture/sample_source.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;

namespace {

// A data plane that tells what a test says; a thread of its own may speak for it.
class Plane {
 public:
  explicit Plane(const std::string& path)
      : listener_(std::move(*unix_socket::Listener::open(path, unix_socket::Kind::seqpacket, 0600, 4))) {}

  wire::SamplingBody hear() {
    if (!client_) client_ = Fd(accept(listener_.fd(), nullptr, nullptr));
    const Result<wire::Message> request = wire::receive(client_.get());
    must(bool(request));
    must(request->header.type == static_cast<uint16_t>(wire::Type::samples));
    return wire::body_as<wire::SamplingBody>(*request).value();
  }
  void tell(wire::SamplesBody head) {
    std::vector<std::byte> body(wire::bytes_of(head).begin(), wire::bytes_of(head).end());
    for (uint32_t i = 0; i < head.n_samples; i++) {
      wire::Sample sample;
      sample.captured_bytes = 3;
      wire::append_sample(body, sample, "abc");
    }
    must(bool(wire::send(client_.get(), wire::Type::samples, 0, body)));
  }
  void refuse() {
    wire::TextBody text;
    wire::set_text(text.text, "no such request");
    must(bool(wire::send(client_.get(), wire::Type::refused, 0, wire::bytes_of(text))));
  }
  void close() { client_.reset(); }

 private:
  unix_socket::Listener listener_;
  Fd client_;
};

SampleSource::Connect to(const std::string& path) {
  return [path](const auto& done) { done(wire::connect(path, 0)); };
}

struct Exchange {
  SampleSource& source;
  Plane& plane;
  size_t operator()(wire::SamplesBody body) {
    source.ask(Clock::now());
    plane.hear();
    plane.tell(body);
    REQUIRE(source.fd() >= 0);
    return source.take(Clock::now()).size();
  }
};

void check_counts(const SampleSource& source, SampleSource::Counts expected) {
  const SampleSource::Counts& counts = source.counts();
  CHECK(counts.sampled == expected.sampled);
  CHECK(counts.limited == expected.limited);
  CHECK(counts.lost == expected.lost);
  CHECK(counts.waiting == expected.waiting);
}

}  // namespace

TEST_CASE("counters begin with the first answer, and what got lost on the way is lost") {
  const Folder folder;
  Plane plane(folder / "dp.sock");
  SampleSource source("plane", to(folder / "dp.sock"));
  source.want({10, 5, 64, 0});
  Exchange exchange{source, plane};
  // Before: 100 sampled, of which 40 limited, 20 lost, 33 told to others, 2 in this answer, 5 waiting.
  CHECK(exchange({1, 100, 40, 20, 35, 5, 2}) == 2);
  check_counts(source, {7, 0, 0, 5});
  CHECK(source.due() <= Clock::now());  // there is more
  const auto begin = Clock::now();
  CHECK(exchange({1, 110, 43, 21, 46, 0, 4}) == 4);  // 7 of the 11 that were told went to nobody
  check_counts(source, {17, 3, 1 + 7, 0});
  CHECK(source.due() >= begin + std::chrono::milliseconds(100));  // a quarter of a second later
}

TEST_CASE("a data plane that starts anew counts from 0; what waited in it is lost") {
  const Folder folder;
  Plane plane(folder / "dp.sock");
  SampleSource source("plane", to(folder / "dp.sock"));
  Exchange exchange{source, plane};
  CHECK(exchange({1, 9, 0, 0, 2, 7, 2}) == 2);
  CHECK(exchange({2, 3, 1, 0, 2, 0, 2}) == 2);
  check_counts(source, {9 + 3, 1, 7, 0});
}

TEST_CASE("what a data plane says wrongly ends the connection, with its reason, and is tried again") {
  const Folder folder;
  Plane plane(folder / "dp.sock");
  SampleSource source("plane", to(folder / "dp.sock"));
  const auto begin = Clock::now();
  source.ask(begin);
  CHECK(source.fd() >= 0);
  CHECK(source.due() == Clock::time_point::max());
  plane.hear();
  plane.refuse();
  CHECK(source.take(begin).empty());
  CHECK(source.error().find("no such request") != std::string::npos);
  CHECK(source.fd() == -1);
  CHECK(source.due() > begin);
  plane.close();

  source.ask(begin);
  plane.hear();
  wire::SamplesBody lie = {1, 0, 0, 0, 0, 0, 0};
  plane.tell(lie);
  CHECK(source.take(begin).empty());
  CHECK(source.error().empty());
  source.ask(begin);
  plane.hear();
  plane.close();
  CHECK(source.take(begin).empty());
  CHECK(source.error() == "closed by the peer");

  SampleSource nobody("nobody", to(folder / "none.sock"));
  nobody.ask(begin);
  CHECK(nobody.error().find("none.sock") != std::string::npos);
}

TEST_CASE("at the end sampling is switched off and what is left is fetched") {
  const Folder folder;
  Plane plane(folder / "dp.sock");
  SampleSource source("plane", to(folder / "dp.sock"));
  source.want({10, 5, 64, 0});
  Exchange exchange{source, plane};
  CHECK(exchange({1, 1, 0, 0, 1, 0, 1}) == 1);
  std::vector<uint32_t> asked;
  std::thread answers([&] {
    asked.push_back(plane.hear().one_in);
    plane.tell({1, 6, 0, 0, 4, 2, 3});
    asked.push_back(plane.hear().one_in);
    plane.tell({1, 6, 0, 0, 6, 0, 2});
  });
  source.finish();
  size_t fetched = 0;
  while (!source.is_finished()) {
    if (source.fd() < 0) {
      REQUIRE(source.due() <= Clock::now());
      source.ask(Clock::now());
    }
    pollfd ready = {source.fd(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, 20'000) == 1);
    fetched += source.take(Clock::now()).size();
  }
  CHECK(fetched == 5);
  CHECK(source.due() == Clock::time_point::max());
  answers.join();
  CHECK(asked == std::vector<uint32_t>{0, 0});
  check_counts(source, {6, 0, 0, 0});
}

TEST_CASE("a connection may come later, and not at all") {
  const Folder folder;
  Plane plane(folder / "dp.sock");
  std::function<void(Result<Fd>)> arrives;
  int told = 0;
  const auto begin = Clock::now();
  {
    SampleSource source(
        "plane", [&](auto done) { arrives = std::move(done); }, [&] { told++; });
    source.ask(begin);
    CHECK(source.due() == Clock::time_point::max());
    CHECK(source.fd() == -1);
    arrives(Error{"it is being opened"});
    CHECK(told == 1);
    CHECK(source.error() == "it is being opened");
    CHECK(source.due() > begin);
    source.ask(begin);
    arrives(wire::connect(folder / "dp.sock", 1000));  // blocking: it must not stay so
    CHECK(told == 2);
    CHECK(source.due() <= begin);
    source.ask(begin);
    plane.hear();
    plane.tell({1, 2, 0, 0, 2, 0, 2});
    CHECK(source.take(begin).size() == 2);
    CHECK(source.error().empty());
    plane.close();
    source.ask(begin);
    if (source.fd() >= 0) CHECK(source.take(begin).empty());
    CHECK_FALSE(source.error().empty());
    source.ask(begin);
  }
  arrives(wire::connect(folder / "dp.sock", 0));  // to nobody
  CHECK(told == 2);
}
