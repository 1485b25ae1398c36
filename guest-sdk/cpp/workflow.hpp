// workflow.hpp: workflows for wfhost in C++20, as coroutines. One header; workflow.h beside it has the raw calls.
//
//   #include "workflow.hpp"
//   using namespace std::chrono_literals;
//
//   wfhost::Task<wfhost::Outcome> welcome(std::string input) {
//       auto greeting = co_await wfhost::body("greet", [&] { return wfhost::Outcome("\"hello\""); });
//       co_await wfhost::sleep("three days", 72h);
//       co_return greeting;
//   }
//   static wfhost::Workflow registered("welcome", welcome);
//
//   clang++ --target=wasm32-wasi -mexec-model=reactor -std=c++20 -O2 -fno-exceptions -fno-rtti -o welcome.wasm welcome.cpp
//
// Payloads are bytes, JSON by convention. There are no exceptions: each call resolves to an Outcome, which is a result or an
// error. Destroying a Call before its outcome was taken withdraws it.
#ifndef WFHOST_WORKFLOW_HPP
#define WFHOST_WORKFLOW_HPP

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if __has_include("workflow.h")
#include "workflow.h"
#else
#include "../c/workflow.h"
#endif

namespace wfhost {

using Milliseconds = std::chrono::milliseconds;

// Reading and writing the minimal JSON that the SDK itself needs. It is not a JSON library.
namespace json {

// quote encodes a text as a JSON string.
inline std::string quote(std::string_view s) {
	static constexpr char hex[] = "0123456789abcdef";
	std::string out = "\"";
	for (unsigned char c : s) {
		switch (c) {
		case '"': out += "\\\""; break;
		case '\\': out += "\\\\"; break;
		case '\n': out += "\\n"; break;
		case '\r': out += "\\r"; break;
		case '\t': out += "\\t"; break;
		default:
			if (c < 0x20) {
				out += "\\u00";
				out += hex[c >> 4];
				out += hex[c & 15];
			} else {
				out += static_cast<char>(c);
			}
		}
	}
	return out + '"';
}

// skip returns the index after the value that begins at i, and the white space around it.
inline size_t skip(std::string_view s, size_t i) {
	int depth = 0;
	for (bool begun = false; i < s.size(); i++) {
		char c = s[i];
		if (c == '"') {
			for (i++; i < s.size() && s[i] != '"'; i++)
				if (s[i] == '\\') i++;
			begun = true;
		} else if (c == '{' || c == '[') {
			depth++;
		} else if (c == '}' || c == ']') {
			if (depth == 0) return i;
			depth--;
			begun = true;
		} else if (depth == 0 && (c == ',' || c == ':') && begun) {
			return i;
		} else if (c > ' ') {
			begun = true;
		}
	}
	return i;
}

inline std::string_view trim(std::string_view s) {
	while (!s.empty() && static_cast<unsigned char>(s.front()) <= ' ') s.remove_prefix(1);
	while (!s.empty() && static_cast<unsigned char>(s.back()) <= ' ') s.remove_suffix(1);
	return s;
}

// field returns the text of a field of an object, empty if there is none.
inline std::string_view field(std::string_view object, std::string_view key) {
	size_t i = object.find('{');
	if (i == std::string_view::npos) return {};
	std::string wanted = quote(key);
	for (i++; i < object.size();) {
		size_t colon = skip(object, i);
		if (colon >= object.size() || object[colon] != ':') return {};
		size_t end = skip(object, colon + 1);
		if (trim(object.substr(i, colon - i)) == wanted) return trim(object.substr(colon + 1, end - colon - 1));
		i = end + 1;
	}
	return {};
}

// append appends a code point as UTF-8.
inline void append(std::string &out, uint32_t r) {
	if (r < 0x80) {
		out += static_cast<char>(r);
	} else if (r < 0x800) {
		out += static_cast<char>(0xc0 | r >> 6);
		out += static_cast<char>(0x80 | (r & 63));
	} else if (r < 0x10000) {
		out += static_cast<char>(0xe0 | r >> 12);
		out += static_cast<char>(0x80 | (r >> 6 & 63));
		out += static_cast<char>(0x80 | (r & 63));
	} else {
		out += static_cast<char>(0xf0 | r >> 18);
		out += static_cast<char>(0x80 | (r >> 12 & 63));
		out += static_cast<char>(0x80 | (r >> 6 & 63));
		out += static_cast<char>(0x80 | (r & 63));
	}
}

// text decodes a JSON string, and returns other JSON verbatim.
inline std::string text(std::string_view value) {
	value = trim(value);
	if (value.size() < 2 || value.front() != '"') return std::string(value);
	value = value.substr(1, value.size() - 2);
	auto unit = [&](size_t i) {
		return static_cast<uint32_t>(std::strtoul(std::string(value.substr(i, 4)).c_str(), nullptr, 16));
	};
	std::string out;
	for (size_t i = 0; i < value.size(); i++) {
		if (value[i] != '\\' || i + 1 == value.size()) {
			out += value[i];
			continue;
		}
		switch (char c = value[++i]) {
		case 'n': out += '\n'; break;
		case 'r': out += '\r'; break;
		case 't': out += '\t'; break;
		case 'b': out += '\b'; break;
		case 'f': out += '\f'; break;
		case 'u': {
			uint32_t r = unit(i + 1);
			i += 4;
			if (r >= 0xd800 && r < 0xdc00 && value.substr(i + 1, 2) == "\\u") {
				r = 0x10000 + ((r - 0xd800) << 10) + (unit(i + 3) - 0xdc00);
				i += 6;
			}
			append(out, r);
			break;
		}
		default: out += c;
		}
	}
	return out;
}

// number decodes a JSON integer, 0 if it is not one.
inline int64_t number(std::string_view value) { return std::strtoll(std::string(trim(value)).c_str(), nullptr, 10); }

} // namespace json

// code_name returns the name of a code in error JSON.
inline const char *code_name(int code) { return wf_code_name(code); }

namespace detail {

// bounded returns a message. It truncates a message over 64 KiB between characters and appends "…": a host accepts errors of at
// most 1 MiB, and JSON may need six bytes for one.
inline std::string bounded(const std::string &message) {
	size_t end = 64 << 10;
	if (message.size() <= end) return message;
	while (end > 0 && (message[end] & 0xc0) == 0x80) end--;
	return message.substr(0, end) + "…";
}

} // namespace detail

// Failure is the error of a workflow, a step or a body.
struct Failure {
	std::string message;             // the host gets its first 64 KiB
	std::string type = {};           // the name of the error in your own code
	bool retryable = true;           // of steps: whether another attempt may succeed
	Milliseconds retry_after{-1};    // of steps: the delay before the next attempt, in place of the back-off's

