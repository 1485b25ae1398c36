// The story workflows of docs/reference/conformance.md in C++.
#include <functional>

#include "../workflow.hpp"

using namespace std::chrono_literals;
using std::string;
using std::to_string;
using wfhost::Failure;
using wfhost::Outcome;
using Task = wfhost::Task<Outcome>;
namespace json = wfhost::json;

// or_code returns a result's JSON, or the code of an error as a JSON string.
static string or_code(const Outcome &o) { return o.ok() ? o.data : json::quote(o.name()); }

static string code(const Outcome &o) { return json::quote(o.name()); }

static string list(const std::vector<string> &values) {
	string s;
	for (auto &v : values) s += (s.empty() ? "" : ",") + v;
	return "[" + s + "]";
}

static Task sleeps(string) {
	int64_t began = wfhost::now();
	std::vector<string> took;
	auto lap = [&] { took.push_back(to_string(wfhost::now() - began)); };
	co_await wfhost::sleep("duration", 4s);
	lap();
	co_await wfhost::sleep("nothing", 0s);
	lap();
	co_await wfhost::sleep_until("instant", began + 10000);
	lap();
	co_await wfhost::sleep("text", "1h30m");
	lap();
	co_await wfhost::sleep_until("past", began);
	lap();
	co_return list(took);
}

static Task steps(string in) {
	Outcome greeting = co_await wfhost::step("greet", "greet", in);
	auto a = wfhost::step("a", "double", "21"), b = wfhost::step("b", "double", "4");
	Outcome x = co_await a, y = co_await b;
	co_return list({or_code(greeting), or_code(x), or_code(y)});
}

static int changed; // by a body, which the workflow must not see

static Task bodies(string in) {
	string name = json::text(in);
	Outcome one = co_await wfhost::body("one", [&] {
		changed++;
		return Outcome(json::quote("body of " + name));
	});
	auto a = wfhost::body("a", [] { return Outcome("\"a\""); });
	auto b = wfhost::body("b", [] { return Outcome("\"b\""); });
	Outcome x = co_await a, y = co_await b;
	Outcome inside = co_await wfhost::body("inside", [] { return Outcome(code(wfhost::sleep("nap", 1s).outcome())); });
	co_return list({or_code(one), or_code(x), or_code(y), or_code(inside), to_string(changed)});
}

static Outcome attempted() { return json::quote("ok after " + to_string(wfhost::step_info().attempt)); }

static Task retries(string) {
	Outcome flaky = co_await wfhost::step("flaky", "flaky", "null", {.attempts = 3, .delay = "100ms"});
	Outcome body = co_await wfhost::body(
		"body", [] { return wfhost::step_info().attempt == 1 ? Outcome(Failure{"not yet"}) : attempted(); }, {.attempts = 2});
	Outcome later = co_await wfhost::body("later", [] {
		return wfhost::step_info().attempt == 1 ? Outcome(Failure{.message = "busy", .retry_after = 5s}) : attempted();
	});
	co_return list({or_code(flaky), or_code(body), or_code(later)});
}

static Task failures(string) {
	Outcome never = co_await wfhost::step("never", "never", "null", {.attempts = 2, .delay = "10ms"});
	Outcome fatal = co_await wfhost::body("fatal", [] { return Outcome(Failure{.message = "out of stock", .retryable = false}); });
	auto failure = [](const Outcome &o) {
		return "{\"code\":" + code(o) + ",\"kind\":" + json::quote(o.kind()) + ",\"attempts\":" + to_string(o.attempts()) +
			",\"message\":" + json::quote(o.message()) + "}";
	};
	co_return list({failure(never), failure(fatal)});
}

static Task refusals(string) {
	std::vector<string> codes;
	codes.push_back(code(co_await wfhost::sleep("negative", -1ms)));
	codes.push_back(code(co_await wfhost::sleep("bare", "5")));
	codes.push_back(code(co_await wfhost::sleep("date", "2026-13-01")));
	codes.push_back(code(co_await wfhost::step("nobody", "nobody", "null")));
	codes.push_back(code(co_await wfhost::step("denied", "host/vault", "null")));
	codes.push_back(code(co_await wfhost::sleep("", 0s)));
	co_return list(codes);
}

