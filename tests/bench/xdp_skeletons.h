#pragma once

// What bpftool writes is C, with warnings of its own.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "xdp_generator.skel.h"
#include "xdp_peers.skel.h"
#pragma GCC diagnostic pop
