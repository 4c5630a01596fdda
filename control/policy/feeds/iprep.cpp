#include "control/policy/feeds/take.h"

// Suricata's lists of reputation: `ADDRESS,CATEGORY,SCORE` a line. `auto` cannot tell them from other tables.
namespace weir::control::feeds {
namespace iprep {

constexpr unsigned long kHighestScore = 127;

Outcome read_line(std::string_view line, uint32_t number, const Options& options, ListDraft& list) {
  if (line[0] == '#') return {};
  const size_t first = line.find(','), second = line.find(',', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return "no `ADDRESS,CATEGORY,SCORE`";
  const std::string_view category = trim(line.substr(first + 1, second - first - 1)),
                         score = trim(line.substr(second + 1));
  if (!is_number(category)) return "the category is not a number";
  if (!is_length(score) || score[0] == '/' || std::stoul(std::string(score)) > kHighestScore) {
    return "the score is not a number from 0 to 127";
  }
  if (std::stoul(std::string(score)) == 0) return Outcome::skip("a score of 0: it has no such reputation");
  return take(trim(line.substr(0, first)), {number}, options, list);
}

std::string recognise(std::string_view) {
  return "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return [options](std::string_view part, ListDraft& list) {
    read_lines(part, list,
               [&](std::string_view line, uint32_t number) { return read_line(line, number, options, list); });
  };
}

}  // namespace iprep

extern const Format kIprepFormat;
const Format kIprepFormat = {"iprep", "Suricata's reputation, `ADDRESS,CATEGORY,SCORE` a line; `auto` does not find it",
                             iprep::recognise, iprep::start};

}  // namespace weir::control::feeds
