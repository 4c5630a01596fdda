#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/result.h"
#include "common/wire.h"

namespace weir::xdp {

// Answers for an enforcer what a data plane answers for itself, in the messages of common/wire.h, on socket pairs: from
// a thread of its own, and publications from another, so that nobody waits for one but who asked for it. The first also
// tends the enforcer: every second, and as soon as the kernel tells that interfaces changed, or that a link is gone.
class Server {
 public:
  explicit Server(std::unique_ptr<Enforcer> enforcer, std::string bpf_dir = kDefaultBpfDir,
                  std::chrono::milliseconds tend = std::chrono::seconds(1));
  // Closes every connection and the enforcer, which goes on enforcing. Waits for a request that is being answered.
  ~Server();
  Server(const Server&) = delete;

  // Why it serves nobody; empty: it does.
  const std::string& failure() const { return failure_; }

  // A new connection: a SOCK_SEQPACKET socket, blocking. Any thread.
  Result<Fd> connect();

  // At once, whatever the thread is busy with. Any thread.
  void bypass(bool on) { enforcer_->bypass(on); }
  // Looks after the enforcer now. Any thread.
  void tend();

 private:
  struct Answer {
    wire::Type type;  // of the request, or refused
    std::vector<std::byte> body;
  };

  struct Client {
    Fd fd;
    uint64_t id;
  };
  struct Publication {
    uint64_t client;
    wire::Message message;
  };
  struct Told {  // to be sent by the first thread
    uint64_t client;
    uint32_t sequence;
    Answer answer;
  };

  void run();
  void run_publications();
  bool wait_for_something(Clock::time_point due);
  bool serve(const Client& client);  // false: close it
  void deliver();
  bool take_publication(const Client& client, wire::Message& request);
  Answer answer(const wire::Message& request);
  Answer change_shadow(const wire::Message& message, const wire::ShadowRequest& request);
  static Answer shadow_answer(const Result<wire::Shadow>& told);
  Answer detach(const wire::Message& request);
  std::vector<wire::InterfaceBody> interfaces() const;

  // The first thread's, but for publications.
  std::unique_ptr<Enforcer> enforcer_;
  const std::string bpf_dir_;
  const std::chrono::milliseconds tend_;
  const bool attaches_;  // to interfaces: their programs are this enforcer's to replace
  std::vector<Client> clients_;
  uint64_t next_id_ = 0;
  Fd changes_;  // netlink: interfaces came, went, or changed

  Fd wake_;           // eventfd: something of what follows changed
  std::mutex mutex_;  // guards what follows
  std::condition_variable published_;
  std::vector<Fd> arrived_;
  std::deque<Publication> publications_;
  std::vector<Told> told_;
  bool stopping_ = false, is_tending_ = false;

  std::string failure_;
  std::thread publisher_, thread_;  // last: start when all else is there
};

}  // namespace weir::xdp
