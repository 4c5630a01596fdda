#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/unix_socket.h"
#include "control/answer/request.h"

namespace weir::control {

// The Unix socket of controld: one JSON object line in, one out, then the connection ends. Only the own uid and root
// may speak.
class ApiServer {
 public:
  static constexpr size_t kMaxRequestBytes = 64 * 1024;  // requests are a command and a key
  static constexpr int kMaxConnections = 16;             // one thread each; the next ones wait in the backlog
  static constexpr int kClientMs = 5000;                 // to send a request, and again to take the answer

  using Handler = std::function<std::string(const Request& request)>;  // answers with a line of JSON

  // Replaces a stale socket file. Error: somebody listens there. handler is called from kMaxConnections threads.
  static Result<std::unique_ptr<ApiServer>> start(const std::string& path, Handler handler, int client_ms = kClientMs);
  ~ApiServer();  // waits for the answers that are being made

 private:
  ApiServer(unix_socket::Listener listener, Handler handler, int client_ms);
  void serve();
  std::string answer(const std::string& line) const;

  unix_socket::Listener listener_;
  const Handler handler_;
  const int client_ms_;
  std::vector<std::thread> threads_;
};

}  // namespace weir::control
