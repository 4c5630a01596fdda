#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/result.h"

struct sqlite3;
struct sqlite3_stmt;

// These types give the journal its database: owners, statements, and one thread at a time.
namespace weir::control {

// SQLite with owners and Results.

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

// Whose turn it is at the journal: one thread's. A thread that changes it goes before all that ask. Recursive.
class Turn {
 public:
  // For one question, or a page of one. Ends with its owner.
  class [[nodiscard]] Held {
   public:
    explicit Held(Turn& turn) : turn_(turn) { turn_.take(false); }
    ~Held() { turn_.leave(); }
    Held(const Held&) = delete;

   private:
    Turn& turn_;
  };

  void begin_change() { take(true); }  // until leave()

  void leave() {
    {
      const std::lock_guard lock(mutex_);
      if (--depth_ != 0) return;
    }
    changed_.notify_all();
  }

 private:
  void take(bool is_change) {
    std::unique_lock lock(mutex_);
    if (depth_ == 0 || owner_ != std::this_thread::get_id()) {
      changes_ += is_change;
      changed_.wait(lock, [&] { return depth_ == 0 && (is_change || changes_ == 0); });
      changes_ -= is_change;
      owner_ = std::this_thread::get_id();
    }
    depth_++;
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::thread::id owner_;  // where depth_ is not 0
  unsigned depth_ = 0;
  unsigned changes_ = 0;  // that wait
};

}  // namespace weir::control