	std::string json() const {
		std::string s = "{\"message\":" + json::quote(detail::bounded(message));
		if (!type.empty()) s += ",\"type\":" + json::quote(type);
		if (!retryable) s += ",\"retryable\":false";
		if (retry_after.count() >= 0) s += ",\"retry_after_ms\":" + std::to_string(retry_after.count());
		return s + "}";
	}
};

// Outcome is a result or an error. data has the bytes of the result, or the error as JSON.
struct Outcome {
	int code = WF_OK; // one of wf_code
	std::string data;

	Outcome() = default;
	Outcome(std::string result) : data(std::move(result)) {}
	Outcome(const char *result) : data(result) {}
	Outcome(const Failure &f) : code(WF_STEP_FAILED), data(f.json()) {}
	Outcome(int code, std::string data) : code(code), data(std::move(data)) {}

	bool ok() const { return code == WF_OK; }
	explicit operator bool() const { return ok(); }
	// text decodes a result that is a JSON string.
	std::string text() const { return json::text(data); }
	int64_t number() const { return json::number(data); }
	// For errors only.
	const char *name() const { return code_name(code); }
	std::string message() const { return json::text(json::field(data, "message")); }
	std::string kind() const { return json::text(json::field(data, "kind")); }
	int64_t attempts() const { return json::number(json::field(data, "attempts")); }
};

namespace detail {

inline uint32_t length(std::string_view s) { return static_cast<uint32_t>(s.size()); }

// read calls a function that writes into a buffer twice: for the length, and for the data.
template <class F> std::string read(F f) {
	int64_t n = f(nullptr, 0);
	std::string s(n > 0 ? static_cast<size_t>(n) : 0, '\0');
	if (n > 0) f(s.data(), static_cast<uint32_t>(n));
	return s;
}

// last returns the bytes of the newest answer.
inline std::string last() { return read(wf_last); }

inline Outcome outcome_of(int64_t n) { return Outcome(n < 0 ? static_cast<int>(-n) : WF_OK, n ? last() : std::string()); }

// State is the state of a started call.
struct State {
	wf_handle handle = 0;
	bool done = false;
	bool withdrawn = false;
	Outcome outcome;
	std::vector<std::coroutine_handle<>> waiters;

	bool withdraw() {
		if (done || withdrawn) return false;
		withdrawn = wf_cancel(handle) == 0;
		return withdrawn;
	}
};

// resume resumes a coroutine. It must not be inlined into another one, where the compiler would make it a tail call.
__attribute__((noinline)) inline void resume(std::coroutine_handle<> h) { h.resume(); }

using Query = std::function<Outcome(std::string)>;
using Entry = std::function<Outcome(std::string)>;

// Loop is the executor of the instance's run.
struct Loop {
	std::map<wf_handle, std::shared_ptr<State>> open; // ordered by handle
	std::vector<std::coroutine_handle<>> ready;
	std::map<std::string, Query, std::less<>> queries;
	std::map<std::string, Query, std::less<>> validators; // of updates
	bool cancelled = false;

