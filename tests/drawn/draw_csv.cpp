#include <fmt/format.h>

#include <algorithm>

#include "tests/drawn/drawing.h"

namespace weir::drawn {
namespace {

// What a column holds.
enum class Holds : uint8_t {
  address,      // what is listed
  last,         // end of the range that the address begins
  length,       // prefix length of the address
  mask,         // netmask of it
  server_port,  // of the listed server
  victim_port,  // that was attacked
  other,        // an address that is not listed: reporter, sensor, victim
  verdict,      // a word
  flag,         // yes or no
  type,         // of the indicator
  score,
  date,
  text,
  country,
  url,
};

struct Name {
  const char* known;    // that English people give it
  const char* unknown;  // in another language, or made up
};

Name name_of(Choices& random, Holds holds) {
  constexpr Name kAddress[] = {{"ip", "Adresse"},
                               {"src_ip", "quelle"},
                               {"IP Address", "adr"},
                               {"address", "col1"},
                               {"ipaddress", "direcci\xc3\xb3n"},
                               {"ip_address", "objet"},
                               {"source_ip", "x"},
                               {"indicator", "wert"}};
  constexpr Name kLast[] = {
      {"end_ip", "bis"}, {"end", "fin"}, {"ip_end", "letzte"}, {"last_ip", "high"}, {"ip_to", "broadcast"}};
  constexpr Name kLength[] = {{"prefixlen", "l\xc3\xa4nge"}, {"prefix_length", "lg"}, {"masklen", "pl"}};
  constexpr Name kMask[] = {{"netmask", "maske"}, {"mask", "m"}, {"subnet_mask", "nm"}};
  constexpr Name kOther[] = {
      {"reporter", "melder"}, {"sensor", "f\xc3\xbchler"}, {"observer.ip", "b"},   {"victim_ip", "ziel"},
      {"dst_ip", "da"},       {"destination_ip", "dest"},  {"reported_by", "von"}, {"gateway", "gw"},
      {"server", "serveur"}};
  constexpr Name kVerdict[] = {
      {"action", "aktion"}, {"verdict", "urteil"}, {"status", "stato"}, {"list", "liste"}, {"type", "typ"}};
  constexpr Name kFlag[] = {{"enabled", "aktiv"}, {"active", "actif"}, {"to_ids", "ids"}};
  switch (holds) {
    case Holds::address:
      return random.of(kAddress);
    case Holds::last:
      return random.of(kLast);
    case Holds::length:
      return random.of(kLength);
    case Holds::mask:
      return random.of(kMask);
    case Holds::server_port:
      return {"dst_port", "pt"};
    case Holds::victim_port:
      return {"dst_port", "pt"};
    case Holds::other:
      return random.of(kOther);
    case Holds::verdict:
      return random.of(kVerdict);
    case Holds::flag:
      return random.of(kFlag);
    case Holds::type:
      return {"indicator_type", "art"};
    case Holds::score:
      return random.below(2) == 0 ? Name{"score", "punkte"} : Name{"reports", "anzahl"};
    case Holds::date:
      return {"first_seen", "zeit"};
    case Holds::country:
      return {"country", "land"};
    case Holds::url:
      return {"url", "adresse_www"};
    case Holds::text:
      return {"comment", "bemerkung"};
  }
  return {"comment", "bemerkung"};
}

enum class Header : uint8_t { known, unknown, none, in_comment };

struct Table {
  std::vector<Holds> columns;
  std::vector<std::string> names;
  Header header = Header::known;
  char separator = ',';
  bool is_quoted = false;

