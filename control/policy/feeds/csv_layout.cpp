#include "control/policy/feeds/csv_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/policy/feeds/csv_text.h"
#include "control/policy/feeds/take.h"

namespace weir::control::feeds::csv {
namespace layout {

constexpr size_t kMostDoubts = 8;

bool names_address(std::string_view field) {
  const auto named = field_named(field);
  return named && named->part == Part::address;
}

class Planner {
 public:
  Planner(const Rows& rows, char separator, const Options& options) : rows_(rows.rows), options_(options) {
    layout_.separator = separator;
    names_in_comment_ = comment_names(rows.comment);
  }

  Layout plan() {
    for (const char* part : kPartNames) {
      const std::string_view wanted = find_setting(options_.settings, part);
      if (wanted.empty() || wanted == "none") continue;
      has_setting_ = true;
      has_name_ |= !is_number(wanted);
    }
    find_names();
    columns_ = survey(rows_, layout_.names_line);
    columns_.resize(std::max(columns_.size(), layout_.names.size()));
    layout_.are_verdicts.resize(columns_.size());
    for (size_t i = 0; i < columns_.size(); i++) {
      const Column& held = columns_[i];
      layout_.are_verdicts[i] =
          held.verdicts > 0 && held.verdicts * 10 >= held.others * 6 && held.entries + held.numbers == 0;
    }
    if (has_setting_) {
      plan_by_settings();
    } else {
      plan_by_rows();
    }
    return std::move(layout_);
  }

 private:
  // --- names ---

  // Of as many columns as the first row has. Empty: the comment names none.
  std::vector<std::string> comment_names(const std::string& comment) const {
    std::vector<std::string> names;
    if (rows_.empty() || comment.empty() || !split(comment, layout_.separator, names)) return {};
    const std::vector<std::string>& first = rows_.front().fields;
    if (names.size() != first.size() || names.size() < 2) return {};
    const std::string wanted = lower(find_setting(options_.settings, kPartNames[0]));
    bool has_address = false;
    for (size_t i = 0; i < names.size(); i++) {
      if (!names_address(names[i]) && lower(names[i]) != wanted) continue;
      has_address = true;
      if (names_address(first[i]) || lower(first[i]) == lower(names[i])) return {};  // the row does so itself
    }
    return has_address ? names : std::vector<std::string>();
  }

  bool is_wanted_name(const Record& row) const {
    return std::any_of(std::begin(kPartNames), std::end(kPartNames), [&](const char* part) {
      const std::string wanted = lower(find_setting(options_.settings, part));
      return !wanted.empty() && !is_number(wanted) && wanted != "none" &&
             std::any_of(row.fields.begin(), row.fields.end(),
                         [&](const auto& field) { return lower(field) == wanted; });
    });
  }

  // The first row before the entries that has a known name, else the first row when it is all words.
  void find_names() {
    if (!names_in_comment_.empty() && (has_name_ || !has_setting_)) {
      layout_.names = names_in_comment_;
      return;
    }
    const Record* found = nullptr;
    for (const Record& row : rows_) {
      if (has_entry(row) && !is_wanted_name(row)) break;
      const bool may_be = std::all_of(row.fields.begin(), row.fields.end(), may_be_name);
      if (is_wanted_name(row) || (may_be && names_an_address(row))) {
        found = &row;
        break;
      }
    }
    if (found == nullptr && rows_.size() > 1 && is_all_words(rows_.front())) found = &rows_.front();
    if (found == nullptr) return;
    layout_.names = found->fields;
    layout_.names_line = found->line;
  }

  // `ip` in a column where other rows have `ip`, too, names nothing.
  bool names_an_address(const Record& row) const {
    for (size_t i = 0; i < row.fields.size(); i++) {
      if (!names_address(row.fields[i])) continue;
      const auto has_it = [&](const Record& other) {
        return other.line != row.line && i < other.fields.size() && other.fields[i] == row.fields[i];
      };
      if (std::none_of(rows_.begin(), rows_.end(), has_it)) return true;
    }
    return false;
  }

