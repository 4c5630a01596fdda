#include "control/enforce/publish/place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "common/files.h"
#include "control/enforce/publish/in_force.h"

namespace weir::control {

namespace {

constexpr size_t kMaxPlaceBytes = 1 << 20;
constexpr std::string_view kPlaceHead = "weir place 1\n";

// The value of a line `KEY VALUE`, which is taken from the text; empty: another line comes first.
std::optional<std::string> take_value(std::string_view& text, std::string_view key) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(key) || key.size() >= end || text[key.size()] != ' ') {
    return std::nullopt;
  }
  const std::string value(text.substr(key.size() + 1, end - key.size() - 1));
  text.remove_prefix(end + 1);
  return value;
}

}  // namespace

std::string place_of(const std::string& controld_socket) {
  return controld_socket + ".place";
}

bool is_hidden(const std::string& path) {
  return access(path.c_str(), R_OK) != 0 && errno == EACCES;
}

Result<void> write_place(const Place& place) {
  const std::string text = fmt::format("{}state_dir {}\nbpf_dir {}\n{}", kPlaceHead, place.state_dir, place.bpf_dir,
                                       render({place.state_dir, place.targets}));
  return write_file_durably(place.path, {std::as_bytes(std::span(text))}, 0600);
}

std::optional<Place> read_place(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxPlaceBytes);
  if (!text || !text->starts_with(kPlaceHead)) return std::nullopt;
  std::string_view rest = std::string_view(*text).substr(kPlaceHead.size());
  const std::optional<std::string> state_dir = take_value(rest, "state_dir");
  const std::optional<std::string> bpf_dir = take_value(rest, "bpf_dir");
  if (!state_dir || !bpf_dir) return std::nullopt;
  const std::optional<InForce> in_force = parse_in_force(std::string(rest));
  if (!in_force) return std::nullopt;
  return Place{path, *state_dir, *bpf_dir, in_force->targets};
}

}  // namespace weir::control
