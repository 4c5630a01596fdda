#include "bpf/enforce/steering.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "bpf/enforce/program.h"
#include "bpf/program/weir-steer.skel.h"
#include "common/fd.h"
#include "common/files.h"

namespace weir::xdp {

namespace {

constexpr uint32_t kOnly = 0;  // the one element of each map

Error wrong_version(const std::string& bpf_dir) {
  return {pin_path(bpf_dir, "weir_steer") + " was made by another version of weir: stop the data planes that use it, " +
          "then take it away (rm " + pin_path(bpf_dir, "weir_steer") + " " + pin_path(bpf_dir, "weir_steered") + ")"};
}

// Adopts the pinned maps or makes them, as the program itself would.
Result<Fd> open_rules(const std::string& bpf_dir) {
  listen_to_libbpf();
  if (Result<void> made = make_bpf_dir(bpf_dir); !made) return Error{made.error()};
  LIBBPF_OPTS(bpf_object_open_opts, options, .pin_root_path = bpf_dir.c_str());
  const std::unique_ptr<weir_steer_bpf, void (*)(weir_steer_bpf*)> skeleton(weir_steer_bpf__open_opts(&options),
                                                                            weir_steer_bpf__destroy);
  if (!skeleton) return errno_error("cannot open the steering program");
  bpf_program__set_autoload(skeleton->progs.weir_steering, false);
  bpf_map__set_autocreate(skeleton->maps.xsks_map, false);
  if (weir_steer_bpf__load(skeleton.get()) != 0) {
    const char* hint = errno == EPERM && geteuid() != 0 ? " (it needs root)" : "";
    return Error{"cannot make the steering maps in " + bpf_dir + ": " + strerror(errno) + hint + "\n" +
                 words_of_libbpf()};
  }
  Fd rules(fcntl(bpf_map__fd(skeleton->maps.weir_steer), F_DUPFD_CLOEXEC, 0));
  if (!rules) return errno_error("cannot keep weir_steer");
  return rules;
}

size_t processors() {
  return static_cast<size_t>(std::max(1, libbpf_num_possible_cpus()));
}

// Every processor's value of the only element. The kernel writes as many bytes as the map has: they must fit.
template <class Value>
Result<std::vector<Value>> values_of(const Fd& map, const std::string& bpf_dir) {
  static_assert(sizeof(Value) % 8 == 0);
  bpf_map_info info = {};
  uint32_t size = sizeof info;
  if (bpf_obj_get_info_by_fd(map.get(), &info, &size) != 0) return errno_error("cannot ask about a steering map");
  if (info.type != BPF_MAP_TYPE_PERCPU_ARRAY || info.value_size != sizeof(Value)) return wrong_version(bpf_dir);
  std::vector<Value> values(processors());
  if (bpf_map_lookup_elem(map.get(), &kOnly, values.data()) != 0) return errno_error("cannot read a steering map");
  return values;
}

// Empty: not pinned, or none.
Result<std::optional<weir_steering>> read_rules(const Fd& outer, const std::string& bpf_dir) {
  uint32_t id = 0;
  if (bpf_map_lookup_elem(outer.get(), &kOnly, &id) != 0) {
    if (errno == ENOENT) return std::optional<weir_steering>();
    return errno_error("cannot read weir_steer");
  }
  const Fd inner(bpf_map_get_fd_by_id(id));
  if (!inner) return errno_error("cannot open the rules that apply");
  const Result<std::vector<weir_steering>> copies = values_of<weir_steering>(inner, bpf_dir);
  if (!copies) return Error{copies.error()};
  if (copies->front().version != WEIR_STEER_VERSION) return wrong_version(bpf_dir);
  weir_steering sum = copies->front();
  memset(sum.taken, 0, sizeof sum.taken);
  for (const weir_steering& copy : *copies) {
    for (unsigned taker = 0; taker < WEIR_STEER_TAKERS; taker++) add(sum.taken[taker], copy.taken[taker]);
  }
  return std::optional<weir_steering>(sum);
}

}  // namespace

// The kernel waits for programs that run when an element of a map of maps changes (since 4.20).
Result<void> apply_steering(const std::string& bpf_dir, const weir_steering& steering) {
  const Result<Fd> outer = open_rules(bpf_dir);
  if (!outer) return Error{outer.error()};
  const Fd inner(
      bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "weir_steering", sizeof kOnly, sizeof(weir_steering), 1, nullptr));
  if (!inner) return errno_error("cannot make a map for the rules");
  weir_steering fresh = steering;
  memset(fresh.taken, 0, sizeof fresh.taken);
  const std::vector<weir_steering> copies(processors(), fresh);
  if (bpf_map_update_elem(inner.get(), &kOnly, copies.data(), BPF_ANY) != 0)
    return errno_error("cannot write the rules");
  const int fd = inner.get();
  if (bpf_map_update_elem(outer->get(), &kOnly, &fd, BPF_ANY) != 0) {
    if (errno == EINVAL) return wrong_version(bpf_dir);
    return errno_error("cannot apply the rules");
  }
  return {};
}

Result<void> clear_steering(const std::string& bpf_dir) {
  const Fd outer(bpf_obj_get(pin_path(bpf_dir, "weir_steer").c_str()));
  if (!outer) {
    if (errno == ENOENT) return {};
    return errno_error("cannot open " + pin_path(bpf_dir, "weir_steer"));
  }
  if (bpf_map_delete_elem(outer.get(), &kOnly) != 0 && errno != ENOENT) return errno_error("cannot clear the rules");
  return {};
}

Result<SteeringState> read_steering(const std::string& bpf_dir) {
  SteeringState state;
  const Fd outer(bpf_obj_get(pin_path(bpf_dir, "weir_steer").c_str()));
  const Fd steered(bpf_obj_get(pin_path(bpf_dir, "weir_steered").c_str()));
  if (!outer || !steered) {
    if (errno == ENOENT) return state;
    return errno_error("cannot open the steering maps in " + bpf_dir);
  }
  state.pinned = true;
  Result<std::optional<weir_steering>> rules = read_rules(outer, bpf_dir);
  if (!rules) return Error{rules.error()};
  state.rules = *rules;
  const Result<std::vector<weir_steer_totals>> totals = values_of<weir_steer_totals>(steered, bpf_dir);
  if (!totals) return Error{totals.error()};
  for (const weir_steer_totals& one : *totals) {
    for (unsigned end = 0; end < WEIR_STEER_ENDS; end++) add(state.totals.end[end], one.end[end]);
  }
  return state;
}

}  // namespace weir::xdp
