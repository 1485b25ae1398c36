// A mail campaign, an approval by link, and an order, in C++: the same as examples/drip, approval and orders.
#include "../../guest-sdk/cpp/workflow.hpp"

using namespace std::chrono_literals;
namespace wf = wfhost;
namespace json = wfhost::json;
using std::string;
using Task = wf::Task<wf::Outcome>;

// mail is a step that sends a mail. A real one hands step_info().idempotency_key to its mail service.
static wf::Call mail(const string &name, const string &text) {
	return wf::body(name, [&] {
		wf::log(text);
		return wf::Outcome(json::quote(wf::step_info().idempotency_key));
	});
}

// drip sends four mails over six days, and its result is their number.
static Task drip(string input) {
	string email = json::text(json::field(input, "email"));
	struct Mail {
		const char *name;
		wf::Milliseconds pause;
	};
	const Mail mails[] = {{"welcome", 72h}, {"tips", 48h}, {"success stories", 24h}, {"offer", 0h}};
	int sent = 0;
	for (const Mail &m : mails) {
		if (auto o = co_await mail(string("mail ") + m.name, string(m.name) + " to " + email); !o) co_return o;
		sent++;
		if (m.pause.count() == 0) continue;
		if (auto o = co_await wf::sleep(string("after ") + m.name, m.pause); !o) co_return o;
	}
	co_return std::to_string(sent);
}

// approval sends a link, reminds after three days, and gives up after seven.
static Task approval(string input) {
	auto token = co_await wf::hook("decision", "", wf::HookReply{200, "text/plain", "Thank you.\n"});
	if (!token) co_return token;
	string number = json::text(json::field(input, "Number")), link = " by /v1/hooks/" + token.data;
	if (auto o = co_await mail("ask", "please approve " + number + link); !o) co_return o;
	for (int days : {3, 4}) {
		auto decision = co_await wf::signal("decision", days * 24h);
		if (decision) {
			string by = json::text(json::field(decision.data, "By"));
			if (json::field(decision.data, "Approved") == "true") co_return json::quote("approved by " + by);
			co_return wf::Failure{"refused by " + by};
		}
		if (decision.code != WF_TIMEOUT) co_return decision;
		if (auto o = co_await mail("remind after " + std::to_string(days), "still waiting for " + number + link); !o) co_return o;
	}
	co_return wf::Failure{"nobody decided within seven days"};
}

// post is a step that sends JSON with the step's idempotency key. Its result is the id in the answer.
static wf::Call post(const string &name, const string &url, const string &body) {
	return wf::body(name, [&] {
		wf::Request r{.url = url, .method = "POST", .body = body};
		r.headers = {{"Content-Type", "application/json"}, {"Authorization", "Bearer {{secret:SHOP}}"},
			{"Idempotency-Key", wf::step_info().idempotency_key}};
		auto answer = wf::fetch(r).checked();
		return answer ? wf::Outcome(string(json::field(answer.data, "ID"))) : answer;
	}, {.attempts = 6, .timeout = "10s"});
}

// order charges, then ships; if no courier takes it, the charge is given back.
static Task order(string input) {
	string service = json::text(json::field(input, "Service"));
	auto charge = co_await post("charge", service + "/charges", "{\"cents\":" + string(json::field(input, "Cents")) + "}");
	if (!charge) co_return charge;
	wf::Saga undo;
	undo.add([&]() -> Task { co_return co_await post("refund", service + "/refunds", "{\"charge\":" + charge.data + "}"); });
	auto parcel = co_await post("ship", service + "/parcels", "{\"item\":" + string(json::field(input, "Item")) + "}");
	if (!parcel) co_return co_await undo.compensate(parcel);
	co_return "{\"Charge\":" + charge.data + ",\"Parcel\":" + parcel.data + "}";
}

static wf::Workflow workflows[] = {{"drip", drip}, {"approval", approval, {.signals = {"decision"}}}, {"orders", order}};