static Task names(string) {
	std::vector<string> codes;
	codes.push_back(code(co_await wfhost::sleep("x", 0s)));
	codes.push_back(code(co_await wfhost::sleep("x", 0s)));
	co_return list(codes);
}

static Task failing(string) {
	co_await wfhost::sleep("nap", 1s);
	co_return Failure{"nothing in stock"};
}

static Task signals(string) {
	Outcome first = co_await wfhost::signal("go", 3s);
	Outcome second = co_await wfhost::signal("go");
	Outcome none = co_await wfhost::signal("none", 100ms);
	co_return list({or_code(first), or_code(second), or_code(none)});
}

static Task race(string) {
	std::vector<string> seen;
	{
		auto stop = wfhost::signal("stop");
		auto limit = wfhost::sleep("limit", 5s);
		if (co_await wfhost::race(stop, limit) == 0) {
			seen = {"\"stop\"", or_code(stop.outcome())};
		} else {
			seen = {"\"limit\""};
		}
	}
	co_await wfhost::sleep("after", 1s);
	seen.push_back(or_code(co_await wfhost::signal("stop", 10s)));
	co_return list(seen);
}

static Task parallel(string) {
	std::map<wf_handle, string> names;
	std::vector<wfhost::Call> calls;
	auto start = [&](const char *name, wfhost::Milliseconds d) {
		calls.push_back(wfhost::sleep(name, d));
		names[calls.back().handle()] = json::quote(name);
	};
	start("c", 3s);
	start("a", 1s);
	start("b", 2s);
	std::vector<string> woke;
	while (auto call = co_await wfhost::first(calls)) woke.push_back(names[call->handle()]);
	co_return list(woke);
}

static Task cancels(string in) {
	string how = json::text(in);
	if (how != "final") wfhost::cooperative_cancel();
	Outcome slept = co_await wfhost::sleep("long", 1h);
	if (slept.ok()) co_return "\"slept\"";
	co_await wfhost::step("clean up", "greet", "\"cleaner\"");
	if (how == "ignore") co_return json::quote(string(slept.name()) + ", but done");
	co_return Failure{"cancelled"};
}

static Task parent(string) {
	Outcome first = co_await wfhost::child("first", "child", "20");
	auto second = wfhost::child("second", "child", "40", {.id = "parent-second"});
	string id = wfhost::child_id(second);
	Outcome n = co_await second;
	Outcome third = co_await wfhost::child("third", "child", "-1");
	co_return list({or_code(first), json::quote(id), or_code(n), code(third), json::quote(third.kind())});
}

static Task child(string in) {
	int64_t n = json::number(in);
	if (n < 0) co_return Failure{"negative"};
	co_await wfhost::sleep("nap", 1s);
	co_return to_string(n + 1);
}

static Task counter(string in) {
	Outcome v = co_await wfhost::signal("add");
	int64_t n = json::number(in) + v.number();
	if (n < 10) wfhost::continue_as_new(to_string(n));
	co_return to_string(n);
}

static Task queries(string) {
	string at = "start";
	wfhost::on_query("status", [&at](string in) {
		if (json::text(in) == "refuse") return Outcome(Failure{"refused"});
		return Outcome("{\"at\":" + json::quote(at) + "}");
	});
	at = "nap";
	co_await wfhost::sleep("nap", 10s);
	at = "end";
	co_return "\"done\"";
}

static Task updates(string) {
	wfhost::Updates adds("add", [](string in) {
		return json::number(in) > 0 ? Outcome() : Outcome(Failure{"only more can be added"});
	});
	int64_t total = 0;
	while (total < 10) {
		auto update = co_await adds.next();
		if (!update) co_return Failure{"cancelled"};
		total += json::number(update->input);
		update->reply(to_string(total));
	}
	co_return to_string(total);
}

