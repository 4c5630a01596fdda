// Many nodes of a fleet in one process: each has the process by which a real node speaks to etcd
// (control/sources/fleet/follower.h) as two threads, and takes revisions as one does, but for compiling them: files are
// fetched and their digests looked at, entries are counted, and reports told. Prints a line of JSON whenever all nodes
// have come to the same revision or number of entries. fleet_nodes --nodes N --fleet NAME --etcd URL,... ; ends with
// its standard input.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "control/sources/fleet/channel.h"
#include "control/sources/fleet/follower.h"
#include "control/sources/fleet/head.h"
#include "control/sources/fleet/pieces.h"
#include "control/sources/fleet/report.h"
#include "control/sources/fleet/revision.h"

namespace {

using namespace weir;
using namespace weir::control::fleet;

constexpr size_t kSharedBytes = 64 << 20;  // sparse until something lies there
constexpr double kReport_s = 30;           // as a node does

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::string& text) {
  fprintf(stderr, "fleet_nodes: %s\n", text.c_str());
  exit(1);
}

struct Node {
  int socket = -1;
  std::span<std::byte> shared;
  std::thread thread;
  Report report;
  Revision revision;
  size_t next_file = 0;
  std::set<std::string> entries;
  double reported_at = 0;
  bool is_due = false;

  void order(const Order& order) {
    const std::string text = text_of(order);
    (void)send(socket, text.data(), text.size(), MSG_NOSIGNAL);
  }
  void tell() {
    Order order;
    order.kind = "report";
    report.entries = entries.size();
    order.text = text_of(report);
    this->order(order);
    reported_at = now_s();
    is_due = false;
  }
  void ask_next() {
    if (next_file == revision.files.size()) {
      report.revision = revision.number;
      report.state = "enforcing";
      is_due = true;
      return;
    }
    const BlobFile& file = revision.files[next_file];
    Order order;
    order.kind = file.url.empty() ? "pieces" : "blob";
    order.digest = file.digest;
    order.bytes = file.bytes;
    order.packed_bytes = file.packed_bytes;
    order.url = file.url;
    this->order(order);
  }
  // All pieces of the file: nothing of it is here.
  void ask_bytes(size_t pieces) {
    Order order;
    order.kind = "blob";
    order.digest = revision.files[next_file].digest;
    order.bytes = revision.files[next_file].bytes;
    order.text.assign(pieces, '1');
    this->order(order);
  }
  void take(const News& news);
};

void Node::take(const News& news) {
  if (news.kind == "head" && !news.text.empty()) {
    const Result<Head> head = read_head(news.text);
    if (!head || head->turn <= report.turn) return;
    report.turn = head->turn;
    const uint64_t wanted = at_of(*head, report.group).revision;
    if (wanted == report.revision) return;
    report.wanted = wanted;
    Order order;
    order.kind = "revision";
    order.number = wanted;
    this->order(order);
  } else if (news.kind == "revision" && news.error.empty()) {
    Result<Revision> read = read_revision({reinterpret_cast<const char*>(shared.data()), news.bytes});
    if (!read || read->number != report.wanted) return;
    revision = std::move(*read);
    next_file = 0;
    ask_next();
  } else if ((news.kind == "pieces" || news.kind == "blob") && news.error.empty()) {
    if (next_file >= revision.files.size() || news.digest != revision.files[next_file].digest) return;
    const uint64_t bytes = revision.files[next_file].bytes;
    if (news.kind == "pieces") {
      const Result<Pieces> pieces = read_pieces({reinterpret_cast<const char*>(shared.data()), news.bytes}, bytes);
      if (!pieces) fail(pieces.error());
      return ask_bytes(pieces->all.size());
    }
    if (sha256_of(shared.first(bytes)) != news.digest) fail("a file has another digest");
    next_file++;
    ask_next();
  } else if (news.kind == "entries") {
    for (const EntryNews& one : news.entries) {
      const std::string text = one.list + "/" + one.entry;
      if (one.is_gone) {
        entries.erase(text);
      } else {
        entries.insert(text);
      }
    }
    if (news.is_last) report.entries_at = news.at;
    is_due = true;
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void start(Node& node, const Follow& follow) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("no socket pair");
  void* shared =
      mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (shared == MAP_FAILED) fail("no memory");
  node.socket = ends[0];
  node.shared = {static_cast<std::byte*>(shared), kSharedBytes};
  node.thread = std::thread([socket = ends[1], shared = node.shared] {
    weir::control::fleet::follow(socket, shared);
    close(socket);
  });
  const std::string text = text_of(follow);
  (void)send(node.socket, text.data(), text.size(), MSG_NOSIGNAL);
}

void run(size_t n, Follow follow) {
  std::vector<Node> nodes(n);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event input = {EPOLLIN | EPOLLHUP, {.u64 = n}};
  epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &input);
  for (size_t i = 0; i < n; i++) {
    follow.node = "sim" + std::to_string(i);
    nodes[i].report.node = follow.node;
    nodes[i].report.group = i < n / 100 ? "canary" : "rest";
    start(nodes[i], follow);
    epoll_event event = {EPOLLIN, {.u64 = i}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, nodes[i].socket, &event);
  }
  std::string buffer(kMostMessage, '\0');
  uint64_t told_revision = 0;
  size_t told_entries = 0;
  while (true) {
    epoll_event events[64];
    const int ready = epoll_wait(epoll, events, 64, 100);
    for (int e = 0; e < ready; e++) {
      if (events[e].data.u64 == n) {
        char byte;
        if (read(STDIN_FILENO, &byte, 1) > 0) continue;
        for (Node& node : nodes) shutdown(node.socket, SHUT_RDWR);
        for (Node& node : nodes) node.thread.join();
        return;
      }
      Node& node = nodes[events[e].data.u64];
      const ssize_t bytes = recv(node.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (bytes <= 0) continue;
      const Result<News> news = read_news({buffer.data(), static_cast<size_t>(bytes)});
      if (!news) fail(news.error());
      node.take(*news);
    }
    const double now = now_s();
    size_t same_revision = 0, same_entries = 0;
    for (Node& node : nodes) {
      // A node that was told something tells so at once, then no more than every second.
      if ((node.is_due && now - node.reported_at > 1) || now - node.reported_at > kReport_s) node.tell();
      same_revision += node.report.revision == nodes[0].report.revision;
      same_entries += node.entries.size() == nodes[0].entries.size();
    }
    const bool is_news = nodes[0].report.revision != told_revision || nodes[0].entries.size() != told_entries;
    if (!is_news || same_revision != n || same_entries != n) continue;
    told_revision = nodes[0].report.revision;
    told_entries = nodes[0].entries.size();
    printf("{\"at\": %.3f, \"revision\": %llu, \"entries\": %zu}\n", now,
           static_cast<unsigned long long>(told_revision), told_entries);
    fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t n = 0;
  Follow follow;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--nodes") n = strtoul(value.c_str(), nullptr, 10);
    if (name == "--fleet") follow.fleet = value;
    if (name == "--etcd") follow.endpoints = split(value);
  }
  if (n == 0 || follow.fleet.empty() || follow.endpoints.empty()) {
    fail("--nodes N --fleet NAME --etcd URL,... are needed");
  }
  rlimit open = {};
  getrlimit(RLIMIT_NOFILE, &open);
  open.rlim_cur = open.rlim_max;
  setrlimit(RLIMIT_NOFILE, &open);
  run(n, follow);
  return 0;
}
