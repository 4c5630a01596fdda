// A port that costs any program the same: it gives the frames of a capture without copying them.
//
//   LD_PRELOAD=libframes_port.so WEIR_FRAMES=CAPTURE.pcap WEIR_FRAMES_COUNTERS=FILE
//   PROGRAM ... --vdev net_null0,no-rx=1
//
// It takes the place of port 0, which is a net_null, when PROGRAM starts that port. Debian ships no headers for
// drivers, so the library stands before three public functions of ethdev instead. PROGRAM stays as it is.
//
// A real card puts a frame into memory, and the driver tells an mbuf about it. Here the frames lie in slots already,
// and receive() lets the next mbuf of the pool point to the next slot. send() frees the mbufs to their pool. Mbufs are
// few and stay in the nearest caches. Slots are in random order, so no prefetcher of the processor guesses the next
// one: a program that reads a frame waits for its line, and one that reads none does not.

#include <dlfcn.h>
#include <fcntl.h>
#include <pcap/pcap.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace weir::bench {
namespace {

constexpr uint16_t kPort = 0;
constexpr size_t kLine = RTE_CACHE_LINE_SIZE, kHugePage = 2 << 20;
constexpr uint32_t kSeed = 38;
constexpr uint32_t kTimedOneIn = 8;  // calls

// A file that the port maps, so a script reads it while the program runs. Ticks are of the TSC, of the timed calls.
struct FramesPortCounters {
  uint64_t received, sent;  // frames that the port gave, and that it took
  uint64_t no_mbufs;        // calls for which the pool had too few
  uint64_t receive_timed, receive_ticks;
  uint64_t send_timed, send_ticks;
  uint64_t tsc_hz;
};

struct Slot {
  uint8_t* buffer;  // headroom, then the frame
  uint32_t length;
};

struct Port {
  rte_mempool* pool = nullptr;
  std::vector<Slot> slots;  // in the order of the capture
  size_t turn = 0;
  uint64_t rearm = 0;  // data_off, refcnt, nb_segs and port of an mbuf
  uint32_t receptions = 0, sendings = 0;
  uint64_t clock_ticks = 0;  // of reading the TSC
  FramesPortCounters* counters = nullptr;
  void* queue[1] = {};
} g_port;

[[noreturn]] void fail(const char* what, const char* why) {
  fprintf(stderr, "frames_port: %s: %s\n", what, why);
  _exit(1);
}

const char* setting(const char* name) {
  const char* value = getenv(name);
  if (value == nullptr) fail(name, "is not set");
  return value;
}

std::vector<std::vector<uint8_t>> read_frames(const char* path) {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* capture = pcap_open_offline(path, error);
  if (capture == nullptr) fail(path, error);
  std::vector<std::vector<uint8_t>> frames;
  pcap_pkthdr* header;
  const u_char* bytes;
  while (pcap_next_ex(capture, &header, &bytes) == 1) frames.emplace_back(bytes, bytes + header->caplen);
  pcap_close(capture);
  if (frames.empty()) fail(path, "holds no frames");
  return frames;
}

// Huge pages, else ordinary ones. All of it is there, and zero.
uint8_t* memory(size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
  bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
  if (at == MAP_FAILED) at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (at == MAP_FAILED) fail("memory for frames", strerror(errno));
  return static_cast<uint8_t*>(at);
}

void fill_slots(const char* path) {
  const std::vector<std::vector<uint8_t>> frames = read_frames(path);
  size_t longest = 0;
  for (const auto& frame : frames) longest = std::max(longest, frame.size());
  // An odd number of lines, so that the first lines of frames use all sets of a cache.
  const size_t slot_bytes = ((RTE_PKTMBUF_HEADROOM + longest + kLine - 1) / kLine | 1) * kLine;
  if (slot_bytes > UINT16_MAX) fail(path, "a frame is too long");
  uint8_t* begin = memory(frames.size() * slot_bytes);
  std::vector<size_t> place(frames.size());
  std::iota(place.begin(), place.end(), 0);
  std::shuffle(place.begin(), place.end(), std::mt19937(kSeed));
  g_port.slots.clear();
  for (size_t i = 0; i < frames.size(); i++) {
    uint8_t* buffer = begin + place[i] * slot_bytes;
    memcpy(buffer + RTE_PKTMBUF_HEADROOM, frames[i].data(), frames[i].size());
    g_port.slots.push_back({buffer, static_cast<uint32_t>(frames[i].size())});
  }
}

FramesPortCounters* map_counters(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(FramesPortCounters)) != 0) fail(path, strerror(errno));
  void* at = mmap(nullptr, sizeof(FramesPortCounters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) fail(path, strerror(errno));
  close(file);
  return static_cast<FramesPortCounters*>(at);
}

