// What a body looks like, so that the origin and the client agree on every byte of it.
//
// Byte n of any body is pattern[n % PATTERN]: a relay that loses, repeats or swaps bytes is seen by the client.
#ifndef PATTERN_H
#define PATTERN_H
#include <stddef.h>

enum { PATTERN = 1 << 20 };
static char pattern[PATTERN];

static void pattern_fill(void) {
    for (size_t n = 0; n < PATTERN; n++) pattern[n] = (char)('a' + (n * 7 + n / 97) % 26);
}

// The longest piece of a body that lies in one stretch of memory, from byte `at` on, at most `left` bytes.
static size_t pattern_piece(size_t at, size_t left) {
    size_t whole = PATTERN - at % PATTERN;
    return left < whole ? left : whole;
}
#endif
