//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

// Resets memory to its initial content. The system reports which of its pages differ from what was
// mapped.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // madvise
#endif
#include "pages.h"
#include <string.h>

#ifdef __linux__
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

// As in Linux 6.7's <linux/fs.h>.
struct region { uint64_t start, end, categories; };
struct scan {
  uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
  uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN _IOWR('f', 16, struct scan)
enum { IS_FILE = 1 << 2, IS_PRESENT = 1 << 3, IS_SWAPPED = 1 << 4, IS_ZERO = 1 << 5 };

#define REGIONS 32

static int pagemap = -1;

// scan finds the pages that differ from what was mapped: present in memory, in swap, or in transit
// between them, which counts as swap. A page of a file is unchanged, since a write replaces it by
// an anonymous page; the zero page is unchanged too. -1: the system does not report it, or there
// are more pages than fit.
static int scan(const uint8_t *base, size_t size, size_t most, struct region *r) {
  struct scan a = {
      .size = sizeof a, .start = (uintptr_t)base, .end = (uintptr_t)base + size, .vec = (uintptr_t)r, .vec_len = REGIONS,
      .max_pages = most, .category_inverted = IS_FILE | IS_ZERO, .category_mask = IS_FILE | IS_ZERO,
      .category_anyof_mask = IS_PRESENT | IS_SWAPPED,
  };
  int n = ioctl(pagemap, SCAN, &a);
  return n < 0 || a.walk_end != a.end ? -1 : n;
}

// probe checks the system's report for four pages: never used, written, read, and written and
// returned.
static void probe(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return;
  uint8_t *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool right = false;
  if (p != MAP_FAILED) {
    madvise(p, 4 * page, MADV_NOHUGEPAGE); // a huge page would cover all four
    volatile uint8_t *v = p;
    struct region r[REGIONS];
    v[page] = 1;
    (void)v[2 * page];
    v[3 * page] = 1;
    madvise(p + 3 * page, page, MADV_DONTNEED);
    right = scan(p, 4 * page, 3, r) == 1 && r[0].start == (uintptr_t)p + page && r[0].end == (uintptr_t)p + 2 * page;
    munmap(p, 4 * page);
  }
  if (right) return;
  close(pagemap);
  pagemap = -1;
}

bool troupe_knows_pages(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, probe);
  return pagemap >= 0;
}

bool troupe_set_back(uint8_t *base, size_t size, size_t from, const uint8_t *data, size_t len) {
  struct region r[REGIONS];
  if (!troupe_knows_pages()) return false;
  int n = scan(base, size, TROUPE_AGAIN_PAGES + 1, r);
  for (int i = 0; i < n; i++) {
    size_t at = r[i].start - (uintptr_t)base, end = r[i].end - (uintptr_t)base;
    while (at < end) {
      size_t stop = end;
      if (at < from) {
        stop = from < end ? from : end;
        memset(base + at, 0, stop - at);
      } else if (at < from + len) {
        stop = from + len < end ? from + len : end;
        memcpy(base + at, data + (at - from), stop - at);
      } else {
        memset(base + at, 0, stop - at);
      }
      at = stop;
    }
  }
  return n >= 0;
}
#else
bool troupe_knows_pages(void) { return false; }

bool troupe_set_back(uint8_t *base, size_t size, size_t from, const uint8_t *data, size_t len) {
  (void)base, (void)size, (void)from, (void)data, (void)len;
  return false;
}
#endif