	void resolve(State &s, Outcome outcome) {
		s.done = true;
		s.outcome = std::move(outcome);
		open.erase(s.handle);
		for (auto w : s.waiters) wake(w);
		s.waiters.clear();
	}
	// wake makes a coroutine ready, once.
	void wake(std::coroutine_handle<> w) {
		for (auto r : ready)
			if (r == w) return;
		ready.push_back(w);
	}
	// forget makes a ready coroutine not ready.
	void forget(std::coroutine_handle<> w) { std::erase(ready, w); }
	void run_ready() {
		while (!ready.empty()) {
			auto w = ready.front();
			ready.erase(ready.begin());
			resume(w);
		}
	}
	// cancel_open withdraws the open calls of the workflow, when a cancel of its run was requested.
	void cancel_open() {
		cancelled = true;
		std::vector<std::shared_ptr<State>> all;
		for (auto &[_, s] : open) all.push_back(s);
		for (auto &s : all)
			if (s->withdraw()) resolve(*s, Outcome(WF_CANCELLED, "{\"code\":\"CANCELLED\",\"message\":\"cancelled\"}"));
	}
	[[noreturn]] void answer() {
		std::string name = json::text(json::field(read(wf_info), "query"));
		std::string_view update = name;
		bool validates = update.substr(0, 12) == "host/update/";
		if (validates) update.remove_prefix(12);
		auto &known = validates ? validators : queries;
		auto q = known.find(update);
		Outcome o = q != known.end() ? q->second(read(wf_input))
			: Outcome(Failure{"the workflow has no " + std::string(validates ? "handler of update " : "query ") + std::string(update)});
		wf_query_reply(!o.ok(), o.data.data(), length(o.data));
	}
	// wait waits for the next outcome. It returns an error that ends the workflow.
	std::optional<Outcome> wait() {
		if (open.empty()) return Outcome(Failure{"deadlock: the workflow waits for nothing that could happen"});
		wf_handle h = wf_await(nullptr, 0);
		if (h == -WF_QUERY) answer();
		if (h == -WF_CANCELLED) {
			cancel_open();
			return {};
		}
		if (h < 0) return Outcome(static_cast<int>(-h), last());
		auto s = open.find(h);
		if (s == open.end()) return {};
		auto state = s->second; // resolve removes it from open
		resolve(*state, outcome_of(wf_result(h, nullptr, 0)));
		return {};
	}
};

inline Loop &loop() {
	static Loop l;
	return l;
}

// Waiting is a coroutine's wait for calls. It is in the coroutine's frame, so destroying the frame cancels the resumption.
class Waiting {
public:
	Waiting() = default;
	Waiting(const Waiting &) = delete;
	Waiting &operator=(const Waiting &) = delete;
	~Waiting() {
		if (who) loop().forget(who);
		end();
	}

	void begin(std::coroutine_handle<> h) { who = h; }
	void on(const std::shared_ptr<State> &call) {
		call->waiters.push_back(who);
		calls.push_back(call);
	}
	// end ends the wait, as the coroutine continues.
	void end() {
		for (auto &call : calls) std::erase(call->waiters, who);
		calls.clear();
		who = {};
	}

private:
	std::coroutine_handle<> who;
	std::vector<std::shared_ptr<State>> calls;
};

} // namespace detail

// Call is a started call: a sleep, a step, a wait for a signal, a child. co_await waits for its outcome.
class [[nodiscard]] Call {
public:
	// Takes the answer of a function of workflow.h that starts a call.
	explicit Call(wf_handle answer) : state(std::make_shared<detail::State>()) {
		state->handle = answer;
		if (answer < 0) {
			state->done = true;
			state->outcome = detail::outcome_of(answer);
		} else {
			detail::loop().open[answer] = state;
		}
	}
	Call(Call &&) noexcept = default;
	Call &operator=(Call &&other) noexcept {
		if (this != &other) {
			withdraw();
			state = std::move(other.state);
		}
		return *this;
	}
	~Call() { withdraw(); }

	wf_handle handle() const { return state->handle; }
	bool done() const { return state->done; }
	// outcome returns the outcome of a call that is done.
	const Outcome &outcome() const { return state->outcome; }
	// withdraw withdraws the call unless it is done: a signal stays for the next wait. A step in progress continues.
	void withdraw() {
		if (!state || state->done) return;
		state->waiters.clear();
		state->withdraw();
		detail::loop().open.erase(state->handle);
		state->done = true;
		state->outcome = Outcome(WF_CANCELLED, "{\"code\":\"CANCELLED\",\"message\":\"withdrawn\"}");
	}
	// detach lets the call continue after the destruction of this object.
	void detach() { state.reset(); }

	// Awaiter is the awaiter of co_await.
	class Awaiter {
	public:
		explicit Awaiter(std::shared_ptr<detail::State> call) : call(std::move(call)) {}
		bool await_ready() const { return call->done; }
		void await_suspend(std::coroutine_handle<> h) {
			waiting.begin(h);
			waiting.on(call);
		}
		Outcome await_resume() {
			waiting.end();
			return call->outcome;
		}

