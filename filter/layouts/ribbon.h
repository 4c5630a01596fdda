/* ribbon: every page is an independent homogeneous ribbon (Dillinger, Hübschle-Schneider, Sanders, Walzer 2021,
 * arXiv:2109.01892): 4096 rows of 8 bits, and a key is in it when the rows that its 64 coefficients choose add up, bit
 * by bit and modulo 2, to zero. The page's bits solve that for all its keys at once (filter/build/ribbon.h), so a page
 * is written as a whole. 9 bits a key for 0.40 %.
 *
 * Interleaved: line l of the page holds rows 64 l .. 64 l + 63; its word b holds bit b of each of them. The 64 rows of
 * a key begin anywhere, so they lie in two neighbouring lines. */
#ifndef WEIR_FILTER_LAYOUTS_RIBBON_H
#define WEIR_FILTER_LAYOUTS_RIBBON_H

#include "filter/format/hash.h"

#define WEIR_RIBBON_ROWS 4096u   /* in a page */
#define WEIR_RIBBON_WIDTH 64u    /* coefficients of a key */
#define WEIR_RIBBON_STARTS 4032u /* first rows that a key can have: 0..4031, so its second line is in the page */
#define WEIR_RIBBON_BITS 8u      /* of a row: a stranger passes all of them with 2^-8 */

/* First row: what the range reduction to pages leaves over, a fraction of 2^32. */
static inline weir_u32 weir_ribbon_start(weir_u64 hash, weir_u32 pages) {
  const weir_u64 fraction = (weir_u32)((hash >> 32) * (weir_u64)pages);
  return (weir_u32)(fraction * WEIR_RIBBON_STARTS >> 32);
}

/* Coefficient i belongs to row start + i. The first is always 1. */
static inline weir_u64 weir_ribbon_coefficients(weir_u64 hash) {
  const weir_u64 low = (weir_u64)(weir_u32)hash * weir_salt[0];
  const weir_u64 high = (weir_u64)(weir_u32)hash * weir_salt_b[0];
  return (low ^ (high << 32 | high >> 32)) | 1u;
}

/* page: its 512 words. Needs no special case at shift 0: the second line's share is shifted out in two steps. */
static inline weir_u32 weir_ribbon_check(const weir_u64* page, weir_u32 pages, weir_u64 hash) {
  const weir_u32 start = weir_ribbon_start(hash, pages);
  weir_u32 line = start >> 6;
#ifdef __bpf__ /* the verifier does not know what a product is at most, and a compiler that does would not ask */
  __asm__ volatile("" : "+r"(line));
  if (line >= WEIR_RIBBON_STARTS / 64u) return 0;
#endif
  const weir_u64 coefficients = weir_ribbon_coefficients(hash);
  const weir_u32 shift = start & 63u;
  const weir_u64 in_first = coefficients << shift, in_second = coefficients >> 1 >> (63u - shift);
  const weir_u64* first = page + line * 8u;
  const weir_u64* second = first + 8;
  weir_u32 odd = 0;
  for (weir_u32 b = 0; b < WEIR_RIBBON_BITS; b++) {
    odd |= (weir_u32)__builtin_parityll((first[b] & in_first) ^ (second[b] & in_second));
#ifdef __bpf__ /* one after the other: all at once would need 32 bytes more of a stack of 512 */
    __asm__ volatile("" : "+r"(odd));
#endif
  }
  return odd ^ 1u;
}

#endif
