// What a program does with Date and Math while it is loaded, and finds there in a run.
import { workflow } from "@wfhost/workflow";

const Kept = Date;
const { now } = Date;
class Day extends Date {}
const names = new Map<unknown, string>([[Date, "date"]]);
const first = new Date(5);
const whole = first.constructor === Date;
workflow("date", async () => {
  const d = new Date(7), day = new Day();
  return [whole, Kept === Date, d.constructor === Kept, names.get(d.constructor) === "date", first instanceof Date, d instanceof Kept,
    day instanceof Day && day instanceof Date, day.getTime() === Date.now(), now() === new Kept().getTime(), typeof Date() === "string"];
});

const kept = Math.random;
Math.random = () => 0.5;
workflow("own", async () => [Math.random(), kept() === 0.5 ? "own" : "real", kept() !== kept()]);
