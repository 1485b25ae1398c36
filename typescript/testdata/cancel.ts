import {
  call, cancelled, child, continueAsNew, emit, hook, race, saga, send, signal, sleep, sleepUntil, step, throwOnCancel, workflow,
} from "@wfhost/workflow";

workflow("plain", async () => await sleep("1d"));
workflow("told", async () => {
  const first = await race({ nap: sleep("1d"), stop: cancelled() });
  return first.key === "stop" ? "stopped" : "slept";
});
workflow("saga", async () =>
  await saga(async (undo) => {
    await step("reserve", () => true);
    undo(() => emit("undone", "release"));
    undo(async () => {
      await step("refund", () => true);
      await sleep("1s");
      emit("undone", "refund");
    });
    await sleep("1d");
  }));
workflow("late", async () => {
  throwOnCancel();
  try {
    await sleep("1d");
  } catch (e: any) {
    return `carried on after ${e.code}`;
  }
});
workflow("anew", async (n: number) => { // the second iteration waits before it says how it takes a cancel
  if (n === 0) {
    throwOnCancel();
    continueAsNew(1);
  }
  try {
    await sleep("1d");
  } catch (e: any) {
    await cancelled();
    await step("clean up", () => true);
    emit("did", e.code);
    throw e;
  }
});

// Nobody can tell what waits for a timer, as packages do, so that it fires at once.
const delay = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const day = 86_400_000;

workflow("delay", async () =>
  await saga(async (undo) => {
    await step("reserve", () => true);
    undo(() => step("release", () => true).then(() => sleep("1s")).then(() => emit("did", "release")));
    await delay(day);
    await step("charge", () => true);
    emit("did", "charge");
  }));
workflow("delay-last", async () => { // nothing that could be refused follows
  await saga(async (undo) => {
    undo(() => step("release", () => true).then(() => emit("did", "release")));
    await delay(day);
  }).catch((e) => emit("did", e.code));
  await sleep("1s"); // it has heard
  emit("did", "slept");
});
workflow("delay-only", async () => {
  throwOnCancel();
  await delay(day);
  return "it is over";
});
workflow("delay-both", async () => { // each is told
  throwOnCancel();
  const tell = async (name: string) => {
    await delay(day);
    await step(name, () => true).then(() => emit("did", name), (e) => emit("did", `${name} ${e.code}`));
  };
  await Promise.all([tell("a"), tell("b")]);
  await sleep("1s");
  emit("did", "slept");
});
workflow("delay-beside", async () => { // the sleep is told, and its clean-up is not refused
  throwOnCancel();
  await Promise.all([delay(day), sleep("1d")]).catch(async (e) => {
    await step("clean up", () => true);
    await sleep("1s");
    emit("did", e.code);
  });
});
workflow("cleared", async () => { // a timer that is cleared does not fire
  throwOnCancel();
  const timer = setTimeout(() => emit("did", "fired"), day);
  clearTimeout(timer);
  await sleep("1d").catch((e) => emit("did", e.code));
  await sleep("2d");
});
workflow("ticks", async () => { // an interval ticks at once, and goes on
  throwOnCancel();
  await new Promise<void>((resolve) => {
    let ticks = 0;
    const every = setInterval(() => {
      if (++ticks < 3) return;
      clearInterval(every);
      resolve();
    }, 3_600_000);
  });
  await sleep("1d").catch((e) => emit("did", e.code));
});

// Of those that follow, the run is asked to cancel while a step runs, which asks a service.
const ask = async (url: string) => {
  const { ok, status } = await fetch(url);
  if (!ok) throw new Error(`the service says ${status}`);
  return true;
};
const once = { attempts: 1 };

workflow("busy", async (url: string) =>
  await saga(async (undo) => {
    await step("reserve", () => ask(url));
    undo(async () => {
      await step("release", () => true);
      await sleep("1s");
      emit("did", "release");
    });
    await step("charge", () => true);
    emit("did", "charge");
    await sleep("7d");
  }));
