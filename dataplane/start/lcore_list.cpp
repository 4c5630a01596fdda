#include "dataplane/start/lcore_list.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace weir::dataplane {

namespace {

constexpr unsigned kMostCpus = 1024;  // CPU_SETSIZE

// Reads from the front of what is left.
class Reader {
 public:
  // EAL's -l takes a range that falls for an empty one; --lcores turns it round.
  enum class Ranges { rising, any };
  Reader(std::string_view text, Ranges ranges) : rest_(text), ranges_(ranges) { skip_blanks(); }

  bool at_end() const { return rest_.empty(); }
  bool sees(char c) const { return rest_.starts_with(c); }
  bool take(char c) {
    if (!sees(c)) return false;
    rest_.remove_prefix(1);
    skip_blanks();
    return true;
  }
  std::optional<unsigned> number() {
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value >= kMostCpus) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
    skip_blanks();
    return value;
  }
  // N or N-M.
  bool range(std::set<unsigned>& numbers) {
    const std::optional<unsigned> first = number();
    if (!first) return false;
    std::optional<unsigned> last = first;
    if (take('-')) last = number();
    if (!last || (ranges_ == Ranges::rising && *last < *first)) return false;
    for (unsigned n = std::min(*first, *last); n <= std::max(*first, *last); n++) numbers.insert(n);
    return true;
  }
  // A range, or several of them in parentheses.
  bool group(std::set<unsigned>& numbers) {
    if (!take('(')) return range(numbers);
    do {
      if (!range(numbers)) return false;
    } while (take(','));
    return take(')');
  }

 private:
  void skip_blanks() {
    while (sees(' ') || sees('\t')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
  Ranges ranges_;
};

std::vector<LcoreCpus> one_to_one(const std::set<unsigned>& numbers) {
  std::vector<LcoreCpus> lcores;
  for (const unsigned n : numbers) lcores.push_back({n, {n}});
  return lcores;
}

}  // namespace

Result<std::vector<LcoreCpus>> parse_core_list(std::string_view text) {
  const Error bad = {"write CPU numbers and ranges, such as `0,2-3`"};
  Reader reader(text, Reader::Ranges::rising);
  std::set<unsigned> numbers;
  do {
    if (!reader.range(numbers)) return bad;
  } while (reader.take(','));
  if (!reader.at_end()) return bad;
  return one_to_one(numbers);
}

Result<std::vector<LcoreCpus>> parse_core_mask(std::string_view text) {
  const Error bad = {"write the CPUs as a hexadecimal mask, such as `0x5` for 0 and 2; or use -l"};
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return bad;
  text = text.substr(first, text.find_last_not_of(" \t") - first + 1);
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  std::set<unsigned> numbers;
  unsigned cpu = 0;
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, cpu += 4) {
    unsigned bits = 0;
    if (std::from_chars(&*digit, &*digit + 1, bits, 16).ec != std::errc()) return bad;
    for (unsigned bit = 0; bit < 4; bit++) {
      if ((bits >> bit & 1) != 0) numbers.insert(cpu + bit);
    }
  }
  if (numbers.empty() || cpu > kMostCpus) return bad;
  return one_to_one(numbers);
}

Result<std::vector<LcoreCpus>> parse_lcores(std::string_view text) {
  const Error bad = {
      "write lcores and the CPUs they run on, such as `0@2,1@3`, or groups in parentheses, `(0-3)@(2,3)`"};
  std::vector<LcoreCpus> lcores;
  Reader reader(text, Reader::Ranges::any);
  do {
    const bool grouped = reader.sees('(');
    std::set<unsigned> numbers, cpus;
    if (!reader.group(numbers)) return bad;
    const bool placed = reader.take('@');
    if (placed && (!reader.group(cpus) || (!grouped && numbers.size() > 1))) return bad;
    for (const unsigned lcore : numbers) {
      const std::set<unsigned> own = {lcore};
      lcores.push_back({lcore, placed ? cpus : grouped ? numbers : own});
    }
  } while (reader.take(','));
  if (!reader.at_end()) return bad;
  return lcores;
}

}  // namespace weir::dataplane