uint64_t ticks_of_clock() {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 1000; i++) {
    const uint64_t begin = rte_rdtsc();
    least = std::min(least, rte_rdtsc() - begin);
  }
  return least;
}

inline uint16_t give(Port& port, rte_mbuf** packets, uint16_t n) {
  if (rte_mempool_get_bulk(port.pool, reinterpret_cast<void**>(packets), n) != 0) {
    port.counters->no_mbufs++;
    return 0;
  }
  for (uint16_t i = 0; i < n; i++) {
    const Slot& slot = port.slots[port.turn];
    port.turn = port.turn + 1 == port.slots.size() ? 0 : port.turn + 1;
    rte_mbuf* packet = packets[i];
    packet->buf_addr = slot.buffer;
    memcpy(&packet->rearm_data, &port.rearm, sizeof port.rearm);
    packet->ol_flags = 0;
    packet->packet_type = 0;
    packet->pkt_len = slot.length;
    packet->data_len = static_cast<uint16_t>(slot.length);
  }
  port.counters->received += n;
  return n;
}

uint16_t receive(void* queue, rte_mbuf** packets, uint16_t n) {
  Port& port = *static_cast<Port*>(queue);
  if (++port.receptions % kTimedOneIn != 0) return give(port, packets, n);
  const uint64_t begin = rte_rdtsc();
  const uint16_t given = give(port, packets, n);
  port.counters->receive_ticks += rte_rdtsc() - begin - port.clock_ticks;
  port.counters->receive_timed += given;
  return given;
}

uint16_t send(void* queue, rte_mbuf** packets, uint16_t n) {
  Port& port = *static_cast<Port*>(queue);
  port.counters->sent += n;
  if (++port.sendings % kTimedOneIn != 0) {
    rte_pktmbuf_free_bulk(packets, n);
    return n;
  }
  const uint64_t begin = rte_rdtsc();
  rte_pktmbuf_free_bulk(packets, n);
  port.counters->send_ticks += rte_rdtsc() - begin - port.clock_ticks;
  port.counters->send_timed += n;
  return n;
}

void take_place(uint16_t number) {
  Port& port = g_port;
  if (port.pool == nullptr) fail("port 0", "has no receive queue");
  if (port.slots.empty()) fill_slots(setting("WEIR_FRAMES"));
  if (port.counters == nullptr) port.counters = map_counters(setting("WEIR_FRAMES_COUNTERS"));
  port.counters->tsc_hz = rte_get_tsc_hz();
  port.clock_ticks = ticks_of_clock();
  rte_mbuf fresh = {};
  fresh.data_off = RTE_PKTMBUF_HEADROOM;
  rte_mbuf_refcnt_set(&fresh, 1);
  fresh.nb_segs = 1;
  fresh.port = number;
  memcpy(&port.rearm, &fresh.rearm_data, sizeof port.rearm);
  port.queue[0] = &port;
  auto& ops = rte_eth_fp_ops[number];  // the table behind rte_eth_rx_burst() and rte_eth_tx_burst()
  ops.rxq.data = ops.txq.data = port.queue;
  ops.rx_pkt_burst = receive;
  ops.tx_pkt_burst = send;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace weir::bench

extern "C" {

int rte_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned socket,
                           const rte_eth_rxconf* conf, rte_mempool* pool) {
  using namespace weir::bench;
  if (port == kPort && queue != 0) fail("port 0", "has one queue only");
  if (port == kPort) g_port.pool = pool;
  return next<decltype(rte_eth_rx_queue_setup)>("rte_eth_rx_queue_setup")(port, queue, descriptors, socket, conf, pool);
}

int rte_eth_dev_start(uint16_t port) {
  using namespace weir::bench;
  const int result = next<decltype(rte_eth_dev_start)>("rte_eth_dev_start")(port);
  if (port == kPort && result == 0) take_place(port);
  return result;
}

int rte_eth_stats_get(uint16_t port, rte_eth_stats* stats) {
  using namespace weir::bench;
  const int result = next<decltype(rte_eth_stats_get)>("rte_eth_stats_get")(port, stats);
  if (port == kPort && result == 0 && g_port.counters != nullptr) {
    stats->ipackets = g_port.counters->received;
    stats->opackets = g_port.counters->sent;
  }
  return result;
}

}  // extern "C"
