#include "dataplane/ports/links.h"

#include <fmt/format.h>
#include <rte_ethdev.h>

#include "common/log/log.h"

namespace weir::dataplane {

namespace {

rte_eth_link link_of(uint16_t port) {
  rte_eth_link link = {};
  if (rte_eth_link_get_nowait(port, &link) != 0) link.link_status = RTE_ETH_LINK_DOWN;
  return link;
}

std::string text_of(const rte_eth_link& link) {
  if (link.link_status == RTE_ETH_LINK_DOWN) return "down";
  if (link.link_speed == RTE_ETH_SPEED_NUM_NONE || link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN) return "up";
  if (link.link_speed % 1000 == 0) return fmt::format("{} Gb/s", link.link_speed / 1000);
  return fmt::format("{} Mb/s", link.link_speed);
}

}  // namespace

std::string link_text(uint16_t port) {
  return text_of(link_of(port));
}

void LinkWatch::check() {
  for (Port& port : ports_) {
    const rte_eth_link link = link_of(port.port);
    const bool up = link.link_status == RTE_ETH_LINK_UP;
    if (up == port.up) continue;
    port.up = up;
    const log::Fields fields = {{"port", port.port}, {"name", port.name}};
    if (!up) {
      log::warning("link down", fields);
    } else {
      log::notice("link up", {{"port", port.port}, {"name", port.name}, {"speed", text_of(link)}});
    }
  }
}

}  // namespace weir::dataplane
