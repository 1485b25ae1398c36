/* arena.h: the allocator of the JavaScript heap.
 *
 * A program is loaded once, in _initialize, and the memory that this leaves is what every activation starts from. The host keeps
 * only the pages that an activation writes. So arena_freeze closes the heap of the loaded program: blocks of it that are freed
 * later are not used again, and new blocks lie side by side on pages of their own.
 *
 * A block has its size class in the 8 bytes before it. Classes are multiples of 8 up to 64 bytes, and quarters of powers of two
 * above. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ARENA_HEADER 8
#define ARENA_PAGE 65536u
#define ARENA_CLASSES 128

static void *arena_free_blocks[ARENA_CLASSES]; /* the first free block of each class; a free block begins with the next one */
static uint32_t arena_sizes[ARENA_CLASSES];
static uintptr_t arena_at, arena_end, arena_frozen;

/* arena_class returns the class of a size with its header, and the size of blocks of that class. */
static unsigned arena_class(size_t n, size_t *size) {
	if (n < 16) n = 16;
	if (n <= 64) {
		*size = (n + 7) & ~(size_t)7;
		return (unsigned)(*size / 8);
	}
	unsigned lg = 31 - (unsigned)__builtin_clz((unsigned)n - 1); /* 2^lg < n <= 2^(lg+1) */
	size_t step = (size_t)1 << (lg - 2);
	size_t quarters = (n - ((size_t)1 << lg) + step - 1) / step; /* 1 to 4 */
	*size = ((size_t)1 << lg) + quarters * step;
	return 8 + (lg - 6) * 4 + (unsigned)quarters;
}

/* arena_take returns n fresh bytes, or NULL if memory cannot grow. */
static void *arena_take(size_t n) {
	if (arena_end - arena_at < n) {
		size_t pages = (n + ARENA_PAGE - 1) / ARENA_PAGE;
		size_t old = __builtin_wasm_memory_grow(0, pages);
		if (old == (size_t)-1) return NULL;
		if (old * ARENA_PAGE != arena_end) arena_at = old * ARENA_PAGE; /* somebody else has grown the memory meanwhile */
		arena_end = (old + pages) * ARENA_PAGE;
	}
	void *p = (void *)arena_at;
	arena_at += n;
	return p;
}

static size_t arena_usable(const void *p) {
	return arena_sizes[*(const uint32_t *)((const char *)p - ARENA_HEADER)] - ARENA_HEADER;
}

static void *arena_malloc(JSMallocState *s, size_t n) {
	if (n > (size_t)INT32_MAX / 2 || s->malloc_size + n > s->malloc_limit) return NULL;
	size_t size;
	unsigned c = arena_class(n + ARENA_HEADER, &size);
	char *p = arena_free_blocks[c];
	if (p) {
		arena_free_blocks[c] = *(void **)p;
	} else {
		char *b = arena_take(size);
		if (!b) return NULL;
		arena_sizes[c] = (uint32_t)size;
		*(uint32_t *)b = c;
		p = b + ARENA_HEADER;
	}
	s->malloc_count++;
	s->malloc_size += size;
	return p;
}

static void arena_release(JSMallocState *s, void *p) {
	if (!p) return;
	s->malloc_count--;
	s->malloc_size -= arena_usable(p) + ARENA_HEADER;
	if ((uintptr_t)p < arena_frozen) return;
	unsigned c = *(uint32_t *)((char *)p - ARENA_HEADER);
	*(void **)p = arena_free_blocks[c];
	arena_free_blocks[c] = p;
}

static void *arena_realloc(JSMallocState *s, void *p, size_t n) {
	if (!p) return n ? arena_malloc(s, n) : NULL;
	if (!n) {
		arena_release(s, p);
		return NULL;
	}
	size_t had = arena_usable(p);
	if (n <= had && n > had / 2) return p;
	void *q = arena_malloc(s, n);
	if (!q) return n <= had ? p : NULL;
	memcpy(q, p, n < had ? n : had);
	arena_release(s, p);
	return q;
}

static const JSMallocFunctions arena_functions = {arena_malloc, arena_release, arena_realloc, arena_usable};

/* arena_freeze leaves what is allocated as it is: later blocks lie behind it, on other pages. */
static void arena_freeze(void) {
	memset(arena_free_blocks, 0, sizeof arena_free_blocks);
	arena_at = arena_end;
	arena_frozen = arena_end;
}
