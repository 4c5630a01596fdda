#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "control/base/json/fields.h"

namespace weir::control {

// Every member of the answers that are added; an object that several answers have is listed once.
class MemberTable {
 public:
  struct Row {
    std::string member, type, unit, meaning;
    bool may_be_missing = false;
  };
  struct Object {
    std::string name;  // of the command whose answer it is, or of the objects in answers: "a shape"
    bool is_answer = false;
    std::vector<Row> rows;
  };

  MemberTable();
  ~MemberTable();

  template <class T>
  void add(const char* command) {
    T value{};
    members(begin(command), value);
    end();
  }
  const std::vector<Object>& objects() const;

 private:
  class Lister;
  Fields& begin(const char* command);
  void end();

  std::unique_ptr<Lister> lister_;
};

// A table of Markdown with the columns answer, member, type, unit and meaning.
std::string markdown(const std::vector<MemberTable::Object>& objects);

}  // namespace weir::control