	private:
		std::shared_ptr<detail::State> call;
		detail::Waiting waiting;
	};
	Awaiter operator co_await() const { return Awaiter(state); }

private:
	std::shared_ptr<detail::State> state;
	template <class... C> friend class Race;
	friend class First;
};

// Task is a coroutine. It begins when it is awaited or started. Destroying it stops it, and withdraws the calls that it waits
// for.
template <class T> class [[nodiscard]] Task {
public:
	class Awaiter;
	struct promise_type {
		std::optional<T> value;
		Awaiter *waiter = nullptr;
		bool started = false;

		Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
		std::suspend_always initial_suspend() noexcept { return {}; }
		struct Final {
			bool await_ready() noexcept { return false; }
			// The loop resumes the waiter: resuming it from here needs tail calls, which not all engines have.
			void await_suspend(std::coroutine_handle<promise_type> h) noexcept {
				if (h.promise().waiter) h.promise().waiter->wake();
			}
			void await_resume() noexcept {}
		};
		Final final_suspend() noexcept { return {}; }
		template <class U> void return_value(U &&v) { value.emplace(std::forward<U>(v)); }
		void unhandled_exception() { __builtin_trap(); }
		~promise_type() {
			if (waiter) waiter->leave();
		}
	};
	// Awaiter is the awaiter of co_await. It is in the frame of the waiting coroutine. Whichever of the two frames is destroyed
	// first, the other one does not use it any more.
	class Awaiter {
	public:
		explicit Awaiter(std::coroutine_handle<promise_type> task) : task(task) {}
		Awaiter(const Awaiter &) = delete;
		Awaiter &operator=(const Awaiter &) = delete;
		~Awaiter() { leave(); }

		bool await_ready() const { return task.done(); }
		void await_suspend(std::coroutine_handle<> h) {
			who = h;
			if (Awaiter *other = task.promise().waiter) other->leave();
			task.promise().waiter = this;
			begin(task);
		}
		T await_resume() {
			who = {};
			return std::move(*task.promise().value);
		}
		void wake() { detail::loop().wake(who); }
		// leave cancels the resumption of the waiting coroutine.
		void leave() {
			if (who) detail::loop().forget(who);
			if (task && task.promise().waiter == this) task.promise().waiter = nullptr;
			task = {};
			who = {};
		}

	private:
		std::coroutine_handle<promise_type> task;
		std::coroutine_handle<> who;
	};

	Task(Task &&other) noexcept : coroutine(std::exchange(other.coroutine, {})) {}
	Task &operator=(Task &&other) noexcept {
		if (this != &other) {
			if (coroutine) coroutine.destroy();
			coroutine = std::exchange(other.coroutine, {});
		}
		return *this;
	}
	~Task() {
		if (coroutine) coroutine.destroy();
	}

	bool done() const { return coroutine.done(); }
	// start runs the coroutine to its first wait, concurrently with the caller. co_await on the task waits for its value.
	Task &start() & {
		begin(coroutine);
		return *this;
	}
	Task &&start() && { return std::move(static_cast<Task *>(this)->start()); }
	T take() { return std::move(*coroutine.promise().value); }
	Awaiter operator co_await() const { return Awaiter(coroutine); }

private:
	explicit Task(std::coroutine_handle<promise_type> h) : coroutine(h) {}
	static void begin(std::coroutine_handle<promise_type> h) {
		if (std::exchange(h.promise().started, true)) return;
		detail::resume(h);
	}
	std::coroutine_handle<promise_type> coroutine;
};

// Race waits for the first of some calls and withdraws the rest, in order.
template <class... C> class [[nodiscard]] Race {
public:
	explicit Race(C &...calls) : calls{&calls...} {}
	bool await_ready() const { return winner() < calls.size(); }
	void await_suspend(std::coroutine_handle<> h) {
		waiting.begin(h);
		for (Call *c : calls) waiting.on(c->state);
	}
	// Returns the index of the first call.
	size_t await_resume() {
		waiting.end();
		size_t won = winner();
		for (size_t i = 0; i < calls.size(); i++)
			if (i != won) calls[i]->withdraw();
		return won;
	}

private:
	size_t winner() const {
		size_t i = 0;
		while (i < calls.size() && !calls[i]->done()) i++;
		return i;
	}
	std::vector<Call *> calls;
	detail::Waiting waiting;
};

// race returns an awaitable for the first of some calls, which withdraws the rest: switch (co_await wfhost::race(a, b)).
template <class... C> Race<C...> race(C &...calls) { return Race<C...>(calls...); }

// First waits for the next call of a list that is done, and removes it from the list.
class [[nodiscard]] First {
public:
	explicit First(std::vector<Call> &calls) : calls(calls) {}
	bool await_ready() const { return calls.empty() || at() < calls.size(); }
	void await_suspend(std::coroutine_handle<> h) {
		waiting.begin(h);
		for (Call &c : calls) waiting.on(c.state);
	}
	// Returns the call, none if the list is empty.
	std::optional<Call> await_resume() {
		waiting.end();
		size_t i = at();
		if (i == calls.size()) return {};
		std::optional<Call> c(std::move(calls[i]));
		calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(i));
		return c;
	}

private:
	size_t at() const {
		size_t i = 0;
		while (i < calls.size() && !calls[i].done()) i++;
		return i;
	}
	std::vector<Call> &calls;
	detail::Waiting waiting;
};