static Task output(string) {
	int64_t first = 0, second = 0;
	wfhost::emit("progress", "\"started\"", &first);
	wfhost::set_attribute("customer", "ada");
	int64_t version = wfhost::version("change", 2);
	co_await wfhost::sleep("nap", 1s);
	wfhost::emit("progress", "{\"percent\":100}", &second);
	co_return list({to_string(first), to_string(version), to_string(second)});
}

static Task markers(string in) {
	int64_t newest = json::number(in);
	std::vector<string> got;
	for (int i = 0; i < 3; i++) got.push_back(to_string(wfhost::version("tax", newest)));
	co_await wfhost::sleep("tax", 1s);
	got.push_back(to_string(wfhost::version("tax", newest + 1)));
	got.push_back(to_string(wfhost::version("nap", 1)));
	co_await wfhost::sleep("nap", 1s);
	got.push_back(to_string(wfhost::version("nap", 5)));
	wfhost::emit("tax", list(got));
	if (newest < 3) wfhost::continue_as_new(to_string(newest + 1));
	co_return list(got);
}

static Task hooks(string) {
	Outcome token = co_await wfhost::hook("paid", "token-of-the-story", wfhost::HookReply{200, "text/plain", "thanks"});
	Outcome taken = co_await wfhost::hook("paid", "token-of-the-story");
	Outcome by = co_await wfhost::signal("paid");
	co_return list({json::quote(token.data), code(taken), or_code(by)});
}

static Task sender(string) {
	Outcome nobody = co_await wfhost::send("nobody-is-there", "go", "\"hello\"");
	auto listener = wfhost::child("listener", "listener", "null", {.id = "sender-listener"});
	co_await wfhost::sleep("nap", 1s);
	Outcome sent = co_await wfhost::send("sender-listener", "go", "\"hello\"");
	Outcome heard = co_await listener;
	co_return list({code(nobody), code(sent), or_code(heard)});
}

static Task listener(string) { co_return co_await wfhost::signal("go"); }

static Task many(string in) {
	int64_t sum = 0;
	for (int64_t i = 0; i < json::number(in); i++) {
		Outcome v = co_await wfhost::body("body " + to_string(i), [&] { return Outcome(to_string(sum + i)); });
		sum = v.number();
		if (i % 10 == 9) co_await wfhost::sleep("sleep " + to_string(i), 1min);
	}
	co_return to_string(sum);
}

static Task bytes(string in) {
	co_return co_await wfhost::body("twice", [&] { return Outcome(in + in); });
}

static Task chance(string) {
	auto before = wfhost::random<uint64_t>();
	co_await wfhost::sleep("nap", 1s);
	auto after = wfhost::random<uint64_t>();
	co_return list({before != after ? "true" : "false", wfhost::run_id() == "chance" ? "true" : "false"});
}

static wfhost::Workflow workflows[] = {
	{"sleeps", sleeps}, {"steps", steps}, {"bodies", bodies}, {"retries", retries}, {"failures", failures},
	{"refusals", refusals}, {"names", names}, {"failing", failing}, {"signals", signals, {.signals = {"go", "none"}}},
	{"race", race, {.signals = {"stop"}}}, {"parallel", parallel}, {"cancels", cancels}, {"parent", parent}, {"child", child},
	{"counter", counter, {.signals = {"add"}}}, {"queries", queries, {.queries = {"status"}}},
	{"updates", updates, {.updates = {"add"}}}, {"output", output}, {"markers", markers}, {"hooks", hooks, {.signals = {"paid"}}},
	{"sender", sender}, {"listener", listener, {.signals = {"go"}}}, {"long", many}, {"bytes", bytes}, {"chance", chance},
};

static wfhost::Step functions[] = {
	{"greet", [](string in) { return Outcome(json::quote("hello " + json::text(in))); }},
	{"double", [](string in) { return Outcome(to_string(2 * json::number(in))); }},
	{"flaky", [](string) {
		int64_t n = wfhost::step_info().attempt;
		return n < 3 ? Outcome(Failure{"attempt " + to_string(n)}) : attempted();
	}},
	{"never", [](string) { return Outcome(Failure{"attempt " + to_string(wfhost::step_info().attempt)}); }},
};
