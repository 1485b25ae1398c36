// Rules for ESLint, which find what cannot work in a workflow. They look at calls of what is imported from @wfhost/workflow.

const from = "@wfhost/workflow";

// What a body cannot call: it has NOT_HERE for an answer, or throws.
const durable = new Set(["attribute", "call", "cancelled", "child", "continueAsNew", "emit", "hook", "saga", "send", "signal", "sleep",
  "sleepUntil", "step", "throwOnCancel", "update", "version"]);

function scopeOf(context, node) {
  for (let scope = context.sourceCode.getScope(node); scope; scope = scope.upper) {
    const v = scope.set.get(node.name);
    if (v) return v;
  }
  return undefined;
}

// imported returns the name of the SDK that an expression stands for: sleep, or wf.sleep of import * as wf.
function imported(context, node) {
  if (node.type === "MemberExpression" && !node.computed && node.object.type === "Identifier") {
    const def = scopeOf(context, node.object)?.defs[0];
    return def?.type === "ImportBinding" && def.node.type === "ImportNamespaceSpecifier" && def.parent.source.value === from
      ? node.property.name : undefined;
  }
  if (node.type !== "Identifier") return undefined;
  const def = scopeOf(context, node)?.defs[0];
  if (def?.type !== "ImportBinding" || def.parent.source.value !== from || def.node.type !== "ImportSpecifier") return undefined;
  return def.node.imported.name ?? def.node.imported.value;
}

const isFunction = (node) => /^(Arrow)?Function(Expression|Declaration)?$/.test(node?.type ?? "");

// functionOf returns the function that an argument is, or that a name in the same file stands for.
function functionOf(context, node) {
  if (isFunction(node)) return node;
  if (node?.type !== "Identifier") return undefined;
  const def = scopeOf(context, node)?.defs[0];
  if (def?.type === "FunctionName") return def.node;
  if (def?.type === "Variable" && isFunction(def.node.init)) return def.node.init;
  return undefined;
}

// bodyOf returns the body of a call step(name, body).
function bodyOf(context, node) {
  return imported(context, node.callee) === "step" ? functionOf(context, node.arguments[1]) : undefined;
}

// visit calls f with each node below one.
function visit(context, node, f) {
  f(node);
  for (const key of context.sourceCode.visitorKeys[node.type] ?? []) {
    for (const child of [node[key]].flat()) if (child) visit(context, child, f);
  }
}

// bodies calls check with each body, once.
function bodies(context, check) {
  const seen = new Set();
  return {
    CallExpression(node) {
      const body = bodyOf(context, node);
      if (!body || seen.has(body)) return;
      seen.add(body);
      check(body);
    },
  };
}

const noDurableCallInBody = {
  meta: {
    type: "problem",
    docs: { description: "The body of a step calls nothing that is recorded in the workflow's journal." },
    messages: { call: "{{name}}() in the body of a step fails with NOT_HERE: call it in the workflow, before or after the step." },
    schema: [],
  },
  create: (context) => bodies(context, (body) => visit(context, body, (node) => {
    if (node.type !== "CallExpression") return;
    const name = imported(context, node.callee);
    if (durable.has(name)) context.report({ node, messageId: "call", data: { name } });
  })),
};

const inside = new Set(["MemberExpression", "ChainExpression", "TSNonNullExpression", "TSAsExpression", "TSSatisfiesExpression", "TSTypeAssertion"]);

// root returns the variable to which an expression belongs: list of list.items[0].
function root(node) {
  while (inside.has(node.type)) node = node.object ?? node.expression;
  return node.type === "Identifier" ? node : undefined;
}

// targets returns what an assignment writes to.
function targets(node) {
  switch (node?.type) {
    case "ArrayPattern": return node.elements.flatMap(targets);
    case "ObjectPattern": return node.properties.flatMap((p) => targets(p.value ?? p.argument));
    case "AssignmentPattern": return targets(node.left);
    case "RestElement": return targets(node.argument);
    default: return node ? [node] : [];
  }
}

