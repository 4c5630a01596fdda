#pragma once

#include <string>
#include <vector>

#include "control/tell/answer/text.h"

// Output for people.
namespace weir::control::ctl {

std::vector<std::string> lines_of(const std::string& text);  // without their ends

// An error with its hint, for the line of a log.
std::string one_line(std::string text);

// Columns as wide as their widest cell; two blanks between them. Numbers to the right. Cells are printable(). On a
// narrow terminal, columns that say nothing are left out, texts are folded, and then the last columns are left out.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    const char* title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text() const;                     // as wide as the terminal
  std::string text(size_t most_columns) const;  // 0: any

 private:
  size_t width_of(size_t column) const;
  bool says_something(size_t column) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace weir::control::ctl
