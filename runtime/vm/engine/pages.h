// Memory that is set back: see pages.c.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// At most so many pages are written over; where more were used, the instance goes.
#define TROUPE_AGAIN_PAGES 64

// troupe_knows_pages tells whether the system says which pages were written.
bool troupe_knows_pages(void);

// troupe_set_back gives size bytes at base the content that they had at first: data for len bytes from from on, zeros elsewhere. False:
// it did not.
bool troupe_set_back(uint8_t *base, size_t size, size_t from, const uint8_t *data, size_t len);
