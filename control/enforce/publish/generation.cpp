#include "control/enforce/publish/generation.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>
#include <xxhash.h>

#include <cinttypes>
#include <cstdio>

#include "common/files.h"
#include "common/peer_number.h"

namespace weir::control {

namespace {

constexpr size_t kMaxFileBytes = 4096;  // four short lines; more is not ours

// The whole file, as a function of its two values: reading is parsing them and comparing the rest.
std::string render(wire::Generation generation) {
  std::string text = fmt::format("weir generation 1\nepoch {:016x}\nnumber {}\n", generation.epoch, generation.number);
  const uint64_t check = XXH3_64bits(text.data(), text.size());
  return text + fmt::format("check {:016x}\n", check);
}

bool parse(const std::string& text, wire::Generation& generation) {
  uint64_t epoch = 0, number = 0;
  if (sscanf(text.c_str(), "weir generation 1\nepoch %16" SCNx64 "\nnumber %20" SCNu64, &epoch, &number) != 2) {
    return false;
  }
  generation = {epoch, number};
  return epoch != 0 && number <= kMostNumber && text == render(generation);
}

}  // namespace

Result<GenerationFile> GenerationFile::open(const std::string& state_dir) {
  GenerationFile file;
  file.path_ = state_dir + "/epoch";
  if (access(file.path_.c_str(), F_OK) != 0) {
    if (Result<void> begun = file.begin_epoch(); !begun) return Error{begun.error()};
    return file;
  }
  Result<std::string> text = read_file(file.path_, kMaxFileBytes);
  if (!text) return Error{text.error() + "; make it readable, or remove it to begin a new epoch"};
  if (parse(*text, file.last_)) return file;

  const std::string kept = file.path_ + ".damaged";
  const bool is_kept = rename(file.path_.c_str(), kept.c_str()) == 0;
  if (Result<void> begun = file.begin_epoch(); !begun) return Error{begun.error()};
  file.add_notice(fmt::format("{} was damaged{}: the numbers already used are not known, so a new epoch {:016x} begins",
                              file.path_, is_kept ? fmt::format(" (kept as {})", kept) : "", file.last_.epoch));
  return file;
}

Result<void> GenerationFile::commit() {
  give_out();
  return save();
}

void GenerationFile::pass(wire::Generation seen) {
  const bool is_ahead = seen.epoch == last_.epoch && seen.number > last_.number;
  if (is_ahead && is_possible(seen.number, last_.number)) last_ = seen;
}

Result<void> GenerationFile::not_behind(wire::Generation published) {
  if (published.epoch != last_.epoch || published.number <= last_.number) return {};
  const wire::Generation behind = last_;
  if (Result<void> begun = begin_epoch(); !begun) return begun;
  add_notice(fmt::format("{} is at number {}, but {} was published already: a new epoch {:016x} begins", path_,
                         behind.number, published.number, last_.epoch));
  return {};
}

Result<void> GenerationFile::begin_epoch() {
  wire::Generation generation;
  while (generation.epoch == 0) {  // 0 means "no snapshot" on the wire
    if (getrandom(&generation.epoch, sizeof generation.epoch, 0) != sizeof generation.epoch) {
      return errno_error("cannot draw a random epoch");
    }
  }
  last_ = generation;
  if (const Result<void> saved = save(); !saved) {
    add_notice(saved.error() + ": generations are not remembered until it can be written");
  }
  return {};
}

void GenerationFile::add_notice(const std::string& text) {
  notice_ += (notice_.empty() ? "" : "; ") + text;
}

Result<void> GenerationFile::write(wire::Generation generation) const {
  const std::string text = render(generation);
  return write_file_durably(path_, {std::as_bytes(std::span(text))}, 0600);
}

}  // namespace weir::control
