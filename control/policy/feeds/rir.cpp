#include <fmt/format.h>

#include <array>
#include <memory>

#include "control/policy/feeds/take.h"

// Statistics of the regional registries, delegated and delegated-extended:
// `registry|cc|type|start|value|date|status[|...]`. The value counts addresses (ipv4) or is a prefix length (ipv6). A
// first line has the version, `registry|*|type|*|count|summary` says how many rows of a type there are.
namespace weir::control::feeds {
namespace rir {

constexpr size_t kMostFields = 8;
constexpr std::string_view kRegistries[] = {"afrinic", "apnic", "arin", "iana", "lacnic", "ripencc"};
constexpr Setting kSettings[] = {
    {"value", "`count`: the values of IPv4 rows count addresses, also where each could be a prefix length"},
};

struct Row {
  std::array<std::string_view, kMostFields> fields;
  size_t n = 0;

  explicit Row(std::string_view line) {
    while (n < kMostFields) {
      const size_t end = line.find('|');
      fields[n++] = trim(line.substr(0, end));
      if (end == std::string_view::npos) return;
      line.remove_prefix(end + 1);
    }
  }
  std::string_view operator[](size_t i) const { return fields[i]; }
};

bool is_registry(std::string_view text) {
  return std::find(std::begin(kRegistries), std::end(kRegistries), text) != std::end(kRegistries);
}

bool is_version(const Row& row) {
  return row.n >= 6 && row[0].find_first_not_of("0123456789.") == std::string_view::npos && is_registry(row[1]);
}
bool is_summary(const Row& row) {
  return row.n >= 6 && is_registry(row[0]) && row[5] == "summary";
}

class Reader {
 public:
  explicit Reader(const Options& options)
      : options_(options), is_sure_(find_setting(options.settings, "value") == "count") {}

  Outcome read_line(std::string_view line, uint32_t number, ListDraft& list) {
    if (line[0] == '#') return {};
    const Row row(line);
    if (is_version(row)) return is_sure_ = true, Outcome();
    if (is_summary(row)) return read_summary(row);
    if (row.n < 7 || !is_registry(row[0])) return "no row `registry|cc|type|start|value|date|status`";
    if (row[2] == "asn") return Outcome::skip("an autonomous system, not its addresses");
    const bool is_v4 = row[2] == "ipv4";
    if (!is_v4 && row[2] != "ipv6") return "a type that is neither ipv4, ipv6 nor asn";
    (is_v4 ? v4_ : v6_).rows++;
    const std::string status = lower(row[6]);
    if (status == "available" || status == "reserved") return Outcome::skip("a block that nobody holds");
    if (status != "allocated" && status != "assigned") return "a status that is not known";
    if (is_v4) return take_v4(row, number, list);
    return is_length(row[4]) ? take_prefix(row[3], row[4], {number}, options_, list)
                             : "the prefix length is not a number";
  }

  void finish(ListDraft& list) const {
    if (v4_.rows < v4_.expected || v6_.rows < v6_.expected) {
      list.fault =
          FeedFault{fmt::format("has {} rows of IPv4 and {} of IPv6, and says that there are {} and {}", v4_.rows,
                                v6_.rows, v4_.expected, v6_.expected),
                    "get the file again: it is cut off; if rows were removed, remove the lines `summary`, too", true};
    } else if (first_line_ != 0 && !is_sure_) {
      list.fault = FeedFault{
          fmt::format("has {} behind {} on line {}, which may be a number of addresses or a prefix length",
                      first_value_, first_address_, first_line_),
          "say which: `format: {rir: {value: count}}`, or `format: {csv: {address: 4, length: 5, separator: pipe}}`"};
    }
  }

 private:
  struct Count {
    uint64_t rows = 0, expected = 0;  // expected: as the summary says
  };

  Outcome read_summary(const Row& row) {
    is_sure_ = true;
    if (!is_number(row[4]) || row[4].size() > 9) return "the summary has no number of rows";
    const uint64_t expected = std::stoul(std::string(row[4]));
    if (row[2] == "ipv4") v4_.expected += expected;
    if (row[2] == "ipv6") v6_.expected += expected;
    return {};
  }

  Outcome take_v4(const Row& row, uint32_t number, ListDraft& list) {
    const auto start = parse_ipv4(row[3]);
    if (!start) return "the start is no IPv4 address";
    if (!is_number(row[4]) || row[4].size() > 10) return "the number of addresses is no number";
    const uint64_t count = std::stoull(std::string(row[4]));
    if (count == 0 || *start + count - 1 > UINT32_MAX) return "so many addresses do not follow the start";
    if (count > 32) {
      is_sure_ = true;
    } else if (first_line_ == 0) {
      first_line_ = number;
      first_value_ = row[4];
      first_address_ = row[3];
    }
    return take_range(row[3], to_string(static_cast<Ipv4>(*start + count - 1)), {number}, options_, list);
  }

  const Options options_;
  bool is_sure_;  // that values count addresses
  Count v4_, v6_;
  uint32_t first_line_ = 0;  // of a row whose value could be a length
  std::string first_value_, first_address_;
};

bool is_like(std::string_view line) {
  const Row row(line);
  if (is_version(row) || is_summary(row)) return true;
  return row.n >= 7 && is_registry(row[0]) && (row[2] == "ipv4" || row[2] == "ipv6" || row[2] == "asn");
}

std::string recognise(std::string_view beginning) {
  return recognise_lines(beginning, is_like, "is a row of a registry's statistics");
}

Read start(const Options& options, std::string_view /*beginning*/) {
  auto reader = std::make_shared<Reader>(options);
  return [reader](std::string_view part, ListDraft& list) {
    read_lines(part, list,
               [&](std::string_view line, uint32_t number) { return reader->read_line(line, number, list); });
    if (part.empty() && !list.fault) reader->finish(list);
  };
}

}  // namespace rir

extern const Format kRirFormat;
const Format kRirFormat = {
    "rir",          "delegated statistics of a registry (RIR): blocks of addresses that somebody holds",
    rir::recognise, rir::start,
    Parts::lines,   false,
    rir::kSettings};

}  // namespace weir::control::feeds
