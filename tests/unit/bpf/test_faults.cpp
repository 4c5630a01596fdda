// What becomes of the XDP plane when the kernel refuses something: each call of a publication, one by one; each that
// looks after an interface. Packets are asked what is enforced (BPF_PROG_TEST_RUN). Interfaces are those of a network
// of the test's own. Exit code 77, with the reason, where programs cannot be loaded.
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdarg>
#include <functional>
#include <map>
#include <set>

#include "bpf/enforce/attach.h"
#include "bpf/enforce/learn.h"
#include "common/files.h"
#include "control/compile/reuse.h"
#include "tests/unit/bpf/overlays.h"

using namespace weir;
using namespace weir::xdp;

namespace {

// Which calls of bpf(2) fail while one lives. All of libbpf's go through syscall(), which this program has its own of.
class Failing {
 public:
  using Choose = std::function<bool(bpf_cmd command, const bpf_attr& attributes)>;
  Failing(int error, Choose choose) : error_(error), choose_(std::move(choose)) { now_ = this; }
  // The one of this number alone, from 1.
  Failing(int error, unsigned number)
      : Failing(error, [this, number](bpf_cmd, const bpf_attr&) { return ++seen_ == number; }) {}
  ~Failing() { now_ = nullptr; }
  Failing(const Failing&) = delete;

  unsigned failed() const { return failed_; }
  static int take(bpf_cmd command, const bpf_attr& attributes) {
    Failing* const now = std::exchange(now_, nullptr);  // whoever chooses may call the kernel
    const bool fails = now != nullptr && now->choose_(command, attributes);
    now_ = now;
    if (!fails) return 0;
    now->failed_++;
    return now->error_;
  }

