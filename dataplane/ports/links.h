#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::dataplane {

// "10 Gb/s", "up" (no speed told), "down".
std::string link_text(uint16_t port);

// Says a line whenever a port's link goes down or comes up. Asks the drivers, so that those without link interrupts
// are told apart no worse; never a worker's work. One thread uses it, and no port is closed meanwhile.
class LinkWatch {
 public:
  struct Port {
    uint16_t port;
    std::string name;
    bool up;
  };
  // Ports as they are when it is made.
  explicit LinkWatch(std::vector<Port> ports) : ports_(std::move(ports)) {}
  void check();

 private:
  std::vector<Port> ports_;
};

}  // namespace weir::dataplane