  // A row of names that nobody knows has neither numbers nor addresses nor hosts in it.
  bool is_all_words(const Record& row) const {
    const auto next = std::find_if(rows_.begin() + 1, rows_.end(), has_entry);
    return next != rows_.end() && row.fields.size() == next->fields.size() &&
           std::all_of(row.fields.begin(), row.fields.end(), [](const std::string& field) {
             return !is_nothing(field) && field.find_first_of(".:/@") == std::string::npos &&
                    (field[0] < '0' || field[0] > '9') && !has_address_inside(field);
           });
  }

  std::string name_of(size_t column) const {
    return column < layout_.names.size() ? layout_.names[column] : std::string();
  }
  std::string shown(size_t column) const {
    constexpr size_t kShown = 40;
    const std::string name = name_of(column);
    return name.empty() ? fmt::format("{}", column + 1) : fmt::format("`{}`", shortened(name, kShown));
  }
  std::optional<FieldName> named(size_t column) const {
    return column < layout_.names.size() ? field_named(layout_.names[column]) : std::nullopt;
  }

  // --- by settings ---

  void plan_by_settings() {
    for (size_t part = 0; part < kParts; part++) {
      const std::string_view wanted = find_setting(options_.settings, kPartNames[part]);
      if (wanted.empty() || wanted == "none") continue;
      if (is_number(wanted) && wanted.size() < 4) {
        column(static_cast<Part>(part)) = std::stoul(std::string(wanted)) - 1;  // 0: there is none
        continue;
      }
      const auto found = std::find_if(layout_.names.begin(), layout_.names.end(),
                                      [&](const std::string& name) { return lower(name) == lower(wanted); });
      if (found == layout_.names.end()) {
        const std::string row = rows_.empty() ? std::string("no row")
                                              : fmt::format("line {}: {}", rows_.front().line, row_text(rows_.front()));
        layout_.fault =
            FeedFault{fmt::format("has no column `{}` (`format: csv`, {}), by {}", wanted, kPartNames[part], row),
                      "name a column of the first row, or give its number"};
        return;
      }
      column(static_cast<Part>(part)) = static_cast<size_t>(found - layout_.names.begin());
    }
    if (has_name_ || layout_.names_line != 0 || rows_.empty()) return;
    // Numbers alone: the first row may have names that nobody knows.
    if (rows_.size() > 1 && is_all_words(rows_.front())) layout_.names_line = rows_.front().line;
  }

  std::optional<size_t>& column(Part part) { return layout_.columns[static_cast<size_t>(part)]; }

  static std::string row_text(const Record& row) {
    constexpr size_t kShown = 120;
    std::string all;
    for (const std::string& field : row.fields) all += (all.empty() ? "" : ", ") + field;
    return shortened(all, kShown);
  }

  // --- by what rows and names say ---

  void plan_by_rows() {
    if (rows_.empty()) return;
    is_error();
    if (layout_.fault) return;
    std::vector<size_t> candidates;
    for (size_t i = 0; i < columns_.size(); i++) {
      const auto name = named(i);
      const bool is_meant = name && name->part == Part::address && has_addresses(i) && !has_netmasks(i);
      if (is_meant) candidates.push_back(i);
    }
    // A prefix length may stand below `cidr`.
    if (candidates.empty()) return choose_by_content();
    const size_t chosen = candidates.front();
    for (const size_t other : candidates) {
      if (other != chosen && !is_end_of(chosen, other)) return refuse_two(chosen, other);
    }
    take(chosen);
    if (layout_.fault) return;
    note_others(chosen);
  }

  // All addresses in it are netmasks.
  bool has_netmasks(size_t column) const {
    return columns_[column].entries > 0 && columns_[column].netmasks == columns_[column].entries;
  }

  // A column of entries, or one that no row contradicts.
  bool has_addresses(size_t column) const {
    const Column& held = columns_[column];
    return held.entries > 0 || (held.numbers == 0 && held.others + held.inside == 0);
  }

  bool is_end_of(size_t address, size_t column) const {
    const auto name = named(column), first = named(address);
    return name && first && name->part == Part::last;
  }

