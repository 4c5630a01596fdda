#include "tests/unit/control/support/enforcer.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "common/log/log.h"
#include "common/probes.h"
#include "common/telemetry.h"

using namespace weir;

[[maybe_unused]] static const bool kQuiet = (log::set_threshold(log::Level::none), true);

Enforcer::Enforcer(const std::string& path, Behaviour behaviour)
    : listener_(std::move(*unix_socket::Listener::open(path, unix_socket::Kind::seqpacket, 0600, 8))), now_(behaviour) {
  fcntl(listener_.fd(), F_SETFL, 0);  // the thread waits in accept()
  thread_ = std::thread([this] { run(); });
}

Enforcer::~Enforcer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const int client : clients_) shutdown(client, SHUT_RDWR);
    shutdown(listener_.fd(), SHUT_RDWR);
  }
  released_.notify_all();
  thread_.join();
  for (std::thread& thread : threads_) thread.join();
}

void Enforcer::release() {
  {
    std::lock_guard lock(mutex_);
    now_.hangs = now_.is_deaf = now_.is_stubborn = false;
  }
  released_.notify_all();
}

void Enforcer::set_bypass(bool on) {
  std::lock_guard lock(mutex_);
  now_.bypass = on;
}

void Enforcer::set_disk_full(bool full) {
  std::lock_guard lock(mutex_);
  now_.disk_is_full = full;
}

int Enforcer::orders() const {
  std::lock_guard lock(mutex_);
  return orders_;
}

void Enforcer::set_interfaces(std::vector<wire::InterfaceBody> interfaces) {
  std::lock_guard lock(mutex_);
  now_.interfaces = std::move(interfaces);
}

void Enforcer::end_shadow(const std::string& why) {
  std::lock_guard lock(mutex_);
  shadow_.on = 0;
  wire::set_text(shadow_.reason, why);
}

int Enforcer::shadows() const {
  std::lock_guard lock(mutex_);
  return shadows_;
}

wire::Generation Enforcer::shadow() const {
  std::lock_guard lock(mutex_);
  return shadow_.on != 0 ? shadow_.candidate : wire::Generation();
}

// It has judged 100 packets, and would drop one that it is asked for the first time more. mutex_ is held.
wire::Shadow Enforcer::shadow(const wire::ShadowRequest& request) {
  wire::Shadow told;
  if (request.action == wire::ShadowAction::end) {
    shadow_.on = 0;
  } else if (request.action == wire::ShadowAction::begin && now_.refuses_shadows) {
    told.body = shadow_;
    told.body.ok = 0;
    told.body.failed_step = wire::Step::check;
    strcpy(told.body.reason, "no room");
    return told;
  } else if (request.action == wire::ShadowAction::begin) {
    shadow_ = {};
    shadow_.on = 1;
    shadow_.one_in = request.one_in;
    shadow_.candidate = request.candidate;
    shadow_.began_unix_s = 1;
    shadow_.packets = 100;
    shadow_.cycles = 5000;
    shadow_.tsc_hz = 1'000'000'000;
    shadow_.newly_dropped = 7;
    shadows_++;
  }
  told.body = shadow_;
  if (shadow_.on == 0) return told;
  wire::ShadowList& list = told.lists.emplace_back();
  strcpy(list.name, "l1");
  list.newly_dropped = 7;
  wire::ShadowSample& sample = told.samples.emplace_back();
  sample.by_candidate.dropped = 1;
  strcpy(sample.by_candidate.list, "l1");
  sample.by_running.by = wire::DroppedBy::default_action;
  return told;
}

int Enforcer::publications() const {
  std::lock_guard lock(mutex_);
  return publications_;
}

bool Enforcer::bypass() const {
  std::lock_guard lock(mutex_);
  return now_.bypass;
}

wire::Generation Enforcer::generation() const {
  std::lock_guard lock(mutex_);
  return now_.generation;
}

void Enforcer::run() {
  while (true) {
    auto client = std::make_shared<Fd>(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!*client) return;
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    clients_.push_back(client->get());
    threads_.emplace_back([this, client] { serve(std::move(*client)); });
  }
}

void Enforcer::serve(Fd client) {
  while (true) {
    Result<wire::Message> request = wire::receive(client.get());
    if (!request || !answer(client.get(), *request)) break;
  }
  std::lock_guard lock(mutex_);
  std::erase(clients_, client.get());
  client.reset();
}

