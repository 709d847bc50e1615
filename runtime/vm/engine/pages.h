// Resetting memory: see pages.c.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The largest number of pages that are reset. An instance that used more is deleted.
#define TROUPE_AGAIN_PAGES 64

// troupe_knows_pages returns whether the system reports which pages were written.
bool troupe_knows_pages(void);

// troupe_set_back resets size bytes at base to their initial content: data for len bytes from
// offset from on, zeros elsewhere. It returns false if that failed.
bool troupe_set_back(uint8_t *base, size_t size, size_t from, const uint8_t *data, size_t len);