  void choose_by_content() {
    const size_t rows = rows_.size() - (layout_.names_line != 0 ? 1 : 0);
    std::optional<size_t> best, second, inside;
    for (size_t i = 0; i < columns_.size(); i++) {
      const Column& one = columns_[i];
      if (has_netmasks(i)) continue;
      if (one.entries > 0 && (!best || one.entries > columns_[*best].entries)) {
        if (best && is_much(columns_[*best].entries, rows)) second = best;
        best = i;
      } else if (one.entries > 0 && is_much(one.entries, rows)) {
        second = i;
      }
    }
    for (size_t i = 0; best && i < columns_.size(); i++) {
      if (columns_[i].inside * 2 > columns_[*best].entries) inside = i;
    }
    if (!best) {
      layout_.names.clear();
      layout_.names_line = 0;
      return;
    }
    if (second) return refuse_two(std::min(*best, *second), std::max(*best, *second));
    if (inside) {
      layout_.fault =
          FeedFault{fmt::format("has addresses among other text in column {}, and addresses in column {}: {}",
                                shown(*inside), shown(*best), row_text(row_with(*best))),
                    "say that one column is meant: " + setting_of(layout_, Part::address, *best)};
      return;
    }
    if (names_bystander(name_of(*best))) {
      layout_.fault =
          FeedFault{fmt::format("has addresses in column {} alone, whose name is that of somebody else", shown(*best)),
                    "say that they are meant: " + setting_of(layout_, Part::address, *best)};
      return;
    }
    layout_.is_by_content = true;
    take(*best);
  }

  // One of ten is no accident; of a few rows, one is not.
  static bool is_much(size_t entries, size_t rows) { return rows < 10 || entries * 10 >= rows; }

  const Record& row_with(size_t column) const {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Record& row) {
      return row.line != layout_.names_line && column < row.fields.size() && is_entry(row.fields[column]);
    });
    return found == rows_.end() ? rows_.front() : *found;
  }

  void refuse_two(size_t one, size_t other) {
    const std::string first = setting_of(layout_, Part::address, one);
    layout_.fault =
        FeedFault{fmt::format("has two columns of addresses, {} and {}, and nothing says which is meant; line {}: {}",
                              shown(one), shown(other), row_with(one).line, row_text(row_with(one))),
                  fmt::format("say which: {}, or {}; ranges are `format: {{csv: {{address: {}, last: {}}}}}`", first,
                              setting_of(layout_, Part::address, other), value_of(one), value_of(other))};
  }

  std::string value_of(size_t column) const {
    const std::string name = name_of(column);
    return name.empty() ? fmt::format("{}", column + 1) : shortened(name, 40);
  }

  // The address is decided.
  void take(size_t address) {
    column(Part::address) = address;
    const auto name = named(address);
    find_last(address);
    if (layout_.fault) return;
    find_port(address, name ? name->side : FieldName::any);
    look_for_doubts(address);
    if (layout_.fault) return;
    find_length(address, name && name->is_network);
    const bool is_open_range = name && name->begins_range && !column(Part::last) && !column(Part::length);
    if (!layout_.fault && is_open_range && columns_[address].bare > 0) {
      layout_.fault = FeedFault{
          fmt::format("has the beginnings of ranges in column {}, and none of their ends", shown(address)),
          fmt::format("name the end: `format: {{csv: {{address: {}, last: COLUMN}}}}`; or say that they are hosts: {}",
                      value_of(address), setting_of(layout_, Part::address, address))};
    }
  }

  void find_last(size_t address) {
    for (size_t i = 0; i < columns_.size(); i++) {
      const auto name = named(i);
      const bool is_empty = columns_[i].numbers + columns_[i].others + columns_[i].inside == 0;
      const bool may_be = i != address && name && name->part == Part::last && (columns_[i].entries > 0 || is_empty);
      if (!may_be) continue;
      if (column(Part::last)) return refuse_two(*column(Part::last), i);
      column(Part::last) = i;
    }
  }