const noCapturedWriteInBody = {
  meta: {
    type: "problem",
    docs: { description: "The body of a step changes nothing of the workflow: it runs on a copy." },
    messages: { write: "The body of a step runs on a copy of the workflow, so this change of {{name}} is lost: return the value instead." },
    schema: [],
  },
  create: (context) => bodies(context, (body) => visit(context, body.body, (node) => {
    let written = [];
    if (node.type === "AssignmentExpression") written = targets(node.left);
    else if (node.type === "UpdateExpression") written = [node.argument];
    else if (node.type === "UnaryExpression" && node.operator === "delete") written = [node.argument];
    else if ((node.type === "ForOfStatement" || node.type === "ForInStatement") && node.left.type !== "VariableDeclaration") written = targets(node.left);
    for (const target of written) {
      const name = root(target);
      const at = name && scopeOf(context, name)?.defs[0]?.name.range[0];
      if (at === undefined || at >= body.range[0] && at < body.range[1]) continue; // unknown, or the body's own
      context.report({ node, messageId: "write", data: { name: name.name } });
    }
  })),
};

// through are the nodes whose value is that of a part of them.
const through = {
  ArrayExpression: (n) => n.elements, ChainExpression: (n) => [n.expression],
  ConditionalExpression: (n) => [n.consequent, n.alternate], LogicalExpression: (n) => [n.left, n.right],
  ObjectExpression: (n) => n.properties.map((p) => p.value ?? p.argument), SequenceExpression: (n) => [n.expressions.at(-1)],
  SpreadElement: (n) => [n.argument], TSAsExpression: (n) => [n.expression], TSNonNullExpression: (n) => [n.expression],
  TSSatisfiesExpression: (n) => [n.expression], TSTypeAssertion: (n) => [n.expression],
};
const chained = new Set(["then", "catch", "finally"]);

// constant returns what a const of the file is.
function constant(context, node) {
  const def = node?.type === "Identifier" && scopeOf(context, node)?.defs[0];
  return def?.type === "Variable" && def.parent.kind === "const" && def.node.id.type === "Identifier" ? def.node.init : undefined;
}

// signalWait returns how the promise of an expression waits for a signal: by signal, next or a function of the file; undefined if
// it does not, or is withdrawn by an option signal. What is looked at already is in seen.
function signalWait(context, node, seen) {
  const first = (nodes) => nodes.reduce((found, n) => found ?? (n ? signalWait(context, n, seen) : undefined), undefined);
  if (node.type === "Identifier") {
    const value = constant(context, node);
    return !value || seen.has(value) ? undefined : first([seen.add(value) && value]);
  }
  if (node.type !== "CallExpression") return first(through[node.type]?.(node) ?? []);
  const { callee } = node;
  const name = imported(context, callee);
  if (name === "signal") return withdrawn(node.arguments[1]) ? undefined : "signal";
  if (name === "race") return first(node.arguments);
  if (callee.type === "MemberExpression" && !callee.computed) {
    if (chained.has(callee.property.name)) return first([callee.object]);
    if (callee.object.name === "Promise") return first(node.arguments);
    return isNext(context, node) && !withdrawn(node.arguments[0]) ? "next" : undefined;
  }
  const fn = functionOf(context, callee);
  return fn && waitsIn(context, fn, seen) ? callee.name ?? "function" : undefined;
}

// kept returns how an entry of the SDK's race waits for a signal, undefined if the race withdraws that: what is no call itself has no
// cancel(), and a function has to hand its AbortSignal on.
function kept(context, node, seen) {
  const fn = functionOf(context, node.type === "CallExpression" ? node.callee : node);
  if (fn) return keptBy(context, fn, seen) ? node.callee?.name ?? "signal" : undefined;
  const value = constant(context, node);
  if (value) return seen.has(value) ? undefined : kept(context, value, seen.add(value));
  if (node.type !== "CallExpression") {
    return (through[node.type]?.(node) ?? []).reduce((found, n) => found ?? (n ? kept(context, n, seen) : undefined), undefined);
  }
  const name = imported(context, node.callee);
  return name === "signal" || isNext(context, node) ? undefined : signalWait(context, node, seen);
}

