/* What the traffic that judges a running XDP program is made of: shared by its programs (traffic.bpf.c) and
 * traffic.cpp, and by whoever writes policies for it (tests/rig/xdp/xdp_swaps.py). C subset.
 *
 * A frame tells by its UDP destination port which verdict is right. Policies come in two kinds, even and odd; what they
 * hold is chosen so that either of them gives that verdict, and a mixture of them another one:
 *
 *   kind          source            destination   right   even says so by       odd says so by
 *   member        one of MEMBERS    INNOCENT_DST  drop    the list of members   the list of members
 *   stranger      none of them      INNOCENT_DST  pass    nothing               nothing
 *   excused       EXCUSED_SRC       BLOCKED_DST   pass    src passes first      nothing (neither is listed)
 *   twice         EVEN_SRC          ODD_DST       drop    src is listed         dst is listed
 */
#ifndef WEIR_TESTS_XDP_TRAFFIC_H
#define WEIR_TESTS_XDP_TRAFFIC_H

#define MEMBERS 100000u
/* Member i: spread over all addresses, none twice (the multiplier is odd). Strangers have numbers from STRANGERS on. */
#define ADDRESS_OF(i) ((i)*2654435761u)
#define STRANGERS 1000000u

#define INNOCENT_DST 0xc0000201u /* 192.0.2.1 */
#define EXCUSED_SRC 0xc6120001u  /* 198.18.0.1 */
#define BLOCKED_DST 0xc6120002u
#define EVEN_SRC 0xc6120003u
#define ODD_DST 0xc6120004u

#define PORT_OF_DROP 1001
#define PORT_OF_PASS 1002

/* Of one processor. */
struct traffic_counts {
  unsigned long long made, made_to_pass;
  unsigned long long came_of_pass, came_of_drop; /* frames behind the program, by their right verdict */
};

#endif
