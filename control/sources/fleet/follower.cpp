#include "control/sources/fleet/follower.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/fd.h"
#include "control/base/http/reach.h"
#include "control/sources/fleet/channel.h"
#include "control/sources/fleet/head.h"
#include "control/sources/fleet/names.h"
#include "control/sources/fleet/pieces.h"
#include "control/sources/fleet/revision.h"
#include "control/sources/fleet/transfer.h"

namespace weir::control::fleet {
namespace {

using etcd::Client;
using etcd::KeyValue;

constexpr int64_t kTold_s = 600;  // of the lease of an answer
constexpr int64_t kAlive_s = 15;  // of the lease that says that the node is there
constexpr int kKeepAliveMs = 5000;
constexpr int kFirstPauseMs = 100, kMostPauseMs = 5000;
constexpr int kRequestMs = 3000;  // of one request to one member
constexpr int kBlobMs = 60'000;   // of a file from a server of the user's

etcd::Access access_of(const Follow& follow) {
  etcd::Access access;
  access.endpoints = follow.endpoints;
  access.tls.ca_pem = follow.ca_pem;
  access.tls.cert_pem = follow.cert_pem;
  access.tls.key_pem = follow.key_pem;
  access.user = follow.user;
  access.password = follow.password;
  access.timeout_ms = kRequestMs;
  return access;
}

// What went wrong, without the hint for people at a terminal.
std::string first_line(const std::string& error) {
  return error.substr(0, error.find('\n'));
}

// For poll(): until then, or until the clocks are to be looked at again.
int wait_ms(Clock::time_point until) {
  const auto left = std::min(until - Clock::now(), longest_wait());
  return static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

// The end of the socket, which both threads speak through.
class Voice {
 public:
  explicit Voice(int socket) : socket_(socket), gone_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  bool tell(const News& news) {
    std::string text = text_of(news);
    if (text.size() > kMostMessage) {  // somebody else than weir wrote that
      News refused;
      refused.kind = "lost";
      refused.error = "etcd has something of the fleet that is too long: " + news.kind;
      text = text_of(refused);
    }
    const std::lock_guard lock(mutex_);
    if (!is_gone_ && !confine::tell(socket_, std::as_bytes(std::span(text)))) leave();
    return !is_gone_;
  }
  void leave() {
    is_gone_ = true;
    const uint64_t one = 1;
    if (gone_) (void)!write(gone_.get(), &one, sizeof one);
  }
  bool is_gone() const { return is_gone_; }
  // Returns early when nobody listens any more.
  void pause_until(Clock::time_point end) const {
    while (!is_gone_ && Clock::now() < end) {
      pollfd gone = {gone_.get(), POLLIN, 0};
      (void)poll(&gone, 1, wait_ms(end));
    }
  }
  Client::Stop stop() const {
    return {[this] { return is_gone(); }, gone_.get()};
  }

 private:
  const int socket_;
  const Fd gone_;
  std::mutex mutex_;
  std::atomic<bool> is_gone_{false};
};

// Follows the head and the entries.
class Watcher {
 public:
  Watcher(const Follow& follow, Voice& voice) : names_(follow.fleet), client_(access_of(follow)), voice_(voice) {}

  void run() {
    int pause_ms = kFirstPauseMs;
    std::string last_error;
    while (!voice_.is_gone()) {
      const auto begin = Clock::now();
      const Result<void> watched = watch();
      if (voice_.is_gone()) return;
      if (Clock::now() - begin > std::chrono::milliseconds(kMostPauseMs)) pause_ms = kFirstPauseMs;
      const std::string error = watched ? "etcd ended the watch" : watched.error();
      // By chance half of it less, so that nodes do not all come at once. It counts from the loss, not from the
      // telling.
      const int chosen_ms = std::uniform_int_distribution<int>(pause_ms / 2, pause_ms)(random_);
      const auto again = Clock::now() + std::chrono::milliseconds(chosen_ms);
      News lost;
      lost.kind = "lost";
      lost.error = first_line(error);
      voice_.tell(lost);
      voice_.pause_until(again);
      pause_ms = std::min(2 * pause_ms, kMostPauseMs);
    }
  }

 private:
  // What is there, then each change, until the watch ends.
  Result<void> watch() {
    const Result<etcd::RangeAnswer> all = client_.all(names_.live());
    if (!all) return Error{all.error()};
    News connected;
    connected.kind = "connected";
    connected.at = all->revision;
    voice_.tell(connected);
    News head = no_head(all->revision);
    left_.clear();
    News entries = whole_entries(all->revision);
    for (const KeyValue& pair : all->pairs) {
      if (pair.key == names_.head()) {
        head.text = pair.value;
      } else if (pair.key == names_.ask()) {
        tell_ask(pair.value);
      } else if (append(pair, true, entries) && is_full(entries)) {
        voice_.tell(entries);
        entries.entries.clear();
      }
    }
    voice_.tell(head);
    entries.is_last = true;
    voice_.tell(entries);
    return client_.watch(
        names_.live(), all->revision + 1, [this](etcd::WatchAnswer& answer) { return take(answer); }, voice_.stop());
  }

  static News no_head(int64_t at) {
    News news;
    news.kind = "head";
    news.at = at;
    return news;
  }

  static News whole_entries(int64_t at) {
    News news;
    news.kind = "entries";
    news.is_whole = true;
    news.at = at;
    return news;
  }

  bool take(const etcd::WatchAnswer& answer) {
    News entries;
    entries.kind = "entries";
    entries.at = answer.revision;
    for (const etcd::Event& event : answer.events) {
      if (event.pair.key == names_.ask()) {
        if (!event.is_gone) tell_ask(event.pair.value);
        continue;
      }
      if (event.pair.key == names_.head()) {
        News head = no_head(event.pair.changed_at);
        if (!event.is_gone) head.text = event.pair.value;
        voice_.tell(head);
        continue;
      }
      if (!(event.is_gone ? append_gone(event.pair.key, entries) : append(event.pair, false, entries))) continue;
      if (is_full(entries)) {
        voice_.tell(entries);
        entries.entries.clear();
      }
    }
    entries.is_last = true;
    if (!answer.events.empty()) voice_.tell(entries);
    return !voice_.is_gone();
  }

  // Of a message: JSON takes up to six bytes for one.
  static bool is_full(const News& news) {
    size_t bytes = 0;
    for (const EntryNews& one : news.entries) bytes += 6 * (one.list.size() + one.entry.size() + one.comment.size());
    return news.entries.size() >= kMostEntryNews || bytes > kMostMessage / 4;
  }

  void tell_ask(const std::string& text) {
    News ask;
    ask.kind = "ask";
    ask.text = text.substr(0, kMostHead);
    voice_.tell(ask);
  }

  bool append_gone(const std::string& key, News& to) const {
    const auto place = names_.entry_of(key);
    if (!place || place->text.size() > kMostEntry) return false;
    to.entries.push_back({place->list, place->text, true, 0, ""});
    return true;
  }

  // is_old: it was there before; what is left of its time is asked for. False: it is no entry.
  bool append(const KeyValue& pair, bool is_old, News& to) {
    const auto place = names_.entry_of(pair.key);
    const Result<Added> added = read_added(pair.value);
    if (!place || place->text.size() > kMostEntry || !added) return false;
    EntryNews news = {place->list, place->text, false, 0, comment_of(*added)};
    if (pair.lease != 0) {
      news.ttl_s = is_old ? left_of(pair.lease, added->ttl_s) : added->ttl_s;
      if (news.ttl_s == 0) return false;  // it ends now
    }
    to.entries.push_back(std::move(news));
    return true;
  }

  static std::string comment_of(const Added& added) {
    const std::string who = added.node.empty() ? added.by : "node " + added.node;
    return added.comment.empty() ? "fleet: " + who : "fleet: " + added.comment + " (" + who + ")";
  }

  // Entries of one command share a lease. Where nobody tells, it has all of its time, and ends with an event.
  uint64_t left_of(int64_t lease, uint64_t ttl_s) {
    const auto [known, is_new] = left_.try_emplace(lease, ttl_s);
    if (!is_new) return known->second;
    const Result<etcd::LeaseAnswer> left = client_.time_to_live(lease);
    if (left) known->second = left->left_s > 0 ? static_cast<uint64_t>(left->left_s) : 0;
    return known->second;
  }

  const Names names_;
  Client client_;
  Voice& voice_;
  std::map<int64_t, uint64_t> left_;  // by lease, in seconds
  std::minstd_rand random_{std::random_device{}()};
};

// Does what controld wants.
class Doer {
 public:
  Doer(const Follow& follow, Voice& voice, std::span<std::byte> shared)
      : names_(follow.fleet),
        node_(follow.node),
        follow_(follow),
        client_(access_of(follow)),
        voice_(voice),
        shared_(shared) {}

  void run(int socket) {
    std::string buffer(kMostMessage, '\0');
    auto next = Clock::now();
    while (!voice_.is_gone()) {
      pollfd ready = {socket, POLLIN, 0};
      const int polled = poll(&ready, 1, wait_ms(next));
      if (polled > 0) {
        const size_t n = confine::hear(socket, std::as_writable_bytes(std::span(buffer)));
        if (n == 0) return voice_.leave();
        const Result<Order> order = read_order({buffer.data(), n});
        if (order) take(*order);
      }
      const auto now = Clock::now();
      if (now < next) continue;
      next = now + std::chrono::milliseconds(kKeepAliveMs);
      stay_alive();
    }
  }

 private:
  void take(const Order& order) {
    if (order.kind == "report") return report(order);
    if (order.kind == "revision") return tell_revision(order);
    if (order.kind == "pieces") return tell_pieces(order);
    if (order.kind == "blob") return tell_blob(order);
    if (order.kind == "share") return share(order);
    if (order.kind == "told") return told(order);
  }

  void answer(const char* kind, const Result<void>& done, News news = {}) {
    news.kind = kind;
    if (!done) news.error = first_line(done.error());
    voice_.tell(news);
  }

  void report(const Order& order) {
    const Result<etcd::TransactionAnswer> put = client_.put(names_.node(node_), order.text);
    answer("reported", put ? Result<void>() : Error{put.error()});
  }

  void stay_alive() {
    if (lease_ != 0) {
      const Result<etcd::LeaseAnswer> kept = client_.keep_alive(lease_);
      if (!kept || kept->left_s > 0) return;  // not reached: it may be there still
      lease_ = 0;
    }
    const Result<etcd::LeaseAnswer> granted = client_.grant(kAlive_s);
    if (granted && client_.put(names_.alive(node_), "", granted->id)) lease_ = granted->id;
  }

  void tell_revision(const Order& order) {
    News news;
    news.number = order.number;
    const Result<etcd::RangeAnswer> found = client_.get(names_.revision(order.number));
    if (!found) return answer("revision", Error{found.error()}, news);
    if (found->pairs.empty()) return answer("revision", Error{"etcd does not have it"}, news);
    const std::string& text = found->pairs.front().value;
    if (text.size() > std::min(kMostManifest, shared_.size())) {
      return answer("revision", Error{"its manifest is too long"}, news);
    }
    memcpy(shared_.data(), text.data(), text.size());
    news.bytes = text.size();
    answer("revision", {}, news);
  }

  void tell_pieces(const Order& order) {
    News news;
    news.digest = order.digest;
    BlobFile file;
    file.digest = order.digest;
    file.bytes = order.bytes;
    Result<Pieces> pieces = fetch_pieces(client_, names_, file);
    if (!pieces) return answer("pieces", Error{pieces.error()}, news);
    pieces_ = std::move(*pieces);
    const std::string text = text_of(pieces_);
    if (text.size() > shared_.size()) return answer("pieces", Error{"it has too many pieces"}, news);
    memcpy(shared_.data(), text.data(), text.size());
    news.bytes = text.size();
    answer("pieces", {}, news);
  }

  void tell_blob(const Order& order) {
    News news;
    news.digest = order.digest;
    if (order.bytes > shared_.size() || order.packed_bytes > kMostPacked || !is_digest(order.digest)) {
      return answer("blob", Error{"it is larger than this node takes"}, news);
    }
    answer("blob", order.url.empty() ? take_pieces(order) : from_server(order), news);
  }

  Result<void> take_pieces(const Order& order) {
    std::vector<bool> is_wanted;
    for (const char one : order.text) is_wanted.push_back(one == '1');
    uint64_t bytes = 0;
    for (const Piece& piece : pieces_.all) bytes += piece.bytes;
    if (is_wanted.size() != pieces_.all.size() || bytes != order.bytes) return Error{"these pieces were not told"};
    return fetch_bytes(client_, names_, pieces_, is_wanted, shared_.first(order.bytes));
  }

  Result<void> from_server(const Order& order) {
    HttpRequest request;
    request.url = order.url;
    request.tls.ca_pem = follow_.ca_pem;
    request.timeout_ms = kBlobMs;
    request.max_bytes = order.packed_bytes;
    const auto stop = voice_.stop();
    request.is_stopped = stop.is_stopped;
    const Result<HttpAnswer> got = files_.ask(request);
    if (!got) return Error{got.error()};
    if (got->status != 200) return Error{order.url + " answers " + std::to_string(got->status)};
    return unpack(got->body, shared_.first(order.bytes));
  }

  void share(const Order& order) {
    Added added;
    added.node = node_;
    added.by = "node " + node_;
    added.comment = order.comment;
    added.ttl_s = order.ttl_s;
    added.at = std::chrono::duration_cast<std::chrono::seconds>(wall_now().time_since_epoch()).count();
    int64_t lease = 0;
    if (order.ttl_s != 0) {
      const Result<etcd::LeaseAnswer> granted = client_.grant(static_cast<int64_t>(order.ttl_s));
      if (!granted) return answer("shared", Error{granted.error()});
      lease = granted->id;
    }
    const auto put = client_.put(names_.entry(order.list, order.entry), text_of(added), lease);
    answer("shared", put ? Result<void>() : Error{put.error()});
  }

  void told(const Order& order) {
    const Result<etcd::LeaseAnswer> granted = client_.grant(kTold_s);
    if (granted && is_name(order.digest)) (void)client_.put(names_.told(order.digest) + node_, order.text, granted->id);
  }

  const Names names_;
  const std::string node_;
  const Follow& follow_;
  Client client_;
  HttpClient files_;
  Voice& voice_;
  const std::span<std::byte> shared_;
  Pieces pieces_;  // that were told last
  int64_t lease_ = 0;
};

}  // namespace

void follow(int socket, std::span<std::byte> shared) {
  std::string text(kMostMessage, '\0');
  text.resize(confine::hear(socket, std::as_writable_bytes(std::span(text))));
  const Result<Follow> follow = read_follow(text);
  if (!follow || follow->endpoints.empty()) return;
  Voice voice(socket);
  std::thread watcher([&] { Watcher(*follow, voice).run(); });
  Doer(*follow, voice, shared).run(socket);
  watcher.join();
}

const confine::Job kFollowJob = {"weir-fleet", ~uint32_t{0}, follow, &kNetworkReach};

}  // namespace weir::control::fleet