  void find_port(size_t address, FieldName::Side side) {
    if (find_setting(options_.settings, "port") == "none") return;
    std::optional<size_t> own, unsure;
    for (size_t i = 0; i < columns_.size(); i++) {
      const auto name = named(i);
      if (!name || name->part != Part::port) continue;
      const bool is_own = side != FieldName::any && name->side == side;
      const bool is_others = name->side != FieldName::any && side != FieldName::any && name->side != side;
      if (is_own || (side == FieldName::destination && name->side == FieldName::any)) {
        if (!own) own = i;
      } else if (!is_others && !unsure) {
        unsure = i;
      }
    }
    if (own) {
      column(Part::port) = own;
    } else if (unsure && options_.directions != WEIR_AS_SOURCE) {
      column(Part::port) = unsure;
    } else if (unsure && columns_[*unsure].numbers > 0) {
      if (side == FieldName::any && tells_of_server()) {
        column(Part::port) = unsure;
        return;
      }
      layout_.fault = FeedFault{
          fmt::format("has ports in column {}: of the hosts in {}, or those that they attacked", shown(*unsure),
                      shown(address)),
          fmt::format(
              "say so: `format: {{csv: {{address: {0}, port: {1}}}}}`, or `format: {{csv: {{address: {0}, port: "
              "none}}}}`",
              value_of(address), value_of(*unsure))};
    }
  }

  // Columns without a name that is known: of ports, or of answers to a question that nobody tells.
  void look_for_doubts(size_t address) {
    for (size_t i = 0; i < columns_.size() && !layout_.fault; i++) {
      if (i == address || named(i)) continue;
      const Column& held = columns_[i];
      const bool is_known = !name_of(i).empty() && rules_out_length(name_of(i));
      if (!is_known && held.numbers > 0 && held.usual_ports * 2 > held.numbers &&
          find_setting(options_.settings, "port").empty()) {
        layout_.fault = FeedFault{
            fmt::format(
                "has numbers in column {} that look like ports: of the hosts in column {}, attacked ones, or none",
                shown(i), shown(address)),
            fmt::format(
                "say so: `format: {{csv: {{address: {0}, port: {1}}}}}`, or `format: {{csv: {{address: {0}, port: "
                "none}}}}`",
                value_of(address), value_of(i))};
      }
      const bool is_answer = name_of(i).empty() && held.noes > 0 && held.yeses > 0 &&
                             held.answers * 10 >= (held.others + held.numbers) * 7 && held.entries == 0;
      if (is_answer && !layout_.fault) {
        layout_.fault = FeedFault{
            fmt::format("says yes or no in column {}, and nothing says to which question", shown(i)),
            fmt::format("take the rows that are meant into a list of their own; or say that all are meant: {}",
                        setting_of(layout_, Part::address, address))};
      }
    }
  }

  // Lists of servers have their ports: those of botnets, proxies and the like.
  bool tells_of_server() const {
    const bool is_attack = std::any_of(layout_.names.begin(), layout_.names.end(),
                                       [](const std::string& name) { return tells_of_attack(name); });
    if (is_attack) return false;
    const auto tells = [](const std::string& text) { return feeds::tells_of_server(text); };
    if (std::any_of(layout_.names.begin(), layout_.names.end(), tells)) return true;
    const std::vector<std::string>& last = rows_.back().fields;
    return std::any_of(last.begin(), last.end(), tells);
  }

  void find_length(size_t address, bool is_network) {
    std::optional<FieldName> best;
    for (size_t i = 0; i < columns_.size(); i++) {
      const auto name = named(i);
      if (i == address || !name || name->part != Part::length || (best && best->rank <= name->rank)) continue;
      best = name;
      column(Part::length) = i;
    }
    if (best && best->is_vague) layout_.length_column = LengthColumn::vague;
    for (size_t i = 0; i < columns_.size() && !best && !column(Part::last); i++) {
      if (i == address || !has_netmasks(i) || column(Part::length)) continue;
      column(Part::length) = i;  // whatever it is called
      layout_.length_column = LengthColumn::of_masks;
    }
    if (best || column(Part::last) || column(Part::length)) return;
    for (size_t i = 0; i < columns_.size(); i++) {
      if (i == address || i == column(Part::port)) continue;
      const Column& held = columns_[i];
      if (held.numbers == 0 && !(held.entries == 0 && held.others == 0)) continue;
      if (may_name_length(name_of(i))) {
        column(Part::length) = i;
        layout_.length_column = LengthColumn::of_numbers;
        layout_.maybe_lengths.clear();
        return;
      }
      if (held.numbers > 0 && counts_addresses(name_of(i), is_network) && columns_[address].bare > 0) {
        layout_.fault = FeedFault{
            fmt::format("has addresses in column {} and numbers of addresses in column {}, which are not read",
                        shown(address), shown(i)),
            fmt::format("take the list with ranges or prefixes; or say that they are hosts: {}",
                        setting_of(layout_, Part::address, address))};
        return;
      }
      const bool is_named = !name_of(i).empty();
      if (held.numbers > 0 && !(is_named && rules_out_length(name_of(i))) &&
          layout_.maybe_lengths.size() < kMostDoubts) {
        layout_.maybe_lengths.push_back(i);
      }
    }
  }

