#include "control/publish/history_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>

#include "common/digest.h"
#include "common/files.h"

namespace weir::control {

Result<void> HistoryFiles::keep(wire::Generation generation, const std::string& policy_text) const {
  if (Result<void> made = make_directories(folder_, 0700); !made) return made;
  const std::span<const std::byte> text = std::as_bytes(std::span(policy_text));
  if (Result<void> written = Store::write_file(path(generation.number, "yaml"), generation, text); !written) {
    return written;
  }
  const std::string book = path(generation.number, "book");
  if (link(book_.c_str(), book.c_str()) != 0 && errno != EEXIST) return errno_error("cannot link " + book);
  const Fd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || fsync(folder.get()) != 0) return errno_error("cannot sync folder " + folder_);
  return {};
}

bool HistoryFiles::has(uint64_t number) const {
  return access(path(number, "book").c_str(), F_OK) == 0 && access(path(number, "yaml").c_str(), F_OK) == 0;
}

Result<HistoryFiles::Kept> HistoryFiles::open(wire::Generation generation) const {
  Result<Store::Bytes> text = Store::read_file(path(generation.number, "yaml"), generation);
  if (!text) return Error{text.error()};
  Result<Store::Bytes> book = Store::read_file(path(generation.number, "book"), generation);
  if (!book) return Error{book.error()};
  const std::span<const std::byte> bytes = text->bytes();
  return Kept{std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), std::move(*book)};
}

uint64_t HistoryFiles::trim(const std::vector<uint64_t>& wanted, uint64_t most_bytes) const {
  std::error_code ignored;
  std::map<uint64_t, uint64_t> bytes_of;  // by number
  std::vector<std::filesystem::path> others;
  for (const auto& file : std::filesystem::directory_iterator(folder_, ignored)) {
    const std::string name = file.path().stem().string();
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_ours = error == std::errc() && end == name.data() + name.size();
    if (is_ours && std::find(wanted.begin(), wanted.end(), number) != wanted.end()) {
      bytes_of[number] += file.file_size(ignored);
    } else {
      others.push_back(file.path());
    }
  }
  for (const auto& path : others) std::filesystem::remove(path, ignored);
  uint64_t total = 0;
  for (const auto& [number, bytes] : bytes_of) total += bytes;
  while (bytes_of.size() > 2 && total > most_bytes) {
    const auto oldest = bytes_of.begin();
    for (const char* ending : {"yaml", "book"}) unlink(path(oldest->first, ending).c_str());
    total -= oldest->second;
    bytes_of.erase(oldest);
  }
  return bytes_of.empty() ? 0 : bytes_of.begin()->first;
}

std::string HistoryFiles::path(uint64_t number, const char* ending) const {
  return folder_ + "/" + std::to_string(number) + "." + ending;
}

}  // namespace weir::control
