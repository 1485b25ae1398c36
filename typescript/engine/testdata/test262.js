// Runs one test of test262, and logs "passed" or why it fails.
{ // a block, so that tests do not see its names
  const wf = globalThis.__wf;
  const { sources, test, negative, async } = JSON.parse(wf.input());
  const log = (text) => wf.log(1, text);
  const describe = (e) => {
    try {
      return `${e?.constructor?.name ?? e?.name}: ${e?.message ?? e}`;
    } catch {
      return "what cannot be read";
    }
  };
  const evaluate = eval;
  let done;
  globalThis.print = (text) => {
    if (text === "Test262:AsyncTestComplete") done ??= "passed";
    else if (String(text).startsWith("Test262:AsyncTestFailure:")) done = String(text);
    if (async && done) log(done);
  };
  globalThis.$262 = { global: globalThis, gc() {}, evalScript: evaluate };
  try {
    for (const source of sources) evaluate(source.replace(/^(?:const|let) /gm, "var ")); // eval keeps other names to itself
    evaluate(test);
    if (negative) log(`has not thrown ${negative}`);
    else if (!async) log("passed");
    else if (!done) log("has not called $DONE");
  } catch (e) {
    if (negative && (e?.constructor?.name === negative || e?.name === negative)) log("passed");
    else log(describe(e));
  }
}
