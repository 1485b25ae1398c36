// callsOf returns the calls of a run, and of the children that it has started.
export function callsOf(run: any, runId: string, env: any): unknown[] {
  const children: string[] = [];
  const own = run.calls.map((c: any, n: number) => {
    if (c.kind === "child" && !c.refused) children.push(c.runId);
    const text = (v: unknown) => (v === undefined ? "" : c.kind === "set_attribute" || c.kind === "hook" ? String(v) : JSON.stringify(v));
    return { ...c, run: runId, input: text(c.input), result: text(c.result), name: c.name ?? "", code: c.code ?? "" };
  });
  return [...own, ...children.flatMap((id) => (env.childRun(id) ? callsOf(env.childRun(id), id, env) : []))];
}