  bool has(Holds holds) const { return std::find(columns.begin(), columns.end(), holds) != columns.end(); }
};

std::string quoted(const Table& table, const std::string& field) {
  const bool needs = field.find_first_of(std::string{table.separator, '"', '\n'}) != std::string::npos;
  if (!needs && !table.is_quoted) return field;
  std::string all = "\"";
  for (const char c : field) all += c == '"' ? "\"\"" : std::string(1, c);
  return all + "\"";
}

std::string row_of(const Table& table, const std::vector<std::string>& fields) {
  std::string row;
  for (size_t i = 0; i < fields.size(); i++) {
    row += (i == 0 ? "" : std::string(1, table.separator)) + quoted(table, fields[i]);
  }
  return row;
}

Table draw_table(Choices& random) {
  constexpr char kSeparators[] = {',', ';', '\t', '|'};
  constexpr Holds kHarmless[] = {Holds::score, Holds::date, Holds::text, Holds::country};
  constexpr Holds kMeant[] = {Holds::last,  Holds::length,  Holds::mask, Holds::server_port, Holds::victim_port,
                              Holds::other, Holds::verdict, Holds::flag, Holds::type,        Holds::url};
  Table table;
  table.separator = random.of(kSeparators);
  table.is_quoted = random.one_in(5);
  const uint32_t header = random.below(8);
  table.header = header < 4    ? Header::known
                 : header == 4 ? Header::in_comment
                 : header == 5 ? Header::unknown
                               : Header::none;
  table.columns = {Holds::address};
  const uint32_t n = 1 + random.below(4);
  for (uint32_t i = 0; i < n; i++) {
    const Holds one = random.of(kHarmless);
    if (!table.has(one)) table.columns.push_back(one);
  }
  const uint32_t n_meant = random.below(8) < 4 ? 0 : 1 + random.below(2);
  for (uint32_t i = 0; i < n_meant; i++) {
    const Holds one = random.of(kMeant);
    const bool is_end = one == Holds::last || one == Holds::length || one == Holds::mask;
    const bool has_end = table.has(Holds::last) || table.has(Holds::length) || table.has(Holds::mask);
    const bool is_port = one == Holds::server_port || one == Holds::victim_port;
    const bool has_port = table.has(Holds::server_port) || table.has(Holds::victim_port);
    if (table.has(one) || (is_end && (has_end || has_port)) || (is_port && (has_port || has_end))) continue;
    table.columns.push_back(one);
  }
  for (size_t i = table.columns.size(); i > 1; i--) {
    std::swap(table.columns[i - 1], table.columns[random.below(static_cast<uint32_t>(i))]);
  }
  for (const Holds holds : table.columns) {
    const Name name = name_of(random, holds);
    table.names.push_back(table.header == Header::unknown ? name.unknown : name.known);
    if (holds == Holds::address && table.has(Holds::last) && table.header != Header::unknown) {
      const bool is_plain = random.below(3) > 0;
      table.names.back() = is_plain ? "start_ip" : "ip";
    }
    if (holds == Holds::address && table.has(Holds::server_port) && table.header != Header::unknown) {
      table.names.back() = "dst_ip";
    }
    if (holds == Holds::address && table.has(Holds::victim_port) && table.header != Header::unknown) {
      table.names.back() = "src_ip";
    }
  }
  return table;
}

std::string filler(Choices& random, const Table& table, Holds holds, Drawing& drawing) {
  switch (holds) {
    case Holds::score:
      return std::to_string(1 + random.below(100));
    case Holds::date:
      return fmt::format("2026-11-{:02} 08:00:00", 1 + random.below(27));
    case Holds::country: {
      constexpr const char* kCountries[] = {"DE", "NO", "US", "ZZ", ""};
      return random.of(kCountries);
    }
    case Holds::url:
      return fmt::format("http://198.51.100.{}/x{}", random.below(256), table.separator);
    case Holds::text: {
      constexpr const char* kTexts[] = {"ssh bruteforce", "", "a, b; c", "seen 3 times", "19\" rack", "spam|scan", "x"};
      return random.of(kTexts);
    }
    case Holds::other:
      drawing.begin("second column of addresses");
      return to_string(drawing.host4());
    default:
      return "x";
  }
}

// The row of one item.
std::string draw_row(Drawing& drawing, const Table& table) {
  Choices& random = drawing.random;
  std::vector<std::string> fields(table.columns.size());
  for (size_t i = 0; i < fields.size(); i++) fields[i] = filler(random, table, table.columns[i], drawing);
  const auto set = [&](Holds holds, const std::string& text) {
    for (size_t i = 0; i < fields.size(); i++) {
      if (table.columns[i] == holds) fields[i] = text;
    }
  };

  const bool is_off =
      (table.has(Holds::verdict) || table.has(Holds::flag) || table.has(Holds::type)) && random.one_in(4);
  const uint32_t flaw = random.below(24);
  std::string kind = "row";
  for (const Holds holds : {Holds::last, Holds::length, Holds::mask, Holds::server_port, Holds::victim_port}) {
    if (!table.has(holds)) continue;
    constexpr const char* kKinds[] = {
        "", "column of ends", "column of lengths", "column of netmasks", "port of a server", "port of a victim"};
    kind = kKinds[static_cast<size_t>(holds)];
  }
  if (is_off) kind = table.has(Holds::type) ? "row of another type" : "row with a verdict";
  if (flaw >= 22) kind = flaw == 22 ? "bad address" : "no address";
  drawing.begin(kind + (table.header == Header::known        ? ", known names"
                        : table.header == Header::in_comment ? ", names in a comment"
                        : table.header == Header::unknown    ? ", unknown names"
                                                             : ", no names"));
  bool is_type = table.has(Holds::type) && is_off, is_verdict = false, is_flag = false;
  if (is_off && !is_type) {
    is_verdict = table.has(Holds::verdict) && (!table.has(Holds::flag) || random.below(2) == 0);
    is_flag = !is_verdict;
  }
  constexpr const char* kYes[] = {"1", "true", "yes"};
  constexpr const char* kNo[] = {"0", "false", "no"};
  set(Holds::verdict, std::string(one_of(random, is_verdict ? kPassWords : kBlockWords)));
  set(Holds::flag, is_flag ? random.of(kNo) : random.of(kYes));
  set(Holds::type, is_type ? "domain" : "ip");

  if (flaw >= 22) {
    set(Holds::address, flaw == 22 ? drawing.bad_entry() : "");
    const bool is_blank = std::all_of(fields.begin(), fields.end(), [](const auto& field) { return field.empty(); });
    // `;DE` is a comment to who reads plain lines.
    const bool is_comment = table.separator == ';' && fields[0].empty() && table.header != Header::known;
    if (!is_blank && !is_comment) drawing.must_count();
    drawing.may_count();
    return row_of(table, fields);
  }
  if (is_type) {
    set(Holds::address, "evil.example");
    drawing.must_count();
    return row_of(table, fields);
  }
  std::vector<Range> ranges;
  if (table.has(Holds::last)) {
    const Ipv4 first = drawing.network4(), last = first + 15 + random.below(200);
    set(Holds::address, to_string(first));
    set(Holds::last, to_string(last));
    ranges = {{first, last, 0, true}};
  } else if (table.has(Holds::length) || table.has(Holds::mask)) {
    constexpr unsigned kBits[] = {24, 24, 25, 28, 16};
    const unsigned bits = random.of(kBits);
    const Range prefix = prefix_of(drawing.network4(), bits);
    set(Holds::address, to_string(static_cast<Ipv4>(prefix.first)));
    set(Holds::length, std::to_string(bits));
    set(Holds::mask, to_string(prefix_mask<Ipv4>(bits)));
    ranges = {prefix};
  } else if (table.has(Holds::server_port) || table.has(Holds::victim_port)) {
    constexpr uint16_t kPorts[] = {443, 8080, 22, 8443};
    const uint16_t port = random.of(kPorts);
    const Ipv4 host = drawing.host4();
    set(Holds::address, to_string(host));
    set(Holds::server_port, std::to_string(port));
    set(Holds::victim_port, std::to_string(port));
    ranges = {{host, host, table.has(Holds::server_port) ? port : uint16_t{0}, true}};
  } else {
    const Written entry = drawing.entry();
    set(Holds::address, entry.text);
    ranges = entry.ranges;
  }
  // Nobody knows what `no` says in a column without a name, or under a foreign one.
  const bool is_known = !is_flag || table.header == Header::known || table.header == Header::in_comment;
  if (is_off && is_known) {
    drawing.must_count();
  } else {
    drawing.accept(ranges);
    // A number without a name is a port to nobody.
    const bool is_named = table.header == Header::known || table.header == Header::in_comment;
    if (table.has(Holds::server_port) && !is_named) drawing.accept({{ranges[0].first, ranges[0].last, 0, true}});
    if (is_off) drawing.accept({});
    if (is_off) drawing.may_count();
  }
  return row_of(table, fields);
}

Document draw_rows(Choices& random) {
  Drawing drawing(random, "csv");
  const Table table = draw_table(random);
  std::string text;
  if (random.one_in(4)) text += "# made today\n#\n";
  if (table.header == Header::in_comment) text += "# " + row_of(table, table.names) + "\n";
  if (table.header == Header::known || table.header == Header::unknown) {
    drawing.begin("names");
    drawing.may_count();  // who reads rows as plain lines counts it
    text += row_of(table, table.names) + "\n";
  }
  const bool has_odd_first = table.header == Header::none && random.one_in(4);
  if (has_odd_first) {
    constexpr const char* kFirst[] = {"-", "evil.example", "", "10.0.0.300", "n/a"};
    drawing.begin("odd first row");
    std::vector<std::string> fields(table.columns.size());
    for (size_t i = 0; i < fields.size(); i++) fields[i] = filler(random, table, table.columns[i], drawing);
    for (size_t i = 0; i < fields.size(); i++) {
      if (table.columns[i] == Holds::address) fields[i] = random.of(kFirst);
    }
    const bool is_blank = std::all_of(fields.begin(), fields.end(), [](const auto& field) { return field.empty(); });
    is_blank || (table.separator == ';' && fields[0].empty()) ? drawing.may_count() : drawing.must_count();
    text += row_of(table, fields) + "\n";
  }
  const uint32_t n = 3 + random.below(random.one_in(30) ? 400 : 12);
  for (uint32_t i = 0; i < n; i++) text += draw_row(drawing, table) + "\n";
  const bool is_plain = !table.has(Holds::last) && !table.has(Holds::length) && !table.has(Holds::mask) &&
                        !table.has(Holds::server_port) && !table.has(Holds::victim_port) && !table.has(Holds::other) &&
                        !table.has(Holds::verdict) && !table.has(Holds::flag) && !table.has(Holds::type);
  const bool is_named = table.header == Header::known;
  const bool is_sure = table.has(Holds::other) || table.has(Holds::victim_port) ? false : is_named;
  if (!is_sure && !(is_plain && table.header != Header::unknown && !table.has(Holds::score) && !has_odd_first)) {
    drawing.doubt();
  }
  if (table.has(Holds::last) || table.has(Holds::verdict) || table.has(Holds::flag) || table.has(Holds::url)) {
    drawing.doubt();
  }
  drawing.document.text = with_line_ends(random, text);
  if (random.one_in(4)) drawing.document.format = "csv";
  if (random.one_in(6) && is_plain) {
    const auto at = std::find(table.columns.begin(), table.columns.end(), Holds::address) - table.columns.begin();
    drawing.document.format = "csv";
    drawing.document.settings = fmt::format("address={}", at + 1);
    if (table.header == Header::known || table.header == Header::unknown) drawing.document.items[1].may_count = 1;
  }
  return drawing.document;
}

// One column with remarks behind commas, rows of addresses alone, rows among plain lines, errors.
Document draw_ragged(Choices& random) {
  Drawing drawing(random, "csv");
  drawing.doubt();
  const uint32_t what = random.below(5);
  constexpr char kSeparators[] = {',', ';', '\t', '|'};
  const char separator = random.of(kSeparators);
  std::string text;
  const uint32_t n = 3 + random.below(8);
  for (uint32_t i = 0; i < n; i++) {
    constexpr const char* kKinds[] = {"remarks of any number", "several addresses a row", "rows among plain lines",
                                      "address in either column", "error in a table"};
    drawing.begin(kKinds[what]);
    if (what == 4) {
      text = fmt::format("error{0}ip\nquota exceeded{0}{1}\n", separator, to_string(drawing.host4()));
      drawing.document.must_refuse = true;
      break;
    }
    const Written entry = drawing.entry();
    std::vector<Range> ranges = entry.ranges;
    std::string row = entry.text;
    if (what == 0) {
      constexpr const char* kBehind[] = {"spam", "spam, scan", "", "x,y,z", "2026-11-27,8"};
      row += (random.one_in(5) ? "" : std::string(1, separator)) + random.of(kBehind);
      if (row.size() > entry.text.size() && row[entry.text.size()] != separator) row = entry.text;
    } else if (what == 1) {
      const uint32_t more = 1 + random.below(3);
      for (uint32_t k = 0; k < more; k++) {
        const Written next = drawing.host();
        row += (random.one_in(2) ? std::string(1, separator) + " " : std::string(1, separator)) + next.text;
        ranges.push_back(next.ranges[0]);
      }
    } else if (what == 2) {
      if (random.one_in(2)) row += std::string(1, separator) + "x";
    } else {
      row = random.one_in(2) ? row + separator + "x" : std::string("cdn.example") + separator + row;
    }
    drawing.accept(ranges);
    text += row + "\n";
  }
  drawing.document.text = with_line_ends(random, text);
  return drawing.document;
}

}  // namespace

Document draw_csv(Choices& random) {
  return random.below(4) == 3 ? draw_ragged(random) : draw_rows(random);
}

}  // namespace weir::drawn
