/* The maps, shared by every program that filters (docs/operate/xdp.md, "Maps"). They are pinned by these names. */
#ifndef WEIR_BPF_MAPS_H
#define WEIR_BPF_MAPS_H

/* The helpers need the types of the first. */
/* clang-format off */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "bpf/program/plane.h"

struct weir_page {
  weir_u64 word[WEIR_PAGE_BYTES / 8];
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
  __type(key, __u32);
  __type(value, struct weir_state);
} weir_state SEC(".maps");

/* Some of a snapshot's pages, in one value: which of them is an addition, and no second lookup. */
struct weir_chunk {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, WEIR_CHUNK_PAGES * sizeof(struct weir_page));
};

/* All chunks of group 0, then those of group 1, and so on. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, WEIR_GROUPS* WEIR_CHUNKS);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
  __type(key, __u32);
  __array(values, struct weir_chunk);
} weir_arenas SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
  __type(key, __u32);
  __type(value, struct weir_totals);
} weir_totals SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, WEIR_LIST_SLOTS);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
  __type(key, __u32);
  __type(value, struct weir_list_tally);
} weir_lists SEC(".maps");

/* Not read by programs: whose counts weir_lists holds. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, WEIR_LIST_SLOTS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
  __type(key, __u32);
  __type(value, struct weir_list_name);
} weir_names SEC(".maps");

/* Not read by programs: of the bases' groups, for who comes after the enforcer that filled them. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, WEIR_BASES);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
  __type(key, __u32);
  __type(value, struct weir_base);
} weir_bases SEC(".maps");

/* From here on one address: not a sum that is made anew, or kept on the stack, for each of its fields. */
#define IN_REGISTER(pointer) __asm__ volatile("" : "+r"(pointer))

/* Null: there is no such group. */
static __always_inline struct weir_group* group_of(weir_u32 group) {
  const weir_u32 zero = 0;
  struct weir_state* state = bpf_map_lookup_elem(&weir_state, &zero);
  weir_u64 at = group;
  IN_REGISTER(at); /* the upper half of what a global function is given may hold anything */
  if (!state || at >= WEIR_GROUPS) return 0;
  struct weir_group* found = &state->group[at];
  IN_REGISTER(found); /* made here, where Linux 6.1 knows the bound */
  return found;
}

/* A page of a group's snapshot; null: it is not there. Linux 6.1 takes no key that lies in what a global function was
 * given: look-ups take a copy. */
static __always_inline struct weir_page* page_of(weir_u32 group, weir_u32 page) {
  const weir_u32 zero = 0, at = group * WEIR_CHUNKS + page / WEIR_CHUNK_PAGES;
  void* chunk = bpf_map_lookup_elem(&weir_arenas, &at);
  if (!chunk) return 0;
  struct weir_page* pages = bpf_map_lookup_elem(chunk, &zero);
  return pages ? pages + page % WEIR_CHUNK_PAGES : 0;
}

#endif
