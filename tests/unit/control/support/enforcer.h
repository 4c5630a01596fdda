#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/shadow.h"
#include "common/unix_socket.h"
#include "common/wire.h"

// A small enforcer: speaks common/wire.h on a real socket and does what a test tells it.
class Enforcer {
 public:
  struct Behaviour {
    weir::wire::Generation generation = {};  // enforced when it starts, as from its disk
    std::array<uint64_t, 2> digest = {};     // of it
    bool bypass = false;
    bool hangs = false;        // takes publications and does not answer, until release()
    bool is_deaf = false;      // takes orders of the panic switch and does not answer them, until release()
    bool is_stubborn = false;  // carries out no order of the panic switch, and answers as it is, until release()
    bool refuses = false;      // fails publications in step `validate`
    bool disk_is_full = false;
    bool switch_is_on_disk = true;  // the panic switch, as it is now
    uint64_t packets = 0;           // told by stats, in the totals and in list "l1"; told by telemetry of every worker
    uint32_t workers = 1;           // told by telemetry
    std::vector<weir::wire::SampledTraffic> traffic = {};  // told once, as real targets do
    bool refuses_shadows = false;
    std::vector<weir::wire::InterfaceBody> interfaces = {};  // as the XDP plane tells them; telemetry is refused
  };
  explicit Enforcer(const std::string& path) : Enforcer(path, Behaviour()) {}
  Enforcer(const std::string& path, Behaviour behaviour);
  ~Enforcer();

  void release();
  void set_bypass(bool on);  // as by another's order
  void set_disk_full(bool full);
  void set_interfaces(std::vector<weir::wire::InterfaceBody> interfaces);
  void end_shadow(const std::string& why);  // by itself
  int shadows() const;                      // begun so far
  weir::wire::Generation shadow() const;    // the candidate that judges
  int publications() const;                 // received so far
  int orders() const;                       // of the panic switch, carried out so far
  bool bypass() const;
  weir::wire::Generation generation() const;

 private:
  void run();
  void serve(weir::Fd client);
  bool answer(int client, weir::wire::Message& request);
  weir::wire::PublishedBody publish(const weir::wire::Message& request);
  weir::wire::StatusBody status() const;
  weir::wire::Shadow shadow(const weir::wire::ShadowRequest& request);

  weir::unix_socket::Listener listener_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  Behaviour now_;
  int publications_ = 0, orders_ = 0;
  weir::wire::ShadowBody shadow_;  // of the last one
  int shadows_ = 0;
  bool stopping_ = false;
  std::vector<int> clients_;  // connections that are served
  std::vector<std::thread> threads_;
  std::thread thread_;
};