inline First first(std::vector<Call> &calls) { return First(calls); }

// Data of the run.
inline std::string input() { return detail::read(wf_input); }
inline std::string info() { return detail::read(wf_info); }
inline std::string run_id() { return json::text(json::field(info(), "run_id")); }
// now returns the run's clock, in milliseconds since 1970.
inline int64_t now() { return wf_now(); }
// cancelled reports whether a cancel of the run was requested, under the cooperative policy.
inline bool cancelled() { return detail::loop().cancelled; }
// random returns a value of random bytes, the same on each replay.
template <class T> T random() {
	T v{};
	wf_random(&v, sizeof v);
	return v;
}

// StepInfo describes the step of a body or step function.
struct StepInfo {
	std::string name, handler;
	int64_t attempt, attempts; // attempt from 1; maximum number, 0 = unlimited
	std::string idempotency_key; // the same at every attempt
	std::string last_error;      // JSON
};
inline StepInfo step_info() {
	std::string all = info(), s(json::field(all, "step"));
	auto text = [&](const char *key) { return json::text(json::field(s, key)); };
	auto number = [&](const char *key) { return json::number(json::field(s, key)); };
	return {text("name"), text("handler"), number("attempt"), number("attempts"), text("idempotency_key"),
		std::string(json::field(s, "last_error"))};
}

// Sleeps.
inline Call sleep(std::string_view name, Milliseconds d) {
	return Call(wf_sleep_start(name.data(), detail::length(name), d.count()));
}
// sleep with a text takes durations such as "1h30m", "7d", "PT5M", and instants such as "2030-01-31T09:00:00Z".
inline Call sleep(std::string_view name, std::string_view text) {
	return Call(wf_sleep_text_start(name.data(), detail::length(name), text.data(), detail::length(text)));
}
inline Call sleep(std::string_view name, const char *text) { return sleep(name, std::string_view(text)); }
inline Call sleep_until(std::string_view name, int64_t unix_ms) {
	return Call(wf_sleep_until_start(name.data(), detail::length(name), unix_ms));
}

namespace detail {
// undoing is the name that new calls undo by default: see Saga.
inline std::string &undoing() {
	static std::string s;
	return s;
}
} // namespace detail

// StepOptions are the options of a step. Unset options have the host's defaults.
struct StepOptions {
	int attempts = -1; // default 3; 0 = unlimited
	std::string delay = {}, backoff = {}, max_delay = {}, max_elapsed = {}, timeout = {};
	double factor = 0, jitter = -1;
	bool at_most_once = false;
	std::string undoes = detail::undoing(); // name of the step or child that this one undoes, "*" if it has none

	std::string json() const {
		std::string s;
		auto add = [&](const char *key, const std::string &value) {
			s += (s.empty() ? "{" : ",") + json::quote(key) + ":" + value;
		};
		if (attempts >= 0) add("attempts", std::to_string(attempts));
		if (!delay.empty()) add("delay", json::quote(delay));
		if (!backoff.empty()) add("backoff", json::quote(backoff));
		if (factor > 0) add("factor", std::to_string(factor));
		if (!max_delay.empty()) add("max_delay", json::quote(max_delay));
		if (!max_elapsed.empty()) add("max_elapsed", json::quote(max_elapsed));
		if (jitter >= 0) add("jitter", std::to_string(jitter));
		if (!timeout.empty()) add("timeout", json::quote(timeout));
		if (at_most_once) add("at_most_once", "true");
		if (!undoes.empty()) add("undoes", json::quote(undoes));
		return s.empty() ? s : s + "}";
	}
};

// step starts a step of a handler: a step function of this module by its name, or a handler of the host by "host/" and its name.
inline Call step(std::string_view name, std::string_view handler, std::string_view in, const StepOptions &o = {}) {
	std::string opts = o.json();
	return Call(wf_step_start(name.data(), detail::length(name), handler.data(), detail::length(handler), in.data(),
		detail::length(in), opts.data(), detail::length(opts)));
}

// body runs a function as a step, at least once, on a copy of the workflow: it may read everything, its changes are lost,
// and only its Outcome returns.
template <class F> Call body(std::string_view name, F &&f, const StepOptions &o = {}) {
	std::string opts = o.json();
	wf_handle h = wf_step_begin(name.data(), detail::length(name), opts.data(), detail::length(opts));
	if (h == 0) {
		Outcome out = f();
		wf_step_end(!out.ok(), out.data.data(), detail::length(out.data));
	}
	return Call(h);
}

