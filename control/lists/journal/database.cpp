#include "control/lists/journal/database.h"

#include <sqlite3.h>

namespace weir::control {

void CloseDatabase::operator()(sqlite3* database) const {
  sqlite3_close_v2(database);
}

void EndStatement::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Error database_error(sqlite3* database) {
  return Error{std::string("the journal: ") + (database != nullptr ? sqlite3_errmsg(database) : "out of memory")};
}

Result<Statement> Statement::prepare(const Database& database, const char* sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(database.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return database_error(database.get());
  Statement statement;
  statement.statement_.reset(raw);
  return statement;
}

Statement& Statement::bind(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::bind(int parameter, const std::string& value) {
  sqlite3_bind_text(statement_.get(), parameter, value.data(), static_cast<int>(value.size()), nullptr);
  return *this;
}

Statement& Statement::bind_null(int parameter) {
  sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  const Error error = database_error(sqlite3_db_handle(statement_.get()));
  reset();
  if (code == SQLITE_DONE) return false;
  return error;
}

Result<void> Statement::run() {
  const Result<bool> row = step();
  if (!row) return Error{row.error()};
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column - 1);
}

std::string Statement::text(int column) const {
  const unsigned char* bytes = sqlite3_column_text(statement_.get(), column - 1);
  const int n = sqlite3_column_bytes(statement_.get(), column - 1);
  return bytes == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

}  // namespace weir::control
