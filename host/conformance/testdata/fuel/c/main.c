// Computes until its fuel is gone: the input says what.
#include "../../../../../guest-sdk/c/workflow.h"

static uint32_t x = 1, numbers[10000], keys[16384], counts[16384];
static char text[65536];
static volatile uint32_t sink;

static uint32_t next(void) { return x = x * 1664525 + 1013904223; }

static void sort(uint32_t *a, int n) {
	while (n > 1) {
		uint32_t pivot = a[(n - 1) / 2];
		int i = 0, j = n - 1;
		for (;; i++, j--) {
			while (a[i] < pivot) i++;
			while (a[j] > pivot) j--;
			if (i >= j) break;
			uint32_t t = a[i];
			a[i] = a[j];
			a[j] = t;
		}
		sort(a, j + 1);
		a += j + 1;
		n -= j + 1;
	}
}

WF_EXPORT(workflow_run) int run(void) {
	char what = '0';
	wf_input(&what, 1);
	for (;;) {
		switch (what) {
		case '0':
			for (int i = 0; i < 1000000; i++) next();
			break;
		case '1':
			for (int i = 0; i < 10000; i++) numbers[i] = next();
			sort(numbers, 10000);
			break;
		case '2':
			for (int i = 0; i < 100000; i++) {
				uint32_t key = (next() >> 12) % 8000 + 1, at = key * 2654435761u >> 18;
				while (keys[at] != 0 && keys[at] != key) at = (at + 1) & 16383;
				keys[at] = key;
				counts[at]++;
			}
			break;
		default:
			for (int n = 0; n < 60000;) {
				uint32_t v = next() >> 8;
				do text[n++] = '0' + v % 10; while ((v /= 10) > 0);
				text[n++] = ' ';
			}
			for (int i = 0; i < 60000; i++) sink += text[i] == ' ';
		}
		sink += x;
	}
}
