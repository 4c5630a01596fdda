// Loads an object of XDP programs, pins nothing, and prints as JSON what the verifier says of each. Exit code 0: all
// are accepted; 1: one is not; 2: it did not come to that; 77: no XDP here. tests/xdp/kernels runs it.

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

constexpr uint32_t kStatistics = 4;  // BPF_LOG_STATS of linux/bpf_verifier.h
constexpr uint32_t kPath = 1;        // BPF_LOG_LEVEL1: the instructions that led to where it refuses
constexpr size_t kLogBytes = size_t{16} << 20;
constexpr size_t kTailBytes = 8000;

[[noreturn]] void fail(const std::string& why, int code = 2) {
  fmt::print(stderr, "verifier_log: {}\n", why);
  std::exit(code);
}

// What stands behind `name` in the log; -1: it is not there.
int64_t number_behind(const std::string& log, const std::string& name) {
  const size_t at = log.rfind(name + " ");
  return at == std::string::npos ? -1 : strtoll(log.c_str() + at + name.size() + 1, nullptr, 10);
}

// "stack depth 160+0+96": of each function, the program's own first.
std::vector<int> stack_bytes(const std::string& log) {
  static constexpr char kName[] = "stack depth ";
  std::vector<int> found;
  const size_t at = log.rfind(kName);
  if (at == std::string::npos) return found;
  const char* digits = log.c_str() + at + sizeof kName - 1;
  for (char* behind; found.push_back(static_cast<int>(strtol(digits, &behind, 10))), *behind == '+';) {
    digits = behind + 1;
  }
  return found;
}

// Names of the program's functions, in the order of the log.
std::vector<std::string> function_names(int program) {
  bpf_prog_info info = {};
  uint32_t size = sizeof info;
  if (bpf_obj_get_info_by_fd(program, &info, &size) != 0) return {};
  std::vector<bpf_func_info> functions(info.nr_func_info);
  const uint32_t n = info.nr_func_info, btf_id = info.btf_id;
  info = {};
  info.nr_func_info = n;
  info.func_info_rec_size = sizeof(bpf_func_info);
  info.func_info = reinterpret_cast<uintptr_t>(functions.data());
  size = sizeof info;
  if (bpf_obj_get_info_by_fd(program, &info, &size) != 0) return {};
  const std::unique_ptr<btf, void (*)(btf*)> types(btf__load_from_kernel_by_id(btf_id), btf__free);
  std::vector<std::string> names;
  for (const bpf_func_info& function : functions) {
    const btf_type* type = types ? btf__type_by_id(types.get(), function.type_id) : nullptr;
    const char* name = type ? btf__name_by_offset(types.get(), type->name_off) : nullptr;
    names.emplace_back(name ? name : "?");
  }
  return names;
}

// Which functions each of them calls. They lie one behind the other, and each but the first is called by one at least.
std::vector<std::set<size_t>> calls_of(const bpf_program* program) {
  const bpf_insn* code = bpf_program__insns(program);
  const size_t n = bpf_program__insn_cnt(program);
  const auto target = [&](size_t i) -> size_t {
    const bool calls = code[i].code == (BPF_JMP | BPF_CALL) && code[i].src_reg == BPF_PSEUDO_CALL;
    return calls ? i + 1 + static_cast<size_t>(code[i].imm) : 0;
  };
  std::set<size_t> starts = {0};
  for (size_t i = 0; i < n; i++) starts.insert(target(i));
  const auto number_of = [&](size_t i) {
    return static_cast<size_t>(std::distance(starts.begin(), starts.upper_bound(i))) - 1;
  };
  std::vector<std::set<size_t>> calls(starts.size());
  for (size_t i = 0; i < n; i++) {
    if (target(i) != 0) calls[number_of(i)].insert(number_of(target(i)));
  }
  return calls;
}

struct Loaded {
  std::unique_ptr<bpf_object, void (*)(bpf_object*)> object{nullptr, bpf_object__close};
  std::vector<std::pair<bpf_program*, std::vector<char>>> logs;
  int error = 0;
  double seconds = 0;  // of the load, maps and all
};

Loaded load(const char* path, uint32_t level) {
  Loaded loaded;
  loaded.object.reset(bpf_object__open_file(path, nullptr));
  if (!loaded.object) fail(std::string(path) + ": " + strerror(errno));
  bpf_map* map;
  bpf_object__for_each_map(map, loaded.object.get()) {
    if (bpf_map__set_pin_path(map, nullptr) != 0) fail("cannot do without pinning");
  }
  bpf_program* program;
  bpf_object__for_each_program(program, loaded.object.get()) {
    auto& [of, log] = loaded.logs.emplace_back(program, std::vector<char>(kLogBytes));
    bpf_program__set_log_level(of, level);
    bpf_program__set_log_buf(of, log.data(), log.size());
  }
  const auto start = std::chrono::steady_clock::now();
  if (bpf_object__load(loaded.object.get()) != 0) loaded.error = errno;
  loaded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return loaded;
}

// The numbers of an accepted program.
Json numbers(const bpf_program* program, const std::string& log) {
  Json functions = Json::array();
  const std::vector<int> stacks = stack_bytes(log);
  const std::vector<std::string> names = function_names(bpf_program__fd(program));
  const std::vector<std::set<size_t>> calls = calls_of(program);
  if (names.size() != stacks.size() || calls.size() != stacks.size()) {
    fail(fmt::format("{} functions, {} names, {} stack depths in: {}", calls.size(), names.size(), stacks.size(), log));
  }
  for (size_t i = 0; i < stacks.size(); i++) {
    functions.push_back({{"name", names[i]}, {"stack_bytes", stacks[i]}, {"calls", calls[i]}});
  }
  return {{"instructions", bpf_program__insn_cnt(program)},
          {"processed", number_behind(log, "processed")},
          {"limit", number_behind(log, "(limit")},
          {"max_states_per_instruction", number_behind(log, "max_states_per_insn")},
          {"total_states", number_behind(log, "total_states")},
          {"peak_states", number_behind(log, "peak_states")},
          {"verification_us", number_behind(log, "verification time")},
          {"functions", functions}};
}

std::string tail(const std::string& log) {
  return log.size() <= kTailBytes ? log : "..." + log.substr(log.size() - kTailBytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) fail("which object?");
  libbpf_set_print(nullptr);
  if (const int known = libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_XDP, nullptr); known != 1) {
    fail(std::string("no XDP program can be loaded here: ") + (known < 0 ? strerror(-known) : "the kernel has no XDP"),
         77);
  }
  const Loaded loaded = load(argv[1], kStatistics);
  Json all = {{"accepted", loaded.error == 0}, {"seconds", loaded.seconds}, {"programs", Json::array()}};
  if (loaded.error == 0) {
    for (const auto& [program, log] : loaded.logs) {
      Json one = numbers(program, log.data());
      one["name"] = bpf_program__name(program);
      all["programs"].push_back(one);
    }
  } else {
    const Loaded again = load(argv[1], kPath);
    all["error"] = strerror(loaded.error);
    for (const auto& [program, log] : again.logs) {
      all["programs"].push_back({{"name", bpf_program__name(program)}, {"log", tail(log.data())}});
    }
  }
  fmt::print("{}\n", all.dump());
  return loaded.error == 0 ? 0 : 1;
}
