#include "control/enforce/publish/in_force.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>

#include "common/files.h"
#include "common/own_folder.h"

namespace weir::control {

namespace {

constexpr size_t kMaxInForceBytes = 1 << 20;
constexpr std::string_view kInForceHead = "weir targets 1\n";

bool set_kind(TargetSpec& target, std::string_view name) {
  for (size_t i = 0; i < kTargetKinds; i++) {
    target.kind = static_cast<TargetKind>(i);
    if (name == traits_of(target.kind).name) return true;
  }
  return false;
}

bool set_attach(TargetSpec& target, std::string_view name) {
  const auto* found = std::find(std::begin(kAttachNames), std::end(kAttachNames), name);
  if (found == std::end(kAttachNames)) return false;
  target.attach = static_cast<Attach>(found - std::begin(kAttachNames));
  return true;
}

bool take_line(InForce& in_force, std::string_view key, std::string_view value) {
  if (key == "config") return in_force.config = value, true;
  if (key == "target") return set_kind(in_force.targets.emplace_back(), value);
  if (in_force.targets.empty()) return false;
  TargetSpec& target = in_force.targets.back();
  if (key == "name") return target.name = value, true;
  if (key == "attach") return set_attach(target, value);
  if (key == "interface") return target.interfaces.emplace_back(value), true;
  return false;
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

std::string pointer_of(const std::string& default_dir, const std::string& config) {
  return fmt::format("{}/state_of/{:016x}", default_dir, XXH3_64bits(config.data(), config.size()));
}

// Without links; as it is where there is no such file.
std::string canonical(const std::string& config) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(config, error);
  return error ? config : path.string();
}

std::string pointer_text(const std::string& config, const std::string& state_dir) {
  return fmt::format("weir state_dir 1\nof {}\nis {}\n", config, state_dir);
}

// Empty: nothing is remembered of a policy that is called so.
std::optional<std::string> remembered_of(const std::string& default_dir, const std::string& config) {
  const std::string path = pointer_of(default_dir, config);
  if (!exists(path)) return std::nullopt;
  const Result<std::string> text = read_file(path, kMaxInForceBytes);
  const std::string before = pointer_text(config, "");  // ends in an end of line
  if (!text || !text->starts_with(std::string_view(before).substr(0, before.size() - 1)) || !text->ends_with('\n')) {
    return std::nullopt;
  }
  return text->substr(before.size() - 1, text->size() - before.size());
}

}  // namespace

// A line for each member. The last one is a checksum of all before it.
std::string render(const InForce& in_force) {
  std::string text = fmt::format("{}config {}\n", kInForceHead, in_force.config);
  for (const TargetSpec& target : in_force.targets) {
    text += fmt::format("target {}\nname {}\nattach {}\n", traits_of(target.kind).name, target.name,
                        kAttachNames[static_cast<size_t>(target.attach)]);
    for (const std::string& interface : target.interfaces) text += fmt::format("interface {}\n", interface);
  }
  return text + fmt::format("check {:016x}\n", XXH3_64bits(text.data(), text.size()));
}

// Reading is taking every line and comparing what would be written.
std::optional<InForce> parse_in_force(const std::string& text) {
  InForce in_force;
  std::string_view rest = text;
  if (!rest.starts_with(kInForceHead)) return std::nullopt;
  rest.remove_prefix(kInForceHead.size());
  while (!rest.empty() && !rest.starts_with("check ")) {
    const size_t end = rest.find('\n'), blank = rest.find(' ');
    if (end == std::string_view::npos || blank >= end) return std::nullopt;
    if (!take_line(in_force, rest.substr(0, blank), rest.substr(blank + 1, end - blank - 1))) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
  if (render(in_force) != text) return std::nullopt;
  return in_force;
}

Result<void> write_in_force(const std::string& state_dir, const InForce& in_force) {
  const std::string text = render(in_force);
  if (parse_in_force(text) != in_force)
    return Error{"the name of a target, or the path of the policy, has more than one line"};
  return write_file_durably(state_dir + "/targets", {std::as_bytes(std::span(text))}, 0600);
}

Result<std::optional<InForce>> read_in_force(const std::string& state_dir) {
  const std::string path = state_dir + "/targets";
  if (!exists(path)) return std::optional<InForce>();
  const Result<std::string> text = read_file(path, kMaxInForceBytes);
  if (!text) return Error{text.error()};
  std::optional<InForce> in_force = parse_in_force(*text);
  if (!in_force) return Error{path + " is damaged"};
  return in_force;
}

bool is_same_file(const std::string& one, const std::string& other) {
  if (one == other) return true;
  struct stat first = {}, second = {};
  return stat(one.c_str(), &first) == 0 && stat(other.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

namespace {

Result<void> remember_one(const std::string& default_dir, const std::string& config, const std::string& state_dir) {
  const std::string path = pointer_of(default_dir, config);
  if (remembered_of(default_dir, config).value_or(default_dir) == state_dir) return {};
  if (Result<void> own = make_own_folder(default_dir + "/state_of", 0700, "--state-dir"); !own) return own;
  const std::string text = pointer_text(config, state_dir);
  return write_file_durably(path, {std::as_bytes(std::span(text))}, 0600);
}

}  // namespace

Result<void> remember_state_dir(const std::string& default_dir, const std::string& config,
                                const std::string& state_dir) {
  Result<void> remembered = remember_one(default_dir, config, state_dir);
  const std::string other = canonical(config);
  return remembered && other != config ? remember_one(default_dir, other, state_dir) : remembered;
}

std::string remembered_state_dir(const std::string& default_dir, const std::string& config) {
  const std::optional<std::string> found = remembered_of(default_dir, config);
  return found ? *found : remembered_of(default_dir, canonical(config)).value_or(default_dir);
}

}  // namespace weir::control
