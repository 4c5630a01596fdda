#pragma once

#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Options of a command line as plain rows. parse.h parses them; help, completions and the man page of controlctl read
// them.
namespace weir {

struct Option {
  enum class Completes { nothing, files, interfaces };

  std::string name;        // "--fpr"; "KEY": an argument without a name
  std::string value_name;  // "RATE"; empty: a flag, or an argument
  std::variant<bool*, std::string*, double*, unsigned*, std::vector<std::string>*>
      target;        // holds the default, takes the value
  std::string help;  // one line
  bool is_required = false;
  bool is_argument_too = false;             // the name may be left out
  std::vector<std::string> choices = {};    // empty: any
  std::vector<std::string> suggested = {};  // by completions; others are taken, too
  double low = 0, high = 0;                 // of a number
  Completes completes = Completes::nothing;

  Option& required() { return is_required = true, *this; }
  Option& argument_too() { return is_argument_too = true, *this; }
  Option& one_of(std::vector<std::string> values) { return choices = std::move(values), *this; }
  Option& range(double from, double to) { return low = from, high = to, *this; }
  Option& files() { return completes = Completes::files, *this; }
  Option& interfaces() { return completes = Completes::interfaces, *this; }

  bool is_argument() const { return name.front() != '-'; }
  bool is_flag() const { return std::holds_alternative<bool*>(target); }
  std::string default_text() const;  // empty: none
};

// What a command takes. The targets live as long as it.
class Options {
 public:
  Option& argument(const char* name, std::string& value, const char* help);
  // One or more of them.
  Option& arguments(const char* name, std::vector<std::string>& values, const char* help);
  Option& flag(const char* name, bool& value, const char* help);
  Option& text(const char* name, const char* value_name, std::string& value, const char* help);
  Option& number(const char* name, const char* value_name, double& value, const char* help);
  Option& number(const char* name, const char* value_name, unsigned& value, const char* help);
  // May be given several times.
  Option& texts(const char* name, const char* value_name, std::vector<std::string>& values, const char* help);
  // The first makes sense with the second alone.
  void needs(const char* name, const char* other) { needs_.push_back({name, other}); }
  // Exactly one of these must be given.
  void exactly_one(std::vector<std::string> names) { exactly_one_ = std::move(names); }

  const std::deque<Option>& all() const { return all_; }
  const std::vector<std::pair<std::string, std::string>>& all_needs() const { return needs_; }
  const std::vector<std::string>& one_of_names() const { return exactly_one_; }

 private:
  std::deque<Option> all_;  // a deque: what is returned stays where it is
  std::vector<std::string> exactly_one_;
  std::vector<std::pair<std::string, std::string>> needs_;
};

}  // namespace weir
