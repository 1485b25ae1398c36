/* mapping.h: places in the source of a program.
 *
 * While a program is compiled, each place in the bundle is replaced by the one in the file that it came from. So bytecode has the
 * original places, and stacks show them without a source map. A place in bytecode is file << 20 | line; file 0 is code without a
 * mapping, such as that of eval. */
#include <stdint.h>
#include <string.h>

#define PLACE_LINES 20
#define PLACE_FILES 2047

/* The table of a compilation: entries in the order of the bundle, lines and columns from 0. */
struct place {
	uint32_t line, column, file, to_line, to_column;
};
static const struct place *places;
static uint32_t place_count;

/* wfhost_sloppy reports whether a directive takes a function out of strict mode. A bundle is strict, as modules are; the build marks
 * the functions that it makes of CommonJS files, which are not. While a program runs, there is no such directive. */
int wfhost_sloppy(const char *directive) { return places && strcmp(directive, "use sloppy") == 0; }

/* The names of a program's files, each with a zero byte; the first is file 1. */
static const char *place_files;
static uint32_t place_files_bytes;

/* Which files are of the SDK, a bit for each. */
static unsigned char place_sdk[(PLACE_FILES + 8) / 8];

/* wfhost_place returns the place that a line and column of the bundle came from. */
int wfhost_place(int line, int *column) {
	uint32_t from = 0, to = place_count;
	while (from < to) { /* the last entry that is not behind the place */
		uint32_t mid = from + (to - from) / 2;
		const struct place *p = &places[mid];
		if (p->line < (uint32_t)line || (p->line == (uint32_t)line && p->column <= (uint32_t)*column)) from = mid + 1;
		else to = mid;
	}
	if (from == 0) return line;
	const struct place *p = &places[from - 1];
	if (p->line != (uint32_t)line || p->file == 0 || p->file > PLACE_FILES) return line;
	*column = (int)p->to_column;
	return (int)(p->file << PLACE_LINES | p->to_line);
}

/* wfhost_file takes the file out of a place, and returns its name, or NULL. */
const char *wfhost_file(int *line) {
	uint32_t file = (uint32_t)*line >> PLACE_LINES;
	if (file == 0) return NULL;
	*line &= (1 << PLACE_LINES) - 1;
	const char *name = place_files;
	for (uint32_t left = place_files_bytes; left > 0;) {
		uint32_t n = (uint32_t)strnlen(name, left) + 1;
		if (--file == 0) return name;
		if (n > left) break;
		name += n;
		left -= n;
	}
	return NULL;
}

int wfhost_in_sdk(int line) {
	uint32_t file = (uint32_t)line >> PLACE_LINES;
	return place_sdk[file / 8] >> file % 8 & 1;
}

/* place_names takes the names of a program's files. */
static void place_names(const char *names, uint32_t bytes) {
	static const char sdk[] = "@wfhost/workflow/";
	place_files = names;
	place_files_bytes = bytes;
	uint32_t file = 1;
	for (const char *end = names + bytes; names < end && file <= PLACE_FILES; names += strlen(names) + 1, file++)
		if (strncmp(names, sdk, sizeof sdk - 1) == 0) place_sdk[file / 8] |= 1 << file % 8;
}
