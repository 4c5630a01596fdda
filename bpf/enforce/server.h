#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "common/fd.h"
#include "common/result.h"
#include "common/wire.h"

namespace weir::xdp {

// Answers for an enforcer what a data plane answers for itself, in the messages of common/wire.h, on socket pairs: from
// a thread of its own, so that nobody waits for a publication but who asked for it. The thread also tends the enforcer.
class Server {
 public:
  explicit Server(std::unique_ptr<Enforcer> enforcer, std::string bpf_dir = kDefaultBpfDir,
                  std::chrono::milliseconds tend = std::chrono::seconds(1));
  // Closes every connection and the enforcer, which goes on enforcing. Waits for a request that is being answered.
  ~Server();
  Server(const Server&) = delete;

  // A new connection: a SOCK_SEQPACKET socket, blocking. Any thread.
  Result<Fd> connect();

  // At once, whatever the thread is busy with. Any thread.
  void bypass(bool on) { enforcer_->bypass(on); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Answer {
    wire::Type type;  // of the request, or refused
    std::vector<std::byte> body;
  };

  void run();
  bool serve(int client);  // false: close it
  Answer answer(const wire::Message& request);
  Answer detach(const wire::Message& request);
  std::vector<wire::InterfaceBody> interfaces() const;

  // The thread's.
  std::unique_ptr<Enforcer> enforcer_;
  const std::string bpf_dir_;
  const std::chrono::milliseconds tend_;
  std::vector<Fd> clients_;
  std::vector<std::string> detached_;  // on demand

  Fd wake_;           // eventfd: arrived_ or stopping_ changed
  std::mutex mutex_;  // guards what follows
  std::vector<Fd> arrived_;
  bool stopping_ = false;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace weir::xdp
