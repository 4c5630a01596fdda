#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/base/json/json.h"

// What controld is asked, and what every answer has.
namespace weir::control {

struct Request {
  std::string command;
  std::optional<std::string> key = {};        // explain
  std::optional<std::string> name = {};       // list, accept, fetch, add, del, flush, entries, export, drops
  std::optional<bool> on = {};                // bypass
  std::optional<std::string> interface = {};  // detach
  std::optional<std::string> action = {};     // add, del
  std::vector<std::string> entries = {};      // add, del
  std::optional<uint32_t> ttl = {};           // add
  std::optional<std::string> comment = {};    // add
  std::vector<uint64_t> ttls = {};            // add
  std::vector<std::string> comments = {};     // add
  std::optional<std::string> after = {};      // entries, export, drops
  std::optional<uint32_t> confirm = {};       // reload
  std::optional<uint64_t> number = {};        // rollback, explain
  std::optional<int64_t> at = {};             // explain
  std::optional<bool> verbose = {};           // explain
  std::optional<std::string> policy = {};     // plan, shadow-begin
  std::optional<std::string> path = {};       // plan, shadow-begin
  std::optional<std::string> file = {};       // plan
  std::optional<std::string> url = {};        // plan
  std::optional<bool> force = {};             // reload
  std::optional<uint32_t> one_in = {};        // shadow-begin
  std::optional<bool> follow = {};            // drops
  std::optional<std::string> filter = {};     // drops
  std::optional<std::string> frame = {};      // explain
};
void members(Fields& f, Request& request);

// Of every answer.
struct Head {
  std::string version = WEIR_VERSION;
  std::string error;  // empty: none
};
void members(Fields& f, Head& head);

// One line: the members of the answer, and the version of the program.
template <class Answer>
std::string answer_line(const Answer& answer) {
  Document::Writer writer;
  members(writer.fields(), const_cast<Answer&>(answer));  // a Writer changes nothing
  Head head;
  members(writer.fields(), head);
  return writer.take().line();
}

std::string failure_line(const std::string& error);

}  // namespace weir::control