  // Of columns that nobody reads.
  void note_others(size_t address) {
    const size_t rows = rows_.size() - (layout_.names_line != 0 ? 1 : 0);
    for (size_t i = 0; i < columns_.size(); i++) {
      if (i == address || i == column(Part::last) || i == column(Part::length)) continue;
      // Beside victims, the addresses of any other column may be those of the list.
      const bool is_of_victims = named(address)->side == FieldName::destination;
      const bool has_many = columns_[i].entries * 2 > rows || (is_of_victims && is_much(columns_[i].entries, rows));
      if (columns_[i].entries == 0 || !has_many) continue;
      const auto last = column(Part::last);
      const bool may_be_an_end = are_near(address, i) || (last && are_near(i, *last));
      if (named(i) || layout_.names.empty() || is_of_victims || may_be_an_end || has_host_masks(i)) {
        return refuse_two(address, i);
      }
      if (!layout_.notes.empty()) continue;  // one is told of
      layout_.notes.push_back(
          {fmt::format("has addresses in column {} too, which are not read: column {} is", shown(i), shown(address)),
           "another column is named like this: " + setting_of(layout_, Part::address, i)});
    }
  }

  // 0.0.0.255: what no length says.
  bool has_host_masks(size_t column) const {
    return std::all_of(rows_.begin(), rows_.end(), [&](const Record& row) {
      const auto mask = column < row.fields.size() ? parse_ipv4(row.fields[column]) : std::nullopt;
      return !mask || (*mask & (*mask + 1)) == 0;
    });
  }

  // Whether a column has addresses that may end ranges: near to those of the other, and not before them.
  bool are_near(size_t address, size_t column) const {
    size_t both = 0, near = 0;
    for (const Record& row : rows_) {
      if (std::max(address, column) >= row.fields.size()) continue;
      const auto first = parse_ipv4(row.fields[address]), last = parse_ipv4(row.fields[column]);
      both += first && last;
      near += first && last && *first <= *last && (*first >> 16) == (*last >> 16);
    }
    return near * 10 >= both * 9;
  }

  // A table of a row or two whose columns are `error` and an address.
  void is_error() {
    constexpr size_t kFew = 3;
    if (rows_.size() > kFew + 1) return;
    for (size_t i = 0; i < layout_.names.size(); i++) {
      const bool says = names_error(layout_.names[i]) && lower(layout_.names[i]).find("err") != std::string::npos &&
                        std::any_of(rows_.begin(), rows_.end(), [&](const Record& row) {
                          return row.line != layout_.names_line && i < row.fields.size() && !is_nothing(row.fields[i]);
                        });
      if (!says) continue;
      layout_.fault = FeedFault{fmt::format("is an error answer, no list: {}", row_text(rows_.back())),
                                "look at what its server says, and at the address of the list"};
      return;
    }
  }

  const std::vector<Record>& rows_;
  const Options& options_;
  std::vector<std::string> names_in_comment_;
  std::vector<Column> columns_;
  bool has_setting_ = false, has_name_ = false;
  Layout layout_;
};

}  // namespace layout

std::string setting_of(const Layout& layout, Part part, size_t column) {
  const std::string name = column < layout.names.size() ? shortened(layout.names[column], 40) : std::string();
  return fmt::format("`format: {{csv: {{{}: {}}}}}`", kPartNames[static_cast<size_t>(part)],
                     name.empty() ? fmt::format("{}", column + 1) : name);
}

Layout layout_of(std::string_view text, bool is_whole, const Options& options) {
  char separator = separator_named(find_setting(options.settings, "separator"));
  if (separator == '\0') separator = choose_separator(text, is_whole);
  const Rows rows = rows_of(text, is_whole, separator);
  if (rows.rows.empty()) return {};
  return layout::Planner(rows, separator, options).plan();
}

}  // namespace weir::control::feeds::csv