workflow("failing", async (url: string) => {
  throwOnCancel();
  try {
    await step("reserve", () => ask(url), once);
  } catch (e: any) {
    await step("clean up", () => true);
    return [e.code, e.step, e.cause.code, e.cause.message];
  }
});
workflow("branches", async (url: string) => { // each is told
  throwOnCancel();
  const tell = async (name: string) => {
    await step(name, () => ask(url));
    await step(`${name} more`, () => true).then(() => emit("did", name), (e) => emit("did", `${name} ${e.code}`));
  };
  await Promise.all([tell("a"), tell("b")]);
  await sleep("1s");
  return "slept";
});
workflow("together", async (url: string) => { // what is begun at once is refused at once, and what cleans up is not
  throwOnCancel();
  await step("reserve", () => ask(url));
  const settled = await Promise.allSettled([step("s", () => 1), signal("go", { timeout: "1d" }), child("late"), send("late", "go"), hook("go"),
    call("double", 1), sleep("1d"), sleepUntil(0)]);
  const all = settled.map((s: any) => s.reason?.code).join();
  return [all, await step("s", () => 2)];
});
workflow("ticking", async (url: string) => { // timers hear of nothing, so that the step after them is refused
  throwOnCancel();
  const every = setInterval(() => {}, 3_600_000);
  await step("reserve", () => ask(url));
  await new Promise((resolve) => setTimeout(resolve, 1000));
  try {
    await sleep("7d");
  } catch (e: any) {
    clearInterval(every);
    return e.code;
  }
});
workflow("beside", async (url: string) => { // the sleep is told, and the clean-up that follows is not refused when the step ends
  throwOnCancel();
  try {
    await Promise.all([step("reserve", () => ask(url)), sleep("1d")]);
  } catch (e: any) {
    await sleep("1s");
    return await step("clean up", () => e.code);
  }
});
workflow("continues", async (url: string) => {
  throwOnCancel();
  await step("reserve", () => ask(url));
  try {
    continueAsNew("");
  } catch (e: any) {
    return e.code;
  }
});
workflow("refuses", async (url: string) => { // the saga fails by itself, and is swallowed: what comes after it is still told
  await saga(async (undo) => {
    await step("reserve", () => ask(url));
    undo(() => step("release", () => true).then(() => emit("did", "release")));
    await new Promise((resolve) => setTimeout(resolve, 1000)); // hears of nothing
    throw new Error("refused");
  }).catch(() => {});
  return await sleep("7d").catch((e) => e.code);
});
workflow("undo-awaits", async (url: string) => // an undo waits for the step that runs, and goes on
  await saga(async (undo) => {
    const charge = step("charge", () => ask(url));
    undo(async () => {
      await charge;
      await step("refund", () => true);
      emit("did", "refund");
    });
    await Promise.all([charge, signal("approved")]);
  }));
workflow("undo-late", async (url: string) => // a step ends while what the saga did is undone since it has failed by itself
  await saga(async (undo) => {
    const both = [step("a", () => ask(url)), step("b", () => ask(url))];
    undo(async () => {
      await Promise.all(both);
      await step("undo", () => true);
      emit("did", "undone");
    });
    await Promise.race(both);
    throw new Error("own");
  }).catch((e) => e.message));
workflow("undo-parallel", async (url: string) => { // one saga undoes, and the other does not go on because of that
  const deep = async (n: number): Promise<boolean> => n > 0 ? await deep(n - 1) : await step("reserve", () => ask(url));
  const book = (name: string) => saga(async (undo) => {
    await deep(20);
    undo(() => step(`release ${name}`, () => true).then(() => emit("did", `released ${name}`)));
    await step(`charge ${name}`, () => true);
    emit("did", `charged ${name}`);
  });
  await Promise.allSettled([book("a"), book("b")]);
});
workflow("anew-cancelled", async (input: any) => { // the second iteration calls cancelled() after the cancel
  if (typeof input === "string") {
    cancelled();
    continueAsNew({ url: input });
  }
  await step("load", () => ask(input.url));
  const stop = cancelled();
  const first = await race({ go: signal("go"), stop });
  await step("clean up", () => true);
  emit("did", first.key);
});