// Signals and hooks. Without a time-out, the wait is unbounded.
inline Call signal(std::string_view name, Milliseconds timeout = Milliseconds(-1)) {
	return Call(wf_signal_start(name.data(), detail::length(name), timeout.count()));
}
inline Call send(std::string_view run, std::string_view signal, std::string_view payload) {
	return Call(wf_signal_send(signal.data(), detail::length(signal), run.data(), detail::length(run), signal.data(),
		detail::length(signal), payload.data(), detail::length(payload)));
}
// HookReply is the answer to a delivery to a hook.
struct HookReply {
	int status = 202;
	std::string content_type = {}, body = {};
};
// hook opens a hook and resolves to its token; the host makes one if it is empty. Deliveries are signals of the hook's name.
inline Call hook(std::string_view name, std::string_view token = {}, const std::optional<HookReply> &reply = {}) {
	std::string opts;
	if (reply)
		opts = "{\"status\":" + std::to_string(reply->status) + ",\"content_type\":" + json::quote(reply->content_type) +
			",\"body\":" + json::quote(reply->body) + "}";
	return Call(wf_hook_start(name.data(), detail::length(name), token.data(), detail::length(token), opts.data(),
		detail::length(opts)));
}

// ChildOptions are the options of a child run. attributes and memo are JSON.
struct ChildOptions {
	std::string id = {}, version = {}, on_end = {}, timeout = {}, attributes = {}, memo = {};
	std::string undoes = detail::undoing(); // as in StepOptions

	std::string json() const {
		std::string s;
		auto add = [&](const char *key, const std::string &value) {
			s += (s.empty() ? "{" : ",") + json::quote(key) + ":" + value;
		};
		if (!id.empty()) add("id", json::quote(id));
		if (!version.empty()) add("version", version == "latest" ? "\"latest\"" : version);
		if (!on_end.empty()) add("on_end", json::quote(on_end));
		if (!timeout.empty()) add("timeout", json::quote(timeout));
		if (!attributes.empty()) add("attributes", attributes);
		if (!memo.empty()) add("memo", memo);
		if (!undoes.empty()) add("undoes", json::quote(undoes));
		return s.empty() ? s : s + "}";
	}
};
inline Call child(std::string_view name, std::string_view workflow, std::string_view in, const ChildOptions &o = {}) {
	std::string opts = o.json();
	return Call(wf_child_start(name.data(), detail::length(name), workflow.data(), detail::length(workflow), in.data(),
		detail::length(in), opts.data(), detail::length(opts)));
}
// child_id returns the run id of a child.
inline std::string child_id(const Call &c) {
	return detail::read([&](void *out, uint32_t cap) { return wf_child_id(c.handle(), out, cap); });
}

// Output, attributes, markers, log. They return at once.
inline Outcome emit(std::string_view topic, std::string_view payload, int64_t *index = nullptr) {
	int64_t n = wf_emit(topic.data(), detail::length(topic), payload.data(), detail::length(payload));
	if (index) *index = n;
	return n < 0 ? detail::outcome_of(n) : Outcome();
}
inline Outcome set_attribute(std::string_view key, std::string_view value) {
	int64_t n = wf_set_attribute(key.data(), detail::length(key), value.data(), detail::length(value));
	return n < 0 ? detail::outcome_of(n) : Outcome();
}
inline void log(std::string_view line, wf_level level = WF_INFO) { wf_log(level, line.data(), detail::length(line)); }
// version marks a change of the code: it returns 0 in a run that passed here before the marker existed, else the recorded value,
// which is newest the first time. A repeated marker has the same answer within an iteration of the run, whatever newest is. Its id
// is in a namespace of its own: a step may have the same name. A refused marker returns 0, and the log says why.
inline int64_t version(std::string_view id, int64_t newest) {
	int64_t n = wf_version(id.data(), detail::length(id), newest);
	if (n < 0) log("version marker refused: " + detail::last(), WF_ERROR);
	return n < 0 ? 0 : n;
}

// cooperative_cancel lets the workflow handle a cancel: its open calls are withdrawn and resolve with CANCELLED, and later calls
// work. A step in progress at that moment is not withdrawn: it resolves with its own outcome, and cancelled() reports the cancel.
// The run is cancelled if the workflow then fails, and completed if it does not.
inline void cooperative_cancel() { wf_cancel_policy(1); }

// continue_as_new ends this iteration of the run and begins the next one, with an empty journal. It never returns.
[[noreturn]] inline void continue_as_new(std::string_view in, bool latest = false) {
	std::string_view opts = latest ? "{\"version\":\"latest\"}" : "";
	wf_continue_as_new(in.data(), detail::length(in), opts.data(), detail::length(opts));
}

// on_query offers a query: f is called with its input, on a copy of the workflow where it waits or has ended.
inline void on_query(std::string name, detail::Query f) { detail::loop().queries[std::move(name)] = std::move(f); }

