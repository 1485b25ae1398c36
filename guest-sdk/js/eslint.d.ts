// Types of @wfhost/workflow/eslint: a plugin for ESLint 9 and later.

declare const plugin: {
  meta: { name: string; version: string };
  rules: Record<"no-durable-call-in-body" | "no-captured-write-in-body" | "no-plain-race", object>;
  configs: { recommended: { plugins: Record<string, object>; rules: Record<string, "error"> } };
};

export default plugin;