bool Enforcer::answer(int client, wire::Message& request) {
  const auto type = static_cast<wire::Type>(request.header.type);
  const uint32_t sequence = request.header.sequence;
  if (type == wire::Type::publish) {
    const wire::PublishedBody body = publish(request);
    return static_cast<bool>(wire::send(client, type, sequence, wire::bytes_of(body)));
  }
  std::unique_lock lock(mutex_);
  if (type == wire::Type::stats) {
    struct {
      wire::StatsBody body;
      wire::ListStats list;
    } answer = {};
    answer.body.generation = now_.generation;
    answer.body.totals.packets = now_.packets;
    answer.body.n_lists = 1;
    strcpy(answer.list.name, "l1");
    answer.list.matched = now_.packets;
    return static_cast<bool>(wire::send(client, type, sequence, wire::bytes_of(answer)));
  }
  if (type == wire::Type::probes) {
    wire::Probes probes;
    probes.body.generation = now_.generation;
    return static_cast<bool>(wire::send(client, type, sequence, wire::encode_probes(probes)));
  }
  if (type == wire::Type::traffic) {
    wire::TrafficBody head;
    head.n_samples = static_cast<uint32_t>(now_.traffic.size());
    std::vector<std::byte> body(sizeof head);
    memcpy(body.data(), &head, sizeof head);
    for (const wire::SampledTraffic& sampled : now_.traffic) wire::append_traffic(body, sampled);
    now_.traffic.clear();
    return static_cast<bool>(wire::send(client, type, sequence, body));
  }
  if (type == wire::Type::shadow) {
    const wire::Shadow told = shadow(*wire::body_as<wire::ShadowRequest>(request));
    return static_cast<bool>(wire::send(client, type, sequence, wire::encode_shadow(told)));
  }
  if (type == wire::Type::ports) {
    return static_cast<bool>(wire::send(client, type, sequence, wire::encode_ports({1, {{}, {}}})));
  }
  if (type == wire::Type::interfaces) {
    return static_cast<bool>(wire::send(client, type, sequence, wire::encode_interfaces(now_.interfaces)));
  }
  if (type == wire::Type::telemetry && !now_.interfaces.empty()) {
    return static_cast<bool>(
        wire::send(client, wire::Type::refused, sequence, wire::bytes_of(wire::TextBody{"no workers"})));
  }
  if (type == wire::Type::telemetry) {
    wire::Telemetry telemetry;
    telemetry.body.worker = wire::body_as<wire::TelemetryRequest>(request)->worker;
    telemetry.body.workers = now_.workers;
    telemetry.body.packets = now_.packets;
    return static_cast<bool>(wire::send(client, type, sequence, wire::encode_telemetry(telemetry)));
  }
  if (type == wire::Type::bypass) {
    released_.wait(lock, [&] { return !now_.is_deaf || stopping_; });
    if (!now_.is_stubborn) {
      now_.bypass = wire::body_as<wire::BypassBody>(request)->on != 0;
      orders_++;
    }
  }
  return static_cast<bool>(wire::send(client, type, sequence, wire::bytes_of(status())));
}

wire::PublishedBody Enforcer::publish(const wire::Message& request) {
  const wire::PublishBody wanted = *wire::body_as<wire::PublishBody>(request);
  struct stat file {};
  const bool complete = fstat(request.fd.get(), &file) == 0 && static_cast<uint64_t>(file.st_size) == wanted.size_bytes;

  std::unique_lock lock(mutex_);
  publications_++;
  released_.wait(lock, [&] { return !now_.hangs || stopping_; });
  wire::PublishedBody body;
  if (now_.refuses || !complete) {
    body.failed_step = wire::Step::validate;
    strcpy(body.reason, "the test refuses it");
  } else {
    now_.generation = wanted.generation;
    std::copy_n(wanted.digest, now_.digest.size(), now_.digest.begin());
    body.ok = 1;
    body.durable = now_.disk_is_full ? 0 : 1;
    if (now_.disk_is_full) strcpy(body.reason, "no room");
  }
  body.generation = now_.generation;
  return body;
}

wire::StatusBody Enforcer::status() const {  // mutex_ is held
  wire::StatusBody body;
  if (shadow_.on != 0) body.shadow = shadow_.candidate;
  strcpy(body.version, "test");
  body.generation = now_.generation;
  body.start_time_unix = 1;
  body.bypass = now_.bypass ? 1 : 0;
  std::copy(now_.digest.begin(), now_.digest.end(), body.digest);
  body.snapshot_durable = now_.disk_is_full ? 0 : 1;
  body.bypass_durable = now_.switch_is_on_disk ? body.snapshot_durable : 0;
  if (body.bypass_durable == 0)
    strcpy(body.disk_error, now_.disk_is_full ? "no room" : "the disk has not answered yet");
  return body;
}