 private:
  static thread_local Failing* now_;
  const int error_;
  const Choose choose_;
  unsigned seen_ = 0, failed_ = 0;
};
thread_local Failing* Failing::now_ = nullptr;

long raw_call(long number, const long (&argument)[6]) {
  long result = number;
  register long r10 __asm__("r10") = argument[3];
  register long r8 __asm__("r8") = argument[4];
  register long r9 __asm__("r9") = argument[5];
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(argument[0]), "S"(argument[1]), "d"(argument[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

constexpr int kErrors[] = {EPERM, ENOMEM, E2BIG};

// Publications by turns: odd numbers block 198.18.0.1 by a list that is new each time, even ones 198.18.0.2, beside
// what takes several maps of pages. `kept` is in all of them.
class Turns {
 public:
  Turns() : large_(compiled(list("kept", "198.18.0.9") + list(name(2), "198.18.0.2") + list("large", long_keys()), 2)) {
    REQUIRE(large_.size_bytes > uint64_t{WEIR_CHUNK_PAGES} * WEIR_PAGE_BYTES);
  }
  static std::string name(uint64_t number) { return number % 2 == 0 ? "b" : "a" + std::to_string(number); }
  wire::Message message(uint64_t number) const {
    if (number % 2 == 1) return publication(list("kept", "198.18.0.9") + list(name(number), "198.18.0.1"), number);
    const Result<Mapping> bytes = map_read_only(large_.snapshot.get(), large_.size_bytes);
    REQUIRE(bytes);
    auto copy = control::renumber(bytes->bytes(), large_.digest, large_.report, {kEpoch, number});
    if (!copy) FAIL(copy.error());
    return message_of(std::move(*copy));
  }

 private:
  static std::string long_keys() {
    std::string entries;
    char text[48];
    for (unsigned i = 0; i < 80'000; i++) {
      snprintf(text, sizeof text, "%s\"[2001:db8:%x::%x]:443\"", i == 0 ? "" : ", ", i / 256, 1 + i % 256);
      entries += text;
    }
    return entries;
  }
  const control::Compiled large_;
};

const Turns& both_turns() {
  static const Turns turns;
  return turns;
}

// How many different maps lie in each of the groups: the one that enforces, and the other.
std::pair<size_t, size_t> maps_in_groups(const Plane& plane) {
  const Fd arenas(bpf_obj_get(pin_path(plane.folder, "weir_arenas").c_str()));
  const Fd state(bpf_obj_get(pin_path(plane.folder, "weir_state").c_str()));
  REQUIRE((arenas && state));
  auto values = std::make_unique<weir_state>();
  const uint32_t zero = 0;
  REQUIRE(bpf_map_lookup_elem(state.get(), &zero, values.get()) == 0);
  const auto maps_in = [&](uint32_t group) {
    std::set<uint32_t> maps;
    for (uint32_t at = group * WEIR_CHUNKS; at < group * WEIR_CHUNKS + 16; at++) {
      uint32_t id = 0;
      if (bpf_map_lookup_elem(arenas.get(), &at, &id) == 0) maps.insert(id);
    }
    return maps.size();
  };
  return {maps_in(values->active), maps_in(values->active == 0 ? 1 : 0)};
}

// What packets meet is what the plane says that it enforces.
void agrees(const Plane& plane, uint64_t number) {
  CHECK(plane.enforcer->status().generation == (number == 0 ? wire::Generation{} : wire::Generation{kEpoch, number}));
  CHECK(drops(*plane.enforcer, 1) == (number % 2 == 1));
  CHECK(drops(*plane.enforcer, 2) == (number != 0 && number % 2 == 0));
  CHECK(drops(*plane.enforcer, 9) == (number != 0));
  CHECK_FALSE(drops(*plane.enforcer, 100));
}

uint32_t link_id(const std::string& pin) {
  const Fd link(bpf_obj_get(pin.c_str()));
  bpf_link_info info = {};
  uint32_t size = sizeof info;
  return link && bpf_obj_get_info_by_fd(link.get(), &info, &size) == 0 && info.xdp.ifindex != 0 ? info.id : 0;
}

// Of the pinned link.
uint32_t program_of_link(const std::string& pin) {
  const Fd link(bpf_obj_get(pin.c_str()));
  bpf_link_info info = {};
  uint32_t size = sizeof info;
  return link && bpf_obj_get_info_by_fd(link.get(), &info, &size) == 0 ? info.prog_id : 0;
}

uint32_t program_id(int program) {
  bpf_prog_info info = {};
  uint32_t size = sizeof info;
  return bpf_obj_get_info_by_fd(program, &info, &size) == 0 ? info.id : 0;
}

constexpr const char* kInterface = "lo";

}  // namespace

// Instead of libc's: libbpf's calls come here.
extern "C" __attribute__((used, visibility("default"))) long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long argument[6];
  for (long& one : argument) one = va_arg(list, long);
  va_end(list);
  int error = 0;
  if (number == SYS_bpf) {
    error = Failing::take(static_cast<bpf_cmd>(argument[0]), *reinterpret_cast<const bpf_attr*>(argument[1]));
  }
  const long result = error != 0 ? -error : raw_call(number, argument);
  if (result >= -4095 && result < 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

enum class Learnt { works, says, neither, no_call_failed };

// In a process of its own: libbpf asks the kernel only once in a process what it can do. whole: the enforcer's program
// is loaded afterwards, which takes the verifier a second; it must load exactly where all was learnt.
Learnt learn_under_failure(unsigned call, bool whole) {
  {
    const Failing failing(ENOMEM, call);
    (void)learn_features();
    if (failing.failed() == 0) return Learnt::no_call_failed;
  }
  const Result<void> learnt = learn_features();
  if (learnt && !whole) return Learnt::works;
  const std::string folder = own_folder();
  const auto opened = Enforcer::open({{}, Attach::any, folder});
  (void)detach_pinned(folder, std::nullopt);
  rmdir(folder.c_str());
  if (opened && learnt) return Learnt::works;
  if (!opened && opened.error().find("start controld anew") != std::string::npos) return Learnt::says;
  fprintf(stderr, "%s\n", opened ? "loaded, although what libbpf learnt is wrong" : opened.error().c_str());
  return Learnt::neither;
}

// The first of all: this process has not asked yet.
TEST_CASE("libbpf takes a call that failed for what the kernel lacks: the next try works, or says what does") {
  unsigned says = 0, works = 0;
  for (unsigned call = 1;; call++) {
    CAPTURE(call);
    const pid_t child = fork();
    if (child == 0) _exit(static_cast<int>(learn_under_failure(call, call % 8 == 0)));
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    const Learnt learnt{WEXITSTATUS(status)};
    if (learnt == Learnt::no_call_failed) break;
    CHECK(learnt != Learnt::neither);
    (learnt == Learnt::works ? works : says)++;
  }
  CHECK(says >= 4);
  CHECK(works >= 4);
  CAPTURE(says, works);
  CHECK(says + works >= 12);
}

TEST_CASE("each call of the first publication fails: nothing is enforced, and it is said") {
  const Turns& turns = both_turns();
  const Plane plane;
  for (unsigned call = 1;; call++) {
    CAPTURE(call);
    unsigned failed = 0;
    wire::PublishedBody answer;
    {
      const Failing failing(ENOMEM, call);
      answer = plane.enforcer->publish(turns.message(1));
      failed = failing.failed();
    }
    CHECK((answer.ok == 1) == (failed == 0));
    agrees(plane, answer.ok);
    if (failed != 0) continue;
    CHECK(call > 4);
    break;
  }
}

TEST_CASE("each call of a publication fails: what is said is what is enforced, and the next one works") {
  const Turns& turns = both_turns();
  const Plane plane;
  uint64_t number = 0, kept = 0;
  const auto publish_well = [&](unsigned further = 1) {
    number += further;
    const wire::PublishedBody answer = plane.enforcer->publish(turns.message(number));
    INFO(answer.reason);
    REQUIRE(answer.ok == 1);
    CHECK(answer.reason[0] == '\0');
    agrees(plane, number);
    CHECK(matched_by(*plane.enforcer, "kept") == ++kept);
    // No memory of nobody: a map that stands for none is in either.
    const auto [enforcing, idle] = maps_in_groups(plane);
    CHECK(enforcing <= (number % 2 == 0 ? 3 : 2));
    CHECK(idle <= 1);
  };
  // Of which one call fails. How many failed: 0 or 1.
  const auto publish = [&](int error, unsigned call, bool& is_taken) {
    CAPTURE(error, call, number);
    const std::string leaves = Turns::name(number);
    const uint64_t had = matched_by(*plane.enforcer, leaves);
    std::optional<Failing> failing(std::in_place, error, call);
    const wire::PublishedBody answer = plane.enforcer->publish(turns.message(number + 1));
    const unsigned failed = failing->failed();
    failing.reset();
    is_taken = answer.ok == 1;
    INFO(answer.reason);
    CHECK(answer.generation == wire::Generation{kEpoch, number + answer.ok});
    CHECK((failed != 0 || is_taken));
    CHECK((is_taken || answer.reason[0] != '\0'));
    CHECK(matched_by(*plane.enforcer, leaves) == had);  // whether or not it left
    number += answer.ok;
    agrees(plane, number);
    CHECK(matched_by(*plane.enforcer, "kept") == ++kept);
    return failed;
  };
  publish_well();
  for (const unsigned begins : {0u, 1u}) {
    unsigned refused = 0, in_force = 0;
    const auto fail_each = [&](int error, unsigned further) {
      for (unsigned call = 1, failed = 1; failed != 0; call++) {
        if (number % 2 != begins) publish_well();
        bool is_taken = false;
        failed = publish(error, call, is_taken);
        (is_taken ? in_force : refused) += failed;
        publish_well(further);
      }
    };
    for (const int error : kErrors) fail_each(error, 1);
    fail_each(ENOMEM, 2);  // the next one has as many pages as this, not as the one before
    CHECK(refused >= 2 * (std::size(kErrors) + 1));
    CHECK(in_force == 2 * (std::size(kErrors) + 1));  // after the swap: the grace period, and what is freed
  }
}

// Overlays by turns: odd numbers add 198.18.0.1, even ones 198.18.0.2; 198.18.0.9 is in the base.
TEST_CASE("each call of an overlay's publication fails: what is said is what is enforced, and the next one works") {
  const Buffer base = base_of(1, {9});
  const auto added = [](uint64_t number) { return static_cast<uint8_t>(number % 2 == 1 ? 1 : 2); };
  enum class Comes { alone, with_its_base };
  for (const Comes comes : {Comes::alone, Comes::with_its_base}) {
    unsigned refused = 0, in_force = 0;
    for (unsigned call = 1, failed = 1; failed != 0; call++) {
      CAPTURE(comes, call);
      const Plane plane;
      uint64_t number = 0;
      if (comes == Comes::alone) {
        publish(plane, base);
        number = 1;
      }
      const auto agrees = [&](bool has_overlay) {
        CHECK(plane.enforcer->status().generation ==
              (number == 0 ? wire::Generation{} : wire::Generation{kEpoch, number}));
        CHECK(drops(*plane.enforcer, 9) == (number != 0));
        CHECK(drops(*plane.enforcer, added(number)) == has_overlay);
        CHECK_FALSE(drops(*plane.enforcer, added(number + 1)));
      };
      const Buffer overlay = overlay_of(2, base, {added(2)});
      std::optional<Failing> failing(std::in_place, ENOMEM, call);
      const wire::PublishedBody answer =
          plane.enforcer->publish(message_of(overlay, comes == Comes::alone ? nullptr : &base));
      failed = failing->failed();
      failing.reset();
      INFO(answer.reason);
      CHECK((failed != 0 || answer.ok == 1));
      if (answer.ok == 1) number = 2;
      agrees(answer.ok == 1);
      (answer.ok == 1 ? in_force : refused) += failed;
      // As if nothing had been; and from there on, each has a call or none that may fail: the grace period.
      for (number = 3; number < 7; number++) {
        publish(plane, overlay_of(number, base, {added(number)}), number == 3 ? &base : nullptr);
        agrees(true);
      }
      number--;
      for (const unsigned again : {1u, 2u}) {
        std::optional<Failing> once(std::in_place, ENOMEM, again);
        const wire::PublishedBody later =
            plane.enforcer->publish(message_of(overlay_of(number + 1, base, {added(number + 1)})));
        INFO(later.reason);
        CHECK(later.ok == 1);
        CHECK((later.reason[0] != '\0') == (once->failed() != 0));
        once.reset();
        number++;
        agrees(true);
      }
    }
    CHECK(refused >= 2);
    CHECK(in_force == (comes == Comes::alone ? 1 : 0));
  }
}

TEST_CASE("counters that the kernel does not give are not told as zeroes") {
  const Plane plane;
  REQUIRE(plane.enforcer->publish(publication(list("a", "198.18.0.1"), 1)).ok == 1);
  CHECK(drops(*plane.enforcer, 1));
  for (unsigned call = 1;; call++) {
    const Failing failing(EPERM, call);
    const Result<wire::Stats> stats = plane.enforcer->stats();
    CHECK(static_cast<bool>(stats) == (failing.failed() == 0));
    if (stats) CHECK(stats->body.totals.packets == 1);
    if (failing.failed() != 0) continue;
    CHECK(call > 2);
    break;
  }
}

TEST_CASE("what is attached stays attached, whatever the kernel does not tell") {
  Plane plane(own_folder(), {kInterface});
  const std::string pin = link_pin(plane.folder, kInterface);
  const auto is_as_before = [&, id = link_id(pin)] {
    return id != 0 && link_id(pin) == id && plane.enforcer->interfaces().at(0).attached &&
           plane.enforcer->interfaces()[0].times <= 1;
  };
  REQUIRE(is_as_before());
  for (const int error : kErrors) {
    for (unsigned call = 1;; call++) {
      CAPTURE(error, call);
      bool failed = false;
      {
        const Failing failing(error, call);
        plane.enforcer->tend();
        (void)plane.enforcer->is_disturbed();
        failed = failing.failed() != 0;
      }
      CHECK(is_as_before());
      plane.enforcer->tend();
      CHECK(is_as_before());
      CHECK_FALSE(plane.enforcer->is_disturbed());
      if (!failed) break;
    }
  }
  // No descriptor is left, for no question: also of netlink and of the interface's name.
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(next);
  const rlimit none = {static_cast<rlim_t>(next), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  plane.enforcer->tend();
  (void)plane.enforcer->is_disturbed();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(is_as_before());
  plane.enforcer->tend();
  CHECK(is_as_before());
}

TEST_CASE("each call that begins a shadow, or ends it, fails: what is enforced goes on, and the next one works") {
  Plane plane(own_folder(), {kInterface});
  const std::string pin = link_pin(plane.folder, kInterface);
  const uint32_t id = link_id(pin), ordinary = program_id(plane.enforcer->program_fd());
  REQUIRE((id != 0 && program_of_link(pin) == ordinary));
  REQUIRE(plane.enforcer->publish(publication(list("a", "198.18.0.1"), 1)).ok == 1);
  const auto shadow = [&](wire::ShadowAction action) {
    wire::ShadowRequest request;
    request.action = action;
    wire::Message message;
    if (action == wire::ShadowAction::begin) {
      control::Compiled candidate = compiled(list("b", "198.18.0.2"), 2);
      request.candidate = candidate.generation;
      std::copy(candidate.digest.begin(), candidate.digest.end(), request.digest);
      message.fd = std::move(candidate.snapshot);
    }
    message.body.assign(wire::bytes_of(request).begin(), wire::bytes_of(request).end());
    return plane.enforcer->shadow(message);
  };
  const auto goes_on = [&] {
    CHECK(link_id(pin) == id);
    CHECK(drops(*plane.enforcer, 1));
    CHECK_FALSE(drops(*plane.enforcer, 2));
    const bool is_on = plane.enforcer->status().shadow != wire::Generation{};
    CHECK((program_id(plane.enforcer->program_fd()) != ordinary) == is_on);
    plane.enforcer->tend();
    CHECK(program_of_link(pin) == program_id(plane.enforcer->program_fd()));
  };
  unsigned calls[2] = {};
  for (const wire::ShadowAction failing_action : {wire::ShadowAction::begin, wire::ShadowAction::end}) {
    unsigned& call = calls[failing_action == wire::ShadowAction::end];
    for (bool failed = true; failed;) {
      call++;
      CAPTURE(call);
      for (const wire::ShadowAction action : {wire::ShadowAction::begin, wire::ShadowAction::end}) {
        std::optional<Failing> failing;
        if (action == failing_action) failing.emplace(ENOMEM, call);
        const Result<wire::Shadow> told = shadow(action);
        if (failing) failed = failing->failed() != 0;
        const bool did_fail = failing && failed;
        failing.reset();
        CHECK((did_fail || (told && told->body.ok == 1)));
        if (told && told->body.ok == 0) CHECK(told->body.on == 0);
        goes_on();
      }
      CHECK(program_of_link(pin) == ordinary);
    }
  }
  CHECK(calls[0] > 20);
  CHECK(calls[1] > 2);
}

TEST_CASE("who cannot open a pin at its start leaves what it leads to attached") {
  const std::string folder = own_folder();
  const std::string pin = link_pin(folder, kInterface);
  {
    const auto first = Enforcer::open({{kInterface}, Attach::any, folder});
    if (!first) FAIL(first.error());
    REQUIRE((*first)->publish(publication(list("a", "198.18.0.1"), 1)).ok == 1);
  }
  const uint32_t id = link_id(pin);
  REQUIRE(id != 0);
  const auto of_the_pin = [&](bpf_cmd command, const bpf_attr& attributes) {
    return command == BPF_OBJ_GET && pin == reinterpret_cast<const char*>(attributes.pathname);
  };
  std::optional<Failing> failing(std::in_place, EMFILE, of_the_pin);
  Plane plane(folder, {kInterface});
  CHECK(failing->failed() > 0);
  failing.reset();
  CHECK(link_id(pin) == id);
  CHECK(plane.enforcer->interfaces()[0].error.find("cannot open") != std::string::npos);
  plane.enforcer->tend();
  CHECK(link_id(pin) == id);
  CHECK(plane.enforcer->interfaces()[0].attached);
  CHECK(drops(*plane.enforcer, 1));
}

TEST_CASE("a detach that did not happen is not told as one") {
  const Plane plane(own_folder(), {kInterface});
  const std::string pin = link_pin(plane.folder, kInterface);
  for (const bpf_cmd command : {BPF_OBJ_GET, BPF_LINK_DETACH}) {
    CAPTURE(command);
    {
      const Failing failing(ENOMEM, [&](bpf_cmd now, const bpf_attr&) { return now == command; });
      CHECK_FALSE(detach_pinned(plane.folder, kInterface));
    }
    CHECK(link_id(pin) != 0);
  }
  CHECK(detach_pinned(plane.folder, kInterface));
  CHECK(link_id(pin) == 0);
}

TEST_CASE("pins that cannot be asked for their version are not taken over") {
  const std::string folder = own_folder();
  const std::string state = pin_path(folder, "weir_state");
  {
    const Result<Program> program = Program::open(folder);
    if (!program) FAIL(program.error());
    program->state().version = WEIR_XDP_VERSION + 1;
  }
  unsigned asked = 0;
  {
    const Failing failing(EMFILE, [&](bpf_cmd command, const bpf_attr& attributes) {
      return command == BPF_OBJ_GET && state == reinterpret_cast<const char*>(attributes.pathname) && ++asked == 1;
    });
    const auto opened = Enforcer::open({{}, Attach::any, folder});
    REQUIRE_FALSE(opened);
    CHECK(opened.error().find("cannot open what is pinned in " + folder) == 0);
  }
  CHECK(asked == 1);
  REQUIRE(detach_pinned(folder, std::nullopt));
  rmdir(folder.c_str());
}

int before_tests() {
  const int code = can_load_programs();
  if (code != 0) return code;
  if (unshare(CLONE_NEWNET) == 0) return 0;
  fprintf(stderr, "skipped: kernel: no network of its own: %s\n", strerror(errno));
  return 77;
}
