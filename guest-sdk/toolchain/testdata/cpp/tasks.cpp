// Workflows whose coroutines go on beside each other, and end before what they wait for.
#include "workflow.hpp"

using namespace std::chrono_literals;
namespace wf = wfhost;
using std::string;
using Task = wf::Task<wf::Outcome>;

static void seen(const string &what) { wf::emit("seen", wf::json::quote(what)); }

static string hours_since(int64_t began) { return std::to_string((wf::now() - began) / 3600000); }

// nap sleeps, and tells of it when it goes on.
static Task nap(string name, wf::Milliseconds d) {
	auto slept = co_await wf::sleep(name, d);
	seen(name + " " + slept.name());
	co_return slept;
}

// beside starts coroutines, and waits for them in another order than they end.
static Task beside(string) {
	int64_t began = wf::now();
	auto one = nap("one", 1h).start(), two = nap("two", 2h).start();
	one.start(); // once is enough
	co_await two;
	co_await one;
	co_return hours_since(began);
}

// dropped is cancelled while it waits beside a coroutine, which it then drops: both were about to go on.
static Task dropped(string) {
	wf::cooperative_cancel();
	auto own = wf::sleep("own", 24h);
	auto other = nap("other", 48h).start();
	if (auto o = co_await own; !o) co_return o;
	co_return "null";
}

// replaced is cancelled like dropped, puts another coroutine in the place of that one, and waits for it.
static Task replaced(string) {
	wf::cooperative_cancel();
	auto own = wf::sleep("own", 24h);
	auto other = nap("other", 48h).start();
	co_await own;
	other = nap("after it", 1h).start();
	co_await other;
	co_return wf::Failure{"cancelled"};
}

// of waits for a call that belongs to somebody else.
static Task of(wf::Call &call) {
	co_await call;
	seen("the call of somebody else");
	co_return "null";
}

// outlived has a call that lives longer than who waits for it.
static Task outlived(string) {
	auto call = wf::sleep("call", 2h);
	{
		auto waits = of(call).start();
		co_await wf::sleep("before it", 1h);
	}
	co_await wf::sleep("after it", 3h);
	co_return call.done() ? "true" : "false";
}

// joined waits for a coroutine that belongs to somebody else.
static Task joined(Task &task) {
	co_await task;
	seen("the task of somebody else");
	co_return "null";
}

// left has a coroutine that lives longer than who waits for it, and one that does not live as long.
static Task left(string) {
	auto task = nap("task", 2h).start();
	{
		auto waits = joined(task).start();
		co_await wf::sleep("before it", 1h);
	}
	std::optional<Task> gone(nap("gone", 9h).start());
	auto waits = joined(*gone).start();
	gone.reset();
	co_await wf::sleep("after it", 3h);
	co_return task.done() ? "true" : "false";
}

// gone is cancelled when a coroutine is about to end for which another one waits, and drops it before that one goes on.
static Task gone(string) {
	wf::cooperative_cancel();
	std::optional<Task> task(nap("task", 48h).start());
	auto waits = joined(*task).start();
	co_await wf::sleep("own", 24h);
	task.reset();
	co_await wf::sleep("after it", 1h);
	co_return wf::Failure{"cancelled"};
}

static Task either(wf::Call &a, wf::Call &b) {
	co_await wf::race(a, b);
	seen("the race of somebody else");
	co_return "null";
}

static Task next(std::vector<wf::Call> &calls) {
	co_await wf::first(calls);
	seen("the list of somebody else");
	co_return "null";
}

// races has calls that live longer than those who wait for the first of them.
static Task races(string) {
	auto a = wf::sleep("a", 2h), b = wf::sleep("b", 4h);
	std::vector<wf::Call> calls;
	calls.push_back(wf::sleep("c", 2h));
	calls.push_back(wf::sleep("d", 4h));
	{
		auto one = either(a, b).start(), two = next(calls).start();
		co_await wf::sleep("before it", 1h);
	}
	co_await wf::sleep("after it", 2h);
	co_return string(a.done() ? "true" : "false") + (b.done() ? "true" : "false");
}

// told is cancelled while a step is performed.
static Task told(string) {
	wf::cooperative_cancel();
	auto text = [](bool b) { return string(b ? "true" : "false"); };
	string before = text(wf::cancelled());
	auto work = wf::step("work", "host/work", "null"), sleeps = wf::sleep("nap", 1h);
	auto done = co_await work, slept = co_await sleeps, undone = co_await wf::step("undo", "host/undo", "null");
	seen(before + " " + done.text() + " " + slept.name() + " " + undone.text() + " " + text(wf::cancelled()));
	co_return wf::Failure{"cancelled"};
}

// leaves leaves a wait, which takes the first signal if it is detached, and leaves it if it is destroyed.
static Task leaves(string in) {
	{
		auto word = wf::signal("word");
		if (in == "true") word.detach();
	}
	co_await wf::sleep("hour", 1h);
	co_return co_await wf::signal("word");
}

// take takes an update, and answers with what was sent.
static Task take(wf::Updates &updates) {
	auto u = co_await updates.next();
	seen(u ? wf::json::text(u->input) : "none");
	if (u) u->reply(u->input);
	co_return "null";
}

// updates drops a coroutine that waits for an update, is cancelled while it waits for one itself, and takes what comes after that.
static Task updates(string) {
	wf::cooperative_cancel();
	wf::Updates words("word", [](string in) { return wf::Outcome(in); });
	{
		auto dropped = take(words).start();
		co_await wf::sleep("hour", 1h);
	}
	for (int i = 0; i < 4; i++) co_await take(words);
	auto one = take(words).start(), two = take(words).start();
	co_await one;
	co_await two;
	co_return "null";
}

static wf::Workflow workflows[] = {{"beside", beside}, {"dropped", dropped}, {"replaced", replaced}, {"outlived", outlived},
	{"left", left}, {"gone", gone}, {"races", races}, {"told", told}, {"leaves", leaves, {.signals = {"word"}}},
	{"updates", updates, {.updates = {"word"}}}};
