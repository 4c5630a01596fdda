#include "control/policy/feeds/csv_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "control/policy/feeds/take.h"
#include "control/policy/feeds/verdict.h"

namespace weir::control::feeds::csv {

namespace {

constexpr size_t kMostColumns = 256;

}  // namespace

char separator_named(std::string_view name) {
  constexpr struct {
    std::string_view name;
    char separator;
  } kNames[] = {{"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"pipe", '|'}, {"space", ' '}};
  for (const auto& one : kNames) {
    if (one.name == name) return one.separator;
  }
  return '\0';
}

char separator_of(std::string_view row) {
  constexpr std::string_view kSeparators = ",;\t|";
  std::array<unsigned, kSeparators.size()> counts = {};
  bool in_quotes = false;
  for (const char c : row) {
    in_quotes ^= c == '"';
    const size_t which = kSeparators.find(c);
    if (!in_quotes && which != std::string_view::npos) counts[which]++;
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  return kSeparators[static_cast<size_t>(most - counts.begin())];
}

bool split(std::string_view row, char separator, std::vector<std::string>& fields) {
  fields.clear();
  if (separator == ' ') row = trim(row);
  const auto is_end = [&](char c) { return c == separator || (separator == ' ' && c == '\t'); };
  size_t at = 0;
  while (true) {
    std::string field;
    while (at < row.size() && row[at] != separator && (row[at] == ' ' || row[at] == '\t')) at++;
    if (at < row.size() && row[at] == '"') {
      for (at++;; at++) {
        if (at >= row.size()) return false;
        if (row[at] != '"') {
          field += row[at];
        } else if (at + 1 < row.size() && row[at + 1] == '"') {
          field += row[at++];
        } else {
          break;
        }
      }
      at++;
    }
    const auto found = std::find_if(row.begin() + static_cast<ptrdiff_t>(at), row.end(), is_end);
    size_t end = static_cast<size_t>(found - row.begin());
    field += row.substr(at, end - at);
    if (fields.size() < kMostColumns) fields.emplace_back(trim(field));
    if (end == row.size()) return true;
    while (separator == ' ' && is_blank(row[end + 1])) end++;  // blanks in a row divide once
    at = end + 1;
  }
}

// --- rows ---

bool Records::read(std::string_view line, uint32_t number, Record& record) {
  if (open_.empty()) {
    opened_at_ = number;
    open_lines_ = 1;
    record.line = number;
    if (split(line, separator_, record.fields)) return true;
    open_ = line;
    return false;
  }
  open_ += '\n';
  open_ += line;
  open_lines_++;
  if (!split(open_, separator_, record.fields)) return false;
  record.line = opened_at_;
  open_.clear();
  return true;
}

std::string Records::give_up() {
  return std::exchange(open_, {});
}

Rows rows_of(std::string_view text, bool is_whole, char separator) {
  constexpr size_t kMostRows = 1000;  // that are looked at
  Rows all;
  Records records(separator);
  uint32_t number = 0;
  Record record;
  while (!text.empty() && all.rows.size() < kMostRows) {
    const bool is_last = text.find('\n') == std::string_view::npos;
    std::string_view line = next_line(text);
    number++;
    if (is_last && !is_whole && !all.rows.empty()) break;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view trimmed = trim(line);
    if (!records.is_open() && (trimmed.empty() || trimmed[0] == '#')) {
      // Lines are drawn, too.
      const std::string_view words = trim(trimmed.substr(std::min(trimmed.find_first_not_of("#-=* "), trimmed.size())));
      if (all.rows.empty() && !words.empty()) all.comment = words;
      continue;
    }
    if (records.read(line, number, record)) all.rows.push_back(std::move(record));
    if (records.is_open() && records.is_too_long()) records.give_up();
  }
  return all;
}

// The one that divides an entry off in most rows; of as many, the one that makes rows of one width.
char choose_separator(std::string_view text, bool is_whole) {
  char best = '\0';
  std::pair<size_t, size_t> most = {0, 0};
  for (const char separator : {',', ';', '\t', '|'}) {
    const std::vector<Record> rows = rows_of(text, is_whole, separator).rows;
    size_t with_entry = 0, alike = 0;
    for (const Record& row : rows) {
      with_entry += row.fields.size() > 1 && has_entry(row);
      alike += row.fields.size() > 1 && row.fields.size() == rows.front().fields.size();
    }
    const std::pair<size_t, size_t> value = {with_entry, alike};
    if (value > most) {
      best = separator;
      most = value;
    }
  }
  return best == '\0' ? ',' : best;
}

// --- what a field holds ---

bool is_nothing(std::string_view text) {
  constexpr std::string_view kNothing[] = {"", "-", "--", "null", "none", "n/a", "na", "nil", "\\n"};
  return text.size() < 5 && std::find(std::begin(kNothing), std::end(kNothing), lower(text)) != std::end(kNothing);
}

namespace survey_fields {

// 203.0.113.*, 203.0.113.300, 192.0.2.9-192.0.2.1, 2001:db8::1::2: meant as an address.
bool is_broken_address(std::string_view text) {
  if (text.find("[.]") != std::string_view::npos || text.find("(.)") != std::string_view::npos)
    return true;  // defanged
  const auto count = [&](char c) { return std::count(text.begin(), text.end(), c); };
  if (text.find_first_not_of("0123456789.*xX/-: ") == std::string_view::npos) {
    return count('.') >= 3 || text.find(".*") != std::string_view::npos || (text.ends_with('.') && count('.') > 1);
  }
  return text.find_first_not_of("0123456789abcdefABCDEF:./%") == std::string_view::npos &&
         (count(':') > 4 || (count(':') > 1 && text.find("::") != std::string_view::npos));
}

bool is_netmask(std::string_view text) {
  const auto mask = parse_ipv4(text);
  return mask && (*mask >> 24) == 0xff && (~*mask & (~*mask + 1)) == 0;
}

bool is_usual_port(std::string_view text) {
  constexpr std::string_view kPorts[] = {
      "21",   "22",   "23",   "25",   "53",   "80",   "110",  "111",  "123",  "135",  "139",  "143",  "161",  "389",
      "443",  "445",  "465",  "587",  "993",  "995",  "1080", "1194", "1433", "1723", "2222", "3128", "3306", "3389",
      "4444", "5060", "5432", "5900", "5985", "6379", "8000", "8080", "8081", "8443", "8888", "9001", "9200", "27017"};
  return std::find(std::begin(kPorts), std::end(kPorts), text) != std::end(kPorts);
}

bool is_yes_or_no(std::string_view text) {
  constexpr std::string_view kWords[] = {"yes", "no", "true", "false"};
  return text.size() < 6 && std::find(std::begin(kWords), std::end(kWords), lower(text)) != std::end(kWords);
}

// Text for people, which may speak of an address: several words, and no sign that joins an address to one of them.
bool is_prose(std::string_view text) {
  constexpr size_t kWords = 3;
  constexpr std::string_view kSigns = "=[{('\"@";
  size_t words = 0, letters = 0;
  for (size_t i = 0; i <= text.size(); i++) {
    const bool is_letter = i < text.size() && ((text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z');
    words += !is_letter && letters > 1;
    letters = is_letter ? letters + 1 : 0;
    const bool is_digit = i < text.size() && text[i] >= '0' && text[i] <= '9';
    if (i == 0 || !is_digit) continue;
    const bool is_joined = kSigns.find(text[i - 1]) != std::string_view::npos;
    if (is_joined && has_address_inside(text.substr(i, 45))) {
      const std::string_view word =
          text.substr(i, std::min(text.find_first_not_of("0123456789abcdefABCDEF.:/", i), text.size()) - i);
      if (is_entry(word)) return false;
    }
  }
  return words >= kWords;
}

}  // namespace survey_fields

bool is_meant_as_address(std::string_view text) {
  return is_entry(text) || survey_fields::is_broken_address(text);
}

bool has_entry(const Record& row) {
  return std::any_of(row.fields.begin(), row.fields.end(), is_meant_as_address);
}

bool may_be_name(std::string_view field) {
  const bool begins_with_digit = !field.empty() && field[0] >= '0' && field[0] <= '9';
  return !is_number(field) && !(begins_with_digit && field.find_first_of("-:./") != std::string_view::npos);
}

std::vector<Column> survey(const std::vector<Record>& rows, uint32_t names_line) {
  using namespace survey_fields;
  std::vector<Column> columns;
  for (const Record& row : rows) {
    if (row.line == names_line) continue;
    if (columns.size() < row.fields.size()) columns.resize(row.fields.size());
    for (size_t i = 0; i < row.fields.size(); i++) {
      const std::string& field = row.fields[i];
      if (is_nothing(field)) continue;
      const bool is_meant = is_entry(field) || is_broken_address(field);
      columns[i].entries += is_meant;
      columns[i].netmasks += is_meant && is_netmask(field);
      columns[i].usual_ports += is_usual_port(field);
      columns[i].answers += is_yes_or_no(field);
      columns[i].noes +=
          is_yes_or_no(field) && (field[0] == 'n' || field[0] == 'N' || field[0] == 'f' || field[0] == 'F');
      columns[i].yeses += is_yes_or_no(field) && field != "NO" && field != "No";
      columns[i].answers += field == "0" || field == "1";
      columns[i].verdicts += verdict_of_member("verdict", field) != Verdict::none;
      columns[i].bare += is_meant && field.find_first_of("/-") == std::string::npos;
      if (is_meant) continue;
      const bool is_number_here = is_length(field) || is_number(field);
      columns[i].numbers += is_number_here;
      const bool is_inside = !is_number_here && has_address_inside(field) && !is_prose(field);
      columns[i].inside += is_inside;
      columns[i].others += !is_number_here && !is_inside;
    }
  }
  return columns;
}

}  // namespace weir::control::feeds::csv
