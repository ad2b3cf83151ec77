// Runs examples and says how each went, one line for each: ok, failed or skipped.
import assert from "node:assert/strict";

const examples = [];

/** The example can't be tried here; says why. */
export class Skip extends Error {}

/** Declares an example. */
export function example(name, work) {
  examples.push([name, work]);
}

const shown = (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}n` : v)) ?? String(value);

/** Asserts that this is what the documentation says. */
export function equal(got, expected, what = "") {
  try {
    assert.deepEqual(got, expected);
  } catch {
    throw new Error(`${what ? `${what}: ` : ""}expected ${shown(expected)}, got ${shown(got)}`);
  }
}

/** Asserts that it holds. */
export function yes(got, what) {
  if (!got) throw new Error(`expected ${what}, got ${shown(got)}`);
}

/** Asserts that the promise is rejected with this text. */
export async function rejects(promise, text) {
  let got;
  try {
    got = await promise;
  } catch (error) {
    if (!String(error.message).includes(text)) throw new Error(`expected an error with ${text}, got ${error.message}`);
    return;
  }
  throw new Error(`expected an error with ${text}, got ${shown(got)}`);
}

/** Waits until it holds, at most five seconds. */
export async function until(holds, what) {
  const end = Date.now() + 5000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`expected ${what} within 5 s`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The server's host and port. */
export function address(variable) {
  const [, host, port] = process.env[variable].match(/^(.*):(\d+)$/);
  return { host, port: Number(port) };
}

function limited(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("expected an answer, got none in 20 s")), 20000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Runs all of them, each after `before`; what it returns is the example's argument, which `after` gets too. */
export async function run(before, after = async () => {}) {
  for (const [name, work] of examples) {
    let made;
    try {
      made = await before();
      await limited(work(made));
      console.log(`ok ${name}`);
    } catch (error) {
      const at = String(error.stack).match(/main\.mjs:(\d+)/);
      const said = String(error.message ?? error).replace(/\s+/g, " ").slice(0, 1000);
      if (error instanceof Skip) console.log(`skipped ${name}: ${said}`);
      else console.log(`failed ${name}: line ${at ? at[1] : "?"}: ${said}`);
    }
    try {
      await after(made);
    } catch {
      // The example has said what is wrong.
    }
  }
  console.log("end");
  process.exit(0);
}
