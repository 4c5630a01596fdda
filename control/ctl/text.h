#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Output for people.
namespace weir::control::ctl {

std::string count(uint64_t n);                     // 1,234,567
std::string bytes(uint64_t n);                     // 512 B, 12.3 MiB
std::string milliseconds(double ms);               // 0.42 ms, 812 ms, 3.1 s
std::string percent(double fraction);              // 0.42 %
std::string duration(uint64_t seconds);            // 12 s, 3 min, 2 h, 5 days
std::string age(int64_t unix_s);                   // 12 s ago, 3 min ago, 2 h ago, 5 days ago; never
std::string plural(uint64_t n, const char* noun);  // 1 list, 12 lists
std::string plural(uint64_t n, const char* singular, const char* several);  // 1 entry, 3,401 entries

// Columns as wide as their widest cell; two blanks between them. Numbers to the right.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    const char* title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Control characters become `?`: texts are anybody's, terminals obey them.
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace weir::control::ctl
