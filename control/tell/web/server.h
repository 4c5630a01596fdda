#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "common/result.h"
#include "control/base/loop/loop.h"
#include "control/policy/model/listen.h"

// A server answers HTTP for what may be looked at.
namespace weir::control::web {

// ----------------------------------------------------------------------------------------------------------- socket

// A socket of TCP that listens there. Error: why it cannot, and what may be done.
Result<Fd> listen_at(const ListenAddress& address);

// Where a socket listens: the port that it got.
ListenAddress place_of(int socket);

// ----------------------------------------------------------------------------------------------------------- server

struct Request {
  std::string path;
  std::vector<std::pair<std::string, std::string>> arguments;  // of the query, decoded, in their order

  // The first one of this name; null: there is none.
  const std::string* argument(std::string_view name) const;
};

struct Response {
  unsigned status = 200;
  std::string type;  // Content-Type; empty: the route's
  std::string body;
};

// Called once with the answer, by the loop's thread, at once or at any time: also when server or client are gone.
using Reply = std::function<void(Response)>;

struct Route {
  std::string path;  // all of it
  std::string type;  // Content-Type of what it answers
  std::function<void(const Request& request, Reply reply)> answer;
};

struct Limits {
  unsigned connections = 64;  // one more is closed at once
  unsigned connections_of_an_address = 32;
  unsigned silent_s = 10;            // a connection that sends and takes nothing ends
  std::chrono::seconds lasts{60};    // and every other one, whatever it does
  size_t request_bytes = 16 * 1024;  // the head of a request, with what is made of it
  size_t arguments = 16;             // of a query
};

// HTTP/1.1 for what may be looked at: GET and HEAD, one request a connection, nothing that changes anything. Part of a
// loop, which it never holds: it waits for no client, and answers may come later. By libmicrohttpd, which no other
// folder knows.
class Server {
 public:
  // Error: the address cannot be had.
  static Result<std::unique_ptr<Server>> start(Loop& loop, const ListenAddress& address, std::vector<Route> routes,
                                               const Limits& limits);
  static Result<std::unique_ptr<Server>> start(Loop& loop, const ListenAddress& address, std::vector<Route> routes) {
    return start(loop, address, std::move(routes), Limits());
  }
  ~Server();  // who waits for an answer is told that there is none
  Server(const Server&) = delete;

  const ListenAddress& address() const;  // with the port that it got

 private:
  class Implementation;
  explicit Server(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace weir::control::web
