/* Shared by the benchmarks' BPF programs and what loads them. */
#ifndef WEIR_BENCH_XDP_TALLY_H
#define WEIR_BENCH_XDP_TALLY_H

enum xdp_tally { XDP_TALLY_MISS, XDP_TALLY_HIT, XDP_TALLIES };

#define XDP_SOURCES (1u << 20) /* source addresses that take turns */

#endif
