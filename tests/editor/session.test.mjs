// Sessions of `backsight dap`, with the client that VS Code's own adapters are tested with.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { DebugClient } from "@vscode/debugadapter-testsupport";

const program = process.env.BACKSIGHT;
const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const source = path.join(root, "testdata/programs/src/calls.c");
const line = { program: 95, ackermann: 9 };

async function launch(capture, more = {}) {
    const client = new DebugClient(program, "dap", "backsight", { cwd: root });
    client.defaultTimeout = 60000;
    await client.start();
    await client.initializeRequest();
    const initialized = client.waitForEvent("initialized");
    await client.launchRequest({ capture: path.join("testdata/captures", capture), source: ["testdata/programs"], ...more });
    await initialized;
    const stopped = client.waitForEvent("stopped");
    await client.configurationDoneRequest();
    return { client, stopped: await stopped };
}

/** Sends a request that moves, and gives the stop. */
async function go(client, command, more = {}) {
    const stopped = client.waitForEvent("stopped");
    await client.send(command, { threadId: 1, ...more });
    return (await stopped).body;
}

async function top(client) {
    const { body } = await client.stackTraceRequest({ threadId: 1, startFrame: 0, levels: 1 });
    return body.stackFrames[0];
}

let client;
before(async () => {
    const session = await launch("calls-aarch64");
    client = session.client;
    assert.equal(session.stopped.body.reason, "entry");
    assert.match(session.stopped.body.text, /^#39999 of #0 to #39999, /);
});
after(() => client.stop());

test("a walk begins at the end, with the calls under way", async () => {
    const { body } = await client.stackTraceRequest({ threadId: 1, startFrame: 0, levels: 3 });
    assert.equal(body.totalFrames, 65);
    assert.deepEqual(body.stackFrames.map((frame) => [frame.name, frame.line, frame.source.path]), [
        ["ackermann", 7, source],
        ["ackermann", 9, source],
        ["ackermann", 9, source],
    ]);
    const { body: last } = await client.stackTraceRequest({ threadId: 1, startFrame: 63, levels: 20 });
    assert.deepEqual(last.stackFrames.map((frame) => frame.name), ["start", "_start"]);
    const code = last.stackFrames[1];
    const { body: text } = await client.sourceRequest({ source: code.source, sourceReference: code.source.sourceReference });
    assert.match(text.content.split("\n")[code.line - 1], / bl 0x[0-9a-f]+ <start>/);
});

test("breakpoints by line are met backwards", async () => {
    const { body } = await client.setBreakpointsRequest({ source: { path: source }, breakpoints: [{ line: line.program }] });
    assert.deepEqual(body.breakpoints.map((one) => [one.verified, one.line]), [[true, line.program]]);
    const moment = client.waitForEvent("backsight.moment");
    const stopped = await go(client, "reverseContinue");
    assert.equal(stopped.reason, "breakpoint");
    assert.deepEqual(stopped.hitBreakpointIds, [body.breakpoints[0].id]);
    assert.equal((await moment).body.instruction, 12);
    const frame = await top(client);
    assert.deepEqual([frame.name, frame.line, frame.source.path], ["program", line.program, source]);
    assert.equal((await go(client, "reverseContinue")).reason, "beginning of the trace");
    assert.equal((await go(client, "continue")).reason, "breakpoint");
    await client.setBreakpointsRequest({ source: { path: source }, breakpoints: [] });
});

test("steps by line and by instruction go both ways", async () => {
    const there = await top(client);
    const next = [];
    for (let step = 0; step < 3; step++) {
        assert.equal((await go(client, "stepIn")).reason, "step");
        next.push((await top(client)).instructionPointerReference);
    }
    assert.equal((await top(client)).name, "ackermann");
    assert.equal((await go(client, "evaluate", { expression: "reverse-finish", context: "repl" })).reason, "step");
    assert.equal((await top(client)).name, "program");
    assert.equal((await go(client, "stepOut")).reason, "end of the trace");
    assert.equal((await go(client, "evaluate", { expression: "goto #1000", context: "repl" })).reason, "goto");
    assert.equal((await go(client, "stepOut")).reason, "step");
    assert.equal((await go(client, "stepBack")).reason, "step");
    assert.equal((await go(client, "stepBack", { granularity: "instruction" })).reason, "step");
    assert.equal((await go(client, "stepIn", { granularity: "instruction" })).reason, "step");
    assert.notEqual((await top(client)).instructionPointerReference, there.instructionPointerReference);
    assert.equal(new Set(next).size, 3);
});

test("the console knows moments, and lines are gone to", async () => {
    const stopped = client.waitForEvent("stopped");
    const { body } = await client.evaluateRequest({ expression: "goto #20000", context: "repl" });
    assert.match(body.result, /^#20000 of #0 to #39999, .* ackermann\+0x8$/);
    assert.equal((await stopped).body.reason, "goto");
    const request = { source: { path: source }, line: line.ackermann };
    const { body: targets } = await client.gotoTargetsRequest(request);
    assert.equal(targets.targets.length, 2);
    assert.equal((await go(client, "goto", { targetId: targets.targets[0].id })).reason, "goto");
    assert.equal((await top(client)).line, line.ackermann);
});

test("code is shown as instructions and as bytes, and what is not traced as that", async () => {
    const { instructionPointerReference: pc, id } = await top(client);
    const { body } = await client.send("disassemble", { memoryReference: pc, instructionOffset: -50, instructionCount: 100 });
    assert.equal(body.instructions.length, 100);
    assert.equal(body.instructions[50].address, pc);
    const { body: memory } = await client.send("readMemory", { memoryReference: pc, count: 4 });
    const bytes = [...Buffer.from(memory.data, "base64")].map((byte) => byte.toString(16).padStart(2, "0"));
    assert.equal(bytes.join(" "), body.instructions[50].instructionBytes);
    const { body: scopes } = await client.scopesRequest({ frameId: id });
    const { body: all } = await client.variablesRequest({ variablesReference: scopes.scopes[0].variablesReference });
    assert.deepEqual([all.variables[0].name, BigInt(all.variables[0].value)], ["pc", BigInt(pc)]);
    assert.equal(all.variables.find((variable) => variable.name === "sp").value, "not traced");
});

test("what cannot be opened is said, and another launch is heard", async () => {
    const other = new DebugClient(program, "dap", "backsight", { cwd: root });
    await other.start();
    await other.initializeRequest();
    await assert.rejects(other.launchRequest({ capture: "testdata/captures/none" }), /none/);
    await assert.rejects(other.launchRequest({}), /capture/);
    await assert.rejects(other.launchRequest({ capture: "testdata/captures/first", symfs: ["none"] }), /symfs/);
    const initialized = other.waitForEvent("initialized");
    await other.launchRequest({ capture: "testdata/captures/first", at: "start" });
    await initialized;
    const terminated = other.waitForEvent("terminated");
    await other.disconnectRequest();
    await terminated;
    other.stopAdapter();
});

test("gaps and exceptions are stops of their own", async () => {
    const { client: other } = await launch("first");
    await other.setExceptionBreakpointsRequest({ filters: ["gaps", "exceptions"] });
    const reasons = new Set();
    for (;;) {
        const stopped = await go(other, "reverseContinue");
        reasons.add(stopped.reason);
        if (stopped.reason !== "exception") break;
        const { body } = await other.send("exceptionInfo", { threadId: 1 });
        assert.ok(body.description.length > 0);
    }
    assert.deepEqual([...reasons], ["exception", "beginning of the trace"]);
    await other.stop();
});

test("an adapter ends with its editor, and what is no message is said", async () => {
    for (const [sent, status] of [["", 0], ["garbage\r\n\r\n", 1]]) {
        const adapter = spawn(program, ["dap"], { stdio: ["pipe", "pipe", "pipe"] });
        let errors = "";
        adapter.stderr.on("data", (data) => (errors += data));
        adapter.stdout.resume();
        adapter.stdin.end(sent);
        const [code] = await once(adapter, "close");
        assert.equal(code, status);
        assert.equal(errors.includes("Content-Length"), status === 1);
    }
});
