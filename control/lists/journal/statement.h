#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/result.h"

struct sqlite3;
struct sqlite3_stmt;

// SQLite with owners and Results.
namespace weir::control {

struct CloseDatabase {
  void operator()(sqlite3* database) const;
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

struct EndStatement {
  void operator()(sqlite3_stmt* statement) const;
};

// "journal: disk I/O error", as the library tells it.
Error database_error(sqlite3* database);

// One statement, prepared once. Columns and parameters count from 1.
class Statement {
 public:
  static Result<Statement> prepare(const Database& database, const char* sql);
  Statement() = default;

  Statement& bind(int parameter, int64_t value);
  Statement& bind(int parameter, const std::string& value);  // which stays until reset()
  Statement& bind_null(int parameter);

  // Whether there is a row. After the last one, and after an error, the statement is ready to be bound anew.
  Result<bool> step();
  Result<void> run();  // of one that has no rows
  void reset();

  int64_t integer(int column) const;
  std::string text(int column) const;

 private:
  std::unique_ptr<sqlite3_stmt, EndStatement> statement_;
};

}  // namespace weir::control
