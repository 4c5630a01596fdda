#include "bpf/enforce/program.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "bpf/enforce/group.h"
#include "bpf/enforce/learn.h"
#include "bpf/enforce/maps.h"
#include "bpf/program/weir.skel.h"
#include "common/clock.h"
#include "common/files.h"
#include "common/own_folder.h"

namespace weir::xdp {

namespace {

constexpr size_t kMostWords = 4096;

std::string& last_words() {
  thread_local std::string words;
  return words;
}

int note(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG) return 0;
  // The verifier's log is one line for libbpf, however long, and why it refuses stands at its end.
  va_list again;
  va_copy(again, arguments);
  const int length = vsnprintf(nullptr, 0, format, arguments);
  std::string line(static_cast<size_t>(std::max(0, length)) + 1, '\0');
  vsnprintf(line.data(), line.size(), format, again);
  va_end(again);
  line.pop_back();
  std::string& words = last_words();
  words += line;
  if (words.size() > kMostWords) words.erase(0, words.size() - kMostWords);
  return 0;
}

bool is_bpf_file_system(const std::string& path) {
  struct statfs status = {};
  return statfs(path.c_str(), &status) == 0 && static_cast<uint32_t>(status.f_type) == BPF_FS_MAGIC;
}

Result<Fd> keep(int fd, const char* what) {
  Fd kept(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!kept) return errno_error(std::string("cannot keep ") + what);
  return kept;
}

bool same_program(int one, int other) {
  bpf_prog_info a = {}, b = {};
  uint32_t size = sizeof a;
  if (bpf_obj_get_info_by_fd(one, &a, &size) != 0) return false;
  size = sizeof b;
  if (bpf_obj_get_info_by_fd(other, &b, &size) != 0) return false;
  return memcmp(a.tag, b.tag, sizeof a.tag) == 0;
}

// What is pinned was made by this version, or nothing is.
Result<void> check_version(const std::string& bpf_dir) {
  const Fd map(bpf_obj_get(pin_path(bpf_dir, "weir_state").c_str()));
  if (!map && errno != ENOENT) return errno_error("cannot open what is pinned in " + bpf_dir);
  if (!map) return {};
  bpf_map_info info = {};
  uint32_t size = sizeof info;
  weir_state state = {};
  const uint32_t zero = 0;
  if (bpf_obj_get_info_by_fd(map.get(), &info, &size) != 0)
    return errno_error("cannot ask about what is pinned in " + bpf_dir);
  const bool fits = info.value_size == sizeof state;
  if (fits && bpf_map_lookup_elem(map.get(), &zero, &state) != 0) return errno_error("cannot read weir_state");
  if (fits && (state.version == WEIR_XDP_VERSION || state.version == 0)) return {};
  return Error{"what is pinned in " + bpf_dir + " is of version " + (fits ? std::to_string(state.version) : "unknown") +
               ", this program drives version " + std::to_string(WEIR_XDP_VERSION) +
               ": it goes on enforcing; `controlctl detach` takes it away"};
}

void add_counts(weir_stratum& sum, const weir_stratum& more) {
  sum.limited += more.limited;
  sum.lost += more.lost;
  sum.sampled += more.sampled;
}

constexpr size_t kChunkBytes = size_t{WEIR_CHUNK_PAGES} * WEIR_PAGE_BYTES;

size_t chunks_of(uint64_t size_bytes) {
  return (size_bytes + kChunkBytes - 1) / kChunkBytes;
}

}  // namespace

void listen_to_libbpf() {
  libbpf_set_print(note);
  last_words().clear();
}

const std::string& words_of_libbpf() {
  return last_words();
}

