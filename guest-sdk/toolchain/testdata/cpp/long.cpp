// A workflow that fails, and answers updates, by more than a host takes.
#include "workflow.hpp"

namespace wf = wfhost;
using std::string;

static wf::Failure huge() {
	string message = "x";
	for (int i = 0; i < 1 << 20; i++) message += "é";
	return {.message = message, .type = "Huge", .retryable = false};
}

static wf::Task<wf::Outcome> failing(string) {
	auto e = co_await wf::body("body", [] { return wf::Outcome(huge()); }, {.attempts = 2});
	string type = wf::json::text(wf::json::field(e.data, "type"));
	wf::emit("seen", wf::json::quote(string(e.name()) + " " + std::to_string(e.attempts()) + " " + type + " " +
		std::to_string(e.message().size())));
	wf::Updates words("word", [](string) { return wf::Outcome(""); });
	while (auto u = co_await words.next()) {
		string word = wf::json::text(u->input);
		if (word == "fail") {
			u->reply(huge());
		} else if (word == "answer") {
			u->reply(wf::json::quote(string(2 << 20, 'x')));
		} else {
			u->reply("\"fine\"");
			break;
		}
	}
	co_return huge();
}

static wf::Workflow registered("long", failing, {.updates = {"word"}});
