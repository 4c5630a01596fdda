#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// Reading /proc and /sys below some root. Whatever is missing, unreadable or garbage is nullopt or empty.
namespace weir::dataplane::doctor {

using Cpus = std::set<unsigned>;
inline const std::string kCpuFolder = "sys/devices/system/cpu/";
constexpr unsigned kMaxCpu = 8191;  // NR_CPUS of x86-64 is at most 8192

// "0-3,8" as the kernel writes it; empty text is the empty set.
std::optional<Cpus> parse_cpus(std::string_view text);
std::string to_text(const Cpus& cpus);
Cpus without(const Cpus& cpus, const Cpus& others);
bool contains_all(const Cpus& cpus, const Cpus& wanted);
bool share_any(const Cpus& cpus, const Cpus& others);

std::optional<int64_t> parse_number(std::string_view text, int base = 10);
std::string_view trim(std::string_view text);
std::vector<std::string_view> words_of(std::string_view text);  // between white space
std::vector<std::string_view> split_at(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
bool has_word(std::string_view text, std::string_view word);

class Tree {
 public:
  explicit Tree(std::filesystem::path root) : root_(std::move(root)) {}

  // path: without the leading slash. Without white space at the end; the first MiB.
  std::optional<std::string> text(const std::string& path) const;
  std::optional<int64_t> number(const std::string& path, int base = 10) const;
  std::optional<Cpus> cpus(const std::string& path) const;
  std::vector<std::string> names(const std::string& folder) const;  // sorted
  bool exists(const std::string& path) const;
  // Last part of where a symbolic link points to.
  std::string link_name(const std::string& path) const;
  // The value behind `key:` in a file of such lines (/proc/self/status, /proc/cpuinfo).
  std::optional<std::string> value(const std::string& path, std::string_view key) const;

 private:
  std::filesystem::path root_;
};

// Folders of a control group: the process's own and each above it. version 2: of the unified hierarchy, whose
// controller is not asked.
std::vector<std::string> control_group_folders(const Tree& tree, std::string_view controller, int version);

}  // namespace weir::dataplane::doctor
