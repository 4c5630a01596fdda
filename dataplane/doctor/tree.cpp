#include "dataplane/doctor/tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "common/fd.h"

namespace weir::dataplane::doctor {

namespace {

constexpr size_t kMostBytes =
    size_t{1} << 20;  // /proc/cpuinfo and /proc/net/tcp of a big machine: what counts is early
constexpr std::string_view kSpaces = " \t\r\n";

std::optional<unsigned> parse_cpu(std::string_view text) {
  const std::optional<int64_t> cpu = parse_number(text);
  if (!cpu || *cpu < 0 || *cpu > kMaxCpu || !std::isdigit(static_cast<unsigned char>(text.front()))) return {};
  return static_cast<unsigned>(*cpu);
}

}  // namespace

std::optional<Cpus> parse_cpus(std::string_view text) {
  Cpus cpus;
  text = trim(text);
  if (text.empty()) return cpus;
  for (const std::string_view part : split_at(text, ',')) {
    const size_t dash = part.find('-');
    const std::optional<unsigned> first = parse_cpu(part.substr(0, dash));
    const std::optional<unsigned> last = dash == part.npos ? first : parse_cpu(part.substr(dash + 1));
    if (!first || !last || *first > *last) return std::nullopt;
    for (unsigned cpu = *first; cpu <= *last; cpu++) cpus.insert(cpu);
  }
  return cpus;
}

std::string to_text(const Cpus& cpus) {
  std::string text;
  for (auto cpu = cpus.begin(); cpu != cpus.end();) {
    const unsigned first = *cpu;
    unsigned last = first;
    while (++cpu != cpus.end() && *cpu == last + 1) last++;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last != first) text += (last == first + 1 ? ',' : '-') + std::to_string(last);
  }
  return text;
}

Cpus without(const Cpus& cpus, const Cpus& others) {
  Cpus rest;
  std::set_difference(cpus.begin(), cpus.end(), others.begin(), others.end(), std::inserter(rest, rest.end()));
  return rest;
}

bool contains_all(const Cpus& cpus, const Cpus& wanted) {
  return std::includes(cpus.begin(), cpus.end(), wanted.begin(), wanted.end());
}

bool share_any(const Cpus& cpus, const Cpus& others) {
  return std::any_of(cpus.begin(), cpus.end(), [&](unsigned cpu) { return others.contains(cpu); });
}

std::optional<int64_t> parse_number(std::string_view text, int base) {
  text = trim(text);
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = trim(text)).empty()) {
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : separator).append(part);
  return text;
}

bool has_word(std::string_view text, std::string_view word) {
  const std::vector<std::string_view> words = words_of(text);
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<std::string> Tree::text(const std::string& path) const {
  const Fd file(open((root_ / path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::nullopt;
  std::string text(4096, '\0');
  size_t size = 0;
  while (size < kMostBytes) {
    if (size == text.size()) text.resize(size * 2);
    const ssize_t n = read(file.get(), text.data() + size, text.size() - size);
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  text.resize(text.find_last_not_of(kSpaces) + 1);
  return text;
}

std::optional<int64_t> Tree::number(const std::string& path, int base) const {
  const std::optional<std::string> found = text(path);
  return found ? parse_number(*found, base) : std::nullopt;
}

std::optional<Cpus> Tree::cpus(const std::string& path) const {
  const std::optional<std::string> found = text(path);
  return found ? parse_cpus(*found) : std::nullopt;
}

std::vector<std::string> Tree::names(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root_ / folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Tree::exists(const std::string& path) const {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(root_ / path, error));
}

std::string Tree::link_name(const std::string& path) const {
  std::error_code error;
  return std::filesystem::read_symlink(root_ / path, error).filename().string();
}

std::optional<std::string> Tree::value(const std::string& path, std::string_view key) const {
  const std::optional<std::string> found = text(path);
  if (!found) return std::nullopt;
  for (const std::string_view line : split_at(*found, '\n')) {
    const size_t colon = line.find(':');
    if (colon != line.npos && trim(line.substr(0, colon)) == key) return std::string(trim(line.substr(colon + 1)));
  }
  return std::nullopt;
}

// proc_pid_cgroup(5) and proc_pid_mountinfo(5).
std::vector<std::string> control_group_folders(const Tree& tree, std::string_view controller, int version) {
  std::optional<std::string> own;
  const std::string groups = tree.text("proc/self/cgroup").value_or("");
  for (const std::string_view line : split_at(groups, '\n')) {  // number:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::vector<std::string_view> controllers = split_at(line.substr(first + 1, second - first - 1), ',');
    const bool match = version == 2
                           ? line.starts_with("0::")
                           : std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
    if (match) own = std::string(line.substr(second + 1));
  }
  const std::string mounts = tree.text("proc/self/mountinfo").value_or("");
  for (const std::string_view line : split_at(mounts, '\n')) {
    const size_t dash = line.find(" - ");
    if (!own || dash == line.npos) continue;
    const std::vector<std::string_view> left = words_of(line.substr(0, dash));
    const std::vector<std::string_view> right = words_of(line.substr(dash + 3));
    if (left.size() < 5 || right.size() < 3 || right[0] != (version == 2 ? "cgroup2" : "cgroup")) continue;
    const std::vector<std::string_view> options = split_at(right[2], ',');
    if (version != 2 && std::find(options.begin(), options.end(), controller) == options.end()) continue;
    const std::string_view inside = left[3];  // which folder of the hierarchy is mounted there
    std::filesystem::path path = *own;
    if (inside != "/" && own->starts_with(inside)) path = own->substr(inside.size());
    std::vector<std::string> folders;
    const std::string mount_point(left[4].substr(left[4].starts_with("/") ? 1 : 0));
    for (path = path.relative_path(); !path.empty(); path = path.parent_path()) {
      folders.push_back(mount_point + "/" + path.string());
    }
    folders.push_back(mount_point);
    return folders;
  }
  return {};
}

}  // namespace weir::dataplane::doctor