// Update is a request to the run, whose sender waits for the answer.
class Update {
public:
	Update(wf_handle h, std::string in) : input(std::move(in)), handle(h) {}
	std::string input;
	// reply answers the update. If the host refuses the answer because it is over 1 MiB, the update fails with that refusal.
	void reply(const Outcome &o) const {
		int64_t n = send(!o.ok(), o.data);
		if (n >= 0) return;
		std::string why = detail::last();
		if (n == -WF_TOO_LARGE) send(true, why);
		log("an answer to an update was refused: " + why, WF_ERROR);
	}

private:
	int64_t send(bool failed, const std::string &data) const {
		return wf_update_reply(handle, failed, data.data(), detail::length(data));
	}

	wf_handle handle;
};

// Updates receives the updates of a name. They are accepted as long as it exists.
class Updates {
public:
	// accepts decides in the state in which the workflow waits; an error Outcome refuses the update.
	Updates(std::string name, detail::Query accepts) : name(std::move(name)) {
		detail::loop().validators[this->name] = std::move(accepts);
		wait();
	}
	// next waits for an update, and returns none if a cancel has withdrawn the wait. When it returns, the wait for the next update is
	// open, and stays open if the Task is destroyed. Concurrent waits get different updates.
	Task<std::optional<Update>> next() {
		for (;;) {
			if (!open) wait();
			wf_handle h = open->handle();
			Outcome o = co_await *open;
			bool taken = !open || open->handle() != h; // by a concurrent wait
			if (!o.ok()) {
				if (!taken) open.reset();
				co_return std::nullopt;
			}
			if (taken) continue;
			wait();
			co_return Update(h, o.data);
		}
	}
	~Updates() {
		detail::loop().validators.erase(name);
		if (open) open->detach();
	}
	Updates(const Updates &) = delete;
	Updates &operator=(const Updates &) = delete;

private:
	void wait() {
		std::string s = "host/update/" + name;
		open.emplace(wf_signal_start(s.data(), detail::length(s), -1));
	}
	std::string name;
	std::optional<Call> open;
};

// Requests, in bodies and step functions. The version needs a grant for the host.
struct Request {
	std::string url;
	std::string method = "GET";
	std::vector<std::pair<std::string, std::string>> headers = {};
	std::string body = {};
	Milliseconds timeout{0};
};
struct Response {
	// The maximum Retry-After: a year.
	static constexpr std::chrono::seconds max_retry_after{365 * 24 * 3600};

	Outcome error; // not ok without an answer
	int64_t status = 0;
	std::string headers; // JSON: names and lists of values
	std::string body;

	// header returns the first value of a header, by its canonical name.
	std::string header(std::string_view name) const {
		std::string_view list = json::trim(json::field(headers, name));
		if (list.size() < 2) return {};
		list = list.substr(1);
		return json::text(list.substr(0, json::skip(list, 0)));
	}
	// checked returns the body of an answer below 400, and a Failure otherwise: 408, 425, 429 and from 500 are retryable, after
	// the seconds of the header Retry-After; other statuses are not.
	Outcome checked() const {
		if (!error.ok()) return error;
		if (status < 400) return body;
		Failure f{"the server has answered " + std::to_string(status) + ": " + body.substr(0, 200)};
		f.retryable = status == 408 || status == 425 || status == 429 || status >= 500;
		std::string after = header("Retry-After");
		bool seconds = !after.empty() && after.find_first_not_of("0123456789") == std::string::npos; // not a date
		if (f.retryable && seconds) f.retry_after = std::min(std::chrono::seconds(json::number(after)), max_retry_after);
		return f;
	}
};
inline Response fetch(const Request &r) {
	std::string head = "{\"method\":" + json::quote(r.method) + ",\"url\":" + json::quote(r.url) + ",\"headers\":{";
	for (size_t i = 0; i < r.headers.size(); i++)
		head += (i ? "," : "") + json::quote(r.headers[i].first) + ":[" + json::quote(r.headers[i].second) + "]";
	head += "}";
	if (r.timeout.count() > 0) head += ",\"timeout_ms\":" + std::to_string(r.timeout.count());
	head += "}";
	uint32_t n = detail::length(head);
	std::string all(reinterpret_cast<const char *>(&n), sizeof n); // little endian
	all += head + r.body;
	Response out;
	int64_t got = wf_fetch(all.data(), detail::length(all), nullptr, 0);
	std::string answer = detail::last();
	if (got < 0) {
		int code = static_cast<int>(-got);
		bool again = code == WF_STEP_FAILED; // the network; other errors are permanent
		if (!again && answer.size() > 2) answer.insert(answer.size() - 1, ",\"retryable\":false");
		out.error = Outcome(code, answer);
		return out;
	}
	if (answer.size() < sizeof n) return out;
	__builtin_memcpy(&n, answer.data(), sizeof n);
	head = answer.substr(sizeof n, n);
	out.status = json::number(json::field(head, "status"));
	out.headers = std::string(json::field(head, "headers"));
	out.body = answer.substr(sizeof n + n);
	return out;
}

