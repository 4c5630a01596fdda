#include "dataplane/doctor/eal.h"

#include <algorithm>
#include <map>
#include <optional>

namespace weir::dataplane::doctor {

namespace {

constexpr unsigned kMostLcores = 1024;  // several times RTE_MAX_LCORE

using Lcores = std::map<unsigned, Cpus>;

void place_each_on_itself(const Cpus& cpus, Lcores& lcores) {
  for (const unsigned cpu : cpus) lcores[cpu] = {cpu};
}

// -l 1,3-5. Spaces are skipped, as EAL does.
bool parse_list(std::string_view text, Lcores& lcores) {
  const std::optional<Cpus> cpus = parse_cpus(text);
  if (!cpus || cpus->empty()) return false;
  place_each_on_itself(*cpus, lcores);
  return true;
}

// -c 0xf0.
bool parse_mask(std::string_view text, Lcores& lcores) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  Cpus cpus;
  for (size_t i = 0; i < text.size() && i < kMostLcores / 4; i++) {
    const std::optional<int64_t> digit = parse_number(text.substr(text.size() - 1 - i, 1), 16);
    if (!digit || *digit < 0) return false;
    for (unsigned bit = 0; bit < 4; bit++) {
      if ((*digit >> bit & 1) != 0) cpus.insert(static_cast<unsigned>(i) * 4 + bit);
    }
  }
  place_each_on_itself(cpus, lcores);
  return !cpus.empty();
}

// (1,3-4) or 3-4 or 3.
std::optional<Cpus> parse_group(std::string_view text) {
  if (text.starts_with("(")) {
    if (!text.ends_with(")")) return std::nullopt;
    text = text.substr(1, text.size() - 2);
  }
  std::optional<Cpus> cpus = parse_cpus(text);
  return cpus && !cpus->empty() ? cpus : std::nullopt;
}

std::vector<std::string_view> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '(') depth++;
    if (text[i] == ')') depth--;
    if (text[i] != ',' || depth != 0) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// --lcores 1,2@(5-7),(3-5)@(0,2),(0,6),7-8
bool parse_map(std::string_view text, Lcores& lcores) {
  for (const std::string_view part : split_outside_brackets(text)) {
    const size_t at = part.find('@');
    const std::optional<Cpus> ids = parse_group(trim(part.substr(0, at)));
    const std::optional<Cpus> cpus = at == part.npos ? ids : parse_group(trim(part.substr(at + 1)));
    if (!ids || !cpus) return false;
    const bool each_on_itself = at == part.npos && !part.starts_with("(");
    for (const unsigned id : *ids) lcores[id] = each_on_itself ? Cpus{id} : *cpus;
  }
  return true;
}

struct Option {
  std::string_view name;
  bool takes_value;
};
constexpr Option kOptions[] = {{"-l", true},        {"-c", true},         {"--lcores", true},    {"-a", true},
                               {"--allow", true},   {"-b", true},         {"--block", true},     {"--vdev", true},
                               {"--no-pci", false}, {"--no-huge", false}, {"--in-memory", false}};

struct Given {
  std::string_view name;  // empty: none of ours
  std::string value;
};

// arguments[i], and the value behind it; i moves to what was used last.
Given read_option(std::span<const std::string> arguments, size_t& i) {
  const std::string& argument = arguments[i];
  for (const Option& option : kOptions) {
    if (!argument.starts_with(option.name)) continue;
    std::string rest = argument.substr(option.name.size());
    const bool is_long = option.name.starts_with("--");
    if (rest.empty()) {
      if (!option.takes_value) return {option.name, ""};
      return {option.name, i + 1 < arguments.size() ? arguments[++i] : ""};
    }
    if (is_long && !rest.starts_with("=")) continue;
    return {option.name, is_long ? rest.substr(1) : rest};
  }
  return {};
}

}  // namespace

std::string full_pci_address(std::string_view text) {
  text = trim(text.substr(0, text.find(',')));
  if (text.starts_with("pci:")) text.remove_prefix(4);
  std::string address(text);
  std::transform(address.begin(), address.end(), address.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::count(address.begin(), address.end(), ':') == 1) address = "0000:" + address;
  constexpr std::string_view kShape = "xxxx:xx:xx.x";
  const bool good = address.size() == kShape.size() &&
                    std::equal(address.begin(), address.end(), kShape.begin(), [](unsigned char c, char shape) {
                      return shape == 'x' ? std::isxdigit(c) != 0 : c == shape;
                    });
  return good ? address : "";
}

Result<EalOptions> parse_eal_options(std::span<const std::string> arguments) {
  EalOptions options;
  Lcores lcores;
  for (size_t i = 0; i < arguments.size(); i++) {
    const Given given = read_option(arguments, i);
    bool good = true;
    if (given.name == "-l") good = parse_list(given.value, lcores);
    if (given.name == "-c") good = parse_mask(given.value, lcores);
    if (given.name == "--lcores") good = parse_map(given.value, lcores);
    if (!good) return Error{std::string(given.name) + " " + given.value + ": no list of CPUs such as 2-5,8"};
    if (given.name == "-a" || given.name == "--allow") {
      if (std::string address = full_pci_address(given.value); !address.empty()) options.allow.push_back(address);
    }
    if (given.name == "-b" || given.name == "--block") options.block.push_back(full_pci_address(given.value));
    if (given.name == "--vdev") options.vdevs.push_back(given.value);
    if (given.name == "--no-pci") options.no_pci = true;
    if (given.name == "--no-huge") options.no_huge = true;
    if (given.name == "--in-memory") options.in_memory = true;
  }
  for (auto& [id, cpus] : lcores) options.workers.push_back(std::move(cpus));
  return options;
}

}  // namespace weir::dataplane::doctor