Result<void> make_bpf_dir(const std::string& bpf_dir) {
  if (bpf_dir.starts_with(kDefaultBpfDir) && !is_bpf_file_system(kDefaultBpfDir)) {
    const std::string place = kDefaultBpfDir;
    if (mount("bpf", kDefaultBpfDir, "bpf", 0, "mode=0700") != 0) {
      return errno_error("cannot mount a BPF file system at " + place + " (mount -t bpf bpf " + place + ")");
    }
  }
  const size_t last_slash = bpf_dir.find_last_of('/');
  const std::string parent = last_slash == std::string::npos ? "." : bpf_dir.substr(0, last_slash + 1);
  if (is_bpf_file_system(parent) && mkdir(bpf_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return errno_error("cannot make " + bpf_dir);
  }
  if (!is_bpf_file_system(bpf_dir)) {
    return Error{bpf_dir + " is in no BPF file system, where maps outlive their program: mount -t bpf bpf FOLDER"};
  }
  return check_own_folder(bpf_dir, "--bpf-dir");
}

std::string pin_path(const std::string& bpf_dir, const std::string& name) {
  std::string path = bpf_dir + "/";
  for (const char c : name) {
    if (c == '.') {
      path += "%2e";
    } else if (c == '%') {
      path += "%25";
    } else {
      path += c;
    }
  }
  return path;
}

std::string link_pin(const std::string& bpf_dir, const std::string& interface) {
  return pin_path(bpf_dir, std::string(kLinkPin) + interface);
}

Result<Program> Program::open(const std::string& bpf_dir, bool multi_buffer) {
  listen_to_libbpf();
  if (Result<void> made = make_bpf_dir(bpf_dir); !made) return Error{made.error()};
  Program program;
  program.bpf_dir_ = bpf_dir;
  program.lock_.reset(::open(bpf_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!program.lock_) return errno_error("cannot open " + bpf_dir);
  if (flock(program.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{"another enforcer keeps its maps in " + bpf_dir + ": give this one another folder (--bpf-dir)"};
  }
  if (Result<void> checked = check_version(bpf_dir); !checked) return Error{checked.error()};
  if (Result<void> learnt = learn_features(); !learnt) return Error{learnt.error()};

  LIBBPF_OPTS(bpf_object_open_opts, options, .pin_root_path = bpf_dir.c_str());
  const std::unique_ptr<weir_bpf, void (*)(weir_bpf*)> skeleton(weir_bpf__open_opts(&options), weir_bpf__destroy);
  if (!skeleton) return errno_error("cannot open the XDP program");
  skeleton->rodata->multi_buffer = multi_buffer ? 1 : 0;
  if (multi_buffer) bpf_program__set_flags(skeleton->progs.weir, BPF_F_XDP_HAS_FRAGS);
  if (weir_bpf__load(skeleton.get()) != 0) {
    return Error{"cannot load the XDP program: " + std::string(strerror(errno)) + "\n" + words_of_libbpf()};
  }
  const auto& maps = skeleton->maps;
  Result<Mapping> state = map_values<weir_state>(maps.weir_state, 1);
  Result<Mapping> bases = map_values<weir_base>(maps.weir_bases, WEIR_BASES);
  Result<Mapping> names = map_values<weir_list_name>(maps.weir_names, WEIR_LIST_SLOTS);
  for (const Result<Mapping>* mapping : {&state, &bases, &names}) {
    if (!*mapping) return Error{mapping->error()};
  }
  program.state_ = std::move(*state);
  program.bases_ = std::move(*bases);
  program.names_ = std::move(*names);
  Result<Fd> arenas = keep(bpf_map__fd(maps.weir_arenas), "weir_arenas");
  Result<Fd> totals = keep(bpf_map__fd(maps.weir_totals), "weir_totals");
  Result<Fd> lists = keep(bpf_map__fd(maps.weir_lists), "weir_lists");
  Result<Fd> loaded = keep(bpf_program__fd(skeleton->progs.weir), "the program");
  Result<Fd> samples = keep(bpf_map__fd(maps.weir_samples), "weir_samples");
  Result<Fd> traffic = keep(bpf_map__fd(maps.weir_traffic), "weir_traffic");
  for (const Result<Fd>* fd : {&arenas, &totals, &lists, &loaded, &samples, &traffic}) {
    if (!*fd) return Error{fd->error()};
  }
  program.arenas_ = std::move(*arenas);
  program.totals_ = std::move(*totals);
  program.lists_ = std::move(*lists);
  program.samples_ = std::move(*samples);
  program.traffic_ = std::move(*traffic);

  Result<Arena> nothing = make_arena(kChunkBytes);
  if (!nothing) return Error{nothing.error()};
  nothing->pages.reset();
  program.nothing_ = std::move(*nothing);

  weir_state& now = program.state();
  if (now.version == 0) {
    now.active = weir_active(WEIR_NO_GROUP, WEIR_NO_OVERLAY);
    now.start_time_unix = static_cast<uint64_t>(unix_now());
    __atomic_store_n(&now.version, WEIR_XDP_VERSION, __ATOMIC_RELEASE);
  }
  // What a publication that ended early, or the last one of another process, has left. Each costs a grace period.
  for (uint32_t group = 0; group < WEIR_GROUPS; group++) {
    if (is_active(now.active, group)) continue;
    const uint32_t first = group * WEIR_CHUNKS;
    uint32_t map_id = 0;
    for (uint32_t at = first; at < first + WEIR_CHUNKS; at++) {
      if (bpf_map_lookup_elem(program.arenas_.get(), &at, &map_id) != 0) break;
      (void)bpf_map_delete_elem(program.arenas_.get(), &at);
    }
  }
  const std::string path = pin_path(bpf_dir, std::string(kProgramPin));
  Fd pinned(bpf_obj_get(path.c_str()));
  if (!pinned && errno != ENOENT) return errno_error("cannot open the program at " + path);
  const uint32_t kind = multi_buffer ? 1 : 0;
  const bool same_kind = now.multi_buffer == kind;
  if (pinned && same_kind && same_program(pinned.get(), loaded->get())) {
    program.program_ = std::move(pinned);
    return program;
  }
  now.multi_buffer = WEIR_UNKNOWN_KIND;  // until it is pinned: whoever comes after an end in between pins anew
  if (pinned) unlink(path.c_str());
  if (bpf_obj_pin(loaded->get(), path.c_str()) != 0) return errno_error("cannot pin the program at " + path);
  now.multi_buffer = kind;
  program.program_ = std::move(*loaded);
  program.is_new_ = true;
  return program;
}

Result<std::vector<weir_totals>> Program::totals_of_processors() const {
  return values_of_processors<weir_totals>(totals_.get(), 0);
}

Result<weir_totals> Program::totals() const {
  const Result<std::vector<weir_totals>> each = totals_of_processors();
  if (!each) return Error{each.error()};
  weir_totals sum = {};
  for (const weir_totals& one : *each) {
    for (unsigned reason = 0; reason < WEIR_REASONS; reason++) add(sum.reason[reason], one.reason[reason]);
    sum.incomplete += one.incomplete;
    add_counts(sum.drops, one.drops);
    add_counts(sum.traffic, one.traffic);
  }
  return sum;
}

Result<weir_list_tally> Program::tally(uint32_t slot) const {
  const Result<std::vector<weir_list_tally>> each = values_of_processors<weir_list_tally>(lists_.get(), slot);
  if (!each) return Error{each.error()};
  weir_list_tally sum = {};
  for (const weir_list_tally& one : *each) {
    add(sum.matched, one.matched);
    add(sum.dropped, one.dropped);
    add(sum.passed, one.passed);
    add(sum.would_drop, one.would_drop);
    add(sum.dropped_alone, one.dropped_alone);
    add(sum.would_drop_alone, one.would_drop_alone);
  }
  return sum;
}

Result<std::vector<weir_list_tally>> Program::tallies(uint32_t slot) const {
  return values_of_processors<weir_list_tally>(lists_.get(), slot);
}

void Program::set_tallies(uint32_t slot, const std::vector<weir_list_tally>& tallies) const {
  (void)bpf_map_update_elem(lists_.get(), &slot, tallies.data(), BPF_ANY);
}

Result<void> Program::clear_tally(uint32_t slot) const {
  const std::vector<weir_list_tally> zeros(static_cast<size_t>(std::max(1, libbpf_num_possible_cpus())));
  if (bpf_map_update_elem(lists_.get(), &slot, zeros.data(), BPF_ANY) != 0) return errno_error("cannot clear counters");
  return {};
}

Result<void> set_chunks(int arenas, uint32_t group, const std::vector<int>& chunks) {
  std::vector<uint32_t> places(chunks.size());
  for (uint32_t i = 0; i < places.size(); i++) places[i] = group * WEIR_CHUNKS + i;
  auto n = static_cast<uint32_t>(chunks.size());
  if (bpf_map_update_batch(arenas, places.data(), chunks.data(), &n, nullptr) != 0) {
    return errno_error("cannot hand over the pages of a snapshot");
  }
  return {};
}

Result<void> Program::set_arena(uint32_t group, const Arena& arena) const {
  return set_chunks(arenas_.get(), group, descriptors_of(arena));
}

Result<void> Program::clear_arena(uint32_t group, uint64_t size_bytes) const {
  return set_chunks(arenas_.get(), group, std::vector<int>(chunks_of(size_bytes), nothing_.chunks.front().get()));
}

// The kernel waits for programs that run when one element of a map of maps changes (since 4.20). The last one is no
// snapshot's.
Result<void> Program::wait_for_programs() const {
  const uint32_t last = WEIR_GROUPS * WEIR_CHUNKS - 1;
  const int chunk = nothing_.chunks.front().get();
  if (bpf_map_update_elem(arenas_.get(), &last, &chunk, BPF_ANY) != 0) return errno_error("cannot wait for programs");
  return {};
}

std::vector<int> descriptors_of(const Arena& arena) {
  std::vector<int> chunks;
  for (const Fd& chunk : arena.chunks) chunks.push_back(chunk.get());
  return chunks;
}

Result<Arena> make_arena(uint64_t size_bytes) {
  const size_t n = chunks_of(size_bytes);
  if (n >= WEIR_CHUNKS) return Error{"a snapshot of " + std::to_string(size_bytes) + " bytes has too many pages"};
  // One place for all of them; each map then takes its part.
  void* place = mmap(nullptr, n * kChunkBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return errno_error("cannot find a place for " + std::to_string(n * kChunkBytes) + " bytes");
  Arena arena;
  arena.pages = Mapping(place, n * kChunkBytes);
  LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
  for (size_t i = 0; i < n; i++) {
    Fd chunk(bpf_map_create(BPF_MAP_TYPE_ARRAY, "weir_chunk", sizeof(uint32_t), kChunkBytes, 1, &options));
    if (!chunk) {
      return errno_error("cannot make BPF maps of " + std::to_string(n * kChunkBytes >> 20) + " MiB (" +
                         std::to_string(kernel_memory_left() >> 20) + " MiB of memory are left)");
    }
    if (mmap(arena.pages.bytes().data() + i * kChunkBytes, kChunkBytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_POPULATE, chunk.get(), 0) == MAP_FAILED) {
      return errno_error("cannot map a BPF map of " + std::to_string(kChunkBytes) + " bytes");
    }
    arena.chunks.push_back(std::move(chunk));
  }
  return arena;
}

namespace {

// A number that stands alone in a file of a control group; empty: none, or `max`.
std::optional<uint64_t> number_in(const std::string& path) {
  const Result<std::string> text = read_file(path, 64);
  uint64_t value = 0;
  if (!text || sscanf(text->c_str(), "%" SCNu64, &value) != 1) return std::nullopt;
  return value;
}

uint64_t memory_available() {
  const Result<std::string> text = read_file("/proc/meminfo", 64 * 1024);
  uint64_t kib = 0;
  const char* line = text ? strstr(text->c_str(), "MemAvailable:") : nullptr;
  return line != nullptr && sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1 ? kib * 1024 : UINT64_MAX;
}

}  // namespace

std::string mib(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

uint64_t kernel_memory_left() {
  uint64_t left = memory_available();
  const Result<std::string> groups = read_file("/proc/self/cgroup", 64 * 1024);
  const char* line = groups ? strstr(groups->c_str(), "0::/") : nullptr;  // version 2
  if (line == nullptr) return left;
  std::string path(line + 3, strcspn(line + 3, "\n"));
  for (; !path.empty(); path.erase(path.find_last_of('/'))) {
    const std::string folder = "/sys/fs/cgroup" + path;
    const std::optional<uint64_t> max = number_in(folder + "/memory.max");
    const std::optional<uint64_t> used = number_in(folder + "/memory.current");
    if (max && used) left = std::min(left, *max > *used ? *max - *used : 0);
  }
  return left;
}

}  // namespace weir::xdp