// keptBy tells whether what a function returns is a wait that nobody withdraws. That of an async function has no cancel().
function keptBy(context, fn, seen) {
  if (fn.async) return waitsIn(context, fn, seen);
  if (seen.has(fn) || fn.generator) return false;
  seen.add(fn);
  if (fn.body.type !== "BlockStatement") return Boolean(kept(context, fn.body, seen));
  let found = false;
  const look = (node) => {
    if (found || isFunction(node)) return;
    if (node.type === "ReturnStatement" && node.argument) found = Boolean(kept(context, node.argument, seen));
    for (const key of context.sourceCode.visitorKeys[node.type] ?? []) for (const child of [node[key]].flat()) if (child) look(child);
  };
  look(fn.body);
  return found;
}

function withdrawn(options) {
  return options?.type === "ObjectExpression" && options.properties.some((p) => p.key?.name === "signal" || p.type === "SpreadElement");
}

// isNext tells whether a call is next() of a hook.
function isNext(context, { callee }) {
  return callee.type === "MemberExpression" && !callee.computed && callee.property.name === "next" && isHook(context, callee.object);
}

// isHook tells whether an expression is what hook() resolves to.
function isHook(context, node) {
  const value = constant(context, node) ?? node;
  return value.type === "AwaitExpression" && value.argument.type === "CallExpression" && imported(context, value.argument.callee) === "hook";
}

// waitsIn tells whether a call of a function waits for a signal before it is done.
function waitsIn(context, fn, seen) {
  if (seen.has(fn) || fn.generator) return false;
  seen.add(fn);
  let found = false;
  const look = (node) => {
    if (found || isFunction(node)) return;
    if (node.type === "AwaitExpression" || node.type === "ReturnStatement") found ||= Boolean(node.argument && signalWait(context, node.argument, seen));
    for (const key of context.sourceCode.visitorKeys[node.type] ?? []) for (const child of [node[key]].flat()) if (child) look(child);
  };
  if (fn.body.type !== "BlockStatement" && signalWait(context, fn.body, seen)) return true;
  look(fn.body);
  return found;
}

const noPlainRace = {
  meta: {
    type: "problem",
    docs: { description: "Who waits for the first of several withdraws the waits that have lost." },
    messages: {
      race: "Promise.{{name}} leaves {{wait}}() waiting when it has lost, and it takes the next signal: use race({ … }) of the SDK.",
      entry: "race({ … }) does not withdraw {{wait}}() here, which takes the next signal when it has lost: make the entry a function, " +
        "and hand the AbortSignal that it gets to the wait, as in (stop) => signal(\"…\", { signal: stop }).then(…).",
    },
    schema: [],
  },
  create: (context) => ({
    CallExpression(node) {
      const { callee } = node;
      if (imported(context, callee) === "race" && node.arguments.length > 0) {
        const wait = kept(context, node.arguments[0], new Set());
        if (wait) context.report({ node, messageId: "entry", data: { wait } });
        return;
      }
      if (callee.type !== "MemberExpression" || callee.object.name !== "Promise" || !["race", "any"].includes(callee.property.name)) return;
      let wait;
      for (const arg of node.arguments) {
        wait ??= signalWait(context, arg, new Set());
        visit(context, arg, (inner) => { // as in Promise.race(names.map((name) => signal(name)))
          if (inner.type !== "CallExpression" || imported(context, inner.callee) !== "signal" || withdrawn(inner.arguments[1])) return;
          wait ??= "signal";
        });
      }
      if (wait) context.report({ node, messageId: "race", data: { name: callee.property.name, wait } });
    },
  }),
};

const plugin = {
  meta: { name: "@wfhost/workflow", version: "0.1.0" },
  rules: {
    "no-durable-call-in-body": noDurableCallInBody,
    "no-captured-write-in-body": noCapturedWriteInBody,
    "no-plain-race": noPlainRace,
  },
  configs: {},
};

plugin.configs.recommended = {
  plugins: { wfhost: plugin },
  rules: Object.fromEntries(Object.keys(plugin.rules).map((name) => [`wfhost/${name}`, "error"])),
};

export default plugin;
