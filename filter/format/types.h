/* Integers of fixed width, for what C, C++ and BPF share. */
#ifndef WEIR_FILTER_TYPES_H
#define WEIR_FILTER_TYPES_H

#ifdef __bpf__
typedef __UINT8_TYPE__ weir_u8;
typedef __UINT16_TYPE__ weir_u16;
typedef __UINT32_TYPE__ weir_u32;
typedef __UINT64_TYPE__ weir_u64;
#else
#include <stdint.h>
typedef uint8_t weir_u8;
typedef uint16_t weir_u16;
typedef uint32_t weir_u32;
typedef uint64_t weir_u64;
#endif

#endif