// Saga collects compensations of completed steps.
class Saga {
public:
	// add adds the compensation of a step or child. With the name of that step or child, a restart that would keep only one of
	// both is refused.
	void add(std::function<Task<Outcome>()> undo, std::string of = "*") { undos.push_back({std::move(undo), std::move(of)}); }
	// compensate performs the compensations, newest first, and returns failed.
	Task<Outcome> compensate(Outcome failed) {
		for (; !undos.empty(); undos.pop_back()) {
			std::string before = std::exchange(detail::undoing(), undos.back().of);
			Outcome o = co_await undos.back().run();
			detail::undoing() = before;
			if (!o.ok()) log("undo failed: " + o.data, WF_ERROR);
		}
		co_return failed;
	}

private:
	struct Undo {
		std::function<Task<Outcome>()> run;
		std::string of;
	};
	std::vector<Undo> undos;
};

// Description describes a workflow. Schemas are JSON Schemas as text.
struct Description {
	std::vector<std::string> queries = {}, signals = {}, updates = {};
	std::string input_schema = {}, output_schema = {};
};

namespace detail {

struct Registered {
	std::string name;
	std::function<Task<Outcome>(std::string)> run;
	Description description;
};

// Registry has the contents of the module.
struct Registry {
	std::vector<Registered> workflows;
	std::vector<std::pair<std::string, Entry>> steps;
};

inline Registry &registry() {
	static Registry r;
	return r;
}

inline std::string list(const std::vector<std::string> &names) {
	std::string s;
	for (auto &n : names) s += (s.empty() ? "" : ",") + json::quote(n);
	return "[" + s + "]";
}

inline std::string describe() {
	std::string s = "{\"workflows\":[", steps;
	for (auto &w : registry().workflows) {
		s += (s.back() == '[' ? "{\"name\":" : ",{\"name\":") + json::quote(w.name);
		const Description &d = w.description;
		if (!d.queries.empty()) s += ",\"queries\":" + list(d.queries);
		if (!d.signals.empty()) s += ",\"signals\":" + list(d.signals);
		if (!d.updates.empty()) s += ",\"updates\":" + list(d.updates);
		if (!d.input_schema.empty()) s += ",\"input_schema\":" + d.input_schema;
		if (!d.output_schema.empty()) s += ",\"output_schema\":" + d.output_schema;
		s += "}";
	}
	for (auto &f : registry().steps) steps += (steps.empty() ? "" : ",") + json::quote(f.first);
	return s + "],\"steps\":[" + steps + "],\"sdk\":\"cpp/1.0\"}";
}

// end returns the outcome of the workflow, or of a step function, to the host.
inline int end(const Outcome &o) {
	int64_t n = o.ok() ? wf_complete(o.data.data(), length(o.data)) : wf_fail(o.data.data(), length(o.data));
	if (n == -WF_QUERY) loop().answer(); // the run had ended before
	if (n < 0) {
		std::string why = last();
		wf_fail(why.data(), length(why));
		return 1;
	}
	return !o.ok();
}

inline int run() {
	std::string name = json::text(json::field(info(), "workflow"));
	for (auto &w : registry().workflows) {
		if (w.name != name && registry().workflows.size() > 1) continue;
		Task<Outcome> root = w.run(input());
		root.start();
		for (loop().run_ready(); !root.done(); loop().run_ready())
			if (auto failed = loop().wait()) return end(*failed);
		return end(root.take());
	}
	return end(Failure{"the module has no workflow " + name});
}

inline int run_step() {
	std::string handler = step_info().handler;
	for (auto &[name, f] : registry().steps)
		if (name == handler) return end(f(input()));
	return end(Failure{"the module has no step function " + handler, {}, false});
}

} // namespace detail

// Workflow registers a workflow, as a static variable. A module with one workflow runs it under any name of an upload.
struct Workflow {
	Workflow(std::string name, std::function<Task<Outcome>(std::string)> run, Description d = {}) {
		detail::registry().workflows.push_back({std::move(name), std::move(run), std::move(d)});
	}
};

// Step registers a step function, as a static variable: wfhost::step calls it in a separate instance.
struct Step {
	Step(std::string name, std::function<Outcome(std::string)> f) {
		detail::registry().steps.emplace_back(std::move(name), std::move(f));
	}
};

} // namespace wfhost

extern "C" {
__attribute__((used, weak, export_name("workflow_run"))) inline int wfhost_workflow_run() { return wfhost::detail::run(); }
__attribute__((used, weak, export_name("workflow_step"))) inline int wfhost_workflow_step() { return wfhost::detail::run_step(); }
__attribute__((used, weak, export_name("workflow_describe"))) inline void wfhost_workflow_describe() {
	std::string d = wfhost::detail::describe();
	wf_complete(d.data(), wfhost::detail::length(d));
}
}

#endif
