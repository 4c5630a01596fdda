#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/fd.h"
#include "control/connect/flowspec_list.h"
#include "control/policy/model/listen.h"
#include "control/sources/flowspec/session.h"

namespace weir::control::ctl {

// The connection with one peer of BGP: made or waited for, again and again, until the program is asked to stop. One
// thread, which waits for nothing but its sockets.
class FlowspecPeer : private flowspec::SessionEvents {
 public:
  struct Settings {
    ListenAddress peer;
    std::optional<ListenAddress> listen;  // the peer connects to it; empty: we connect
    flowspec::SessionSettings session;
    uint32_t stale_s = 600;
  };
  // Blocks SIGTERM and SIGINT, before any thread is started.
  FlowspecPeer(Settings settings, bool tells_json);
  ~FlowspecPeer() override;
  // Error: it cannot listen there.
  Result<void> open();
  void run(FlowspecList& list);
  // Other rules are to be announced. Any thread.
  void wake();

 private:
  void established(const flowspec::Open& peer) override;
  void updated(const flowspec::Update& update) override;
  void ended(const std::string& why) override;

  int timeout_ms() const;
  void connect();
  void accept();
  void begin(Fd connection);
  void receive();
  void send();
  void close(const std::string& why);
  void pass_time();
  void is_filled();
  void tell();

  const Settings settings_;
  const std::string peer_;  // its address alone
  const bool tells_json_;
  FlowspecList* list_ = nullptr;
  Fd signals_, wake_, listening_, connection_;
  bool is_connecting_ = false;
  std::unique_ptr<flowspec::Session> session_;
  std::optional<Clock::time_point> next_try_, filled_by_, stale_at_, established_at_;
  std::chrono::seconds pause_{1};
  bool has_ended_[2] = {};  // End-of-RIB, by family
  std::string last_error_;
  uint64_t announced_ = 0;
  std::optional<FlowspecStatus> told_;
};

}  // namespace weir::control::ctl
