#include "bpf/enforce/learn.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "bpf/enforce/program.h"
#include "bpf/program/features.skel.h"
#include "common/fd.h"

namespace weir::xdp {

namespace {

constexpr int kTries = 3;  // a call may fail that libbpf does not remember

using Skeleton = std::unique_ptr<weir_features_bpf, void (*)(weir_features_bpf*)>;

Skeleton load() {
  Skeleton skeleton(weir_features_bpf__open(), weir_features_bpf__destroy);
  if (!skeleton) return skeleton;
  bpf_program__set_expected_attach_type(skeleton->progs.features, BPF_XDP_DEVMAP);
  if (weir_features_bpf__load(skeleton.get()) != 0) skeleton.reset();
  return skeleton;
}

enum class Functions { global, not_global, unknown };

using Types = std::unique_ptr<btf, void (*)(btf*)>;

// As the kernel has them; empty: it does not tell. By the descriptor that libbpf holds: the kernel finds types by their
// number for CAP_SYS_ADMIN alone.
Types types_of(const weir_features_bpf& skeleton) {
  Types none(nullptr, btf__free);
  const int types = bpf_object__btf_fd(skeleton.obj);
  bpf_btf_info info = {};
  uint32_t size = sizeof info;
  if (types < 0 || bpf_obj_get_info_by_fd(types, &info, &size) != 0) return none;
  std::vector<std::byte> bytes(info.btf_size);
  info = {};
  info.btf = reinterpret_cast<uintptr_t>(bytes.data());
  info.btf_size = static_cast<uint32_t>(bytes.size());
  size = sizeof info;
  if (bpf_obj_get_info_by_fd(types, &info, &size) != 0) return none;
  return {btf__new(bytes.data(), static_cast<uint32_t>(bytes.size())), btf__free};
}

// How the kernel has the functions of the program. libbpf makes them static, or says nothing of them, where it takes
// the kernel for one that has no global ones.
Functions functions_of(const weir_features_bpf& skeleton) {
  bpf_prog_info info = {};
  uint32_t size = sizeof info;
  const int program = bpf_program__fd(skeleton.progs.features);
  if (bpf_obj_get_info_by_fd(program, &info, &size) != 0) return Functions::unknown;
  if (info.btf_id == 0 || info.nr_func_info == 0) return Functions::not_global;
  const Types types = types_of(skeleton);
  if (!types) return Functions::unknown;
  for (uint32_t id = 1; id < btf__type_cnt(types.get()); id++) {
    const btf_type* type = btf__type_by_id(types.get(), id);
    if (btf_is_func(type) && btf_vlen(type) == BTF_FUNC_GLOBAL) return Functions::global;
  }
  return Functions::not_global;
}

// Of a program that asks for nothing.
bool can_load_anything() {
  const bpf_insn pass[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = XDP_PASS},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  return static_cast<bool>(Fd(bpf_prog_load(BPF_PROG_TYPE_XDP, nullptr, "GPL", pass, std::size(pass), nullptr)));
}

}  // namespace

Result<void> learn_features() {
  static std::mutex mutex;
  static bool is_known = false, is_right = false;
  const std::lock_guard lock(mutex);
  listen_to_libbpf();
  for (int i = 0; i < kTries && !is_known; i++) {
    const Skeleton skeleton = load();
    if (!skeleton) continue;
    const Functions functions = functions_of(*skeleton);
    is_known = functions != Functions::unknown;
    is_right = functions == Functions::global;
  }
  if (!is_known && !can_load_anything()) return {};
  is_known = true;
  if (is_right) return {};
  return Error{
      "libbpf asks the kernel only once what it can do, and the kernel refused to answer, for want of memory, say: "
      "start controld anew"};
}

}  // namespace weir::xdp
