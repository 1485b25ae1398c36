// Computes until its fuel is gone: the input says what.
#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

extern "C" __attribute__((import_module("workflow_v1"), import_name("input"))) int64_t input(void *p, int32_t n);

static uint32_t x = 1;
static volatile uint32_t sink;

static uint32_t next() { return x = x * 1664525 + 1013904223; }

extern "C" __attribute__((export_name("workflow_run"))) int run() {
	char what = '0';
	input(&what, 1);
	std::vector<uint32_t> numbers(10000);
	std::unordered_map<uint32_t, uint32_t> counts;
	for (;;) {
		switch (what) {
		case '0':
			for (int i = 0; i < 1000000; i++) next();
			break;
		case '1':
			for (auto &n : numbers) n = next();
			std::sort(numbers.begin(), numbers.end());
			break;
		case '2':
			for (int i = 0; i < 100000; i++) counts[(next() >> 12) % 8000]++;
			break;
		default:
			std::string text;
			for (int i = 0; i < 10000; i++) text += std::to_string(next() >> 8) + " ";
			sink += std::count(text.begin(), text.end(), ' ');
		}
		sink += x;
	}
}
