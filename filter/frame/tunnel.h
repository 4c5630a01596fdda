#pragma once

#include <cstdint>

#include "filter/frame/frame.h"

// A frame and the packets in its tunnels (docs/operate/dataplane.md, "Tunnels"). Pure, as frame.h.
namespace weir::filter {

// The packets inside a frame's outer one, outer ones first.
struct InnerLayers {
  uint32_t n;
  Headers layer[WEIR_MAX_LAYERS - 1];
};

// The longest way from a packet's last IP header to the next packet: GTP-U with all its extension headers.
constexpr uint32_t kMaxTunnelBytes =
    WEIR_UDP_BYTES + WEIR_GTP_BYTES + WEIR_GTP_OPTION_BYTES + WEIR_MAX_GTP_EXTENSIONS * 255 * 4;
static_assert(kMaxTunnelBytes > WEIR_UDP_BYTES + WEIR_GENEVE_BYTES + 63 * 4 + kMaxLinkBytes,
              "Geneve with all its options, then Ethernet");

// No header that is read can lie further from the frame's start.
constexpr uint32_t kMaxLayersBytes =
    kMaxLinkBytes + WEIR_MAX_LAYERS * kMaxIpBytes + (WEIR_MAX_LAYERS - 1) * kMaxTunnelBytes + WEIR_TCP_FLAG_BYTES;

// As parse_frame, and what lies in the tunnels of the mask (enum weir_tunnel). A layer ends where the packet around it
// does. inner.n is 0 when the outcome is not ip.
Outcome parse_layers(const uint8_t* frame, uint32_t length, uint8_t tunnels, Headers& outer,
                     InnerLayers& inner) noexcept;

// The tunnel of the mask that a packet with these headers is of; 0: none. There is a layer in it only if the tunnel's
// own header is whole.
uint8_t tunnel_in(const Headers& headers, uint8_t tunnels) noexcept;

// True when bytes behind `length` could not have changed what parse_layers said.
bool decided(Outcome outcome, const Headers& outer, const InnerLayers& inner, uint8_t tunnels) noexcept;

}  // namespace weir::filter
