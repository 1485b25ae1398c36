// Programs of several kinds that compute without calling anybody: build.sh makes programs.wasm of them. Each takes how often it
// is to do its work, and returns what came of it, so that nothing is optimised away.
typedef unsigned int u32;
typedef unsigned long long u64;
#define EXPORT(name) __attribute__((export_name(#name)))

static u32 words[1 << 14];
static unsigned char bytes[1 << 16];
static u32 state = 1;

static u32 next(void) { // Xorshift (Marsaglia 2003)
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

// count is the tightest loop there is: a sum that depends on the turn before.
EXPORT(count) u32 count(u32 n) {
	u32 h = n;
	for (u32 i = 0; i < n * 10000; i++) {
		h ^= i;
		__asm__ volatile("" : "+r"(h)); // or it would be a formula
	}
	return h;
}

// sum reads memory in a loop of few instructions.
EXPORT(sum) u32 sum(u32 n) {
	u32 s = 0;
	while (n--) {
		for (u32 i = 0; i < 1 << 14; i++)
			s += words[i] ^ i;
		__asm__ volatile("" ::: "memory");
	}
	return s;
}

// sieve has a loop with a step, and stores bytes.
EXPORT(sieve) u32 sieve(u32 n) {
	u32 found = 0;
	while (n--) {
		for (u32 i = 0; i < sizeof bytes; i++)
			bytes[i] = 1;
		for (u32 i = 2; i < sizeof bytes; i++) {
			if (!bytes[i])
				continue;
			found++;
			for (u32 j = 2 * i; j < sizeof bytes; j += i)
				bytes[j] = 0;
		}
	}
	return found;
}

static void sorted(u32 *a, int lo, int hi) {
	while (lo < hi) {
		u32 pivot = a[(lo + hi) / 2];
		int i = lo, j = hi;
		while (i <= j) {
			while (a[i] < pivot) i++;
			while (a[j] > pivot) j--;
			if (i <= j) {
				u32 t = a[i];
				a[i++] = a[j];
				a[j--] = t;
			}
		}
		sorted(a, lo, j);
		lo = i;
	}
}

// sort has branches that nobody can predict, and calls itself.
EXPORT(sort) u32 sort(u32 n) {
	u32 s = 0;
	while (n--) {
		for (int i = 0; i < 4096; i++)
			words[i] = next();
		sorted(words, 0, 4095);
		s ^= words[17];
	}
	return s;
}

// mix is rounds of a cipher: shifts and sums of 64 bits.
EXPORT(mix) u32 mix(u32 n) {
	u64 a = n, b = 0x9e3779b97f4a7c15, c = 0xbf58476d1ce4e5b9, d = 3;
	for (u32 i = 0; i < n * 1000; i++) {
		a += b; d = (d ^ a) << 32 | (d ^ a) >> 32;
		c += d; b = (b ^ c) << 24 | (b ^ c) >> 40;
		a += b; d = (d ^ a) << 16 | (d ^ a) >> 48;
		c += d; b = (b ^ c) << 63 | (b ^ c) >> 1;
	}
	return a ^ b ^ c ^ d;
}

// matrix multiplies matrices of floating-point numbers.
EXPORT(matrix) u32 matrix(u32 n) {
	static double x[32][32], y[32][32], z[32][32];
	for (int i = 0; i < 32; i++)
		for (int j = 0; j < 32; j++)
			x[i][j] = i + j, y[i][j] = i - j;
	while (n--) {
		for (int i = 0; i < 32; i++)
			for (int j = 0; j < 32; j++) {
				double s = 0;
				for (int k = 0; k < 32; k++)
					s += x[i][k] * y[k][j];
				z[i][j] = s;
			}
		__asm__ volatile("" ::: "memory");
	}
	return z[3][4];
}

static u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

// calls does nothing but call.
EXPORT(calls) u32 calls(u32 n) {
	u32 s = 0;
	while (n--) {
		u32 k = 16;
		__asm__ volatile("" : "+r"(k)); // or it would be called once
		s += fibonacci(k);
	}
	return s;
}

// divide divides integers, and takes remainders.
EXPORT(divide) u32 divide(u32 n) {
	u32 s = 0;
	for (u32 i = 1; i < n * 1000; i++)
		s += (i * 2654435761u) / (i & 1023 | 1) + 1000003 % i;
	return s;
}

// chase follows a list through memory.
EXPORT(chase) u32 chase(u32 n) {
	for (u32 i = 0; i < 1 << 14; i++)
		words[i] = (i * 5 + 1) & ((1 << 14) - 1);
	u32 at = 0;
	for (u32 i = 0; i < n * 1000; i++)
		at = words[at];
	return at;
}

// The virtual machine has a stack, as those of interpreters have, and a switch in a loop.
enum { PUSH, ADD, SUB, MUL, LESS, JUMP, JUMP_IF, LOAD, STORE, DUP, DROP, CALL, RETURN, HALT, XOR, AND };

static int interpret(const int *code, int argument) {
	static int stack[256], locals[16];
	int sp = 0, pc = 0;
	locals[0] = argument;
	for (;;) {
		switch (code[pc++]) {
		case PUSH: stack[sp++] = code[pc++]; break;
		case ADD: sp--; stack[sp - 1] += stack[sp]; break;
		case SUB: sp--; stack[sp - 1] -= stack[sp]; break;
		case MUL: sp--; stack[sp - 1] *= stack[sp]; break;
		case XOR: sp--; stack[sp - 1] ^= stack[sp]; break;
		case AND: sp--; stack[sp - 1] &= stack[sp]; break;
		case LESS: sp--; stack[sp - 1] = stack[sp - 1] < stack[sp]; break;
		case JUMP: pc = code[pc]; break;
		case JUMP_IF: pc = stack[--sp] ? code[pc] : pc + 1; break;
		case LOAD: stack[sp++] = locals[code[pc++]]; break;
		case STORE: locals[code[pc++]] = stack[--sp]; break;
		case DUP: stack[sp] = stack[sp - 1]; sp++; break;
		case DROP: sp--; break;
		case CALL: stack[sp++] = pc + 1; pc = code[pc]; break;
		case RETURN: pc = stack[sp - 2]; stack[sp - 2] = stack[sp - 1]; sp--; break;
		case HALT: return stack[sp - 1];
		}
	}
}

// machine interprets a loop.
EXPORT(machine) u32 machine(u32 n) {
	static const int code[] = { // s = s * 31 ^ i, for i from 0 to n
		PUSH, 0, STORE, 1, PUSH, 0, STORE, 2,
		LOAD, 1, PUSH, 31, MUL, LOAD, 2, XOR, STORE, 1, LOAD, 2, PUSH, 1, ADD, DUP, STORE, 2, LOAD, 0, LESS, JUMP_IF, 8,
		LOAD, 1, HALT,
	};
	return interpret(code, n * 1000);
}
