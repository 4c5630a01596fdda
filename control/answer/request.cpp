#include "control/answer/request.h"

namespace weir::control {

void members(Fields& f, Request& request) {
  f.unless_empty({"command", "", "what is wanted"}, request.command);
  f.maybe({"key", "", "explain: an address, or address:port"}, request.key);
  f.maybe({"name", "", "list: only this one; accept: the list whose feed is taken as it is"}, request.name);
  f.maybe({"on", "", "bypass: true or false"}, request.on);
  f.maybe({"interface", "", "detach: only this one"}, request.interface);
}

void members(Fields& f, Head& head) {
  f({"version", "", "of the program that answers"}, head.version);
  f.unless_empty({"error", "", "why the request failed"}, head.error);
}

std::string failure_line(const std::string& error) {
  return write_json(Head{WEIR_VERSION, error}).line();
}

}  // namespace weir::control
