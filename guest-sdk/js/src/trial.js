// What the runs of a test share: the clock, what happens at an instant, and who performs what they call.

// earlier compares what is planned. At the same instant, as on a host, timers of a run fire before its attempts are made, each in the order
// of the calls, and all that before the test does anything.
function earlier(a, b) {
  if (a.at !== b.at || !a.run || !b.run) return a.at - b.at || Number(!a.run) - Number(!b.run) || a.n - b.n;
  const call = ({ handle = Infinity }) => handle;
  return a.run.number - b.run.number || Number(a.attempt) - Number(b.attempt) || (call(a) === call(b) ? a.n - b.n : call(a) - call(b));
}

export class Trial {
  now;
  clock = { now: () => this.now, pass: (at) => (this.now = Math.max(this.now, at)) };
  handlers = new Map();
  children = new Map(); // functions that stand in for workflows
  ids = new Set(); // of the runs that were started, also where a function stands in for the workflow
  runs = new Map(); // by id: the run under test, its children, and theirs
  absent = new Set(); // ids of runs that are not there
  tokens = new Map(); // of hooks: the run that holds them, by token
  wrong; // why a host would do something else
  restore; // gives the platform its languages back
  tests; // the files of the test
  lost; // names of variables that bodies may change
  #begun; // when the attempt began that is being performed
  number = 0; // of the next run
  #agenda = []; // {at, n, fire, run, handle, attempt}
  #n = 0;

  // plan has something happen at an instant: to a run, of one of its handles, or by the test if no run is given. attempt says that it is an
  // attempt, or the end of one.
  plan(at, fire, run, handle, attempt = false) {
    this.#agenda.push({ at, n: this.#n++, fire, run, handle, attempt });
  }

  // drop forgets what was planned of a handle of a run, or of all its handles.
  drop(run, handle) {
    this.#agenda = this.#agenda.filter((e) => e.run !== run || e.handle === undefined || (handle !== undefined && e.handle !== handle));
  }

  // attempt performs an attempt and returns the instant at which it has ended. The clock is set back to its beginning, since other
  // things happen in that time.
  async attempt(perform) {
    const begun = (this.#begun = this.now);
    await perform();
    const ended = this.now;
    this.now = begun;
    this.#begun = undefined;
    return ended;
  }

  // when has the test do something to a run: at once, or, within an attempt whose timers have waited, when the run's clock has come
  // to that instant.
  when(run, fn) {
    if (this.#begun === undefined || this.now === this.#begun) fn();
    else this.plan(this.now, fn, run);
  }

  // play lets things happen, one after the other, until a run has ended. Each run has the platform to itself while something follows from
  // what has happened to it.
  async play(root) {
    for (;;) {
      if (this.wrong) throw this.wrong;
      if (root.over) return;
      const busy = [...this.runs.values()].find((run) => run.busy());
      if (busy) {
        await busy.turn(() => busy.advance());
        continue;
      }
      this.#agenda.sort(earlier);
      const next = this.#agenda.shift();
      if (!next) {
        throw new Error("deadlock: the workflow waits for what nothing in this test brings: env.signal, env.handle or env.at may be missing");
      }
      this.clock.pass(next.at);
      await (next.run ?? root).turn(next.fire);
    }
  }
}
